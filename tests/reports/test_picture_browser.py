"""The report and the atlas of a picture in a real browser: the slider, the picker, the patch that looks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.reports import every_picture

PHOTO = 'document.querySelector(".choice svg.picture")'


@pytest.fixture
def report(browser: Any, tmp_path: Path) -> Any:
    path = tmp_path / "picture.html"
    path.write_text(every_picture.explanation().page(), encoding="utf-8")
    browser.size(1000, 900)
    browser.told.clear()
    browser.open(path, ready="main")
    return browser


def seen(browser: Any, folder: Path) -> Any:
    """(H, W, 3) of the first map, as it is painted."""
    box = browser.run(
        f"(() => {{ const s = {PHOTO}; s.scrollIntoView(); const b = s.getBoundingClientRect();"
        " return [b.left, b.top, b.right, b.bottom]; })()"
    )
    browser.shot(folder / "shot.png")
    return np.asarray(Image.open(folder / "shot.png").convert("RGB").crop([round(v) for v in box])).astype(
        float
    )


def test_the_slider_takes_the_colours_away(report: Any, tmp_path: Path) -> None:
    full = seen(report, tmp_path)
    assert report.run('document.querySelector(".heat-strength input").value') == "100"
    report.run(
        """(() => { const r = document.querySelector(".heat-strength input"); r.value = 0;
        r.dispatchEvent(new Event("input", { bubbles: true })); return 1; })()"""
    )
    assert report.run('getComputedStyle(document.querySelector(".picture .heat")).opacity') == "0"
    none = seen(report, tmp_path)
    assert np.abs(full - none).mean() > 10
    pixels = every_picture.shown().pixels.astype(float)
    # without colours over it the picture has its own: the mean of what is painted is that of its pixels
    inner = none[len(none) // 8 :, none.shape[1] // 8 :].mean((0, 1))
    assert np.abs(inner - pixels.mean((0, 1))).max() < 25  # numbers, outlines and rulers are painted, too
    assert report.told == []


def test_another_method_is_one_click_away_and_the_picture_stays(report: Any) -> None:
    """The picture is defined once, outside all panels: it is there whichever panel is shown."""
    report.run('document.querySelectorAll(".choice > label")[2].click()')
    box = """(() => { const all = [...document.querySelectorAll(".choice svg.picture")];
      const s = all.find((e) => e.getBoundingClientRect().width);
      const b = s.querySelector(".photo").getBoundingClientRect();
      return [s.getAttribute("aria-label"), b.width, b.height]; })()"""
    label, width, height = report.run(box)
    assert label == "The picture, shaded by gradcam"
    assert width > 100
    assert height > 60


def test_a_patch_and_its_row_are_lit_together(report: Any) -> None:
    report.run(
        f"""(() => {{ const r = {PHOTO}.querySelector('[data-w="3"]');
        r.dispatchEvent(new PointerEvent("pointerover", {{ bubbles: true }})); return 1; }})()"""
    )
    assert report.run('document.querySelector(\'tr[data-w="3"]\').classList.contains("same")')


def test_on_paper_colours_stay_and_the_slider_goes(report: Any) -> None:
    report.send("Emulation.setEmulatedMedia", media="print")
    try:
        assert report.run('getComputedStyle(document.querySelector(".heat-strength")).display') == "none"
        assert report.run(f"{PHOTO}.getBoundingClientRect().width") > 100
    finally:
        report.send("Emulation.setEmulatedMedia", media="")


def overlay(browser: Any, layer: int, head: int) -> Any:
    """(rows, columns) opacity of the map of one head."""
    import base64

    cell = f'document.querySelector(\'td[data-layer="{layer}"][data-head="{head}"] .over\')'
    data = browser.run(f'{cell}.getAttribute("href")')
    return (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(data.split(",")[1]))).convert("RGBA"))[..., 3] / 255
    )


def test_every_head_is_seen_from_the_patch_that_was_clicked(browser: Any, tmp_path: Path) -> None:
    atlas = every_picture.atlas()
    path = tmp_path / "atlas.html"
    path.write_text(atlas.page(), encoding="utf-8")
    browser.size(1000, 900)
    browser.told.clear()
    browser.open(path, ready='main[data-query="0"]')

    def expected(layer: int, head: int, query: int) -> Any:
        row = atlas.maps[layer, head, query, 1:].reshape(4, 6)
        return np.sqrt(row / row.max())

    for layer, head in ((0, 0), (1, 2)):  # weights are kept in 8 bits of their row's largest
        np.testing.assert_allclose(overlay(browser, layer, head), expected(layer, head, 0), atol=0.05)
    browser.run(
        """(() => { const s = document.querySelector('td[data-layer="1"] svg'), b = s.getBoundingClientRect();
        s.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: b.left + 4.5 / 6 * b.width,
          clientY: b.top + 2.5 / 4 * b.height })); return 1; })()"""
    )
    query = 1 + 2 * 6 + 4
    browser.wait(f"document.querySelector('main[data-query=\"{query}\"]') !== null")
    for layer, head in ((0, 0), (0, 1), (1, 2)):
        np.testing.assert_allclose(overlay(browser, layer, head), expected(layer, head, query), atol=0.05)
    assert browser.run('document.querySelector(".about").textContent').startswith(
        "Each picture: where the patch in row 3, column 5 looks"
    )
    assert browser.run('document.querySelectorAll("td .looks").length') == 6
    browser.run(
        """(() => { const l = document.querySelector(".controls select"); l.value = 2;
        l.dispatchEvent(new Event("change")); return 1; })()"""
    )
    browser.wait("document.querySelector('main[data-query=\"2\"]') !== null")
    assert browser.told == []
