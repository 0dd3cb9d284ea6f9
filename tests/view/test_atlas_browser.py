"""The page of an atlas in a real browser: the script reads the numbers Python wrote, and every view works by
mouse and keyboard, in light and dark, on a phone, with hostile text. Times are printed, never asserted."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from heedful.heads.atlas import Atlas
from heedful.heads.maps import Maps, Side
from heedful.types import Encoded
from heedful.view import atlas_data
from heedful.view.atlas_page import page
from heedful.view.html import component

Make = Callable[..., Atlas]
DRAWN = "new Promise(r => setTimeout(r, 250))"  # a few frames


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Callable[..., Any]:
    """(atlas, hash) -> the browser, with the page drawn."""

    def opened(atlas: Atlas, hash: str = "", **size: Any) -> Any:
        path = tmp_path / "atlas.html"
        path.write_text(page(atlas), encoding="utf-8")
        browser.told.clear()
        browser.size(size.pop("width", 1200), 1000, **size)
        browser.open(path, hash)
        assert browser.told == []
        return browser

    return opened


@pytest.mark.parametrize(
    ("queries", "keys", "share"), [(9, 11, 10**6), (40, 300, 4_000), (3, 3000, 600), (1, 500, 300)]
)
def test_script_decodes_what_python_decodes(browser: Any, queries: int, keys: int, share: int) -> None:
    weights = np.random.default_rng(0).dirichlet(np.full(keys, 0.1), (2, 2, queries)).astype(np.float32)
    side = [Side(("t",) * n, (False,) * n, (0,) * n, (0,) * n) for n in (queries, keys)]
    packed = atlas_data.pack_one(Maps("self", weights, *side), share)
    assert packed.dense == (share == 10**6)
    for head in range(4):
        meta = {"blob": base64.b64encode(packed.blobs[head]).decode(), "shape": packed.shape}
        script = f"""(async () => {{ {component("atlas_data.js")}
            const meta = {json.dumps(meta)};
            const bytes = await bytesOf(meta.blob);
            const head = opened(bytes, meta.shape, {packed.top}, {json.dumps(packed.dense)});
            const out = [];
            for (let q = 0; q < head.Q; q++) for (let k = 0; k < head.K; k++) out.push(weightAt(head, q, k));
            return {{ out, rest: [...head.rest], below: below(head, 0, {packed.threshold}) }};
        }})()"""
        found, oracle = browser.run(script), atlas_data.decode(packed, head)
        expected = np.where(oracle.kept, oracle.weights, -1)
        assert np.abs(np.array(found["out"]).reshape(queries, keys) - expected).max() < 1e-12
        assert np.abs(np.array(found["rest"]) - oracle.rest).max() < 1e-6
        left = weights.reshape(4, queries, keys)[head][0][~oracle.kept[0]]
        assert (left <= found["below"] + 1e-9).all()


def test_tabs_work_by_keyboard(make_atlas: Make, show: Callable[..., Any]) -> None:
    browser = show(make_atlas())
    browser.run("document.getElementById('tab-links').focus()")
    for view in ("grid", "matrix", "links"):
        browser.key("ArrowRight")
        assert browser.run("document.activeElement.id") == f"tab-{view}"
        assert browser.run(
            "[...document.querySelectorAll('.panel')].filter(p => !p.hidden).map(p => p.id)"
        ) == [f"panel-{view}"]
        assert browser.run(f"document.getElementById('tab-{view}').getAttribute('aria-selected')") == "true"


def test_enter_on_a_head_of_the_grid_opens_its_matrix(make_atlas: Make, show: Callable[..., Any]) -> None:
    browser = show(make_atlas(), "view=grid")
    browser.run('document.querySelector(\'td[data-layer="1"][data-head="2"] button\').focus()')
    browser.key("Enter")
    browser.wait("!document.getElementById('panel-matrix').hidden")
    assert browser.run("document.querySelector('.about').textContent").startswith("Layer 1, head 2: ")


def read_out(browser: Any, atlas: Atlas, at: tuple[int, int, int, int]) -> None:
    """The readout names the two tokens, and its weight is right within what it says."""
    said = browser.run("document.querySelector('.readout').textContent")
    labels = atlas.stacks[0].queries.labels
    found = re.fullmatch(r"from “(.*)” to “(.*)”: (0\.\d{3})(?: ± (0\.\d{3}))?", said)
    assert found, said
    assert found.groups()[:2] == (labels[at[2]], labels[at[3]])
    assert abs(float(found[3]) - atlas.maps[at]) <= float(found[4] or 0.0005) + 0.0005


def test_matrix_reads_out_weights_by_keyboard_and_mouse(make_atlas: Make, show: Callable[..., Any]) -> None:
    atlas = make_atlas()
    browser = show(atlas, "view=matrix&layer=1&head=2")
    browser.run("document.querySelector('.matrix').focus()")
    for key in ("ArrowDown", "ArrowDown", *["ArrowRight"] * 3, "ArrowUp"):  # the first enters
        browser.key(key)
    read_out(browser, atlas, (1, 2, 0, 3))
    browser.run(DRAWN)
    right, bottom = browser.run(
        "(({ right, bottom }) => [right, bottom])(document.querySelector('.matrix').getBoundingClientRect())"
    )
    cell = (
        30  # the largest that fits, which a text of seven tokens gets; 40 and 6 pixels of margin, 1 of frame
    )
    browser.move(right - 41 - cell * 1.5, bottom - 7 - cell * 0.5)
    browser.run(DRAWN)
    read_out(browser, atlas, (1, 2, 6, 5))


def test_later_tokens_are_said_to_be_out_of_sight(make_atlas: Make, show: Callable[..., Any]) -> None:
    browser = show(make_atlas(kind="decoder"), "view=matrix")
    browser.run("document.querySelector('.matrix').focus()")
    for _ in range(2):
        browser.key("ArrowRight")
    assert "comes later" in browser.run("document.querySelector('.readout').textContent")


def strongest(browser: Any) -> list[list[str]]:
    """[tokens, head, weight] of each link of the list."""
    cells = "[...li.children].slice(1).map(c => c.textContent)"
    return list(browser.run(f"[...document.querySelectorAll('.strongest li')].map(li => {cells})"))


def test_head_view_lists_the_strongest_links(make_atlas: Make, show: Callable[..., Any]) -> None:
    atlas = make_atlas()
    browser = show(atlas, "view=links&layer=1")
    labels, weights = atlas.stacks[0].queries.labels, atlas.maps[1]
    head, q, k = np.unravel_index(weights.argmax(), weights.shape)
    assert strongest(browser)[0] == [f"“{labels[q]}” → “{labels[k]}”", f"h{head}", f"{weights.max():.2f}"]
    browser.run("document.querySelector('.links').focus()")
    for _ in range(3):
        browser.key("ArrowDown")
    browser.run(DRAWN)
    head, k = np.unravel_index(weights[:, 2].argmax(), weights[:, 2].shape)
    assert browser.run("document.querySelector('.aside .what').textContent") == f"“{labels[2]}” looks most at"
    assert strongest(browser)[0][:2] == [f"“{labels[k]}”", f"h{head}"]
    browser.key("ArrowRight")  # the other side
    browser.run(DRAWN)
    head, q = np.unravel_index(weights[:, :, 2].argmax(), weights[:, :, 2].shape)
    assert strongest(browser)[0][:2] == [f"“{labels[q]}”", f"h{head}"]
    browser.key("Escape")
    browser.run(DRAWN)
    assert browser.run("document.querySelector('.aside .what').textContent") == "Strongest links in view"


def test_heads_are_chosen_one_by_one(make_atlas: Make, show: Callable[..., Any]) -> None:
    browser = show(make_atlas())
    browser.run("document.querySelectorAll('.chip')[1].click()")
    browser.run(DRAWN)
    assert {by for _, by, _ in strongest(browser)} <= {"h0", "h2"}
    assert browser.run("[...document.querySelectorAll('.chip')].map(c => c.ariaPressed)") == [
        "true",
        "false",
        "true",
    ]
    browser.run("document.querySelector('.chips .act').click()")
    browser.run("document.querySelector('.chips .act').click()")
    browser.run(DRAWN)
    assert browser.run("document.querySelector('.aside .what').textContent") == "Choose a head."


def test_dimmed_special_tokens_give_way_to_the_others(make_atlas: Make, show: Callable[..., Any]) -> None:
    atlas = make_atlas()
    browser = show(atlas, "view=links&layer=0")
    browser.run("document.querySelector('.check input').click()")
    browser.run(DRAWN)
    labels, weights = atlas.stacks[0].queries.labels, atlas.maps[0][:, 1:-1, 1:-1]
    _, q, k = np.unravel_index(weights.argmax(), weights.shape)
    assert strongest(browser)[0][0] == f"“{labels[q + 1]}” → “{labels[k + 1]}”"


def test_stacks_and_units_are_switched(make_atlas: Make, show: Callable[..., Any]) -> None:
    atlas = make_atlas(kind="both")
    browser = show(atlas, "view=links&stack=cross&unit=word")
    tokens = "[...document.querySelectorAll('.tok')].map(t => t.textContent)"
    words = atlas.words().stack("cross")
    assert browser.run(tokens) == [*words.queries.labels, *words.keys.labels]
    browser.run(
        "(([, unit]) => { unit.value = 'token'; unit.dispatchEvent(new Event('change')); })"
        "(document.querySelectorAll('.field select'))"
    )
    browser.run(DRAWN)
    assert browser.run(tokens) == [*atlas.stack("cross").queries.labels, *atlas.stack("cross").keys.labels]
    browser.run("document.getElementById('tab-grid').click()")
    assert browser.run(
        "[...document.querySelectorAll('.stack')].filter(s => !s.hidden).map(s => s.dataset.stack)"
    ) == ["cross"]


@pytest.mark.parametrize("view", ["links", "grid", "matrix"])
def test_views_are_saved_as_svg_and_png(make_atlas: Make, show: Callable[..., Any], view: str) -> None:
    browser = show(make_atlas('so <good> & "fine" \x0b it\'s', split=False), f"view={view}")
    browser.run(
        "URL.createObjectURL = (blob) => { window.saved = blob; return 'about:blank#'; };"
        "HTMLAnchorElement.prototype.click = function () { window.savedName = this.download; }"
    )
    found = {}
    for place, ending in enumerate(("png", "svg")):
        browser.run("window.saved = null")
        browser.run(f"document.querySelectorAll('.saves button')[{place}].click()")
        browser.wait("window.saved !== null")
        found[ending] = bytes(browser.run("saved.arrayBuffer().then(b => [...new Uint8Array(b)])"))
        assert browser.run("savedName").endswith(
            f"{view if view != 'links' else 'layer0'}{'-layer0-head0' if view == 'matrix' else ''}.{ending}"
        )
    assert found["png"].startswith(b"\x89PNG")
    root = ElementTree.fromstring(found["svg"].decode())
    said = " ".join(root.itertext())
    marks = {element.tag.split("}")[1] for element in root.iter()}
    if view == "grid":
        assert "head 2" in said
        assert "image" in marks
    else:
        assert "<good>" in said
        assert ('"fine"' in said) == (view in ("links", "matrix"))
        assert ("path" if view == "links" else "image") in marks
    assert browser.told == []


@pytest.mark.parametrize("view", ["links", "grid", "matrix"])
def test_a_phone_does_not_scroll_sideways(make_atlas: Make, show: Callable[..., Any], view: str) -> None:
    browser = show(make_atlas(shape=(2, 12)), f"view={view}", width=390, mobile=True)
    browser.run(DRAWN)
    assert browser.run("document.documentElement.scrollWidth") <= 390


def test_dark_paper_gets_a_dark_canvas(make_atlas: Make, show: Callable[..., Any]) -> None:
    context = "document.querySelector('.matrix canvas').getContext('2d')"
    corner = f"[...{context}.getImageData(2, 2, 1, 1).data].slice(0, 3)"
    for dark, paper in ((False, [255, 255, 255]), (True, [0x15, 0x18, 0x1C])):
        browser = show(make_atlas(), "view=matrix", dark=dark)
        assert browser.run(corner) == paper


def test_hostile_text_does_nothing(hostile_atlas: Atlas, show: Callable[..., Any]) -> None:
    for view in ("links", "matrix", "grid"):
        browser = show(hostile_atlas, f"view={view}")
        assert browser.run("document.querySelectorAll('img[src=x], main script, main b b').length") == 0
    browser.run("document.getElementById('tab-links').click()")
    browser.run(DRAWN)
    assert any(
        "<img" in text or "</script>" in text
        for text in browser.run("[...document.querySelectorAll('.tok')].map(t => t.textContent)")
    )
    assert browser.told == []


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
    side = Side(labels, (True, *plain[1:]), (-1, *ids[1:]), (-1, *(0,) * (tokens - 1)))
    x = Encoded(
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
@pytest.mark.parametrize(
    ("layers", "heads", "tokens", "causal"), [(12, 12, 512, False), (4, 6, 2000, True), (12, 12, 2000, True)]
)
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
