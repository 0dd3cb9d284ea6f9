// The matrix view: one head as a heat map. Row: what looks. Column: what is looked at.
const ZOOMS = [0.25, 48];
const matrixView = (state, tell) => {
  const { box, canvas, fit } = pane("Heat map of one head. Arrow keys go from cell to cell, plus and minus zoom.");
  box.classList.add("matrix");
  box.setAttribute("role", "application");
  const readout = make("p", { className: "readout", aria: { live: "polite" } });
  const element = make("div", { className: "matrix-view" }, box, readout);
  const run = slicer(), runSave = slicer();
  let data = null, zoom = 0, cell = null, gutter = { left: 60, top: 60 }, largest = 1, stackOf = null;

  const size = () => state.stack.shape.slice(2);
  const short = (label) => (label.length > 16 ? `${label.slice(0, 15)}…` : label);
  const measure = () => {
    const context = canvas.getContext("2d");
    context.font = `13px ${state.colours.font}`;
    const longest = ({ labels }) => labels.reduce((most, label) => Math.max(most, context.measureText(short(label)).width), 16);
    const most = element.clientWidth * 0.3;
    gutter = { left: Math.max(78, Math.min(most, longest(state.stack.queries) + 16)), top: longest(state.stack.keys) * 0.87 + 16 };
  };
  const tallest = () => Math.max(260, Math.min(window.innerHeight * 0.78, 820));
  const fitted = () => {
    const [Q, K] = size();
    const room = [(element.clientWidth - gutter.left - 46) / K, (tallest() - gutter.top - 10) / Q];
    return Math.max(ZOOMS[0], Math.min(30, ...room));
  };
  const findLargest = () => {  // of what is not dimmed, so that the rest can be told apart
    const { special: from } = state.stack.queries, { special: to } = state.stack.keys;
    largest = 0;
    for (let q = 0; q < data.Q; q++) {
      if (state.dim && from[q]) continue;
      for (let i = data.start[q]; i < data.start[q + 1]; i++) {
        const k = data.columns ? data.columns[i] : i - data.start[q];
        if (!(state.dim && to[k])) largest = Math.max(largest, data.steps[i] * data.unit[q]);
      }
    }
  };
  // What is drawn for the weights of row q that were left out: their mean.
  const rest = (q) => {
    if (!data.rest[q]) return 0;
    let sum = 0;
    for (let i = data.start[q]; i < data.start[q + 1]; i++) sum += data.steps[i] * data.unit[q];
    const whole = data.rest[q] < 0.99 ? sum / (1 - data.rest[q]) : 1;
    const places = (state.stack.causal ? q + 1 : data.K) - (data.start[q + 1] - data.start[q]);
    return places > 0 ? whole * data.rest[q] / places : 0;
  };

  // The cells of a window as a picture: a pixel a cell, or the largest of several cells where they are smaller.
  function* raster(frame, ratio) {
    const [Q, K] = size();
    const scale = Math.min(1, zoom * ratio);
    const q0 = Math.max(0, Math.floor(frame.y / zoom)), k0 = Math.max(0, Math.floor(frame.x / zoom));
    const q1 = Math.min(Q, Math.ceil((frame.y + frame.h) / zoom) + 1), k1 = Math.min(K, Math.ceil((frame.x + frame.w) / zoom) + 1);
    const W = Math.max(1, Math.ceil((k1 - k0) * scale)), H = Math.max(1, Math.ceil((q1 - q0) * scale));
    const strength = new Float32Array(W * H).fill(-1);  // -1: may not be looked at
    for (let q = q0; q < q1; q++) {
      const line = Math.min(H - 1, Math.floor((q - q0) * scale)) * W;
      const allowed = Math.min(k1, state.stack.causal ? q + 1 : K);
      const mean = rest(q);
      const last = line + Math.min(W, Math.ceil((allowed - k0) * scale));
      for (let i = line; i < last; i++) if (strength[i] < mean) strength[i] = mean;
      const from = data.columns ? data.start[q] : data.start[q] + k0, to = data.columns ? data.start[q + 1] : data.start[q] + allowed;
      for (let i = from; i < to; i++) {
        const k = data.columns ? data.columns[i] : i - data.start[q];
        if (k < k0 || k >= k1) continue;
        const at = line + Math.min(W - 1, Math.floor((k - k0) * scale));
        const w = data.steps[i] * data.unit[q];
        if (strength[at] < w) strength[at] = w;
      }
      if (q % 8 === 7) yield;
    }
    const picture = make("canvas", { width: W, height: H });
    const context = picture.getContext("2d");
    const { ramp, card } = state.colours;
    for (let top = 0; top < H; top += 64) {
      const lines = Math.min(64, H - top);
      const pixels = context.createImageData(W, lines);
      for (let i = 0; i < W * lines; i++) {
        const w = strength[top * W + i];
        const rgb = w < 0 ? card : ramp[Math.min(255, Math.round(255 * Math.sqrt(w / (largest || 1))))];
        pixels.data[4 * i] = rgb[0]; pixels.data[4 * i + 1] = rgb[1]; pixels.data[4 * i + 2] = rgb[2]; pixels.data[4 * i + 3] = 255;
      }
      context.putImageData(pixels, 0, top);
      yield;
    }
    return { picture, q0, q1, k0, k1, x: k0 * zoom, y: q0 * zoom, w: W / scale * zoom, h: H / scale * zoom };
  }

  const paint = (pen, frame, cells) => {
    const { left, top } = gutter, { colours } = state;
    const X = (k) => left + k * zoom - frame.x, Y = (q) => top + q * zoom - frame.y;
    const right = Math.min(frame.w, X(size()[1])), bottom = Math.min(frame.h, Y(size()[0]));
    pen.image(cells.picture, left + cells.x - frame.x, top + cells.y - frame.y, cells.w, cells.h);
    if (zoom >= 9) {  // a seam between cells
      for (let q = cells.q0; q <= cells.q1; q++) pen.box(X(cells.k0), Y(q) - 0.5, right - X(cells.k0), 1, css(colours.paper, 0.7));
      for (let k = cells.k0; k <= cells.k1; k++) pen.box(X(k) - 0.5, Y(cells.q0), 1, bottom - Y(cells.q0), css(colours.paper, 0.7));
    }
    if (state.dim) {
      const veil = css(colours.paper, 0.75);
      for (let q = cells.q0; q < cells.q1; q++) if (state.stack.queries.special[q]) pen.box(left, Y(q), right - left, zoom, veil);
      for (let k = cells.k0; k < cells.k1; k++) if (state.stack.keys.special[k]) pen.box(X(k), top, zoom, bottom - top, veil);
    }
    if (zoom >= 34) numbers(pen, cells, X, Y);
    if (cell) {
      const edge = css(colours.ink, 0.8);
      for (const [x, y, w, h] of [[X(cell.k) - 1, Y(cell.q) - 1, zoom + 2, 2], [X(cell.k) - 1, Y(cell.q) + zoom - 1, zoom + 2, 2],
        [X(cell.k) - 1, Y(cell.q), 2, zoom], [X(cell.k) + zoom - 1, Y(cell.q), 2, zoom]]) pen.box(x, y, w, h, edge);
    }
    labels(pen, frame, X, Y);
  };
  const numbers = (pen, cells, X, Y) => {
    const { colours } = state;
    for (let q = cells.q0; q < cells.q1; q++) {
      for (let k = cells.k0; k < cells.k1; k++) {
        const w = weightAt(data, q, k);
        if (w < 0.005) continue;
        const [r, g, b] = colours.ramp[Math.min(255, Math.round(255 * Math.sqrt(w / largest)))];
        const bright = 0.3 * r + 0.59 * g + 0.11 * b > 130;
        pen.text(X(k + 0.5), Y(q + 0.5), w.toFixed(2), bright ? "#10151b" : "#ffffff", { size: 11, align: "middle" });
      }
    }
  };
  const labels = (pen, frame, X, Y) => {
    const { left, top } = gutter, { colours } = state;
    const every = Math.ceil(13 / zoom), every2 = Math.ceil(15 / zoom);
    const { queries, keys } = state.stack;
    pen.box(0, 0, left, frame.h, css(colours.paper));
    const text = (side, i, own, x, y, more) => {
      const ink = own ? colours.ink : side.special[i] ? mixed(colours.soft, colours.paper, 0.25) : colours.ink;
      pen.text(x, y, short(side.labels[i]), css(ink, own ? 1 : 0.9), { size: 13, weight: own ? 700 : 400, ...more });
    };
    const near = (i, own, step) => own !== null && Math.abs(i - own) < step && i !== own;  // room for the bold one
    for (let q = Math.floor(frame.y / zoom / every) * every; q < queries.labels.length && Y(q) < frame.h; q++) {
      const own = cell ? cell.q : null;
      if ((q % every === 0 && !near(q, own, every)) || q === own) text(queries, q, q === own, left - 8, Y(q + 0.5), { align: "end" });
    }
    pen.box(0, 0, frame.w, top, css(colours.paper));
    for (let k = Math.floor(frame.x / zoom / every2) * every2; k < keys.labels.length && X(k) < frame.w; k++) {
      const own = cell ? cell.k : null;
      if (X(k + 0.5) < left) continue;
      if ((k % every2 === 0 && !near(k, own, every2)) || k === own) text(keys, k, k === own, X(k + 0.5) + 2, top - 8, { turn: -60 });
    }
    pen.box(0, 0, left, top, css(colours.paper));
    pen.text(left - 8, top - 10, "from ↓  to →", css(colours.soft), { size: 11, align: "end" });
  };

  const ramp = () => make("span", { className: "ramp" }, ...Array.from({ length: 12 }, (_, i) => {
    const step = make("i");
    step.style.background = css(state.colours.ramp[Math.round(255 * i / 11)]);
    return step;
  }));
  const draw = (done = () => {}) => {
    if (!data || !element.isConnected || element.closest("[hidden]")) return;
    if (stackOf !== state.stack) { measure(); zoom = 0; stackOf = state.stack; cell = null; }
    zoom = zoom || fitted();
    const [Q, K] = size();
    const room = [gutter.left + K * zoom + 40, gutter.top + Q * zoom + 6];
    const wide = room[0] + 2 > element.clientWidth, tall = room[1] + 2 > tallest();  // a bar takes room, too
    box.style.height = `${Math.min(tallest(), room[1] + 2 + (wide ? 16 : 0))}px`;
    box.style.width = `${Math.min(element.clientWidth, room[0] + 2 + (tall ? 16 : 0))}px`;
    const frame = fit(...room);
    run((function* () {
      const cells = yield* raster(frame, window.devicePixelRatio || 1);
      frame.context.clearRect(0, 0, frame.w, frame.h);
      paint(canvasPen(frame.context, state.colours.font), frame, cells);
      tell("0", ramp(), `${shown(largest)} · colour is the square root of the weight`);
    })(), done);
  };
  const redraw = once(draw);

  const point = (next) => {
    if ((next && next.q) === (cell && cell.q) && (next && next.k) === (cell && cell.k)) return;
    cell = next;
    readout.textContent = cell ? said() : "";
    redraw();
  };
  const said = () => {
    const names = `from ${quoted(state.stack.queries.labels[cell.q])} to ${quoted(state.stack.keys.labels[cell.k])}`;
    if (state.stack.causal && cell.k > cell.q) return `${names}: it comes later and cannot be looked at`;
    const w = weightAt(data, cell.q, cell.k), half = data.unit[cell.q] / 2;  // what 8 bits cannot tell
    if (w < 0) return `${names}: left out, less than ${below(data, cell.q, state.stack.threshold).toPrecision(2)}`;
    return `${names}: ${w.toFixed(3)}${half >= 0.0005 ? ` ± ${half.toFixed(3)}` : ""}`;
  };
  const under = (event) => {
    const edge = box.getBoundingClientRect();
    const x = event.clientX - edge.left - gutter.left, y = event.clientY - edge.top - gutter.top;
    const k = Math.floor((x + box.scrollLeft) / zoom), q = Math.floor((y + box.scrollTop) / zoom);
    const [Q, K] = size();
    return x >= 0 && y >= 0 && q < Q && k < K ? { q, k } : null;
  };
  const zoomTo = (next, middle = [0.5, 0.5]) => {
    const before = zoom, seen = [box.clientWidth - gutter.left, box.clientHeight - gutter.top];
    zoom = Math.max(ZOOMS[0], Math.min(ZOOMS[1], next));
    const keep = [box.scrollLeft, box.scrollTop].map((at, i) => (at + seen[i] * middle[i]) * zoom / before - seen[i] * middle[i]);
    draw();
    [box.scrollLeft, box.scrollTop] = keep;
    redraw();
  };
  box.addEventListener("pointermove", (event) => point(under(event)));
  box.addEventListener("pointerdown", (event) => point(under(event)));
  box.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") point(null); });
  box.addEventListener("scroll", redraw);
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomTo(zoom * Math.exp(-event.deltaY / 300));
  }, { passive: false });
  box.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "+" || event.key === "=") zoomTo(zoom * 1.4);
    else if (event.key === "-") zoomTo(zoom / 1.4);
    else if (event.key === "0") zoomTo(fitted());
    else if (event.key === "Escape") point(null);
    else if (event.key in moves) {
      event.preventDefault();
      const [Q, K] = size(), [dq, dk] = moves[event.key];
      point(cell ? { q: Math.max(0, Math.min(Q - 1, cell.q + dq)), k: Math.max(0, Math.min(K - 1, cell.k + dk)) } : { q: 0, k: 0 });
      const place = [cell.k * zoom, cell.q * zoom], seen = [box.clientWidth - gutter.left - 20, box.clientHeight - gutter.top - 20];
      box.scrollLeft = Math.min(place[0], Math.max(box.scrollLeft, place[0] + zoom - seen[0]));
      box.scrollTop = Math.min(place[1], Math.max(box.scrollTop, place[1] + zoom - seen[1]));
    }
  });

  const show = async (done) => {
    const { stack, layer, head } = state;
    const ready = await headOf(stack, layer, head);
    if (stack !== state.stack || layer !== state.layer || head !== state.head) return;
    data = ready;
    findLargest();
    draw(done);
    if (cell) readout.textContent = said();
  };
  const save = async (penOf) => {
    const [Q, K] = size();
    const room = [gutter.left + K * zoom + 44, gutter.top + Q * zoom + 8];
    const whole = Math.max(...room) <= 4000;
    const frame = whole ? { x: 0, y: 0, w: room[0], h: room[1] } : { x: box.scrollLeft, y: box.scrollTop, w: box.clientWidth, h: box.clientHeight };
    const kept = cell;
    cell = null;
    const pen = penOf(frame.w, frame.h);
    paint(pen, frame, await new Promise((resolve) => runSave((function* () { resolve(yield* raster(frame, 2)); })())));
    cell = kept;
    redraw();
    return pen;
  };
  return { element, show, draw: redraw, save, scroller: box, zoom: (factor) => zoomTo(factor ? zoom * factor : fitted()) };
};
