// Charts: what is under the pointer (or the arrow keys) told at once, and the chart as a file. Without this the
// browser's own titles tell the same, more slowly.
const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor"];

const charts = (root) => {
  for (const svg of root.querySelectorAll("svg.plot")) chart(svg);
};

const chart = (svg) => {
  const title = svg.querySelector(":scope > title");
  const name = title ? title.textContent : "chart";
  const box = Object.assign(document.createElement("div"), { className: "chart" });
  const tip = Object.assign(document.createElement("output"), { className: "tip", hidden: true });
  svg.replaceWith(box);
  box.append(svg, tip);
  const told = [...svg.querySelectorAll("title")].filter((each) => each !== title).map((each) => {
    const mark = each.parentNode;
    mark.dataset.tip = each.textContent;  // or the browser shows its own on top of ours
    each.remove();
    return mark;
  });
  if (told.length) hovering(box, svg, tip, told, name);
  exporting(box, svg, name);
};

const hovering = (box, svg, tip, told, name) => {
  let at = -1;
  const show = (mark) => {
    told.forEach((each) => each.classList.toggle("lit", each === mark));
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const here = mark.getBoundingClientRect(), all = box.getBoundingClientRect();
    const left = here.left + here.width / 2 - all.left - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(0, Math.min(left, all.width - tip.offsetWidth))}px`;
    tip.style.top = `${here.top - all.top - tip.offsetHeight - 6}px`;
  };
  const nearest = (x, y) => {
    let best = null, least = 24;  // pixels
    for (const mark of told) {
      const { left, right, top, bottom } = mark.getBoundingClientRect();
      const far = Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
      if (far < least) [best, least] = [mark, far];
    }
    return best;
  };
  svg.addEventListener("pointermove", (event) => show(nearest(event.clientX, event.clientY)));
  svg.addEventListener("pointerleave", () => show(null));
  svg.tabIndex = 0;
  svg.setAttribute("aria-label", `${name}; arrow keys tell each of ${told.length} marks`);
  svg.addEventListener("blur", () => { at = -1; show(null); });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") show(null);
    if (!step) return;
    event.preventDefault();
    at = (at + step + told.length) % told.length;
    show(told[at]);
  });
};

const exporting = (box, svg, name) => {
  const file = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "chart";
  const bar = Object.assign(document.createElement("p"), { className: "acts keep" });
  for (const [kind, save] of [["SVG", () => keep(`${file}.svg`, new Blob([alone(svg)], { type: "image/svg+xml" }))],
    ["PNG", () => painted(svg, (blob) => keep(`${file}.png`, blob))]]) {
    const button = act(kind);
    button.setAttribute("aria-label", `Save as ${kind}: ${name}`);
    button.addEventListener("click", save);
    bar.append(button);
  }
  box.append(bar);
};

const alone = (svg) => {  // a file of its own: colours as the page shows them, on the page's paper
  const copy = svg.cloneNode(true);
  const here = [svg, ...svg.querySelectorAll("*")], there = [copy, ...copy.querySelectorAll("*")];
  here.forEach((element, index) => {
    const found = getComputedStyle(element);
    for (const rule of PAINT) there[index].setAttribute(rule, found.getPropertyValue(rule));
    there[index].removeAttribute("class");
    if (element.dataset.tip) {
      const title = document.createElementNS(svg.namespaceURI, "title");
      title.textContent = element.dataset.tip;
      there[index].append(title);
      there[index].removeAttribute("data-tip");
    }
  });
  const { x, y, width, height } = svg.viewBox.baseVal;
  for (const [key, value] of Object.entries({ width, height })) copy.setAttribute(key, value);
  for (const gone of ["tabindex", "aria-label"]) copy.removeAttribute(gone);
  const paper = document.createElementNS(svg.namespaceURI, "rect");
  for (const [key, value] of Object.entries({ x, y, width, height, fill: background(svg) })) paper.setAttribute(key, value);
  copy.insertBefore(paper, copy.firstChild);
  return new XMLSerializer().serializeToString(copy);
};

const background = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const found = getComputedStyle(at).backgroundColor;
    if (found && found !== "transparent" && !/^rgba\(.*, 0\)$/.test(found)) return found;
  }
  return "white";
};

const painted = (svg, done) => {
  const { width, height } = svg.viewBox.baseVal;
  const image = new Image();
  image.onload = () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    canvas.toBlob(done, "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(alone(svg))}`;
};
