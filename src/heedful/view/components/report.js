// Everything is readable without this. It adds: the same word lit in every method, columns sorted by size,
// copy buttons, and the numbers as files. It reads only the JSON in its own page.
(() => {
  "use strict";
  const root = document.querySelector("main.heedful");
  const data = JSON.parse(document.getElementById("heedful-data").textContent);
  const label = (text) => Object.assign(document.createElement("button"), { type: "button", className: "act", textContent: text });

  const light = (event, on) => {
    const at = event.target.closest && event.target.closest("[data-w]");
    if (!at) return;
    for (const twin of root.querySelectorAll(`[data-w="${at.dataset.w}"]`)) twin.classList.toggle("same", on);
  };
  for (const [name, on] of [["pointerover", true], ["pointerout", false], ["focusin", true], ["focusout", false]])
    root.addEventListener(name, (event) => light(event, on));

  for (const table of root.querySelectorAll("table.sortable")) {
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
      button.title = column ? "Sort by the size of the score; again for reading order" : "Reading order";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const sort = column > 0 && head.getAttribute("aria-sort") !== "descending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        if (sort) head.setAttribute("aria-sort", "descending");
        const size = (row) => (row.cells[column] ? Math.abs(Number(row.cells[column].dataset.v || 0)) : 0);
        body.append(...(sort ? [...before].sort((a, b) => size(b) - size(a)) : before));
      });
    });
  }

  for (const block of root.querySelectorAll(".code")) {
    const button = label("Copy");
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
  }

  const cell = (value) => (value === null ? "" : /[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const words = (item) => {  // the score and error of a word are the sums over its tokens
    const text = Array.from(data.x.text);  // offsets count code points
    const sum = (values, word) => values && values.reduce((all, v, t) => (data.x.words[t] === word ? all + v : all), 0);
    return data.x.word_spans.map(([start, end], word) =>
      [item.method, text.slice(start, end).join(""), start, end, sum(item.scores, word), sum(item.stderr, word)]);
  };
  const csv = () => [["method", "word", "start", "end", "score", "stderr"], ...data.attributions.flatMap(words)]
    .map((row) => row.map(cell).join(",")).join("\n") + "\n";
  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const acts = Object.assign(document.createElement("p"), { className: "acts" });
  const json = label("Save the numbers as JSON");
  const sheet = label("Save the words as CSV");
  json.addEventListener("click", () => save("heedful.json", "application/json", JSON.stringify(data, null, 1)));
  sheet.addEventListener("click", () => save("heedful.csv", "text/csv", csv()));
  acts.append(json, sheet);
  root.append(acts);
})();
