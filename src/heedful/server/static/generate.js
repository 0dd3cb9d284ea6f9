// What the model writes after the text: tokens with their probabilities; click one to see why it was written. The
// matrix shows, for each written token, which tokens before it led to it, by one of several methods or at random.
import { $, bars, button, code, heading, make, parts, say, shell, signed } from "./dom.js";
import { cancel, drop, ENDED, follow, get, quick, start } from "./net.js";
import { hasInput, keep, said, state } from "./state.js";
import { model, setText } from "./app.js";
import { given } from "./attention.js";
import * as tabs from "./tabs.js";

const LEAD = "What the model writes after your text. Click a token to see why it was written.";
let offered = false, most = 64, shown = "", result = null, stop = null;
const written = make("div", { className: "written-tokens" }), why = make("div", { className: "why", aria: { live: "polite" } }), grid = make("div", { className: "generate-matrix" }), line = make("div");
const key = () => JSON.stringify(said());
const percent = (share) => (share === null ? "" : share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);
const visible = (text) => text.replaceAll("\n", "↵").replaceAll("\t", "→");

tabs.onOpen("generate", () => stale());

export const clear = () => {
  shown = "";
  result = null;
  stop?.();
  drop("why");
  for (const box of [written, why, grid, line]) box.replaceChildren();
};

export const offer = (known, limit) => {
  offered = ["causal-lm", "encoder-decoder"].includes(known.kind);
  most = limit;
  tabs.offer("generate", offered);
  clear();
  if (offered) draw();
};

const draw = () => {
  const tokens = make("input", { type: "number", min: 1, max: most, value: state.tokens, on: { change: () => { state.tokens = Math.min(most, Math.max(1, Math.trunc(Number(tokens.value) || 16))); tokens.value = state.tokens; keep(); } } });
  tokens.addEventListener("keydown", (event) => { if (event.key === "Enter") { tokens.dispatchEvent(new Event("change")); go(); } });
  $("generate").replaceChildren(...heading("Generate", LEAD),
    make("p", { className: "controls" }, make("label", { className: "field" }, make("span", { textContent: "Tokens" }), tokens), button("Continue the text", go, { className: "act go" })),
    line, written, why, grid);
};

// The text has changed, or the tab was opened: a job of the same text is found again by the address.
export const stale = async () => {
  if (!offered || !tabs.isOpen("generate") || !hasInput()) return;
  if (shown && shown !== key()) { clear(); Object.assign(state, { wrote: "", token: -1 }); keep(); line.replaceChildren(make("p", { className: "lead", textContent: "The text has changed." })); }
  if (shown || !state.wrote) return;
  try {
    const found = await get(`/api/jobs/${state.wrote}`);
    const same = ["model", "text", "pair", "turns"].every((name) => JSON.stringify(found.ask[name] ?? null) === JSON.stringify(said()[name] ?? null));
    if (!shown && same) { shown = key(); listen(found.id, state.token); }
  } catch { Object.assign(state, { wrote: "", token: -1 }); keep(); }
};

const go = async () => {
  clear();
  if (!hasInput()) { line.replaceChildren(make("p", { className: "lead", textContent: "Type a text first." })); return; }
  shown = key();
  try {
    const begun = await start("generate", { ...said(), tokens: state.tokens });
    Object.assign(state, { wrote: begun.id, token: -1 });
    keep();
    listen(begun.id, -1);
  } catch (error) { shown = ""; line.replaceChildren(make("p", { className: "problem", textContent: error.message })); }
};

const listen = (id, token) => {
  const mine = shown, meter = make("progress", { max: 1, aria: { label: "Progress" } }), words = make("span", { className: "lead", textContent: "starting" });
  line.replaceChildren(make("div", { className: "job" }, meter, words, button("Cancel", () => cancel(id).catch(() => {}))));
  stop = follow(id, (update) => {
    if (shown !== mine) return;
    if (update.total) { meter.value = update.done / update.total; words.textContent = `${update.label}: ${update.done} of ${update.total} tokens`; }
    if (update.fresh) { result = update.result; tokens(); matrix(); }
    if (!ENDED.includes(update.state)) return;
    const notes = [...(result?.notes || []), ...(update.state === "cancelled" ? ["Cancelled. What was written is shown."] : [])];
    line.replaceChildren(...notes.map((note) => make("p", { className: "lead", textContent: note })), update.error ? make("p", { className: "problem", textContent: update.error }) : "");
    if (update.state === "done") say("The text is written");
    if (token >= 0 && result?.tokens[token]) choose(token);
  });
};

// --- the written tokens -----------------------------------------------------------------------------

const tokens = () => {
  const focused = written.contains(document.activeElement) ? document.activeElement.dataset.token : "";
  const one = ({ text, share }, at) => make("button", { type: "button", className: "token", data: { token: at }, aria: { pressed: String(at === state.token), label: `${text.trim() || visible(text)}${share === null ? "" : `, ${percent(share)}`}` }, on: { click: () => choose(at) } },
    make("span", { textContent: visible(text) }), make("small", { textContent: percent(share) }));
  const repeat = make("details", { className: "more" }, make("summary", { textContent: "The same as a command" }));
  repeat.addEventListener("toggle", () => { if (repeat.open) repeat.replaceChildren(repeat.firstChild, commands()); });
  written.replaceChildren(make("p", { className: "said continued", dir: "auto" }, make("span", { className: "prompt", textContent: result.prompt }), ...result.tokens.map(one)),
    make("p", { className: "lead", textContent: "Below each token: its probability when it was written. The model always takes the most likely token." }), repeat);
  if (focused) written.querySelector(`[data-token="${focused}"]`)?.focus();
};

const commands = () => {
  const box = make("div"), n = result.tokens.length;
  if (!state.turns && state.pair === null) box.append(code("Command line", shell("heedful", "generate", state.text, "--model", state.model, "--max-new-tokens", String(n), "--why", "occlusion")));
  box.append(code("Python", `import heedful\n\nmodel = heedful.load(${JSON.stringify(state.model)})\nfor step in heedful.explain_each(model, ${given()}, "occlusion", max_new_tokens=${n}):\n    print(step)`));
  return parts(box.innerHTML);
};

const choose = async (at) => {
  state.token = at;
  keep();
  for (const each of written.querySelectorAll(".token")) each.setAttribute("aria-pressed", String(Number(each.dataset.token) === at));
  for (const row of grid.querySelectorAll("tbody tr")) row.classList.toggle("chosen", Number(row.dataset.row) === at);
  const { text, share } = result.tokens[at];
  const title = () => make("h3", { className: "name" }, "Why “", make("bdi", { textContent: visible(text.trim() || text) }), `”${share === null ? "" : ` (${percent(share)})`}? Token ${at + 1} of ${result.tokens.length}`);
  why.replaceChildren(title(), make("p", { className: "lead", textContent: "Explaining this token" }));
  try {
    const found = await quick("why", "/api/why", { ...said(), tokens: result.tokens.map(({ id }) => id), at, unit: state.unit });
    if (!found || state.token !== at) return;
    why.replaceChildren(title(), parts(found.html),
      make("div", { className: "alternatives" }, make("h4", { className: "name", textContent: "The most likely tokens at this place" }), bars(found.prediction)),
      model().kind === "causal-lm" && !state.turns ? make("p", { className: "acts" }, button("Open this token in the other tabs", () => move(at))) : "");
  } catch (error) { why.replaceChildren(title(), make("p", { className: "problem", textContent: error.message })); }
};

// The text so far becomes the text, and this token what is explained.
const move = (at) => {
  const before = result.prompt + result.tokens.slice(0, at).map(({ text }) => text).join("");
  state.target = result.tokens[at].text;
  tabs.open("methods");
  setText(before);
};

// --- the matrix -------------------------------------------------------------------------------------

const MEANING = {
  occlusion: (operator) => `Each cell: how far the model's score for the written token falls when the earlier token is removed (${operator}). It is measured, not estimated.`,
  "grad-x-input": () => "Each cell: gradient times input, an estimate from one backward pass per row. Nothing was removed to check it.",
  random: () => "Random scores: the control. They know nothing about the model. Structure that you also see here means nothing.",
};

const matrix = () => {
  const found = result.matrix;
  if (!found) { grid.replaceChildren(); return; }
  const scores = found.methods.find(({ method }) => method === state.matrix) || found.methods[0];
  const select = make("select", { on: { change: () => { state.matrix = select.value; keep(); matrix(); grid.querySelector("select").focus(); } } });
  for (const { method } of found.methods) select.append(make("option", { value: method, textContent: method === "random" ? "random (control)" : method, selected: method === scores.method }));
  const hidden = found.hidden ? ` The first ${found.hidden.toLocaleString("en")} tokens of the prompt are not shown.` : "";
  const lead = `One row per written token, one column per token before it. ${MEANING[scores.method](scores.operator)} Colours are relative to the strongest score of the row. Plain blue: towards the token. Striped orange: away from it.${hidden}`;
  grid.replaceChildren(...heading("Which tokens led to which", lead, 3),
    make("p", { className: "controls" }, make("label", { className: "field" }, make("span", { textContent: "Scores by" }), select)),
    make("div", { className: "scroll", role: "region", tabIndex: 0, aria: { label: `Token by token matrix, scores by ${scores.method}` } }, table(found, scores)));
};

const table = (found, scores) => {
  const level = (share) => Math.min(9, Math.round(9 * Math.abs(share)));
  const head = (text, at) => make("th", { scope: "col", className: at < found.prompt ? "" : "new" }, make("span", { textContent: visible(text) }));
  const cell = (share, at) => make("td", { className: level(share) ? `${share > 0 ? "pos" : "neg"} l${level(share)}` : "", title: `${visible(found.columns[at])}: ${signed(share)}`, aria: { label: signed(share) } });
  const row = (shares, at) => make("tr", { data: { row: at }, className: at === state.token ? "chosen" : "" },
    make("th", { scope: "row" }, button(visible(result.tokens[at].text), () => choose(at), { className: "link", aria: { label: `Why ${result.tokens[at].text.trim() || visible(result.tokens[at].text)}?` } })), ...shares.map(cell), ...found.columns.slice(shares.length).map(() => make("td", { className: "later" })));
  return make("table", { className: "matrix" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, make("span", { className: "unseen", textContent: "written token" })), ...found.columns.map(head))), make("tbody", {}, ...scores.rows.map(row)));
};
