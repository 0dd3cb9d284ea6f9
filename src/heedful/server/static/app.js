// The page: the text, the answer and why; then tabs.
import { $, bars, button, copy, count, make, say } from "./dom.js";
import { drop, get, quick } from "./net.js";
import { contents, hasInput, keep, load, onMoved, question, reads, state } from "./state.js";
import * as given from "./given.js";
import * as tabs from "./tabs.js";
import * as attention from "./attention.js";
import * as features from "./features.js";
import * as generate from "./generate.js";
import * as methods from "./methods.js";
import * as picture from "./picture.js";
import * as runs from "./runs.js";
import * as trying from "./try.js";

const PAUSE = 220;  // milliseconds after the last key
const EXAMPLES = {
  classifier: ["the service is not bad", "the selection on the menu is great and so is the food, the service is not bad", "I wanted to like it, but the plot is a mess"],
  "causal-lm": ["The state of the union is", "My fellow citizens, we must"],
};
const SLOW = 400;  // milliseconds: an answer that took longer is preceded by the prediction alone
let here = null, took = 0, modelNotice = "";  // shown for a link or a run that names a model which is not here

export const model = () => here.models.find(({ name }) => name === state.model) || here.models[0];

const problem = (text = "") => {
  $("problem").textContent = text;
  $("problem").hidden = !text;
};

// --- the text and what the model says of it ---------------------------------------------------------

const input = $("text-input");
const grow = () => given.grow(input);

const answer = (found) => {
  const what = model().kind === "causal-lm" ? "Next token by" : model().kind === "encoder-decoder" ? "First token by" : "Prediction of";
  const [first] = found.prediction;
  const kicker = make("p", { className: "kicker" }, `${what} `, make("b", { textContent: state.model }));
  const verdict = first && make("h1", { className: "verdict" }, make("bdi", { textContent: first.label }), " ", make("span", { className: "chance", textContent: first.shown }));
  $("copies").replaceChildren(
    button("Copy as Python", (event) => copy(methods.repeat("Python"), event.target)),
    ...(state.turns || reads.picture ? [] : [button("Copy as CLI", (event) => copy(methods.repeat("Command line"), event.target))]),
    button("Copy link", (event) => copy(location.href, event.target)));
  const other = found.prediction.length > 1 || first?.share !== null;
  $("answer").replaceChildren(make("div", {}, kicker, verdict || ""), make("div", { className: "shares" }, other ? bars(found.prediction) : ""));
};

const invitation = () => {
  if (!reads.picture) return "Type a text, or choose an example.";
  return reads.text ? "Choose a picture and type a text." : "Choose a picture.";
};

const empty = () => {
  $("answer").replaceChildren(make("p", { className: "kicker" }, "What does ", make("b", { textContent: state.model }), ` say, and why? ${invitation()}`));
  $("copies").replaceChildren();
  for (const panel of [methods, trying, generate, attention, features]) panel.clear();
};

const ask = async () => {
  keep();
  methods.leave();
  if (!hasInput()) { drop("look"); drop("predict"); empty(); return; }
  document.body.classList.add("asking");
  try {
    const request = { ...question(), methods: state.methods }, began = performance.now();
    if (took > SLOW) predict(request);
    const found = await quick("look", "/api/look", { ...request, agreement: tabs.isOpen("evidence") });
    if (!found) return;
    drop("predict");
    took = performance.now() - began;
    problem(modelNotice);
    answer(found);
    methods.show(found, request);
    targets();
    trying.show(found);
    generate.stale();
    attention.stale();
    features.stale();
    say(found.prediction.length ? `${found.prediction[0].label} ${found.prediction[0].shown}` : "");
  } catch (error) {
    problem(error.message);
    if (error.status === 404 && reads.picture) picture.forgotten();
    tooLong(error.message);
  } finally {
    document.body.classList.remove("asking");
  }
};

// A slow model: its prediction at once, the explanation when it is there.
const predict = async (request) => {
  try {
    const found = await quick("predict", "/api/look", { ...request, methods: [] });
    if (found) answer(found);
  } catch { /* the full question says why */ }
};

// A text longer than the model reads: the way out is a click away.
const tooLong = (message) => {
  if (!/long='?(truncate|window)/i.test(message) && !/--long/.test(message)) return;
  const ways = model().kind === "causal-lm" ? [["truncate", "Read the end of it"]] : [["truncate", "Read the start of it"], ["window", "Read it in windows"]];
  for (const [long, name] of ways) $("problem").append(" ", button(name, () => { state.long = long; ask(); }));
};

let pause = 0;
export const refresh = () => { methods.leave(); clearTimeout(pause); pause = setTimeout(ask, PAUSE); };

export const setText = (text) => {
  input.value = text;
  changed();
};

const changed = () => {
  if (state.text !== input.value) { state.edits = {}; state.cells = []; state.job = ""; }
  state.text = input.value;
  keep();
  grow();
  counted();
  refresh();
};

const counted = () => {
  const size = contents().reduce((sum, part) => sum + [...part].length, 0);
  $("count").textContent = size > 0.8 * here.limit ? `${size.toLocaleString("en")} of ${count(here.limit, "character")}` : "";
};

input.addEventListener("input", changed);
addEventListener("resize", grow);
given.begin(() => { counted(); refresh(); });
const pictureChanged = () => { Object.assign(state, { cells: [], job: "" }); keep(); refresh(); };

const examples = () => {
  if (reads.picture) return;  // pictures
  const known = EXAMPLES[model().kind] || EXAMPLES.classifier;
  $("examples").replaceChildren("Try: ", ...known.map((text) => button(text.length > 44 ? `${text.slice(0, 42).trimEnd()}…` : text, () => { setText(text); input.focus(); }, { className: "link", title: text })));
};

// --- which number is explained ----------------------------------------------------------------------

const picker = (options, chosen, change, label) => {
  const select = make("select", { aria: { label }, on: { change: () => change(select.value) } });
  for (const [value, text] of options) select.append(make("option", { value, textContent: text, selected: value === chosen }));
  return select;
};

const field = (name, control) => make("label", { className: "field" }, make("span", { textContent: name }), control);

const typed = (name, label, hint) => {
  const box = make("input", { type: "text", value: state[name], placeholder: hint, maxLength: 200, size: 12, aria: { label }, on: { change: () => { state[name] = box.value; state.job = ""; ask(); } } });
  return box;
};

const UNITS = { word: "words", token: "tokens", sentence: "sentences", patch: "patches of the model", superpixel: "superpixels" };
const chooseUnit = (value) => { Object.assign(state, { unit: value, cells: [], job: "" }); ask(); };

const targets = () => {
  if ($("targets").contains(document.activeElement)) return;
  const { labels } = model();
  const choose = (name) => (value) => { state[name] = value; state.job = ""; ask(); };
  const own = [["", "the prediction"], ...labels.map((label) => [label, label])];
  const other = [["", "–"], ...labels.map((label) => [label, label])];
  const controls = labels.length
    ? [field("Explain", picker(own, state.target, choose("target"), "What is explained"))]
    : [field("Explain", typed("target", "The token that is explained", "the prediction")), field("rather than", typed("contrast", "The token it is contrasted with", "–"))];
  if (labels.length > 2) controls.push(field("rather than", picker(other, state.contrast, choose("contrast"), "What it is contrasted with")));
  const usual = methods.cells()?.unit ?? "", { units } = model();
  const names = (units.includes(usual) || !reads.picture ? units : [usual, ...units]).filter(Boolean).map((name) => [name, UNITS[name] ?? name.replace(/^grid:(\d+)$/, "$1 × $1 cells")]);
  if (usual || state.unit || !reads.picture) controls.push(field("by", picker(names, state.unit || usual || units[0], chooseUnit, "What is removed as one")));
  const seed = make("input", { type: "number", min: 0, max: 2 ** 31 - 1, value: state.seed, on: { change: () => { state.seed = Math.max(0, Math.trunc(Number(seed.value) || 0)); state.job = ""; ask(); } } });
  controls.push(field("seed", seed));
  if (state.long !== "error") controls.push(field("long text", picker([["error", "refuse"], ["truncate", "truncate"], ["window", "windows"]], state.long, choose("long"), "A text longer than the model reads")));
  $("targets").replaceChildren(...controls);
};

// --- models, views, colours -------------------------------------------------------------------------

const modelPicker = () => {
  const select = $("model");
  const groups = here.models.map(({ name }) => make("option", { value: name, textContent: name, selected: name === state.model }));
  if (here.offered.length) groups.push(make("optgroup", { label: "Load" }, ...here.offered.map((name) => make("option", { value: name, textContent: name }))));
  select.replaceChildren(...groups);
};

const chooseModel = async (name) => {
  if (!here.models.some((known) => known.name === name)) {
    say(`Loading ${name}`);
    try {
      const { post } = await import("./net.js");
      await post("/api/models", { model: name });
      here = await get("/api/here");
    } catch (error) { problem(error.message); modelPicker(); return; }
  }
  modelNotice = "";
  Object.assign(state, { model: name, target: "", contrast: "", job: "", edits: {}, cells: [], operator: "", unit: "", a: null, pair: null, turns: null, atlas: "", feature: -1, wrote: "", token: -1 });
  took = 0;
  showModel();
  ask();
};

const showModel = () => {  // what depends on the model alone
  const known = model();
  state.model = known.name;
  [reads.picture, reads.text] = [known.modality !== "text", known.modality !== "image"];
  state.unit = state.unit.replace(/\+.*/, "");  // of a picture with a text: the cells
  if (state.unit && !known.units.includes(state.unit) && !(reads.picture && state.unit.startsWith("grid:"))) state.unit = "";
  modelPicker();
  examples();
  picture.offer(known);
  given.offer(known);
  targets();
  generate.offer(known, here.written);
  features.offer(known);
  attention.offer(known);
  tabs.draw();
};

export const view = (name) => {
  state.view = name === "runs" ? "runs" : "explain";
  $("view-explain").hidden = state.view !== "explain";
  $("view-runs").hidden = state.view !== "runs";
  for (const tab of document.querySelectorAll("[data-view]")) {
    if (tab.dataset.view === state.view) tab.setAttribute("aria-current", "page"); else tab.removeAttribute("aria-current");
  }
  keep();
  if (state.view === "runs") runs.show();
  else grow();
};

const THEMES = { "": ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
const theme = (name) => {
  if (name) document.documentElement.setAttribute("theme", name); else document.documentElement.removeAttribute("theme");
  $("theme").textContent = THEMES[name][0];
  $("theme").setAttribute("aria-label", `Colours: ${THEMES[name][1]}`);
  $("theme").title = `Colours: ${THEMES[name][1]}`;
  try { localStorage.setItem("heedful-theme", name); } catch { /* a browser that keeps nothing */ }
};
const lastTheme = () => {
  try { return localStorage.getItem("heedful-theme") || ""; } catch { return ""; }
};
$("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  theme(names[(names.indexOf(lastTheme()) + 1) % names.length]);
});

// A model that is not served here: what another one answers is not what the link was about.
const useServedModel = () => {
  const wanted = state.model;
  state.model = model().name;
  modelNotice = "";
  if (!wanted || wanted === state.model) return;
  modelNotice = `${wanted} is not served here: what you see is the answer of ${state.model}.`;
  problem(modelNotice);
  Object.assign(state, { target: "", contrast: "", job: "", edits: {}, a: null, atlas: "", feature: -1, wrote: "", token: -1 });
};

const open = () => {  // from the address
  load();
  useServedModel();
  input.value = state.text;
  showModel();
  view(state.view);
  grow();
  counted();
  ask();
};

export const explain = (request) => {  // from a run
  Object.assign(state, { job: "", edits: {}, cells: [], a: null, target: "", contrast: "", picture: "", pair: null, turns: null, text: "", ...Object.fromEntries(Object.entries(request).filter(([, value]) => value !== null)) });
  useServedModel();
  input.value = state.text;
  showModel();
  view("explain");
  ask();
};

for (const tab of document.querySelectorAll("[data-view]")) tab.addEventListener("click", () => view(tab.dataset.view));
document.querySelector(".skip").addEventListener("click", (event) => {  // the address holds the state, not a place
  event.preventDefault();
  view("explain");
  given.box().focus();
});
$("model").addEventListener("change", (event) => chooseModel(event.target.value));
theme(lastTheme());
try {
  here = await get("/api/here");
  methods.begin(here);
  picture.begin(pictureChanged, problem, here.picture_limit);
  onMoved(open);
  open();
} catch (error) { problem(error.message); }
document.body.dataset.ready = "true";
