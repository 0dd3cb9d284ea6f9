// Run folders under the root: explanations, audits, trials, labs, atlases, features and steers, drawn as the report draws them.
import { $, button, heading, make, parts } from "./dom.js";
import { get } from "./net.js";
import { keep, state } from "./state.js";
import { explain } from "./app.js";

const list = make("div", { className: "runs-list" }), page = make("div", { className: "run" });
let kind = "";

const when = (seconds) => new Date(1000 * seconds).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const show = async () => {
  if (!list.isConnected) $("view-runs").replaceChildren(...heading("Runs", "Results that are stored in the folder of runs.", 1), list, page);
  try {
    draw(await get("/api/runs"));
    if (state.run) await open(state.run, false);
  } catch (error) { page.replaceChildren(make("p", { className: "problem", textContent: error.message })); }
};

const TEMPORARY = "Runs are kept until the server stops. To keep them, start it with: heedful serve --runs FOLDER";

const draw = ({ root, temporary, runs, more }) => {
  if (!runs.length) {
    const stored = `There is no run in ${root} yet. Jobs of this page are stored there. Audits can be stored there, too: heedful audit data.csv --out ${root}/mine`;
    list.replaceChildren(make("p", { className: "lead", textContent: temporary ? `There is no run yet. ${TEMPORARY}` : stored }));
    return;
  }
  const kinds = [...new Set(runs.map((run) => run.kind))].sort();
  const chips = kinds.length > 1 ? make("p", { className: "chips" }, ...["", ...kinds].map((name) => make("button", { type: "button", className: "chip", textContent: name || "all", aria: { pressed: String(kind === name) }, on: { click: () => { kind = name; draw({ root, temporary, runs, more }); } } }))) : "";
  const row = (run) => make("tr", { className: run.id === state.run ? "chosen" : "", data: { run: run.id } },
    make("th", { scope: "row" }, button(run.name, () => open(run.id), { className: "link" })), make("td", { textContent: run.kind }), make("td", { textContent: when(run.when) }), make("td", { className: "wrap", dir: "auto", textContent: run.title }));
  const shown = runs.filter((run) => !kind || run.kind === kind);
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...["run", "kind", "when", "about"].map((name) => make("th", { scope: "col", textContent: name })))), make("tbody", {}, ...shown.map(row)));
  list.replaceChildren(chips, make("div", { className: "scroll short", role: "region", tabIndex: 0, aria: { label: "Runs" } }, table), more ? make("p", { className: "lead", textContent: `${more} older ones are not listed.` }) : "", temporary ? make("p", { className: "lead", textContent: TEMPORARY }) : "");
};

const open = async (id, scroll = true) => {
  state.run = id;
  keep();
  for (const row of list.querySelectorAll("tr[data-run]")) row.classList.toggle("chosen", row.dataset.run === id);
  try {
    const found = await get(`/api/runs/${id}`);
    const save = make("a", { className: "act", href: `/api/runs/${id}/report`, download: "", textContent: "Save as one HTML file" });
    const acts = make("p", { className: "acts" }, save, found.ask && button("Open in Explain", () => explain(found.ask)), button("Close", () => { state.run = ""; keep(); page.replaceChildren(); for (const row of list.querySelectorAll("tr.chosen")) row.classList.remove("chosen"); }));
    const drawn = parts(found.html);
    page.replaceChildren(make("p", { className: "kicker", textContent: `${found.kind} · ${found.name}` }), acts, drawn);
    if (found.data) {
      drawn.classList.add("atlas");
      if (found.component === "patches") { (await import("/static/patches.js")).drawn(drawn, found.data); return; }
      const { atlas } = await import("/static/atlas.js");
      let link = "";
      atlas(drawn, found.data, { read: () => link, write: (now) => { link = String(now); } });
    }
  } catch (error) { page.replaceChildren(make("p", { className: "problem", textContent: error.message })); }
  if (scroll) page.scrollIntoView({ block: "start" });
};
