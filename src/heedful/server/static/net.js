// Questions to the server. A quick one replaces the same question that is still on its way; a long one is a job,
// which is listened to and found again by its number. No answer is given out while a button is pressed.
import { buttonReleased } from "./dom.js";

const going = new Map();

export class Refused extends Error {
  constructor(message, status = 0) { super(message); this.status = status; }
}

const read = async (answer) => {
  let data = null;
  try { data = await answer.json(); } catch { /* reported below */ }
  if (!answer.ok) throw new Refused((data && data.error) || `The server answered ${answer.status}.`, answer.status);
  return data;
};

const reached = async (place, options) => {
  try {
    return await fetch(place, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Is heedful serve still running?");
  }
};

export const get = async (place) => read(await reached(place, { headers: { accept: "application/json" } }));

export const post = async (place, ask, signal) => read(await reached(place, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(ask), signal,
}));

// A picture as it is; the server looks at what is in it, whatever it is called.
export const upload = async (file) => read(await reached("/api/pictures", { method: "POST", headers: { "content-type": file.type || "application/octet-stream" }, body: file }));

// The newest question of a name; null where a newer one has taken its place.
export const quick = async (name, place, ask) => {
  going.get(name)?.abort();
  const mine = new AbortController();
  going.set(name, mine);
  try {
    const found = await post(place, ask, mine.signal);
    await buttonReleased();
    return going.get(name) === mine ? found : null;
  } catch (error) {
    if (error.name === "AbortError" || going.get(name) !== mine) return null;
    throw error;
  }
};

// No longer wanted: what is on its way is not answered.
export const drop = (name) => {
  going.get(name)?.abort();
  going.delete(name);
};

export const owner = (() => {
  const key = "heedful-owner";
  try {
    const found = localStorage.getItem(key) || crypto.getRandomValues(new Uint32Array(3)).join("-");
    localStorage.setItem(key, found);
    return found;
  } catch { return "nobody"; }
})();

// One job of an owner runs at a time; `beside` is for work that nobody waits for.
export const start = (kind, ask, beside = "") => post(`/api/jobs/${kind}`, { ...ask, owner: `${owner}${beside}` });
export const cancel = (id) => post(`/api/jobs/${id}/cancel`, {});

export const ENDED = ["done", "failed", "cancelled"];

// Calls `onUpdate` with every state until the job ends; returns a function that stops listening, not the job.
export const follow = (id, onUpdate) => {
  let stream = null, over = false, last = null;  // a result is sent once, and holds until the next
  const end = () => { over = true; stream?.close(); };
  const hear = (state) => {
    if (over) return;
    if (ENDED.includes(state.state)) end();
    const fresh = Boolean(state.result);
    last = state.result ?? last;
    onUpdate({ ...state, result: last, fresh });
  };
  const look = async () => {  // the stream broke: ask, and listen again
    if (over) return;
    try {
      const state = await get(`/api/jobs/${id}`);
      await buttonReleased();
      hear(state);
      if (!ENDED.includes(state.state)) setTimeout(listen, 1000);
    } catch (error) {
      end();
      onUpdate({ id, state: "failed", error: error.message, label: "", done: 0, total: 0, result: last, fresh: false });
    }
  };
  const listen = () => {
    if (over) return;
    stream = new EventSource(`/api/jobs/${id}/events`);
    stream.onmessage = async (event) => { await buttonReleased(); hear(JSON.parse(event.data)); };
    stream.onerror = () => { stream.close(); setTimeout(look, 400); };
  };
  listen();
  return end;
};
