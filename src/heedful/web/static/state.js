// What the page shows, kept in the address after #, which is never sent to the server: a link opens the same.
const LISTS = ["methods"];
export const ROLES = ["system", "user", "assistant"];
const NUMBERS = ["seed", "feature", "strength"];
const DEFAULTS = { view: "explain", model: "", text: "", pair: null, turns: null, target: "", contrast: "", unit: "word", seed: 0, long: "error", methods: null, job: "", edits: {}, operator: "delete", shade: "", a: null, run: "", atlas: "", feature: -1, strength: 1 };

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
  if (LISTS.includes(name)) return value ? value.split(",") : [];
  if (NUMBERS.includes(name)) return Number.isFinite(Number(value)) ? Number(value) : DEFAULTS[name];
  if (name === "a") return JSON.parse(value);
  if (name === "turns") return JSON.parse(value).map(({ role, content }) => ({ role: ROLES.includes(role) ? role : "user", content: String(content) }));
  if (name === "edits") return Object.fromEntries(Object.entries(JSON.parse(value)).filter(([at]) => /^\d+$/.test(at)));
  return value;
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

// What the model is given: a text, two texts, or the turns of a chat.
export const said = () => {
  if (state.turns) return { model: state.model, text: "", turns: state.turns };
  return state.pair === null ? { model: state.model, text: state.text } : { model: state.model, text: state.text, pair: state.pair };
};
export const contents = () => (state.turns ? state.turns.map(({ content }) => content) : state.pair === null ? [state.text] : [state.text, state.pair]);
export const hasText = () => contents().every((part) => part.trim());

// What an explanation depends on.
export const question = () => ({
  ...said(), target: state.target || null, contrast: state.contrast || null,
  unit: state.unit, seed: state.seed, long: state.long,
});
