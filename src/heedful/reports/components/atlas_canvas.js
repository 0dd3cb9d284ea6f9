// What both drawings share: work in slices that leave the page free, colours of the theme, a pane that scrolls
// over a sticky canvas of the size of the window, and a pen that writes to a canvas or to SVG.
const SLICE = 8;  // milliseconds of drawing before the page gets its turn

const make = (tag, options = {}, ...children) => {
  const { data, aria, role, ...rest } = options;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(data || {})) element.dataset[name] = value;
  for (const [name, value] of Object.entries(aria || {})) element.setAttribute(`aria-${name}`, value);
  if (role) element.setAttribute("role", role);
  element.append(...children);
  return element;
};

// Runs a generator a slice a frame. A new one ends the old, whose waiters then wait for the new.
const slicer = () => {
  let turn = 0, waiting = [];
  return (work, done = () => {}) => {
    const mine = ++turn;
    waiting.push(done);
    const step = () => {
      if (mine !== turn) return;
      const end = performance.now() + SLICE;
      let finished = false;
      while (!finished && performance.now() < end) finished = work.next().done;
      if (finished) waiting.splice(0).forEach((told) => told()); else requestAnimationFrame(step);
    };
    step();
  };
};

const once = (draw) => {  // many calls, one drawing a frame
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  };
};

const mixed = (from, to, share) => from.map((value, i) => Math.round(value + (to[i] - value) * share));
const theme = (root) => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const styles = getComputedStyle(root);
  const rgb = (name) => {  // light-dark() is resolved by a real property only
    const swatch = root.appendChild(make("i", { hidden: true }));
    swatch.style.color = `var(${name})`;
    probe.fillStyle = getComputedStyle(swatch).color;
    swatch.remove();
    probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const [ink, soft, paper, card, line] = ["--ink", "--soft", "--paper", "--card", "--line"].map(rgb);
  const dark = paper[0] < 128;
  const stops = dark ? [paper, [31, 78, 128], [90, 160, 224], [240, 248, 255]] : [paper, [158, 200, 238], [43, 116, 190], [8, 36, 84]];
  const ramp = Array.from({ length: 256 }, (_, i) => {
    const place = i / 255 * 3, stop = Math.min(2, Math.floor(place));
    return mixed(stops[stop], stops[stop + 1], place - stop);
  });
  return { ink, soft, paper, card, line, dark, ramp, font: styles.fontFamily };
};
const css = (rgb, alpha = 1) => `rgb(${rgb.join(" ")} / ${alpha})`;

// Colours of heads: 12 hues told apart best, then the circle again. Heads are also named by number.
const HUES = [212, 28, 145, 330, 265, 50, 185, 0, 90, 300, 235, 165];
const headColour = (head, colours) => `hsl(${HUES[head % 12]} ${head % 24 < 12 ? 75 : 45}% ${colours.dark ? 68 : 40}%)`;

// A scrolled room larger than its window, with one canvas that always fills the window.
const pane = (label) => {
  const canvas = make("canvas");
  const room = make("div", { className: "room" }, canvas);
  const box = make("div", { className: "pane", tabIndex: 0, aria: { label } }, room);
  const fit = (width, height) => {  // of the room, in CSS pixels; gives the pen's context for the window
    room.style.width = `${Math.max(width, 1)}px`;
    room.style.height = `${Math.max(height, 1)}px`;
    const ratio = window.devicePixelRatio || 1;
    const w = box.clientWidth, h = box.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
      canvas.style.width = `${w}px`;
      canvas.style.height = `${h}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return { context, w, h, x: box.scrollLeft, y: box.scrollTop };
  };
  return { box, room, canvas, fit };
};

// One set of strokes, two materials.
const canvasPen = (context, font) => ({
  link(x1, y1, x2, y2, colour, alpha, width) {
    const middle = (x1 + x2) / 2;
    context.strokeStyle = colour;
    context.globalAlpha = alpha;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(middle, y1, middle, y2, x2, y2);
    context.stroke();
    context.globalAlpha = 1;
  },
  box(x, y, w, h, colour) { context.fillStyle = colour; context.fillRect(x, y, w, h); },
  text(x, y, text, colour, { size = 13, align = "start", turn = 0, weight = 400 } = {}) {
    context.save();
    context.translate(x, y);
    context.rotate(turn * Math.PI / 180);
    context.font = `${weight} ${size}px ${font}`;
    context.fillStyle = colour;
    context.textAlign = align === "end" ? "right" : align === "middle" ? "center" : "left";
    context.textBaseline = "middle";
    context.fillText(text, 0, 0);
    context.restore();
  },
  image(picture, x, y, w, h) {
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, x, y, w, h);
  },
});

const escaped = (text) => String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
  .replace(/[&<>"']/g, (sign) => `&#${sign.codePointAt(0)};`);
const svgPen = (width, height, paper, font) => {
  const out = [];
  const n = (value) => String(Math.round(value * 100) / 100);
  return {
    link(x1, y1, x2, y2, colour, alpha, w) {
      const m = n((x1 + x2) / 2);
      out.push(`<path d="M${n(x1)} ${n(y1)}C${m} ${n(y1)} ${m} ${n(y2)} ${n(x2)} ${n(y2)}" fill="none" stroke="${escaped(colour)}" stroke-opacity="${n(alpha)}" stroke-width="${n(w)}"/>`);
    },
    box(x, y, w, h, colour) { out.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" fill="${escaped(colour)}"/>`); },
    text(x, y, text, colour, { size = 13, align = "start", turn = 0, weight = 400 } = {}) {
      const place = turn ? ` transform="translate(${n(x)} ${n(y)}) rotate(${turn})"` : ` x="${n(x)}" y="${n(y)}"`;
      out.push(`<text${place} fill="${escaped(colour)}" font-size="${size}" font-weight="${weight}" text-anchor="${align}" dominant-baseline="central">${escaped(text)}</text>`);
    },
    image(picture, x, y, w, h) {
      out.push(`<image x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" preserveAspectRatio="none" image-rendering="pixelated" href="${picture.toDataURL("image/png")}"/>`);
    },
    finish: () => `<svg xmlns="http://www.w3.org/2000/svg" width="${n(width)}" height="${n(height)}" viewBox="0 0 ${n(width)} ${n(height)}" font-family="${escaped(font)}"><rect width="100%" height="100%" fill="${escaped(paper)}"/>${out.join("\n")}</svg>\n`,
  };
};

const shown = (weight) => (weight >= 0.0995 ? weight.toFixed(2) : weight >= 0.00095 ? weight.toFixed(3) : weight > 0 ? "< 0.001" : "0");
const quoted = (text) => `“${text.trim() || "␣"}”`;
