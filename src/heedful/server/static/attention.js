// The attention of every head: one pass, drawn by the atlas of the report.
import { $, button, code, heading, make, parts, shell } from "./dom.js";
import { cancel, ENDED, follow, start } from "./net.js";
import { hasInput, keep, reads, said, state } from "./state.js";
import * as tabs from "./tabs.js";

let shown = "", offered = false, stop = null, waiting = null;  // a drawing needs a panel that is open
const key = () => JSON.stringify(said());

export const clear = () => { shown = ""; stop?.(); if (offered) invite(); };

export const offer = (known) => {
  offered = known.capabilities.includes("attentions") && known.modality !== "image+text";
  tabs.offer("attention", offered);
  shown = "";
  if (offered) invite();
};

const lead = () => `Where each head of each layer attends to, on this ${reads.picture ? "picture" : "text"}.`;
tabs.onOpen("attention", () => stale());

const invite = (note = "") => {
  const can = hasInput();
  $("attention").replaceChildren(...heading("Attention", lead()), note && make("p", { className: "lead", textContent: note }),
    make("p", { className: "acts" }, button("Show every head · one pass", draw, { className: "act go", disabled: !can })));
};

export const stale = () => {
  if (!offered) return;
  if (shown === key() && waiting && tabs.isOpen("attention")) { atlas(waiting); return; }
  if (!shown) { if (state.atlas && tabs.isOpen("attention") && hasInput()) draw(); else invite(); return; }
  if (shown === key()) return;
  waiting = null;
  shown = "";
  stop?.();
  invite(reads.picture ? "The picture has changed." : "The text has changed.");
};

const draw = async () => {
  const mine = key();
  shown = mine;
  stop?.();
  const line = make("span", { className: "lead", textContent: "reading every head" });
  try {
    const begun = await start("attention", said());
    const wait = make("div", { className: "job" }, make("progress", { aria: { label: "Progress" } }), line, button("Cancel", () => cancel(begun.id).catch(() => {})));
    $("attention").replaceChildren(...heading("Attention", lead()), wait);
    stop = follow(begun.id, (update) => {
      if (shown !== mine) return;
      line.textContent = update.label;
      if (update.state === "done" && update.result) { waiting = update.result; if (tabs.isOpen("attention")) atlas(waiting); }
      else if (ENDED.includes(update.state)) { shown = ""; invite(update.error || "Cancelled."); }
    });
  } catch (error) { shown = ""; invite(error.message); }
};

// A text, a pair or a chat in Python: JSON of strings, lists and objects is read the same there.
export const given = () => (state.turns ? JSON.stringify(state.turns) : state.pair === null ? JSON.stringify(state.text) : `(${JSON.stringify(state.text)}, ${JSON.stringify(state.pair)})`);

const atlas = async ({ html, data, component }) => {
  waiting = null;
  const box = parts(html);
  box.classList.add("atlas");
  if (component === "patches") {
    const { drawn } = await import("/static/patches.js");
    $("attention").replaceChildren(...heading("Attention", lead()), box);
    drawn(box, data);
    return;
  }
  const { atlas: drawn } = await import("/static/atlas.js");
  const words = ["heedful", "attention", state.text, ...(state.pair === null ? [] : ["--pair", state.pair]), "--model", state.model, "--html", "heads.html"];
  const repeat = [code("Python", `import heedful\n\nmodel = heedful.load(${JSON.stringify(state.model)})\natlas = heedful.attention(model, ${given()})\natlas.to_html("heads.html")`)];
  if (!state.turns) repeat.unshift(code("Command line", shell(...words)));
  const again = parts("");
  again.append(...repeat);
  $("attention").replaceChildren(...heading("Attention", lead()), box, make("details", { className: "more" }, make("summary", { textContent: "The same as a command" }), copyable(again)));
  drawn(box, data, { read: () => state.atlas, write: (link) => { state.atlas = String(link); keep(); } });
};

const copyable = (box) => parts(box.innerHTML);
