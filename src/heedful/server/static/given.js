// More than one text: the second of a pair, or the turns of a chat, in boxes of their own.
import { $, button, make } from "./dom.js";
import { keep, reads, ROLES, state } from "./state.js";

let changed = () => {}, known = null;
const input = $("text-input");

export const begin = (act) => { changed = act; };

export const grow = (area) => {
  area.style.blockSize = "auto";
  area.style.blockSize = `${Math.min(area.scrollHeight + 4, 0.5 * innerHeight)}px`;
};

const area = (value, label, write) => {
  const box = make("textarea", { rows: 1, spellcheck: false, dir: "auto", value, aria: { label } });
  box.addEventListener("input", () => { write(box.value); grow(box); moved(); });
  return box;
};

const moved = () => { state.edits = {}; state.job = ""; keep(); changed(); };

// What this model reads: boxes, and buttons to have them. A link may hold more than another model takes.
export const offer = (model) => {
  known = model;
  if (!known.pairs) state.pair = null;
  if (!known.chat) state.turns = null;
  draw();
};

export const draw = () => {
  const box = $("more-text");
  $("examples").hidden = Boolean(state.turns);
  input.hidden = Boolean(state.turns) || !reads.text;
  const plain = !state.turns && state.pair === null;
  box.replaceChildren(...(plain ? [] : state.turns ? chat() : second()));
  $("more-acts").replaceChildren(...(plain ? more() : []));
  box.querySelectorAll("textarea").forEach(grow);
};

// The box that is written in first.
export const box = () => (reads.picture ? $("picture-input") : state.turns ? $("more-text").querySelector("textarea") : input);

const redrawn = (focus) => {
  moved();
  draw();
  ((focus && $("more-text").querySelector(focus)) || box()).focus();
};

const more = () => {
  const acts = [];
  if (known?.pairs) acts.push(button("Add a second text", () => { state.pair = ""; redrawn("textarea"); }, { className: "link" }));
  if (known?.chat) acts.push(button("Write it as a chat", () => { state.turns = [{ role: "user", content: state.text }]; redrawn("textarea"); }, { className: "link" }));
  return acts;
};

const second = () => {
  const box = area(state.pair, "Second text", (value) => { state.pair = value; });
  box.placeholder = "The second text";
  return [make("div", { className: "turn" }, make("span", { className: "role", textContent: "Second text" }), box, button("Remove", () => { state.pair = null; redrawn(); }, { className: "link", aria: { label: "Remove the second text" } }))];
};

const chat = () => {
  const turn = (one, at) => {
    const role = make("select", { aria: { label: `Role of turn ${at + 1}` }, on: { change: () => { one.role = role.value; moved(); } } });
    for (const name of ROLES) role.append(make("option", { value: name, textContent: name, selected: name === one.role }));
    const gone = button("Remove", () => { state.turns.splice(at, 1); redrawn("textarea"); }, { className: "link", aria: { label: `Remove turn ${at + 1}` } });
    return make("div", { className: "turn" }, role, area(one.content, `Turn ${at + 1}`, (value) => { one.content = value; }), state.turns.length > 1 ? gone : "");
  };
  const next = () => {
    const { role } = state.turns[state.turns.length - 1];
    state.turns.push({ role: role === "user" ? "assistant" : "user", content: "" });
    redrawn(".turn:last-of-type textarea");
  };
  const plain = () => { input.value = state.text = state.turns[state.turns.length - 1].content; state.turns = null; redrawn(); };
  return [...state.turns.map(turn), make("p", { className: "under" }, button("Add a turn", next, { className: "link" }), button("Back to plain text", plain, { className: "link" }))];
};
