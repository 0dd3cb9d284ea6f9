// Try it on a picture: brush over a region with a pointer or the keyboard, and compare what the methods claimed about it
// with what the model did when it was removed.
import { $, bars, button, heading, make, say, signed } from "./dom.js";
import { drop, quick } from "./net.js";
import { keep, question, state } from "./state.js";
import { model } from "./app.js";
import { shade, shading } from "./methods.js";
import { compared } from "./compared.js";

const SMALL = 128;  // pixels of a side below which a picture is drawn in squares
const PAUSE = 250;  // milliseconds after the last cell
const NAMES = { mean: "mean colour", blur: "blurred", noise: "random colours", inpaint: "filled in from around", pad: "hidden from attention" };
const LEAD = "Brush over a part of the picture. With the keyboard: arrow keys move, Space marks a cell, Shift with an arrow key marks on the way, Escape clears. The model then reads the picture without this part.";
let live = null, found = null, at = 0, painting = null, pause = 0, asked = "";
const board = make("div", { className: "board" }), tools = make("div", { className: "tools" }), outcome = make("div", { className: "outcome", aria: { live: "polite" } });
const chosen = new Set();

export const clear = () => { live = found = null; clearTimeout(pause); drop("brush"); chosen.clear(); };

export const show = (given) => {
  const same = JSON.stringify(live?.picture) === JSON.stringify(given.picture);
  live = given;
  chosen.clear();
  for (const cell of state.cells) if (cell < count()) chosen.add(cell);
  if (!same) at = Math.min(at, count() - 1);
  $("try").replaceChildren(...heading("Try it", LEAD), make("div", { className: "brush" }, make("div", {}, board, tools), outcome));
  draw();
  ask();
};

const columns = () => live.picture.columns.length - 1;
const rows = () => live.picture.rows.length - 1;
const count = () => rows() * columns();
const nameOf = (cell) => `row ${Math.floor(cell / columns()) + 1}, column ${cell % columns() + 1}`;

// --- the picture and its cells ----------------------------------------------------------------------

const tiles = () => [...document.querySelectorAll("#methods .map")].filter((tile) => tile.querySelector("svg.picture"));
const nameOfTile = (tile) => tile.querySelector(".name").firstChild.textContent.replace("(control)", "").trim();
const PLAIN = "the picture";
const names = () => tiles().map(nameOfTile);
const by = () => (names().includes(shading()) ? shading() : names().find((name) => name !== PLAIN) ?? "");

// The drawing of a tile with definitions of its own: those of a hidden panel are not drawn by browsers.
const mapOf = () => {
  const tile = tiles().find((one) => nameOfTile(one) === by());
  if (!tile) return [];
  const own = (html) => html.replaceAll(/\bh[0-9a-f]{8}-p/g, "brush-p");
  const box = make("div");
  box.innerHTML = own([...document.querySelectorAll("#methods svg.unseen")].map(({ outerHTML }) => outerHTML).join("") + tile.querySelector("svg.picture").outerHTML);
  const map = box.querySelector("svg.picture");
  map.removeAttribute("role");
  map.setAttribute("aria-hidden", "true");
  return [...box.children];
};

// Drawn by the methods' own drawing; the cells lie over it.
export const claims = () => { if (live) { draw(); ask(); } };

const sizes = (edges) => edges.slice(1).map((end, index) => `${end - edges[index]}fr`).join(" ");

const draw = () => {
  if (!live || painting) return;
  const focused = board.contains(document.activeElement);
  const grid = make("div", { className: "cells", role: "grid", aria: { label: "Cells of the picture", multiselectable: "true" }, on: { keydown: keys, pointerdown: begin, pointermove: go } });
  grid.style.gridTemplateRows = sizes(live.picture.rows);
  for (let row = 0; row < rows(); row += 1) {
    const line = make("div", { role: "row" });
    line.style.gridTemplateColumns = sizes(live.picture.columns);
    for (let column = 0; column < columns(); column += 1) {
      const cell = row * columns() + column;
      line.append(make("div", { role: "gridcell", tabIndex: cell === at ? 0 : -1, data: { cell }, aria: { label: nameOf(cell), selected: String(chosen.has(cell)) } }));
    }
    grid.append(line);
  }
  const [high, wide] = [live.picture.rows.at(-1), live.picture.columns.at(-1)];
  board.style.aspectRatio = `${wide} / ${high}`;
  board.replaceChildren(...mapOf(), grid);
  controls();
  if (focused) cellAt(at)?.focus();
};

const cellAt = (cell) => board.querySelector(`[data-cell="${cell}"]`);

const paint = (cell, on) => {
  if (chosen.has(cell) === on) return;
  if (on) chosen.add(cell); else chosen.delete(cell);
  cellAt(cell)?.setAttribute("aria-selected", String(on));
  state.cells = [...chosen].sort((a, b) => a - b);
  controls();
  clearTimeout(pause);
  pause = setTimeout(ask, PAUSE);
};

// The first cell says whether the stroke marks or clears.
const under = (event) => {
  const box = board.getBoundingClientRect(), place = (edges, share) => edges.findIndex((edge, index) => share * edges.at(-1) < edges[index + 1]);
  const along = place(live.picture.columns, (event.clientX - box.left) / box.width), down = place(live.picture.rows, (event.clientY - box.top) / box.height);
  const inside = event.clientX >= box.left && event.clientY >= box.top && along >= 0 && down >= 0;
  return inside ? down * columns() + along : -1;
};

const begin = (event) => {
  const cell = under(event);
  if (cell < 0 || event.button) return;
  event.preventDefault();
  event.currentTarget.setPointerCapture?.(event.pointerId);
  painting = { on: !chosen.has(cell) };
  move(cell);
  paint(cell, painting.on);
};
const go = (event) => {
  const cell = painting ? under(event) : -1;
  if (cell >= 0) paint(cell, painting.on);
};
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { painting = null; });

const move = (cell) => {
  cellAt(at)?.setAttribute("tabindex", "-1");
  at = cell;
  cellAt(at).setAttribute("tabindex", "0");
  cellAt(at).focus();
};

const keys = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const row = Math.floor(at / columns()), column = at % columns();
  const to = {
    ArrowRight: [row, Math.min(columns() - 1, column + 1)], ArrowLeft: [row, Math.max(0, column - 1)],
    ArrowDown: [Math.min(rows() - 1, row + 1), column], ArrowUp: [Math.max(0, row - 1), column], Home: [row, 0], End: [row, columns() - 1],
  }[event.key];
  if (to) {
    event.preventDefault();
    if (event.shiftKey) paint(at, true);
    move(to[0] * columns() + to[1]);
    if (event.shiftKey) paint(at, true);
  } else if (event.key === " " || event.key === "Enter") {
    event.preventDefault();
    paint(at, !chosen.has(at));
  } else if (event.key === "Escape") { event.preventDefault(); empty(); }
};

const empty = () => { for (const cell of [...chosen]) paint(cell, false); };

const picker = (label, options, value, change) => {
  const select = make("select", { on: { change: () => change(select.value) } });
  for (const [name, text] of options) select.append(make("option", { value: name, textContent: text, selected: name === value }));
  return make("label", { className: "field" }, make("span", { textContent: label }), select);
};

const controls = () => {
  const usual = model().operators, operator = state.operator || found?.operators?.[0] || usual[0];
  const key = JSON.stringify([names(), by(), operator, chosen.size > 0, usual]);
  if (tools.dataset.key === key || tools.contains(document.activeElement) && document.activeElement.tagName === "SELECT") return;
  tools.dataset.key = key;
  tools.replaceChildren(
    picker("Map of", names().map((name) => [name, name]), by(), (name) => { state.shade = name; keep(); shade(); tools.dataset.key = ""; document.activeElement.blur(); draw(); }),
    picker("Removed part", usual.map((name) => [name, NAMES[name] ?? name]), operator, (name) => { state.operator = name; ask(); }),
    button("Clear", empty, { disabled: !chosen.size }));
};

// --- what came of it --------------------------------------------------------------------------------

const ask = async () => {
  clearTimeout(pause);
  keep();
  if (!live) return;
  if (!state.cells.length) {  // the marks of another picture are gone before its cells are drawn
    drop("brush");
    found = null;
    asked = "";
    result();
    return;
  }
  const request = { ...question(), cells: state.cells, methods: state.methods, ...(state.operator ? { operator: state.operator } : {}) };
  const key = JSON.stringify([request, names()]);
  if (key === asked) return;
  asked = key;
  board.classList.add("asking");
  try {
    const given = await quick("brush", "/api/brush", request);
    if (!given) return;
    found = given;
    say(sentence());
  } catch (error) { found = { error: error.message }; asked = ""; }
  board.classList.remove("asking");
  controls();
  result();
};

const number = () => live.explained.replace(/, which is.*/, "");
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const spread = (values) => `${signed(Math.min(...values))} to ${signed(Math.max(...values))}`;

const sentence = () => {
  const actual = found.after - found.before, places = found.elsewhere;
  const did = Number(Math.abs(actual).toFixed(2)) === 0 ? `hardly changes ${number()} (${signed(actual, 4)})` : `${actual < 0 ? "lowers" : "raises"} ${number()} by ${Math.abs(actual).toFixed(2)}`;
  if (!places.length) return `Removing this region ${did}.`;
  const larger = places.filter((value) => Math.abs(value) >= Math.abs(actual)).length;
  return `Removing this region ${did}. The same shape at ${places.length} other places: ${signed(mean(places))} on average, ${spread(places)}; ${larger} of ${places.length} change it at least as much.`;
};

const result = () => {
  if (!found || found.error) {
    outcome.replaceChildren(make("p", { className: found ? "problem" : "lead", textContent: found?.error || "No cell is marked yet." }));
    return;
  }
  const places = found.elsewhere, order = names();
  const control = places.length ? { name: "elsewhere", value: mean(places), note: `control: ${spread(places)}` } : null;
  const seen = found.picture && make("img", { className: Math.max(live.picture.rows.at(-1), live.picture.columns.at(-1)) < SMALL ? "removed pixelated" : "removed", src: `data:image/png;base64,${found.picture}`, alt: "The picture without the region, as the model reads it" });
  const now = make("div", { className: "now" }, seen, make("div", {}, make("h3", { className: "name", textContent: "Without the region" }), found.prediction.length ? bars(found.prediction) : ""));
  outcome.replaceChildren(make("p", { className: "answer", textContent: sentence() }), now, compared(found, number(), (method) => order.indexOf(method), control));
};
