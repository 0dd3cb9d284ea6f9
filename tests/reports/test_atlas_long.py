"""Long texts: the page stays under 5 MB, opens, and leaves the browser free. Times are told, not asserted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.heads.atlas import Atlas
from heedful.heads.maps import MapAxis, Maps
from heedful.modalities.text import TextInput


def page(atlas: Atlas) -> str:
    return atlas.page()


def long_atlas(layers: int, heads: int, tokens: int, causal: bool) -> Atlas:
    """From sharp to broad, some with a favourite place, some with a favourite distance."""
    rng, n = np.random.default_rng(0), np.arange(tokens)
    weights = np.empty((layers, heads, tokens, tokens), np.float32)
    for place in np.ndindex(layers, heads):
        logits = rng.normal(size=(tokens, tokens)).astype(np.float32) * np.float32(rng.uniform(0.2, 4))
        logits -= np.abs(n[:, None] - 1 - n).astype(np.float32) * np.float32(rng.choice([0, 0.05, 1]))
        logits[:, 0] += np.float32(rng.choice([0, 8]))
        if causal:
            logits[n[:, None] < n] = -np.inf
        logits = np.exp(logits - logits.max(1, keepdims=True))
        weights[place] = logits / logits.sum(1, keepdims=True)
    text = " ".join(f"word{i}" for i in n)
    labels = tuple(text.split())
    plain, ids = (False,) * tokens, tuple(range(tokens))
    side = MapAxis(labels, (True, *plain[1:]), (-1, *ids[1:]), (-1, *(0,) * (tokens - 1)))
    x = TextInput(
        text, ids, labels, ((0, 1),) * tokens, side.special, side.words, ((0, 1),) * tokens, side.segments
    )
    return Atlas(x, (Maps("self", weights, side, side, causal),), {"name": "long", "kind": "classifier"})


WATCH = """window.long = [];
new PerformanceObserver((list) => { for (const e of list.getEntries()) long.push(e.duration); })
  .observe({ type: "longtask", buffered: true });"""
USE = """(async () => {
  const wait = (ms) => new Promise((r) => setTimeout(r, ms)), out = {};
  const mark = (name) => { out[name] = Math.round(Math.max(0, ...long)); long.length = 0; };
  const press = (box, key) => box.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const links = document.querySelector(".links"), matrix = document.querySelector(".matrix");
  await wait(300); mark("open");
  for (let i = 0; i < 30; i++) { links.scrollTop += 600; await wait(30); } await wait(400); mark("scroll");
  for (let i = 0; i < 15; i++) { press(links, "ArrowDown"); await wait(40); } mark("token");
  document.getElementById("tab-matrix").click(); await wait(1500); mark("matrix");
  for (let i = 0; i < 8; i++) { press(matrix, "+"); await wait(100); } mark("zoom");
  for (let i = 0; i < 20; i++) { matrix.scrollTop += 200; matrix.scrollLeft += 200; await wait(40); }
  mark("pan");
  document.getElementById("tab-grid").click(); await wait(300); mark("grid");
  return out;
})()"""


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "heads", "tokens", "causal"), [(12, 12, 512, False), (4, 6, 2000, True)])
def test_long_texts_stay_small_and_open(
    browser: Any, tmp_path: Path, layers: int, heads: int, tokens: int, causal: bool
) -> None:
    path = tmp_path / "atlas.html"
    path.write_text(page(long_atlas(layers, heads, tokens, causal)), encoding="utf-8")
    assert path.stat().st_size < 5_000_000
    browser.told.clear()
    browser.size(1300, 1000)
    browser.send("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    times = []
    for _ in range(3):
        browser.open(path)
        times.append(float(browser.run("document.querySelector('main').dataset.drawn")))
    longest = browser.run(USE)
    assert browser.told == []
    assert browser.run("document.querySelectorAll('.tok').length") < 300, (
        "only the tokens in the window exist"
    )
    print(f"\n{tokens} tokens, {layers * heads} heads: {path.stat().st_size:,} bytes;")
    print(f"drawn after {sorted(times)[1]:.0f} ms, median of 3; longest tasks in ms: {longest}")
