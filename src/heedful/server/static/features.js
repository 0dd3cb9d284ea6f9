// Features of an SAE: which are active on the text, what one of them means, and what the model says when it is set.
import { $, bars, button, code, heading, make, parts, shell } from "./dom.js";
import { cancel, ENDED, follow, quick, start } from "./net.js";
import { given } from "./attention.js";
import { hasInput, keep, said, state } from "./state.js";
import * as tabs from "./tabs.js";

const MOST = 10;  // times its maximum, at the end of the slider until it is known where text breaks
let width = 0, list = null, asked = "", stopPage = null, stopSteer = null, stopNames = null, stopLimit = null;
const names = new Map();  // feature -> what it is active on
const fires = make("div", { className: "fires" }), one = make("div", { className: "one" });
const key = () => JSON.stringify(said());

export const clear = () => { list = null; asked = ""; stopNames?.(); fires.replaceChildren(); };

export const offer = (known) => {
  width = known.features;
  tabs.offer("features", Boolean(width));
  names.clear();
  clear();
  one.replaceChildren();
  if (!width) return;
  $("features").replaceChildren(...heading("Features and steering", `The features of an SAE (${width.toLocaleString("en")} in all) that are active on this text, strongest first. Open one to see what it is active on, and set it to see what the model then says.`), finder(), fires, one);
};

const finder = () => {
  const number = make("input", { type: "number", min: 0, max: width - 1, placeholder: "number", aria: { label: "Number of a feature" } });
  const go = () => { if (number.value !== "") choose(Number(number.value)); };
  number.addEventListener("keydown", (event) => { if (event.key === "Enter") go(); });
  return make("p", { className: "controls" }, make("label", { className: "field" }, make("span", { textContent: "Feature" }), number), button("Open", go));
};

tabs.onOpen("features", () => stale());

export const stale = async () => {
  if (!width || !hasInput() || asked === key()) return;
  if (!tabs.isOpen("features")) return;
  const mine = asked = key();
  if (state.turns) {
    list = null;
    fires.replaceChildren(make("p", { className: "lead", textContent: "Active features are listed for plain text, not for a chat. You can open a feature by its number." }));
    if (state.feature >= 0) choose(state.feature);
    return;
  }
  try {
    const found = await quick("features", "/api/features", { model: state.model, text: state.text });
    if (!found || mine !== key()) return;
    list = found;
    for (const { feature, name } of found.features) if (name) names.set(feature, name);
    drawList();
    if (state.feature >= 0) choose(state.feature);
    nameAll();
  } catch (error) { asked = ""; fires.replaceChildren(make("p", { className: "problem", textContent: error.message })); }
};

// Names come from a job that reads texts the first time; each is shown when it is there.
const nameAll = async () => {
  stopNames?.();
  const missing = list.features.map(({ feature }) => feature).filter((feature) => !names.has(feature));
  const line = fires.querySelector(".naming");
  if (!missing.length || !line) return;
  try {
    const begun = await start("names", { model: state.model, features: missing }, "-names");
    const words = make("span", { className: "lead" }), stop = button("Cancel", () => cancel(begun.id).catch(() => {}));
    line.replaceChildren(make("div", { className: "job" }, words, stop));
    stopNames = follow(begun.id, (update) => {
      words.textContent = update.label === "naming features" ? `Naming features: ${update.done} of ${update.total}` : update.total ? `Reading texts to name the features: ${update.done.toLocaleString("en")} of ${update.total.toLocaleString("en")}` : "Naming features";
      for (const [feature, name] of Object.entries(update.result?.names || {})) named(Number(feature), name);
      if (ENDED.includes(update.state)) line.replaceChildren(update.error ? make("p", { className: "lead", textContent: `No names: ${update.error}` }) : "");
    });
  } catch (error) { line.replaceChildren(make("p", { className: "lead", textContent: `No names: ${error.message}` })); }
};

const named = (feature, name) => {
  names.set(feature, name);
  const cell = fires.querySelector(`[data-name="${feature}"]`), title = one.querySelector(`[data-title="${feature}"]`);
  if (cell) cell.textContent = name || "–";
  if (title) title.textContent = titled(feature);
};

const titled = (feature) => (names.get(feature) ? `Feature ${feature}: ${names.get(feature)}` : `Feature ${feature}`);

const drawList = () => {
  const row = (found) => {
    const tokens = make("td", { className: "tokens wrap", dir: "auto" });
    tokens.innerHTML = found.html;
    const bar = make("i", { className: "fill any l9" });
    bar.style.inlineSize = `${100 * Math.min(1, found.share ?? 0)}%`;
    return make("tr", { className: found.feature === state.feature ? "chosen" : "" },
      make("th", { scope: "row" }, button(String(found.feature), () => choose(found.feature), { className: "link", aria: { label: `Open feature ${found.feature}` } })),
      make("td", { className: "wrap name-cell", dir: "auto", data: { name: found.feature }, textContent: names.get(found.feature) || "–" }), tokens,
      make("td", { textContent: found.most.toFixed(2) }), make("td", {}, make("span", { className: "track small", title: found.share === null ? "its maximum is not known" : `${Math.round(100 * found.share)} % of its maximum` }, bar)));
  };
  const heads = ["feature", "active on (rules)", "where in this text", "activation", "of its maximum"];
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col", textContent: name })))), make("tbody", {}, ...list.features.map(row)));
  fires.replaceChildren(make("p", { className: "lead", textContent: `At ${list.site}, ${list.active.toFixed(1)} of ${list.width.toLocaleString("en")} features are active per token on average. The ${list.features.length} strongest, by activation times the length of their direction:` }),
    make("div", { className: "naming" }),
    make("div", { className: "scroll short", role: "region", tabIndex: 0, aria: { label: "Features active on this text" } }, table));
};

const choose = (feature) => {
  state.feature = feature;
  keep();
  if (list) drawList();
  const about = make("div", { className: "about-feature" });
  one.replaceChildren(make("h3", { className: "feature-name", textContent: titled(feature), data: { title: feature } }), steering(feature), about);
  invite(feature, about);
};

// --- its page ---------------------------------------------------------------------------------------

const invite = (feature, about, note = "") => {
  about.replaceChildren(note && make("p", { className: "lead", textContent: note }),
    make("p", { className: "acts" }, button("What is it active on? · reads texts the first time", () => page(feature, about), { className: "act go" })));
};

const page = async (feature, about) => {
  stopPage?.();
  const line = make("span", { className: "lead", textContent: "starting" }), meter = make("progress", { max: 1, aria: { label: "Progress" } });
  try {
    const begun = await start("feature", { model: state.model, feature });
    about.replaceChildren(make("div", { className: "job" }, meter, line, button("Cancel", () => cancel(begun.id).catch(() => {}))));
    stopPage = follow(begun.id, (update) => {
      line.textContent = update.total ? `${update.label}: ${update.done.toLocaleString("en")} of ${update.total.toLocaleString("en")}` : update.label;
      if (update.total) meter.value = update.done / update.total; else meter.removeAttribute("value");
      if (update.state === "done" && update.result) {
        const drawn = parts(update.result.html);
        for (const link of drawn.querySelectorAll('a[href^="#feature-"]')) link.addEventListener("click", (event) => { event.preventDefault(); choose(Number(link.hash.slice(9))); });
        if (update.result.name) named(feature, update.result.name);
        about.replaceChildren(make("p", { className: "lead", textContent: update.result.about }), drawn);
      } else if (ENDED.includes(update.state)) invite(feature, about, update.error || "Cancelled.");
    });
  } catch (error) { invite(feature, about, error.message); }
};

// --- steering ---------------------------------------------------------------------------------------

const steering = (feature) => {
  const slider = make("input", { type: "range", min: 0, max: MOST, step: 0.25, value: state.strength, id: "strength" });
  const note = make("div", { className: "limit", aria: { live: "polite" } });
  const value = make("output", { htmlFor: "strength" }), sides = make("div", { className: "sides next" }), texts = make("div", { className: "sides written" });
  const write = button("Write 40 tokens, unsteered and steered", () => written(feature, texts, write), { className: "act go" });
  const update = () => { value.textContent = `${state.strength} × its maximum`; slider.setAttribute("aria-valuetext", value.textContent); };
  const next = async () => {
    if (!hasInput()) { sides.replaceChildren(make("p", { className: "lead", textContent: "Type a text first." })); return; }
    try {
      const found = await quick("next", "/api/next", { ...said(), feature, strength: state.strength });
      if (!found) return;
      const side = (name, list) => make("div", {}, make("h4", { className: "name", textContent: name }), bars(list));
      sides.replaceChildren(side("Unsteered: the next token", found.base), side(`Steered at ${state.strength} ×`, found.steered));
    } catch (error) { sides.replaceChildren(make("p", { className: "problem", textContent: error.message })); }
  };
  slider.addEventListener("input", () => { state.strength = Number(slider.value); update(); keep(); next(); });
  update();
  next();
  slider.disabled = write.disabled = hasInput();
  if (hasInput()) limit(feature, note, (most) => {
    slider.max = most;
    slider.disabled = most === 0;
    write.disabled = false;
    if (state.strength > most) { state.strength = most; update(); keep(); next(); }
  });
  const repeat = make("details", { className: "more" }, make("summary", { textContent: "The same as a command" }));
  repeat.addEventListener("toggle", () => { if (repeat.open) repeat.replaceChildren(repeat.firstChild, commands(feature)); });
  return make("div", { className: "steer" }, make("p", { className: "slide" }, make("label", { htmlFor: "strength", textContent: "Set it to" }), slider, value), note, sides, make("p", { className: "acts" }, write), texts, repeat);
};

// The slider stops where the text breaks, which is measured by writing at growing strength.
const limit = async (feature, note, set) => {
  stopLimit?.();
  const measure = button("Measure again", () => limit(feature, note, set), { className: "link" });
  try {
    const begun = await start("limit", { ...said(), feature });
    const words = make("span", { className: "lead", textContent: "Measuring where the text breaks" });
    note.replaceChildren(make("div", { className: "job" }, words, button("Cancel", () => cancel(begun.id).catch(() => {}))));
    stopLimit = follow(begun.id, (update) => {
      if (update.label) words.textContent = `Measuring where the text breaks: ${update.label}`;
      if (update.state === "done" && update.result) { set(update.result.limit); note.replaceChildren(make("p", { className: "lead", textContent: update.result.note })); }
      else if (ENDED.includes(update.state)) set(MOST);
      if (ENDED.includes(update.state) && !update.result) note.replaceChildren(make("p", { className: "lead" }, update.error || "Not measured: the text may break at high strengths. ", update.error ? "" : measure));
    });
  } catch (error) { set(MOST); note.replaceChildren(make("p", { className: "lead", textContent: error.message })); }
};

const commands = (feature) => {
  const box = make("div");
  if (!state.turns) box.append(code("Command line", shell("heedful", "steer", state.text, "--model", state.model, "--feature", `${feature}=${state.strength}x`)));
  box.append(code("Python", `import heedful\n\nmodel = heedful.load(${JSON.stringify(state.model)})\nsae = heedful.SAE.load(${JSON.stringify(state.model)})\nwith heedful.steer(model, sae, {${feature}: "${state.strength}x"}):\n    print(model.generate(${given()}))`));
  return parts(box.innerHTML);
};

const written = async (feature, texts, write) => {
  stopSteer?.();
  const { strength } = state;
  try {
    const begun = await start("steer", { ...said(), feature, strength, tokens: 40 });
    texts.replaceChildren(make("div", { className: "job" }, make("progress", { aria: { label: "Progress" } }), make("span", { className: "lead", textContent: "writing" }), button("Cancel", () => cancel(begun.id).catch(() => {}))));
    stopSteer = follow(begun.id, ({ state: how, result, error }) => {
      if (how === "done" && result) {
        const side = (name, found) => make("div", {}, make("h4", { className: "name", textContent: name }), make("p", { className: "said", dir: "auto" }, make("span", { className: "prompt", textContent: result.prompt }), found.text),
          make("p", { className: "explained", textContent: `Perplexity by the unsteered model: ${found.perplexity?.toFixed(1) ?? "–"}. Repeated: ${Math.round(100 * found.repetition)} %.` }));
        const others = Object.entries(result.beside || {}).map(([name, found]) => side(`${name[0].toUpperCase()}${name.slice(1)} of the same size`, found));
        const notes = (result.notes || []).map((note) => make("p", { className: "lead note", textContent: note }));
        texts.replaceChildren(side("Unsteered", result.before), side(`Steered at ${strength} ×`, result.after), ...others, ...notes, result.same ? make("p", { className: "lead", textContent: "Steering changed no token." }) : "");
        write.focus({ preventScroll: true });
      } else if (ENDED.includes(how)) texts.replaceChildren(make("p", { className: how === "failed" ? "problem" : "lead", textContent: error || "Cancelled." }));
    });
  } catch (error) { texts.replaceChildren(make("p", { className: "problem", textContent: error.message })); }
};
