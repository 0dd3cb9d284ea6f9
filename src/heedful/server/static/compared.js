// What the methods claimed beside what the model did, as bars on one scale: of words, and of a region of a picture.
import { make, signed } from "./dom.js";

const HEADS = ["", "change", "claimed and actual", ""];
const plain = (value) => signed(value).replace("+", "");
const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

const bar = (value, most) => {
  const fill = make("i", { className: `fill ${value >= 0 ? "pos" : "neg"} l9` });
  fill.style.inlineSize = `${50 * Math.min(1, Math.abs(value) / most)}%`;
  fill.style[value >= 0 ? "insetInlineStart" : "insetInlineEnd"] = "50%";
  return make("span", { className: "both", aria: { hidden: "true" } }, fill);
};

const row = (name, value, most, kind, note, share) => make("tr", { className: kind }, make("th", { scope: "row", textContent: name }),
  make("td", { textContent: value === null ? "–" : signed(value, 3) }), make("td", { className: "wide" }, value === null ? "" : bar(value, most)),
  ...(share === undefined ? [] : [make("td", { textContent: share === null ? "–" : percent(share) })]), make("td", { className: "wrap", textContent: note }));

// `found`: an answer of the server; `number`: what changes; `place`: a method -> where it stands; `control`: one more row.
export const compared = (found, number, place, control = null) => {
  const actual = found.after - found.before, shares = found.area !== undefined;
  const order = (a, b) => (a.method === "random" ? Infinity : place(a.method)) - (b.method === "random" ? Infinity : place(b.method));
  const own = found.claims.filter((claim) => claim.signed && claim.claimed !== null).sort(order);
  const quiet = found.claims.filter((claim) => !claim.signed).sort(order);
  const most = Math.max(Math.abs(actual), ...own.filter(({ method }) => method !== "random").map(({ claimed }) => Math.abs(claimed)), 1e-9);
  const how = (claim) => {
    const error = claim.stderr ? `± ${claim.stderr.toFixed(3)} ` : "";
    const apart = Math.sign(claim.claimed) === Math.sign(actual) || !actual ? "" : "opposite direction";
    const other = claim.operator ? found.operators.filter((name) => name !== claim.operator) : [];
    const under = other.length ? `claimed for ${claim.operator}, tried with ${found.operators.join(" and ")}` : "";
    return `${error}${[claim.method === "random" ? "control" : apart, under].filter(Boolean).join("; ")}`;
  };
  const share = (claim) => (shares ? claim.share : undefined);
  const rows = [row("actual", actual, most, "actual", `${plain(found.before)} → ${plain(found.after)}`, shares ? found.area : undefined)];
  if (control) rows.push(row(control.name, control.value, most, "control", control.note, shares ? found.area : undefined));
  rows.push(...own.map((claim) => row(claim.method, claim.claimed, most, claim.method === "random" ? "control" : "", how(claim), share(claim))));
  if (shares) rows.push(...quiet.map((claim) => row(claim.method, null, most, "", "no sign", share(claim))));
  const heads = shares ? [...HEADS.slice(0, 3), "in the region", ""] : HEADS;
  const head = make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col", textContent: name }))));
  const names = quiet.map(({ method }) => method);
  const notes = [...found.notes, ...(names.length && !shares ? [`${names.join(", ")} ${names.length === 1 ? "has" : "have"} no sign, so no direction is claimed.`] : [])];
  if (shares && names.length) notes.push("A method without a sign claims no direction: compare its share with the area.");
  if (shares) notes.push(`In the region: the share of the sizes of all scores of the method. The region has ${percent(found.area)} of the area.`);
  return make("div", { className: "compared" },
    make("p", { className: "lead", textContent: `Change of ${number}. All bars have one scale. Scores of gradients and of the control have another unit: compare only their direction.` }),
    make("div", { className: "scroll", role: "region", tabIndex: 0, aria: { label: "Claimed and actual effect" } }, make("table", {}, head, make("tbody", {}, ...rows))),
    ...notes.map((note) => make("p", { className: "lead", textContent: note })));
};
