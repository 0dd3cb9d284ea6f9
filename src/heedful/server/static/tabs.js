// Tabs of the page: one panel is shown. Arrow keys move between tabs; which one is open is in the address.
import { $, make } from "./dom.js";
import { keep, state } from "./state.js";

const NAMES = { methods: "Methods", evidence: "Evidence", try: "Try it", generate: "Generate", attention: "Attention", features: "Features", made: "How it was made" };
const unavailable = new Set(), opened = new Map();

// What a panel does when it is opened: what is hidden is not drawn.
export const onOpen = (id, act) => { opened.set(id, act); };
export const offer = (id, can) => { if (can) unavailable.delete(id); else unavailable.add(id); };
export const isOpen = (id) => current() === id;

const offered = () => Object.keys(NAMES).filter((id) => !unavailable.has(id));
const current = () => (offered().includes(state.tab) ? state.tab : "methods");

export const draw = () => {
  const focused = $("tabs").contains(document.activeElement), now = current();
  $("tabs").replaceChildren(...offered().map((id) => make("button", { type: "button", id: `tab-${id}`, role: "tab", tabIndex: id === now ? 0 : -1, textContent: NAMES[id], aria: { selected: String(id === now), controls: id }, on: { click: () => open(id) } })));
  for (const id of Object.keys(NAMES)) $(id).hidden = id !== now;
  if (focused) $(`tab-${now}`).focus();
};

export const open = (id) => {
  state.tab = id;
  keep();
  draw();
  opened.get(id)?.();
};

$("tabs").addEventListener("keydown", (event) => {
  const all = offered(), at = all.indexOf(current()), last = all.length - 1;
  const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key];
  if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  open(all[to]);
});
