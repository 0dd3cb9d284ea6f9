"""The page of an atlas in a real browser: the script reads the numbers Python wrote, and every view works by
mouse and keyboard, in light and dark, on a phone, with hostile text."""

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
from heedful.heads.maps import MapAxis, Maps
from heedful.reports import atlas_data
from heedful.reports.html_frame import component


def page(atlas: Atlas) -> str:
    return atlas.page()


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
    weights[:, :, 1:2] = 1 / keys  # what is left out of this row is as large as what is kept
    side = [MapAxis(("t",) * n, (False,) * n, (0,) * n, (0,) * n) for n in (queries, keys)]
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
            const most = [...head.rest].map((_, q) => below(head, q, {packed.threshold}));
            return {{ out, rest: [...head.rest], below: most }};
        }})()"""
        found, oracle = browser.run(script), atlas_data.decode(packed, head)
        expected = np.where(oracle.kept, oracle.weights, -1)
        assert np.abs(np.array(found["out"]).reshape(queries, keys) - expected).max() < 1e-12
        assert np.abs(np.array(found["rest"]) - oracle.rest).max() < 1e-6
        for row, kept, most in zip(
            weights.reshape(4, queries, keys)[head], oracle.kept, found["below"], strict=True
        ):
            assert (row[~kept] <= most + 1e-9).all()


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


def test_two_clicks_leave_one_head(make_atlas: Make, show: Callable[..., Any]) -> None:
    browser = show(make_atlas())
    place = "(({ x, y }) => [x + 9, y + 9])(document.querySelectorAll('.chip')[2].getBoundingClientRect())"
    x, y = browser.run(place)
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            browser.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
    assert browser.run("[...document.querySelectorAll('.chip')].map(c => c.ariaPressed)") == [
        "false",
        "false",
        "true",
    ]


def test_paper_gets_every_head(make_atlas: Make, show: Callable[..., Any]) -> None:
    browser = show(make_atlas(kind="both"), "view=matrix")
    browser.send("Emulation.setEmulatedMedia", media="print")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    seen = "[...document.querySelectorAll('.grids img')].filter(i => i.getClientRects().length).length"
    assert browser.run(seen) == 18
    browser.send("Emulation.setEmulatedMedia", media="")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(seen) == 0


def test_dimmed_special_tokens_give_way_to_the_others(make_atlas: Make, show: Callable[..., Any]) -> None:
    atlas = make_atlas()
    atlas.maps[:] *= 0.4
    atlas.maps[..., 0] += 0.6  # every head looks most at [CLS]
    browser = show(atlas, "view=links&layer=0")
    assert "→ “[CLS]”" in strongest(browser)[0][0]
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
        last = browser.run(
            "getComputedStyle(document.querySelector('.scale .ramp i:last-child')).backgroundColor"
        )
        bright = sum(map(int, re.findall(r"\d+", last)[:3])) > 3 * 128
        assert bright == dark, "the strongest weight stands out from the paper"


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
