// Elements, and HTML of the server put in place. That HTML is made by the report's own code, which escapes every
// string; should one slip through, the page's policy lets no script of it run.
import { charts, reading } from "/static/shared.js";

export const $ = (id) => document.getElementById(id);

export const make = (tag, options = {}, ...children) => {
  const { data, aria, role, on, ...rest } = options;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(data || {})) element.dataset[name] = value;
  for (const [name, value] of Object.entries(aria || {})) element.setAttribute(`aria-${name}`, value);
  if (role) element.setAttribute("role", role);
  for (const [name, act] of Object.entries(on || {})) element.addEventListener(name, act);
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

export const button = (text, act, options = {}) =>
  make("button", { type: "button", className: "act", textContent: text, ...options, on: { click: act } });

// While a button is pressed nothing may be drawn anew: it would be gone before it is let go, and the click lost.
let pressed = false;
const waiting = [];
const letGo = () => setTimeout(() => {  // the click itself comes first
  pressed = false;
  for (const go of waiting.splice(0)) go();
});
addEventListener("pointerdown", ({ target }) => { pressed = Boolean(target.closest?.("button, a, label, select, summary")); }, true);
for (const name of ["pointerup", "pointercancel", "dragend"]) addEventListener(name, letGo, true);
addEventListener("blur", ({ target }) => { if (target === window) letGo(); });
export const buttonReleased = () => (pressed ? new Promise((go) => { waiting.push(go); setTimeout(go, 2000); }) : Promise.resolve());

// Parts of the report: with hovering, sorting and copying.
export const parts = (html) => {
  const box = make("div", { className: "parts" });
  box.innerHTML = html;
  reading(box);
  charts(box);
  return box;
};

export const heading = (title, lead, level = 2) => [
  make(`h${level}`, { className: "title", textContent: title }),
  lead && make("p", { className: "lead", textContent: lead }),
];

export const say = (text) => { $("status").textContent = text; };

export const duration = (seconds) => {
  if (seconds < 0.1) return "at once";
  if (seconds < 1) return "under a second";
  if (seconds < 100) return `about ${seconds < 10 ? seconds.toFixed(seconds < 3 ? 1 : 0) : Math.round(seconds)} s`;
  return `about ${Math.round(seconds / 60)} min`;
};

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

export const signed = (value, digits = 2) => {
  const shown = Math.abs(value).toFixed(digits);
  return Number(shown) === 0 ? shown : `${value > 0 ? "+" : "−"}${shown}`;
};

// A prediction as bars: the first is the answer.
export const bars = (found, options = {}) => make("ul", { className: "bars", ...options }, ...found.map(({ label, shown, share }, index) => {
  const bar = make("i", { className: "fill" });
  bar.style.inlineSize = `${100 * (share ?? 0)}%`;
  return make("li", { className: index ? "" : "first" }, make("bdi", { textContent: label }), make("span", { className: "track", aria: { hidden: "true" } }, bar), make("b", { textContent: shown }));
}));

export const code = (name, text) => make("div", { className: "code" }, make("p", { className: "bar", textContent: name }), make("pre", { dir: "ltr", textContent: text }));

const SAFE = /^[A-Za-z0-9_@%+=:,./-]+$/;
export const shell = (...words) => words.map((word) => (SAFE.test(word) ? word : `'${String(word).replaceAll("'", `'"'"'`)}'`)).join(" ");

export const copy = async (text, from) => {
  const before = from.textContent;
  try {
    await navigator.clipboard.writeText(text);
    from.textContent = "Copied";
    say("Copied");
  } catch {
    from.textContent = "Not allowed here";
  }
  setTimeout(() => { from.textContent = before; }, 1600);
};
