// The picture: chosen, dropped or pasted, and sent to this server alone. The server keeps its colours and gives a number.
import { $, button, make, say } from "./dom.js";
import { upload } from "./net.js";
import { reads, state } from "./state.js";

const TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff", "image/x-portable-anymap", "image/x-portable-pixmap"];
const SMALL = 128;  // pixels of a side below which a picture is drawn in squares
let changed = () => {}, problem = () => {}, limit = 0, last = null, info = null, examples = [];

export const begin = (act, told, most) => { [changed, problem, limit] = [act, told, most]; };

const file = make("input", { type: "file", id: "picture-input", className: "unseen", accept: TYPES.join(","), on: { change: () => { if (file.files[0]) choose(file.files[0]); file.value = ""; } } });
const name = make("label", { className: "act go", htmlFor: "picture-input", textContent: "Choose a picture" });
const shown = make("img", { className: "chosen-picture", alt: "The picture as it was sent", on: { error: () => lost(), load: () => shown.classList.toggle("pixelated", Math.max(shown.naturalWidth, shown.naturalHeight) < SMALL) } });
const line = make("p", { className: "lead" });

// What this model reads.
export const offer = (known) => {
  examples = known.examples;
  $("picture").hidden = !reads.picture;
  if (!$("picture").childElementCount) $("picture").replaceChildren(file, shown, make("div", { className: "sent" }, name, line));
  draw();
};

const draw = () => {
  shown.hidden = !state.picture;
  if (state.picture && !shown.src.endsWith(state.picture)) shown.src = `/api/pictures/${state.picture}`;
  name.textContent = state.picture ? "Choose another picture" : "Choose a picture";
  const size = info && info.id === state.picture ? [`${info.width.toLocaleString("en")} × ${info.height.toLocaleString("en")} pixels`, ...info.notes].join(", ") : "";
  line.textContent = state.picture ? `${size}${size ? ". " : ""}You can also drop or paste one.` : `You can also drop or paste one. Up to ${limit >> 20} MB. It is sent to this server only.`;
  if (reads.picture) $("examples").replaceChildren(...(examples.length ? ["Try: ", ...examples.map(example)] : []));
};

const example = ({ id, label }) => {
  const act = button("", () => { info = null; use(id); }, { className: "example-picture", title: label, aria: { label: `Example: ${label}` } });
  act.append(make("img", { src: `/api/pictures/${id}`, alt: "" }));
  return act;
};

const use = (id) => {
  state.picture = id;
  draw();
  changed();
};

const choose = async (given) => {
  if (given.size > limit) { problem(`The picture is larger than ${limit >> 20} MB. Make it smaller first.`); return; }
  $("picture").classList.add("sending");
  try {
    info = await upload(given);
    last = { file: given, id: info.id };
    problem();
    say("The picture was sent");
    use(info.id);
  } catch (error) { problem(error.message); } finally { $("picture").classList.remove("sending"); }
};

// A link, or a picture that the server has forgotten: send it again if it is still here.
const lost = () => {
  if (!state.picture) return;
  if (last?.id === state.picture) { choose(last.file); return; }
  state.picture = "";
  info = null;
  shown.removeAttribute("src");
  draw();
  changed();
  problem("The picture of this link is not on this server any more. Choose it again.");
};
export const forgotten = () => { shown.removeAttribute("src"); lost(); };

const pictureOf = (data) => [...(data?.files || [])].find(({ type }) => type.startsWith("image/"));
addEventListener("paste", (event) => {
  const given = reads.picture && pictureOf(event.clipboardData);
  if (given) { event.preventDefault(); choose(given); }
});
addEventListener("dragover", (event) => {
  if (!reads.picture || !event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
for (const end of ["dragleave", "drop", "dragend"]) addEventListener(end, (event) => { if (end !== "dragleave" || !event.relatedTarget) document.body.classList.remove("dropping"); });
addEventListener("drop", (event) => {
  if (!reads.picture || !event.dataTransfer?.files.length) return;
  event.preventDefault();
  const given = pictureOf(event.dataTransfer);
  if (given) choose(given); else problem("This is no picture of a known format. Known: PNG, JPEG, WEBP, GIF, BMP, TIFF, PPM.");
});
