// Try it: change words, and compare what the methods claimed with what the model did. Version A can be kept.
import { $, bars, button, heading, make, say, signed } from "./dom.js";
import { drop, quick } from "./net.js";
import { keep, question, reads, state } from "./state.js";
import { model, setText } from "./app.js";
import { shade, shading } from "./methods.js";
import { compared } from "./compared.js";
import * as brush from "./brush.js";

const NAMES = { delete: "Delete", mask: "Mask", swap: "Swap", unk: "Unknown word", pad: "Hide", mean: "Mean embedding" };
const SAID = { delete: "removed", mask: "masked", swap: "replaced by a random word", unk: "made unknown", pad: "hidden", mean: "replaced by the mean embedding" };
let live = null, found = null, kept = null, keptOf = "", chosen = -1, marks = [];
const box = make("div", { className: "try" });

export const clear = () => { live = found = kept = null; brush.clear(); $("try").replaceChildren(); };

export const show = (given) => {
  if (given.picture) { live = null; brush.show(given); return; }
  brush.clear();
  const same = JSON.stringify(live?.words) === JSON.stringify(given.words);
  live = given;
  if (!same) chosen = -1;
  const last = live.words.length - 1;
  state.edits = Object.fromEntries(Object.entries(state.edits).filter(([at]) => Number(at) <= last));
  $("try").replaceChildren(...heading("Try it", "Click a word, or move to it with the arrow keys: Delete removes it, M masks it, R replaces it. Then compare what the methods claimed with what the model does."), box);
  draw();
  ask();
  again();
};

const listed = (given) => Object.entries(given).map(([word, edit]) => ({ word: Number(word), ...edit }));
const edits = () => listed(state.edits);
const way = (edit) => edit.operator ?? model().operators[0];  // null: as methods take words out

// How one method shades the words: taken from the methods' own drawing.
export const claims = () => {
  if (reads.picture) { brush.claims(); return; }
  marks = [...document.querySelectorAll("#methods .method:not(.waits)")].map((article) => ({
    name: article.querySelector(".name").firstChild.textContent.trim(),
    kinds: Object.fromEntries([...article.querySelectorAll("mark")].map((mark) => [mark.dataset.w, mark.className])),
  }));
  if (live) { draw(); if (edits().length) ask(); }
};

const ask = async () => {
  keep();
  if (!edits().length) { drop("try"); found = null; draw(); return; }
  try {
    const given = await quick("try", "/api/try", { ...question(), edits: edits(), methods: state.methods });
    if (!given) return;
    found = given;
  } catch (error) { found = { error: error.message }; }
  draw();
};

// Version A is worked out anew from its words.
const asked = () => JSON.stringify([state.model, state.a]);
const again = async () => {
  if (!state.a) { drop("try-a"); kept = null; return; }
  const { edits: changed, ...said } = state.a;
  if (kept && keptOf === asked()) return;
  keptOf = asked();
  try {
    const given = await quick("try-a", "/api/try", { ...said, model: state.model, edits: listed(changed), methods: state.methods });
    if (!given) return;
    kept = given;
  } catch (error) { kept = { error: error.message }; }
  draw();
};

const change = (word, edit) => {
  if (edit === undefined) delete state.edits[word]; else state.edits[word] = edit;
  draw(word);
  ask();
};

const focused = () => document.activeElement?.classList.contains("word") ? Number(document.activeElement.dataset.word) : -1;

const draw = (focus = focused()) => {
  if (!live || box.querySelector("input.new:focus")) return;
  const words = shaded(), held = box.contains(document.activeElement) ? document.activeElement.textContent : "";
  box.replaceChildren(controls(), words, tools(), outcome());
  if (focus >= 0) words.querySelector(`[data-word="${focus}"]`)?.focus();
  else if (held) [...box.querySelectorAll(".act")].find(({ textContent }) => textContent === held)?.focus();
};

const controls = () => {
  const names = marks.map(({ name }) => name);
  const by = names.includes(shading()) ? shading() : names[0];
  const select = make("select", { on: { change: () => { state.shade = select.value; keep(); shade(); draw(); } } });
  for (const name of names) select.append(make("option", { value: name, textContent: name, selected: name === by }));
  return make("p", { className: "controls" }, make("label", { className: "field" }, make("span", { textContent: "Shaded by" }), select));
};

const kinds = () => {
  const by = marks.find(({ name }) => name === shading()) || marks[0];
  return by ? by.kinds : {};
};

const shaded = () => {
  const text = Array.from(live.text), shades = kinds();
  const line = make("p", { className: "words", dir: "auto", role: "toolbar", aria: { label: "Words of the text" }, on: { keydown: keys } });
  let at = 0;
  live.words.forEach(({ start, end }, index) => {
    if (start > at) line.append(text.slice(at, start).join(""));
    const said = text.slice(start, end).join(""), edit = state.edits[index];
    const description = !edit ? "" : edit.by === undefined ? `, ${SAID[way(edit)]}` : `, replaced by ${edit.by}`;
    const word = make("button", { type: "button", className: `word ${shades[index] || ""}`, tabIndex: index === Math.max(chosen, 0) ? 0 : -1, data: { word: index }, aria: { pressed: String(chosen === index), label: `${said}${description}` }, on: { click: () => pick(index) } });
    const instead = !edit ? "" : edit.by ?? (way(edit) === "delete" ? "" : `[${way(edit)}]`);
    if (edit) word.append(make("s", { textContent: said })); else word.textContent = said;
    if (instead) word.append(" ", make("ins", { textContent: instead }));
    if (edit) word.classList.add("changed");
    line.append(word);
    at = Math.max(at, end);
  });
  line.append(text.slice(at).join(""));
  return line;
};

const pick = (index) => {
  chosen = chosen === index ? -1 : index;
  draw(index);
};

const keys = (event) => {
  const at = focused();
  if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const last = live.words.length - 1;
  const to = { ArrowRight: Math.min(last, at + 1), ArrowLeft: Math.max(0, at - 1), Home: 0, End: last }[event.key];
  if (to !== undefined) { event.preventDefault(); chosen = chosen < 0 ? -1 : to; move(to); return; }
  const acts = {
    Delete: () => gone(at, "delete"), Backspace: () => gone(at, "delete"), m: () => gone(at, "mask"), d: () => gone(at, "delete"),
    r: () => { chosen = at; draw(at); box.querySelector("input.new")?.focus(); }, Escape: () => { chosen = -1; change(at, undefined); },
  };
  const act = acts[event.key];
  if (act) { event.preventDefault(); act(); }
};

const move = (to) => {
  if (chosen >= 0) { draw(to); return; }
  for (const word of box.querySelectorAll(".word")) word.tabIndex = Number(word.dataset.word) === to ? 0 : -1;
  box.querySelector(`[data-word="${to}"]`).focus();
};

const gone = (word, operator) => {
  if (model().operators.includes(operator)) change(word, { operator });
  else say(`${state.model} cannot remove words by ${operator}`);
};

const tools = () => {
  if (chosen < 0 || !live.words[chosen]) return make("p", { className: "tools lead" }, Object.keys(state.edits).length ? button("Put everything back", () => { state.edits = {}; ask(); draw(); }) : "");
  const word = chosen, said = live.words[word].text;
  const next = make("input", { type: "text", className: "new", maxLength: 200, size: 14, value: state.edits[word]?.by ?? "", aria: { label: `Replace ${said} by` } });
  const replace = () => { if (!next.value.trim()) return; next.blur(); change(word, { by: next.value }); };
  next.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); replace(); box.querySelector(`[data-word="${word}"]`)?.focus(); }
    if (event.key === "Escape") { next.blur(); draw(word); }
  });
  const ways = model().operators;  // the one that methods use is the first
  return make("p", { className: "tools" }, make("b", { className: "chosen" }, make("bdi", { textContent: said })),
    ...ways.map((name) => button(NAMES[name], () => gone(word, name))),
    make("span", { className: "replace" }, next, button("Replace", replace)),
    state.edits[word] !== undefined && button("Put back", () => change(word, undefined)));
};

// --- what came of it --------------------------------------------------------------------------------

const outcome = () => {
  if (!found && !state.a) return "";
  const first = state.a && make("div", { className: "version" }, make("h3", { className: "name", textContent: "Version A, kept" }), version(kept, "Version A is being computed."));
  const right = make("div", { className: "version" }, make("h3", { className: "name", textContent: state.a ? "Version B, now" : "Now" }), version(found, "No word is changed."));
  const now = found && !found.error, plain = Object.values(state.edits).every((edit) => edit.by !== undefined || way(edit) === "delete");
  const acts = make("p", { className: "acts" },
    now && button("Keep as A", () => {
      const { model: _, ...said } = question();
      state.a = { ...said, edits: structuredClone(state.edits) };
      kept = found;
      keptOf = asked();
      keep();
      draw();
    }),
    state.a && button("Remove A", () => { state.a = null; again(); keep(); draw(); }),
    now && plain && state.pair === null && !state.turns && button("Continue with this text", () => { const { text } = found; state.edits = {}; setText(text); }));
  const both = state.a && now && kept && !kept.error && kept.target === found.target;
  const apart = both && make("p", { className: "apart" }, "B minus A: ", make("b", { textContent: signed(found.after - kept.after) }), ` of ${number()}`);
  return make("div", { className: "outcome", aria: { live: "polite" } }, now && compared(found, number(), (method) => marks.findIndex(({ name }) => name === method)), make("div", { className: `versions${first ? " two" : ""}` }, first, right), apart, acts);
};

const version = (tried, none) => {
  if (!tried || tried.error) return make("p", { className: "lead", textContent: tried?.error || none });
  const explained = tried.target === live.target ? number() : tried.target;
  return make("div", {}, make("p", { className: "said", dir: "auto", textContent: tried.text }), tried.prediction.length ? bars(tried.prediction) : "",
    make("p", { className: "explained", textContent: `${explained}: ${signed(tried.after).replace("+", "")}` }));
};

const number = () => live.explained.replace(/, which is.*/, "");
