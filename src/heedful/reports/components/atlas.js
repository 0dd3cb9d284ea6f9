// The page of an atlas: tabs, choices, saving. Everything else of the page is readable without this. Its root,
// its data and its address come from atlas_own.js, or from whoever shows an atlas among other things.
const grids = root.querySelector(".grids");
const STACKS = { self: "self-attention", decoder: "decoder self-attention", cross: "cross-attention" };
for (const level of data.levels) {
  for (const stack of level.stacks) {
    stack.id = `${level.unit}/${stack.stack}`;
    const flags = (side) => ({ labels: side.labels, special: side.labels.map((_, i) => side.special.includes(i)) });
    stack.queries = flags(stack.queries);
    stack.keys = stack.keys ? flags(stack.keys) : stack.queries;
  }
}

const asked = new URLSearchParams(address.read());
const state = { title: data.title, view: "links", level: data.levels[0], stack: data.levels[0].stacks[0], layer: 0, head: 0, heads: new Set(), dim: false, colours: theme(root) };
const allHeads = () => Array.from({ length: state.stack.shape[1] }, (_, i) => i);
const place = () => state.layer * state.stack.shape[1] + state.head;

const legend = make("p", { className: "scale" });
const tell = (...parts) => legend.replaceChildren(...parts);
const about = make("p", { className: "about" });
const views = { links: linksView(state, tell), grid: { element: grids, show: async (done) => done(), draw: () => {} }, matrix: matrixView(state, tell) };
const NAMES = { links: "Head view", grid: "All heads", matrix: "Matrix" };

// Tabs
const tabs = make("div", { className: "view-tabs", role: "tablist", aria: { label: "Views" } });
const panels = make("div", { className: "panels" });
for (const [name, label] of Object.entries(NAMES)) {
  const tab = make("button", { type: "button", className: "tab", id: `tab-${name}`, textContent: label, role: "tab", aria: { controls: `panel-${name}` }, data: { view: name } });
  tab.addEventListener("click", () => open({ view: name }));
  tabs.append(tab);
}
tabs.addEventListener("keydown", (event) => {
  const names = Object.keys(NAMES), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const next = step ? names[(names.indexOf(state.view) + step + names.length) % names.length] : { Home: names[0], End: names.at(-1) }[event.key];
  if (!next) return;
  event.preventDefault();
  open({ view: next });
  document.getElementById(`tab-${next}`).focus();
});

// Choices
const field = (label, control) => make("label", { className: "field" }, make("span", { textContent: label }), control);
const picker = (options, chosen, change) => {
  const select = make("select");
  for (const [value, text] of options) select.append(make("option", { value, textContent: text, selected: value === chosen }));
  select.addEventListener("change", () => change(select.value));
  return select;
};
const numbered = (count, text) => Array.from({ length: count }, (_, i) => [String(i), text(i)]);
const controls = make("div", { className: "controls" });
const action = (text, act, title = "") => {
  const button = make("button", { type: "button", className: "act", textContent: text, title });
  button.addEventListener("click", act);
  return button;
};
const chip = (head) => {
  const on = state.heads.has(head);
  const swatch = make("i", { className: "swatch" });
  swatch.style.background = headColour(head, state.colours);
  const button = make("button", { type: "button", className: "chip", aria: { pressed: String(on), label: `head ${head}, ${kindOf(state.layer, head)}` }, title: `${kindOf(state.layer, head)}; double-click: only this one` }, swatch, String(head));
  button.addEventListener("click", (event) => {  // the first click makes this button anew: no dblclick would come
    if (event.detail >= 2) state.heads = new Set([head]);
    else if (state.heads.has(head)) state.heads.delete(head);
    else state.heads.add(head);
    open({});
  });
  return button;
};
const kindOf = (layer, head) => (data.kinds[state.stack.stack] || [])[layer * state.stack.shape[1] + head] || "";
const chips = () => {
  const all = state.heads.size === state.stack.shape[1];
  return make("div", { className: "chips", role: "group", aria: { label: "Heads shown" } }, make("span", { className: "name", textContent: "Heads" }),
    ...allHeads().map(chip), action(all ? "None" : "All", () => open({ heads: new Set(all ? [] : allHeads()) })));
};
const fill = () => {
  const kept = document.activeElement && controls.contains(document.activeElement) ? [...controls.querySelectorAll("select,button,input")].indexOf(document.activeElement) : -1;
  const [layers, heads] = state.stack.shape, out = [];
  const stacks = state.level.stacks.map((stack) => [stack.stack, STACKS[stack.stack] || stack.stack]);
  if (stacks.length > 1) out.push(field("Attention", picker(stacks, state.stack.stack, (name) => open({ stack: state.level.stacks.find((stack) => stack.stack === name) }))));
  if (state.view !== "grid") {
    if (data.levels.length > 1) out.push(field("Between", picker(data.levels.map(({ unit }) => [unit, `${unit}s`]), state.level.unit, (unit) => open({ level: data.levels.find((level) => level.unit === unit) }))));
    out.push(field("Layer", picker(numbered(layers, String), String(state.layer), (value) => open({ layer: Number(value) }))));
    if (state.view === "matrix") {
      const name = (head) => [String(head), kindOf(state.layer, head)].filter(Boolean).join(" · ");
      out.push(field("Head", picker(numbered(heads, name), String(state.head), (value) => open({ head: Number(value) }))));
      const zooms = [["−", 1 / 1.4, "Zoom out"], ["+", 1.4, "Zoom in"], ["Fit", 0, "All of it"]];
      out.push(make("span", { className: "zooms" }, ...zooms.map(([text, factor, title]) => action(text, () => views.matrix.zoom(factor), title))));
    }
    if (state.stack.keys.special.some(Boolean) || state.stack.queries.special.some(Boolean)) {
      const dim = make("input", { type: "checkbox", checked: state.dim });
      dim.addEventListener("change", () => open({ dim: dim.checked }));
      out.push(make("label", { className: "check" }, dim, "Dim special tokens"));
    }
    if (state.view === "links") out.push(chips());
  }
  controls.replaceChildren(...out);
  if (kept >= 0) [...controls.querySelectorAll("select,button,input")][kept]?.focus();
};
const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);
const describe = () => {
  const { stack } = state, at = place(), heads = [...state.heads];
  const mean = (values) => heads.reduce((sum, head) => sum + values[state.layer * stack.shape[1] + head], 0) / (heads.length || 1);
  const mass = data.special[stack.stack], facts = [];
  if (state.view === "matrix") facts.push(`Layer ${state.layer}, head ${state.head}${kindOf(state.layer, state.head) ? `: ${kindOf(state.layer, state.head)}` : ""}`);
  if (state.view === "links") facts.push(`Layer ${state.layer}, ${heads.length === 1 ? `head ${heads[0]}: ${kindOf(state.layer, heads[0])}` : `${heads.length} of ${stack.shape[1]} heads`}`);
  const share = (values) => (state.view === "matrix" ? values[at] : mean(values));
  if (facts.length && mass && heads.length) facts.push(`${percent(share(mass))} of its mass on special tokens`);
  if (facts.length && !stack.dense) facts.push(`${percent(share(stack.left))} left out of this page`);
  about.textContent = facts.join(" · ");
  about.hidden = !facts.length;
};

// Saving: the current view as a file, made here.
const download = (name, blob) => {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const gridPicture = (penOf) => {
  const images = [...grids.querySelectorAll(".stack:not([hidden]) img")], [layers, heads] = state.stack.shape;
  const side = 72, step = side + 28, left = 60, pen = penOf(left + heads * step, 40 + layers * (step + 4));
  const { colours } = state;
  for (let h = 0; h < heads; h++) pen.text(left + h * step + side / 2, 20, `head ${h}`, css(colours.soft), { size: 12, align: "middle" });
  for (let l = 0; l < layers; l++) {
    pen.text(4, 40 + l * (step + 4) + side / 2, `layer ${l}`, css(colours.soft), { size: 12 });
    for (let h = 0; h < heads; h++) {
      const [x, y, image] = [left + h * step, 40 + l * (step + 4), images[l * heads + h]];
      const copy = make("canvas", { width: image.naturalWidth, height: image.naturalHeight });
      copy.getContext("2d").drawImage(image, 0, 0);
      pen.box(x - 1, y - 1, side + 2, side + 2, css(colours.line));
      pen.box(x, y, side, side, css(colours.paper));
      pen.image(copy, x, y, side, side);
      pen.text(x + side / 2, y + side + 12, kindOf(l, h), css(colours.ink), { size: 10, align: "middle" });
    }
  }
  return pen;
};
views.grid.save = async (penOf) => gridPicture(penOf);
const name = (ending) => ["attention", state.stack.stack, state.view, ...(state.view === "grid" ? [] : [`layer${state.layer}`]), ...(state.view === "matrix" ? [`head${state.head}`] : [])].join("-") + `.${ending}`;
const saved = {
  svg: async () => {
    const pen = await views[state.view].save((w, h) => svgPen(w, h, css(state.colours.paper), state.colours.font));
    return new Blob([pen.finish()], { type: "image/svg+xml" });
  },
  png: async () => {
    const canvas = make("canvas");
    await views[state.view].save((w, h) => {
      const scale = Math.min(2, 16000 / Math.max(w, h));
      canvas.width = Math.ceil(w * scale);
      canvas.height = Math.ceil(h * scale);
      const context = canvas.getContext("2d");
      context.scale(scale, scale);
      const pen = canvasPen(context, state.colours.font);
      pen.box(0, 0, w, h, css(state.colours.paper));
      return pen;
    });
    return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
  },
};
const saver = (ending) => action(`Save ${ending.toUpperCase()}`, async () => download(name(ending), await saved[ending]()), "The current view; long texts as seen");

// State
const open = (change, done = () => {}) => {
  if (!root.isConnected) return;  // another atlas has taken its place
  if (change.level && !change.stack) change.stack = change.level.stacks.find(({ stack }) => stack === state.stack.stack) || change.level.stacks[0];
  const before = state.stack;
  Object.assign(state, change);
  if (state.stack.stack !== before.stack || state.stack.shape[1] !== before.shape[1]) state.heads = new Set(allHeads());
  state.layer = Math.min(state.layer, state.stack.shape[0] - 1);
  state.head = Math.min(state.head, state.stack.shape[1] - 1);
  for (const tab of tabs.children) {
    const on = tab.dataset.view === state.view;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
    document.getElementById(`panel-${tab.dataset.view}`).hidden = !on;
  }
  for (const grid of grids.querySelectorAll(".stack")) grid.hidden = grid.dataset.stack !== state.stack.stack;
  fill();
  describe();
  if (state.view === "grid") tell("");
  const link = { view: state.view, stack: state.stack.stack, unit: state.level.unit, layer: state.layer, head: state.head };
  address.write(new URLSearchParams(link));
  views[state.view].show(done).catch((error) => tell(`The numbers of this page could not be opened: ${error.message || error}`));
};

const section = make("section", { className: "part views" },
  make("div", { className: "bar" }, tabs, make("span", { className: "saves" }, saver("png"), saver("svg"))), controls, about, panels, legend);
grids.before(section);
for (const [view, { element }] of Object.entries(views)) {
  panels.append(make("div", { id: `panel-${view}`, className: "panel", role: "tabpanel", aria: { labelledby: `tab-${view}` }, hidden: true }, element));
}
for (const shell of grids.querySelectorAll("td[data-head]")) {
  const button = make("button", { type: "button", className: "thumb", title: "Open in the matrix view" }, ...shell.childNodes);
  button.addEventListener("click", () => {
    open({ view: "matrix", layer: Number(shell.dataset.layer), head: Number(shell.dataset.head) });
    document.getElementById("tab-matrix").focus({ preventScroll: true });
    section.scrollIntoView({ block: "nearest" });
  });
  shell.append(button);
}
const first = { heads: new Set(allHeads()) };
const level = data.levels.find(({ unit }) => unit === asked.get("unit"));
if (level) first.level = level;
const stack = (level || state.level).stacks.find(({ stack }) => stack === asked.get("stack"));
if (stack) first.stack = stack;
if (asked.get("view") in views) first.view = asked.get("view");
for (const key of ["layer", "head"]) first[key] = Math.max(0, Math.trunc(Number(asked.get(key)) || 0));
if (first.stack) state.stack = first.stack;
first.heads = new Set(allHeads());
open(first, () => { root.dataset.drawn = performance.now().toFixed(1); });

new ResizeObserver(once(() => views[state.view].draw())).observe(panels);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { state.colours = theme(root); open({}); });
addEventListener("afterprint", () => open({}));
addEventListener("beforeprint", () => { for (const grid of grids.querySelectorAll(".stack")) grid.hidden = false; });
