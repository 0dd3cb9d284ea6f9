// Heads of a vision transformer, seen from any position: a patch that was clicked, or one of a list.
const patches = (root, data) => {
  const stack = Object.assign(data.levels[0].stacks[0], { id: "patches" });
  const [rows, columns] = stack.grid, labels = stack.queries.labels, special = stack.queries.special.length;
  const cells = [...root.querySelectorAll("td[data-layer]")];
  if (!cells.length) return;
  const canvas = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
  const pen = canvas.getContext("2d");

  const picture = (head, query) => {  // query -1: the mean of all that look
    const values = new Float64Array(rows * columns);
    const from = query < 0 ? labels.map((_, q) => q) : [query];
    for (const q of from) for (let k = 0; k < values.length; k++) values[k] += Math.max(0, weightAt(head, q, special + k));
    const most = Math.max(...values) || 1, pixels = pen.createImageData(columns, rows);
    values.forEach((value, k) => pixels.data.set([0x73, 0x50, 0xbd, Math.round(255 * Math.sqrt(value / most))], 4 * k));
    pen.putImageData(pixels, 0, 0);
    return canvas.toDataURL();
  };

  const mark = (svg, query) => {  // an outline around the patch that looks
    svg.querySelector(".looks")?.remove();
    if (query < special) return;
    const { width, height } = svg.viewBox.baseVal, at = query - special;
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const place = { x: (at % columns) * width / columns, y: Math.floor(at / columns) * height / rows, width: width / columns, height: height / rows };
    for (const [name, value] of Object.entries({ ...place, class: "looks", fill: "none" })) box.setAttribute(name, value);
    svg.append(box);
  };

  const about = Object.assign(document.createElement("p"), { className: "about" });
  about.setAttribute("role", "status");
  const list = document.createElement("select");
  const start = special ? 0 : -1;
  if (!special) list.append(new Option("the mean patch", -1));
  labels.forEach((label, q) => list.append(new Option(label, q)));
  const name = (query) => (query < 0 ? "the mean patch" : query < special ? `the ${labels[query]}` : `the patch in ${labels[query]}`);
  let turn = 0;
  const look = async (query) => {
    const mine = ++turn;
    list.value = query;
    about.textContent = `Each picture: where ${name(query)} looks. Click a patch to look from there.`;
    for (const cell of cells) {
      const head = await headOf(stack, Number(cell.dataset.layer), Number(cell.dataset.head));
      if (mine !== turn) return;  // another position was chosen meanwhile
      cell.querySelector(".over").setAttribute("href", picture(head, query));
      mark(cell.querySelector("svg"), query);
    }
    root.dataset.query = query;
  };
  list.addEventListener("change", () => look(Number(list.value)));
  for (const cell of cells) {
    const svg = cell.querySelector("svg");
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      const row = Math.floor((event.clientY - box.top) / box.height * rows), column = Math.floor((event.clientX - box.left) / box.width * columns);
      look(special + Math.min(rows - 1, row) * columns + Math.min(columns - 1, column));
    });
  }
  const choice = Object.assign(document.createElement("label"), { className: "field" });
  choice.append("Look from", list);
  const bar = Object.assign(document.createElement("div"), { className: "controls" });
  bar.append(choice);
  cells[0].closest(".scroll").before(bar, about);
  look(start);
};
