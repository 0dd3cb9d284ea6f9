// What the page shows, kept in the address after #, which is never sent to the server: a link opens the same.
const LISTS = ["methods", "cells"];
export const ROLES = ["system", "user", "assistant"];
export const OPERATORS = ["mask", "delete", "swap", "unk", "pad", "mean"];
const NUMBERS = ["seed", "opacity", "feature", "strength", "tokens", "token"];
const DEFAULTS = { view: "explain", tab: "methods", model: "", picture: "", text: "", pair: null, turns: null, target: "", contrast: "", unit: "", seed: 0, long: "error", methods: null, job: "", edits: {}, cells: [], operator: "", shade: "", opacity: 100, a: null, run: "", atlas: "", feature: -1, strength: 1, tokens: 16, wrote: "", token: -1, matrix: "" };

export const state = { ...DEFAULTS };

const written = () => {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (JSON.stringify(value) === JSON.stringify(DEFAULTS[name])) continue;
    out.set(name, LISTS.includes(name) ? value.join(",") : typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return out.toString();
};

const parsed = (name, value) => {
  if (name === "cells") return value.split(",").map(Number).filter((cell) => Number.isInteger(cell) && cell >= 0);
  if (name === "picture") return /^[0-9a-f]{32}$/.test(value) ? value : "";
  if (LISTS.includes(name)) return value ? value.split(",") : [];
  if (NUMBERS.includes(name)) return Number.isFinite(Number(value)) ? Number(value) : DEFAULTS[name];
  if (name === "a") return version(JSON.parse(value));
  if (name === "turns") return turns(JSON.parse(value));
  if (name === "edits") return edits(JSON.parse(value));
  return value;
};

const turns = (given) => given.map(({ role, content }) => ({ role: ROLES.includes(role) ? role : "user", content: String(content) }));

// Word -> { by: another word } or { operator: how it goes, null: as methods do it }.
const edits = (given) => Object.fromEntries(Object.entries(given).filter(([at]) => /^\d+$/.test(at)).map(([at, edit]) => {
  if (typeof edit === "string" || typeof edit?.by === "string") return [at, { by: edit.by ?? edit }];
  return [at, { operator: OPERATORS.includes(edit?.operator) ? edit.operator : null }];
}));

// Version A: what was asked, never what was answered; a link cannot tell a result that no model gave.
const version = (given) => {
  if (typeof given?.text !== "string" || !given.edits || typeof given.edits !== "object") return null;
  const words = ["target", "contrast"].map((name) => [name, typeof given[name] === "string" ? given[name] : null]);
  const unit = ["word", "token", "sentence"].includes(given.unit) ? given.unit : "word", long = ["error", "truncate", "window"].includes(given.long) ? given.long : "error";
  const said = given.turns ? { text: "", turns: turns(given.turns) } : typeof given.pair === "string" ? { text: given.text, pair: given.pair } : { text: given.text };
  return { ...said, ...Object.fromEntries(words), unit, long, seed: Number.isInteger(given.seed) ? given.seed : 0, edits: edits(given.edits) };
};

export const load = () => {
  Object.assign(state, structuredClone(DEFAULTS));
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (!(name in DEFAULTS)) continue;
    try { state[name] = parsed(name, value); } catch { /* a link that was cut */ }
  }
};

// The address is written at once, so that a reload finds what was just done; only where more is changed than a
// browser lets one write (a slider that is drawn), the rest waits a moment.
const MANY = 40, SPAN = 10_000;  // so many in so many milliseconds
let waiting = 0, last = null;
const times = [];
const write = () => {
  const now = written();
  if (now === last) return;
  last = now;
  times.push(performance.now());
  history.replaceState(null, "", last ? `#${last}` : location.pathname);
};
export const keep = () => {
  clearTimeout(waiting);
  while (times.length && times[0] < performance.now() - SPAN) times.shift();
  if (times.length < MANY) write(); else waiting = setTimeout(write, 300);
};

export const onMoved = (act) => addEventListener("hashchange", () => { if (location.hash.slice(1) !== last) act(); });

// What the model reads; set with the model.
export const reads = { picture: false, text: true };

// What the model is given: a picture, a text, two texts, or the turns of a chat.
export const said = () => {
  if (reads.picture) return { model: state.model, picture: state.picture, ...(reads.text ? { text: state.text } : {}) };
  if (state.turns) return { model: state.model, text: "", turns: state.turns };
  return state.pair === null ? { model: state.model, text: state.text } : { model: state.model, text: state.text, pair: state.pair };
};
export const contents = () => (state.turns ? state.turns.map(({ content }) => content) : state.pair === null ? [state.text] : [state.text, state.pair]);
export const hasInput = () => (!reads.picture || Boolean(state.picture)) && (!reads.text || contents().every((part) => part.trim()));

// What an explanation depends on.
export const question = () => ({
  ...said(), target: state.target || null, contrast: state.contrast || null,
  unit: state.unit, seed: state.seed, long: state.long,
});
