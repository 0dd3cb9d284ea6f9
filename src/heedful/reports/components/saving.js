// The numbers of the page as files, from the JSON in the page itself.
const keep = (name, blob) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

const saving = (root, data) => {
  const cell = (value) => (value === null ? "" : /[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const boxes = (item) => item.words.map((unit) => [item.method, unit.text, ...unit.box, unit.score, unit.stderr]);
  const words = (item) => {  // the score and error of a word are the sums over its tokens
    const text = Array.from(data.x.text);  // offsets count code points
    const sum = (values, word) => values && values.reduce((all, v, t) => (data.x.words[t] === word ? all + v : all), 0);
    return data.x.word_spans.map(([start, end], word) =>
      [item.method, text.slice(start, end).join(""), start, end, sum(item.scores, word), sum(item.stderr, word)]);
  };
  const heads = (...place) => ["method", data.x.word_spans ? "word" : "unit", ...place, "score", "stderr"];
  const table = () => (data.x.word_spans ? [heads("start", "end"), ...data.attributions.flatMap(words)]
    : [heads("left", "top", "right", "bottom"), ...data.attributions.flatMap(boxes)]);
  const csv = () => table()
    .map((row) => row.map(cell).join(",")).join("\n") + "\n";
  const acts = Object.assign(document.createElement("p"), { className: "acts" });
  const offer = (text, name, type, make) => {
    const button = act(text);
    button.addEventListener("click", () => keep(name, new Blob([make()], { type })));
    acts.append(button);
  };
  offer("Save the numbers as JSON", "heedful.json", "application/json", () => JSON.stringify(data, null, 1));
  if (data.x) offer(`Save the ${data.x.word_spans ? "words" : "scores"} as CSV`, "heedful.csv", "text/csv", csv);
  root.append(acts);
};
