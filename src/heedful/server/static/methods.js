// The first screen, methods and evidence. Cheap methods run while one types; others say what they cost and wait for
// a click. A job runs them one by one and tests them against random orders; it goes on when the page is closed.
// Where the server says that the test is cheap, the page starts it by itself, and drops it when the text changes.
import { $, button, count, duration, heading, make, parts, say } from "./dom.js";
import { cancel, ENDED, follow, get, start } from "./net.js";
import { keep, question, reads, state } from "./state.js";
import { model, refresh, view } from "./app.js";
import * as tabs from "./tabs.js";
import * as trying from "./try.js";

let here = null, live = null, request = null, job = null, stop = null, result = null;
const ASK_AGAIN = 3000;  // milliseconds, while others are at work
let alone = false, starting = false, later = 0;  // the job was started by the page itself; it is about to be

export const begin = (found) => { here = found; };
export const cells = () => live?.picture ?? null;  // of a picture
const thing = () => (reads.picture ? "picture" : "text");
tabs.onOpen("evidence", () => { if (live && !html("agreement")) refresh(); });

export const clear = () => {
  leave(true);
  live = result = job = request = null;
  stop?.();
  for (const id of ["verdict", "test", "methods", "evidence", "made"]) $(id).replaceChildren();
};

const html = (name) => (result?.html[name] ?? live?.html[name] ?? "");
const costs = () => result?.methods ?? live?.methods ?? [];
const running = () => job !== null && !ENDED.includes(job.state);
const busy = () => starting || running();
const isDone = (cost) => cost.state === "live" || cost.state === "done";

export const repeat = (name) => {
  for (const block of $("made").querySelectorAll(".code")) {
    if (block.querySelector(".bar").firstChild.textContent === name) return block.querySelector("pre").textContent;
  }
  return "";
};

// What was found as one typed.
export const show = async (found, asked) => {
  const same = isAsked(asked) && (result || busy());
  live = found;
  request = asked;
  if (!same) {
    leave(true);
    result = null;
    stop?.();
    job = null;
  }
  draw();
  if (state.job && !job) await resume(state.job);
  if (request === asked) testAlone();
  clearTimeout(later);
  if (live?.later && !result) later = setTimeout(() => { if (request === asked && !result && !busy()) refresh(); }, ASK_AGAIN);
};

const isAsked = (asked) => request !== null && JSON.stringify(request) === JSON.stringify(asked);

// The text has changed: nobody waits for the test of the old one.
export const leave = (now = false) => {
  if (!alone || !(now || !isAsked({ ...question(), methods: state.methods }))) return;
  if (running() && job.id) cancel(job.id).catch(() => {});
  stop?.();
  [alone, starting, job] = [false, false, null];
};

// The same test as by the button, and by heedful.explain; not stored.
const testAlone = async () => {
  if (!live?.automatic || result || busy()) return;
  const mine = request;
  [alone, starting] = [true, true];
  draw();
  try {
    const begun = await start("explain", { ...mine, automatic: true }, "-live");
    if (request !== mine || !alone) { cancel(begun.id).catch(() => {}); return; }
    starting = false;
    listen(begun, true);
  } catch {  // too many are waiting: the button is there
    if (request !== mine) return;
    [alone, starting] = [false, false];
    draw();
  }
};

const draw = () => {
  methods();
  evidence();
  $("made").replaceChildren(parts(html("made") + html("cost") + html("remarks")));
  first();
  trying.claims();
};

// --- the first screen -------------------------------------------------------------------------------

const first = () => {
  const focused = $("verdict").contains(document.activeElement);
  $("verdict").replaceChildren(parts(html("verdict")));
  for (const radio of radios()) radio.addEventListener("change", () => { state.shade = methodOf(radio); keep(); trying.claims(); });
  shade();
  if (focused) radios().find(({ checked }) => checked)?.focus();
  if (alone && busy()) $("verdict").querySelector(".sentences")?.append(make("li", { className: "testing", textContent: `The methods are being tested on this ${thing()}.` }));
  opacity();
  $("test").replaceChildren(progress(), testing());
  saving();
};

// How strongly maps cover pictures, everywhere on the page.
const opacity = () => {
  const slide = $("verdict").querySelector(".heat-strength input");
  const cover = () => document.documentElement.style.setProperty("--heat", String(state.opacity / 100));
  cover();
  if (!slide) return;
  slide.value = state.opacity;
  slide.addEventListener("input", () => { state.opacity = Number(slide.value); cover(); keep(); });
};

// The picker of the first screen, which Try it follows.
const radios = () => [...$("verdict").querySelectorAll(".choice > input")];
const methodOf = (radio) => radio.nextElementSibling.firstChild.textContent.trim();
export const shade = () => { for (const radio of radios()) if (methodOf(radio) === state.shade) radio.checked = true; };
export const shading = () => { const on = radios().find(({ checked }) => checked); return on ? methodOf(on) : state.shade; };

const canTest = () => model().capabilities.includes("values") && Boolean(live?.testing_rows);

const testing = () => {
  if (html("evidence") || busy() || !canTest()) return "";
  const price = `${duration(live.testing)} · ${count(live.testing_rows, "model input")}`;
  return make("p", { className: "acts" }, button(`Test the methods on this ${thing()} · ${price}`, () => run([], true), { className: "act go" }),
    make("span", { className: "lead", textContent: "Does the model follow what each method says, more than it follows random orders?" }));
};

// A test that the page started is not stored unless one wants it.
const saving = () => {
  $("copies").querySelector("[data-save]")?.remove();
  if (busy() || !html("evidence")) return;
  if (alone) $("copies").append(button("Save in Runs", () => run([], true), { data: { save: "" } }));
  else if (job?.run) $("copies").append(button("Open in Runs", () => { state.run = job.run; view("runs"); }, { data: { save: "" } }));
};

// --- methods ----------------------------------------------------------------------------------------

const methods = () => {
  const open = $("methods").querySelector("details.choose")?.open;
  const section = parts(html("methods"));
  const maps = section.querySelector(".maps"), list = maps ? make("div", { className: "methods" }) : section.querySelector(".methods");
  maps?.after(list);
  for (const cost of costs()) if (!isDone(cost) && list) list.append(waits(cost));
  const numbers = make("details", { className: "more" }, make("summary", { textContent: `Claimed and measured, ${reads.picture ? "part by part" : "word by word"}` }), parts(html("numbers")));
  $("methods").replaceChildren(section, progress(), bar(), choose(open), numbers);
};

const price = (cost) => {
  const rows = cost.least === cost.rows ? count(cost.rows, "model input") : `${cost.least.toLocaleString("en")} to ${count(cost.rows, "model input")}`;
  return `${duration(cost.seconds)} · ${rows}`;
};

const waits = (cost) => {
  const name = make("h3", { className: "name", textContent: cost.method });
  if (cost.state === "skipped") return make("article", { className: "method waits" }, make("div", {}, name), make("p", { className: "lead", textContent: `Not for this model: ${cost.why}.` }));
  const now = running() && job.label === cost.method;
  const act = busy() ? make("span", { className: "lead", textContent: now || alone ? "running" : "" })
    : button("Run", () => run([cost.method], false), { className: "act go", aria: { label: `Run ${cost.method}, ${price(cost)}` } });
  return make("article", { className: "method waits", data: { method: cost.method } }, make("div", {}, name, make("p", { className: "facts", textContent: price(cost) })),
    make("div", { className: "wait" }, act, make("p", { className: "lead", textContent: cost.summary })));
};

const bar = () => {
  const left = costs().filter((cost) => cost.state === "waits");
  if (busy() || !left.length) return "";
  const seconds = left.reduce((sum, { seconds: each }) => sum + each, 0) + (live?.testing ?? 0);
  return make("p", { className: "acts" }, button(`Run all and test them · ${duration(seconds)}`, () => run(left.map(({ method }) => method), true), { className: "act go" }));
};

const choose = (open = false) => {
  const chosen = new Set(state.methods ?? model().few);
  const { skipped } = model();
  const box = (method) => {
    const why = skipped[method.name];
    const tick = make("input", { type: "checkbox", checked: chosen.has(method.name) && !why, disabled: Boolean(why), on: { change: () => {
      if (tick.checked) chosen.add(method.name); else chosen.delete(method.name);
      state.methods = here.methods.map(({ name }) => name).filter((name) => chosen.has(name));
      state.job = "";
      refresh();
    } } });
    return make("label", { className: `pick${why ? " off" : ""}`, title: why || method.cite }, tick, make("span", {}, make("b", { textContent: method.name }), make("small", { textContent: why ? `Not for this model: ${why}` : method.summary })));
  };
  const known = here.methods.filter(({ name }) => name !== "random");
  const usual = button("The usual ones", () => { state.methods = null; state.job = ""; refresh(); });
  return make("details", { className: "more choose", open }, make("summary", { textContent: `Choose methods (${[...chosen].filter((name) => !skipped[name]).length} of ${known.length})` }),
    make("div", { className: "picks" }, ...known.map(box)), make("p", { className: "acts" }, usual));
};

// --- evidence ---------------------------------------------------------------------------------------

const evidence = () => {
  const tested = html("evidence");
  if (tested) { $("evidence").replaceChildren(parts(tested + html("agreement")), progress()); return; }
  const parts_ = reads.picture ? "parts" : "words";
  const lead = `A test removes ${parts_}, once in the order of each method and once in random orders. A method is better than random here if the answer changes sooner by its order.`;
  const cannot = `The methods cannot be tested here: ${parts_} of this ${thing()} cannot be removed one by one.`;
  const act = canTest() ? testing() : make("p", { className: "lead", textContent: cannot });
  $("evidence").replaceChildren(...heading(alone && busy() ? "Being tested" : "Not tested yet", lead), progress(), act, parts(html("agreement")));
};

// --- the job ----------------------------------------------------------------------------------------

const progress = () => {
  if (!job || alone || job.state === "done") return "";
  if (ENDED.includes(job.state)) {
    const message = job.state === "cancelled" ? "Cancelled. What was finished is shown." : job.error;
    return make("p", { className: job.state === "failed" ? "problem" : "lead job-end", textContent: message });
  }
  const box = make("div", { className: "job", data: { job: job.id } }, make("progress", { max: 1, aria: { label: "Progress of the job" } }), make("span", { className: "lead" }),
    button("Cancel", async () => { await cancel(job.id).catch(() => {}); }));
  moved(box);
  return box;
};

// Where it stands now, in the same box: its button keeps the focus.
const moved = (box) => {
  const [meter, line] = box.children;
  if (job.total) meter.value = job.done / job.total; else meter.removeAttribute("value");
  const left = job.left ? `, ${duration(job.left)} left` : "";
  const rows = job.total ? ` · ${job.done.toLocaleString("en")} of at most ${count(job.total, "model input")}${left}` : "";
  line.textContent = `${job.state === "waiting" ? "waiting for a worker" : job.label || "starting"}${rows}`;
};

const run = async (more, test) => {
  const have = costs().filter((cost) => isDone(cost) && cost.method !== "random").map(({ method }) => method);
  const names = [...new Set([...have, ...more])], every = costs().every((cost) => isDone(cost) || cost.state === "skipped" || more.includes(cost.method));
  const asked = { ...question(), methods: state.methods === null && every ? null : names, test };  // null: the usual ones
  const order = here.methods.map(({ name }) => name);
  const wanted = state.methods ?? model().few;
  names.sort((a, b) => (wanted.indexOf(a) - wanted.indexOf(b)) || (order.indexOf(a) - order.indexOf(b)));
  try {
    const begun = await start("explain", asked);
    state.job = begun.id;
    keep();
    listen(begun);
    document.querySelector("[data-job] button")?.focus();
  } catch (error) { job = { state: "failed", error: error.message }; draw(); }
};

const listen = (begun, byItself = false) => {
  stop?.();
  job = begun;
  alone = byItself;
  draw();
  stop = follow(begun.id, (update) => {
    const before = job?.label;
    job = update;
    if (update.fresh) {
      const waiting = (live?.methods ?? []).filter((cost) => cost.state !== "live" && !update.result.methods.some(({ method }) => method === cost.method));
      result = { ...update.result, methods: [...update.result.methods, ...waiting] };
    }
    if (alone && update.state !== "done" && ENDED.includes(update.state)) alone = false;
    if (update.fresh || ENDED.includes(update.state) || (!alone && before !== update.label)) draw();
    else document.querySelectorAll("[data-job]").forEach(moved);
    if (update.state === "done") say(alone ? "The methods are tested" : "The methods are finished");
  });
};

// A job of an earlier visit: shown if it was about this text.
const resume = async (id) => {
  try {
    const found = await get(`/api/jobs/${id}`);
    const same = found.kind === "explain" && ["model", "picture", "text", "pair", "turns", "target", "contrast", "unit", "seed"].every((name) => JSON.stringify(found.ask[name] ?? null) === JSON.stringify(question()[name] ?? null));
    if (same) { listen(found); return; }
    if (found.run && found.result === null) {
      $("methods").append(make("p", { className: "lead" }, "An earlier result is stored: ", button("open it", () => { state.run = found.run; view("runs"); }, { className: "link" })));
    }
  } catch { state.job = ""; keep(); }
};
