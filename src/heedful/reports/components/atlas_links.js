// The head view: what looks (left) and what is looked at (right), with a link for every weight in view.
const ROW = 24;  // height of a token
const LINKS = 4000;  // the most drawn at once; what is not drawn is told
const FAINT = 0.02;  // links under this share of the strongest are not drawn, and not seen
const WHOLE = 240;  // texts up to this many tokens are saved whole, longer ones as seen
const LISTED = 12;
const FEW = 64;  // so few tokens that look are always shown with their links, in the window or not

const linksView = (state, tell) => {
  const { box, room, canvas, fit } = pane("Links between tokens. Up and down go from token to token, left and right change the side, Escape shows all.");
  box.classList.add("links");
  box.setAttribute("role", "listbox");
  const tokens = make("div", { className: "tokens" });
  room.append(tokens);
  const list = make("ol", { className: "strongest" });
  const aside = make("div", { className: "aside" }, make("p", { className: "what", aria: { live: "polite" } }), list);
  const element = make("div", { className: "links-view" }, box, aside);
  const run = slicer(), runSave = slicer();
  const hidden = make("canvas");
  let heads = [], active = null, pinned = false, wide = 60, measuredFor = null;

  const sides = () => [state.stack.queries, state.stack.keys];
  const length = () => Math.max(...sides().map((side) => side.labels.length));
  const isSpecial = (side, index) => sides()[side].special[index];

  const measure = () => {
    if (measuredFor === state.stack) return;
    measuredFor = state.stack;
    const context = hidden.getContext("2d", { willReadFrequently: true });
    context.font = `14px ${state.colours.font}`;
    wide = 24;
    for (const side of sides()) for (const label of side.labels) wide = Math.max(wide, context.measureText(label).width);
    wide += 20;
  };
  const columns = (width) => {
    const side = Math.max(44, Math.min(wide, width * 0.36));
    const gap = Math.max(60, Math.min(width - 2 * side, 480));
    return { side, x1: side, x2: side + gap };
  };

  // Which links are drawn: those of the token chosen, else of the tokens on the left in the window. Two
  // passes: the first counts by strength, the second takes the strongest.
  function* visit(range, use) {
    for (const { head, data } of heads) {
      for (let q = 0; q < data.Q; q++) {
        if (active ? active.side === 0 && q !== active.index : data.Q > FEW && (q < range[0] || q >= range[1])) continue;
        const low = data.start[q];
        for (let i = low; i < data.start[q + 1]; i++) {
          if (!data.steps[i]) continue;
          const k = data.columns ? data.columns[i] : i - low;
          if (active && active.side === 1 && k !== active.index) continue;
          const dimmed = state.dim && (isSpecial(0, q) || isSpecial(1, k));
          use(head, q, k, data.steps[i] * data.unit[q], dimmed ? 0.1 : 1);
        }
        if (q % 16 === 0) yield;
      }
    }
  }
  function* gather(range, most) {
    const counts = new Uint32Array(160);
    const bin = (w) => Math.max(0, Math.min(159, Math.floor(160 + 8 * Math.log2(w))));
    let strongest = 0, total = 0;
    yield* visit(range, (head, q, k, w, dim) => {
      strongest = Math.max(strongest, w * dim);
      counts[bin(w * dim)] += 1;
      total += 1;
    });
    let lowest = 160, taken = 0;
    while (lowest > 0 && taken + counts[lowest - 1] <= most) taken += counts[--lowest];
    const found = [];
    yield* visit(range, (head, q, k, w, dim) => {
      const drawn = w * dim;
      if (drawn >= strongest * FAINT && bin(drawn) >= lowest) found.push({ head, q, k, w, drawn });
    });
    found.sort((a, b) => a.drawn - b.drawn);
    return { found, strongest, total, cut: taken < total };
  }
  const stroke = (pen, link, strongest, at) => {
    const share = link.drawn / strongest;
    const several = heads.length > 1 && !active ? 0.7 : 1;
    const place = active ? heads.findIndex(({ head }) => head === link.head) - (heads.length - 1) / 2 : 0;
    const aside = place * Math.min(2, 18 / heads.length);  // the heads of one token side by side
    const [low, high] = active && active.side ? [aside, 0] : [0, aside];
    pen.link(at.x1, (link.q + 0.5) * ROW - at.y + low, at.x2, (link.k + 0.5) * ROW - at.y + high,
      headColour(link.head, state.colours), Math.max(0.02, share ** (active ? 1 : 1.35) * several), 0.6 + (several < 1 ? 1.6 : 2.4) * share);
  };

  const shares = () => {  // mean over the heads shown, for every token of the other side
    const other = new Float64Array(sides()[1 - active.side].labels.length);
    for (const { data } of heads) {
      for (let i = 0; i < other.length; i++) {
        const w = active.side ? weightAt(data, i, active.index) : weightAt(data, active.index, i);
        other[i] += Math.max(0, w) / heads.length;
      }
    }
    return other;
  };
  const tokenAt = (side, index, at, lit) => {
    const label = sides()[side].labels[index];
    const own = active && active.side === side && active.index === index;
    const token = make("span", { className: "tok", id: `tok-${side}-${index}`, role: "option", title: label, dir: "auto",
      aria: { selected: String(Boolean(own)), label: `${side ? "to" : "from"} ${label}` }, data: { side, index } }, make("bdi", { textContent: label }));
    token.classList.toggle("special", isSpecial(side, index));
    token.classList.toggle("own", Boolean(own));
    token.style.top = `${index * ROW}px`;
    token.style.width = `${at.side}px`;
    token.style.left = `${side ? at.x2 : 0}px`;
    if (lit && active.side !== side && lit[index] > 0) {
      const share = lit[index] / Math.max(...lit);
      token.style.background = `color-mix(in srgb, var(--for) ${Math.round(100 * share ** 0.7)}%, transparent)`;
    }
    token.classList.add(side ? "right" : "left");
    return token;
  };
  const placeTokens = (y, height, at) => {
    const from = Math.max(0, Math.floor(y / ROW) - 4), to = Math.ceil((y + height) / ROW) + 4;
    const lit = active && shares();
    const out = [];
    sides().forEach(({ labels }, side) => {
      for (let i = from; i < Math.min(to, labels.length); i++) out.push(tokenAt(side, i, at, lit));
    });
    tokens.replaceChildren(...out);
    if (active) box.setAttribute("aria-activedescendant", `tok-${active.side}-${active.index}`);
    else box.removeAttribute("aria-activedescendant");
  };

  const told = ({ found, strongest, total, cut }) => {
    const what = aside.querySelector(".what");
    const name = active && quoted(sides()[active.side].labels[active.index]);
    what.textContent = !heads.length ? "Choose a head." : active
      ? `${name} ${active.side ? "is looked at most by" : "looks most at"}` : "Strongest links in view";
    const chosen = ({ q }) => active || !state.stack.causal || q > 0;  // the first can look at nothing else
    const rows = found.filter(chosen).slice(-LISTED).reverse().map((link) => {
      const names = [state.stack.queries.labels[link.q], state.stack.keys.labels[link.k]].map(quoted);
      const mark = make("i", { className: "swatch", title: `head ${link.head}` });
      mark.style.background = headColour(link.head, state.colours);
      const text = active ? names[1 - active.side] : names.join(" → ");
      return make("li", {}, mark, make("span", { className: "pair", dir: "auto", textContent: text }),
        make("span", { className: "by", textContent: `h${link.head}` }), make("b", { textContent: shown(link.w) }));
    });
    list.replaceChildren(...rows);
    const limit = cut ? ` The strongest ${found.length.toLocaleString("en")} of ${total.toLocaleString("en")} links are drawn.` : "";
    tell(strongest ? `Opacity and width are relative to the strongest link, ${shown(strongest)}; links under a fiftieth of it are not drawn.${limit}` : "");
  };

  const draw = (done = () => {}) => {
    if (!element.isConnected || element.closest("[hidden]")) return;
    measure();
    const rows = length() * ROW;
    box.style.height = `${rows + 2}px`;
    const { w, h, y } = fit(box.clientWidth, rows);
    const at = { ...columns(w), y };
    placeTokens(y, h, at);
    const ratio = window.devicePixelRatio || 1;
    run((function* () {
      const found = yield* gather([Math.floor(y / ROW), Math.ceil((y + h) / ROW)], LINKS);
      hidden.width = canvas.width;
      hidden.height = canvas.height;
      const context = hidden.getContext("2d", { willReadFrequently: true });
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const pen = canvasPen(context, state.colours.font);
      for (let i = 0; i < found.found.length; i++) {
        stroke(pen, found.found[i], found.strongest, at);
        if (i % 40 === 39) {
          context.getImageData(0, 0, 1, 1);  // strokes are only noted until somebody looks: draw them in this slice
          yield;
        }
      }
      const target = canvas.getContext("2d");
      target.setTransform(1, 0, 0, 1, 0, 0);
      target.clearRect(0, 0, canvas.width, canvas.height);
      if (hidden.width && hidden.height) target.drawImage(hidden, 0, 0);
      told(found);
    })(), done);
  };
  const redraw = once(draw);

  const choose = (next, pin) => {
    if (next && active && next.side === active.side && next.index === active.index && pinned === pin) return;
    active = next;
    pinned = Boolean(next) && pin;
    redraw();
  };
  const reveal = () => {
    const top = active.index * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
  };
  const tokenOf = (event) => {
    const token = event.target.closest && event.target.closest(".tok");
    return token && { side: Number(token.dataset.side), index: Number(token.dataset.index) };
  };
  box.addEventListener("pointerover", (event) => { if (!pinned && event.pointerType === "mouse" && tokenOf(event)) choose(tokenOf(event), false); });
  box.addEventListener("pointerleave", () => { if (!pinned) choose(null, false); });
  box.addEventListener("click", (event) => {
    const token = tokenOf(event);
    const again = token && pinned && active && token.side === active.side && token.index === active.index;
    choose(again ? null : token, true);
  });
  box.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") choose(null, false);
    else if (event.key in moves || event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      const side = event.key === "ArrowLeft" ? 0 : event.key === "ArrowRight" ? 1 : active ? active.side : 0;
      const at = active ? active.index : -1;
      const last = sides()[side].labels.length - 1;
      choose({ side, index: Math.max(0, Math.min(last, at + (moves[event.key] || 0))) }, true);
      reveal();
    }
  });
  box.addEventListener("scroll", redraw);

  const show = async (done) => {
    const { stack, layer } = state;
    const chosen = [...state.heads].sort((a, b) => a - b);
    const ready = await Promise.all(chosen.map((head) => headOf(stack, layer, head)));
    if (stack !== state.stack || layer !== state.layer) return;
    if (active && active.index >= sides()[active.side].labels.length) active = null;
    heads = chosen.map((head, i) => ({ head, data: ready[i] }));
    draw(done);
  };

  // The same picture for a file: (make a pen for a size) -> pen.
  const save = async (penOf) => {
    const whole = length() <= WHOLE;
    const y = whole ? 0 : box.scrollTop, h = whole ? length() * ROW : box.clientHeight;
    const { side, x1, x2 } = columns(box.clientWidth);
    const top = 34, { colours } = state;
    const pen = penOf(x2 + side, h + top + 8);
    const work = gather([Math.floor(y / ROW), Math.ceil((y + h) / ROW)], 2 * LINKS);
    const found = await new Promise((resolve) => {
      runSave((function* () { resolve(yield* work); })());
    });
    for (const link of found.found) stroke(pen, link, found.strongest, { x1, x2, y: y - top });
    pen.box(0, 0, x2 + side, top, css(colours.paper));
    const names = heads.map(({ head }) => head).join(", ");
    pen.text(8, 15, `${state.title}, layer ${state.layer}, head ${names}`, css(colours.soft), { size: 12 });
    sides().forEach((tokensOf, place) => tokensOf.labels.forEach((label, i) => {
      const at = (i + 0.5) * ROW - y + top;
      const ink = css(isSpecial(place, i) ? colours.soft : colours.ink);
      if (at > top && at < h + top) pen.text(place ? x2 + 8 : x1 - 8, at, label, ink, { size: 14, align: place ? "start" : "end" });
    }));
    return pen;
  };
  return { element, show, draw: redraw, save, scroller: box };
};
