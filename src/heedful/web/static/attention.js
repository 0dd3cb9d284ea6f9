// The attention of every head: one pass, drawn by the atlas of the report.
import { $, button, code, heading, make, parts, shell } from "./dom.js";
import { cancel, ENDED, follow, start } from "./net.js";
import { keep, state } from "./state.js";

let shown = "", offered = false, stop = null;
const key = () => JSON.stringify([state.model, state.text]);

export const clear = () => { shown = ""; stop?.(); if (offered) invite(); };

export const offer = (known) => {
  offered = known.capabilities.includes("attentions");
  $("attention").hidden = !offered;
  shown = "";
  if (offered) invite();
};

const LEAD = "Where every head of every layer looks, on this text.";

const invite = (note = "") => {
  const can = state.text.trim();
  $("attention").replaceChildren(...heading("Attention", LEAD), note && make("p", { className: "lead", textContent: note }),
    make("p", { className: "acts" }, button("Show every head · one pass", draw, { className: "act go", disabled: !can })));
};

export const stale = () => {
  if (!offered) return;
  if (!shown) { if (state.atlas) draw(); else invite(); return; }
  if (shown === key()) return;
  shown = "";
  stop?.();
  invite("The text has changed.");
};

const draw = async () => {
  const mine = key();
  shown = mine;
  stop?.();
  const line = make("span", { className: "lead", textContent: "reading every head" });
  try {
    const begun = await start("attention", { model: state.model, text: state.text });
    const wait = make("div", { className: "job" }, make("progress", { aria: { label: "Progress" } }), line, button("Cancel", () => cancel(begun.id).catch(() => {})));
    $("attention").replaceChildren(...heading("Attention", LEAD), wait);
    stop = follow(begun.id, (told) => {
      if (shown !== mine) return;
      line.textContent = told.label;
      if (told.state === "done" && told.result) atlas(told.result);
      else if (ENDED.includes(told.state)) { shown = ""; invite(told.error || "Cancelled."); }
    });
  } catch (error) { shown = ""; invite(error.message); }
};

const atlas = async ({ html, data }) => {
  const { atlas: drawn } = await import("/static/atlas.js");
  const box = parts(html);
  box.classList.add("atlas");
  const repeat = [code("Command line", shell("heedful", "attention", state.text, "--model", state.model, "--html", "heads.html")),
    code("Python", `import heedful\n\nmodel = heedful.load(${JSON.stringify(state.model)})\natlas = heedful.attention(model, ${JSON.stringify(state.text)})\natlas.to_html("heads.html")`)];
  const again = parts("");
  again.append(...repeat);
  $("attention").replaceChildren(...heading("Attention", LEAD), box, make("details", { className: "more" }, make("summary", { textContent: "The same as a command" }), copyable(again)));
  drawn(box, data, { read: () => state.atlas, write: (link) => { state.atlas = String(link); keep(); } });
};

const copyable = (box) => parts(box.innerHTML);
