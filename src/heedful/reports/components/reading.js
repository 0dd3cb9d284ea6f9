// Everything is readable without this. It adds: the same word lit in every method, columns sorted by size, copy
// buttons, and on paper what is folded up. It touches nothing outside its root.
const act = (text) => Object.assign(document.createElement("button"), { type: "button", className: "act", textContent: text });

const reading = (root) => {
  const light = (event, on) => {
    const at = event.target.closest && event.target.closest("[data-w]");
    if (!at) return;
    for (const twin of root.querySelectorAll(`[data-w="${at.dataset.w}"]`)) twin.classList.toggle("same", on);
  };
  for (const [name, on] of [["pointerover", true], ["pointerout", false], ["focusin", true], ["focusout", false]])
    root.addEventListener(name, (event) => light(event, on));
  for (const table of root.querySelectorAll("table.sortable")) sortable(table);
  for (const block of root.querySelectorAll(".code")) if (block.querySelector(".bar")) copyable(block);
  unfolded(root);
  strength(root);
};

// How strong the colours over pictures are; without it they are drawn at full strength.
const strength = (root) => {
  const first = root.querySelector("svg.picture .heat");
  if (!first) return;
  const range = Object.assign(document.createElement("input"), { type: "range", min: 0, max: 100, value: 100 });
  const label = Object.assign(document.createElement("label"), { className: "heat-strength" });
  label.append("Colours over the picture", range);
  range.addEventListener("input", () => root.style.setProperty("--heat", range.value / 100));
  (first.closest(".choice, .maps") || first.closest("svg")).before(label);
};

// Browsers that do not know ::details-content print what is folded up only when it is open.
const unfolded = (root) => {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...root.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of opened) each.open = false; });
};

const sortable = (table) => {
  const body = table.tBodies[0];
  const before = [...body.rows];
  table.tHead.rows[0].querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("span");  // a <button> is left blank in printed repeated heads
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      button.click();
    });
    button.title = column ? "Sort by size; again for reading order" : "Reading order";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sort = column > 0 && head.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      if (sort) head.setAttribute("aria-sort", "descending");
      const size = (row) => (row.cells[column] ? Math.abs(Number(row.cells[column].dataset.v || 0)) : 0);
      const words = before.filter((row) => !row.classList.contains("gap"));
      body.replaceChildren(...(sort ? [...words.sort((a, b) => size(b) - size(a)), ...before.filter((row) => row.classList.contains("last"))] : before));
    });
  });
};

const copyable = (block) => {
  const button = act("Copy");
  const code = block.querySelector("pre");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.querySelector(".bar").append(button);
};
