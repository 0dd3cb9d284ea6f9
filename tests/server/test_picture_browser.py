"""Pictures on the page in a real browser: sent in three ways, brushed over by mouse, finger and keyboard."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.chromium import Visit, visits
from tests.server.picture_models import NAME, file_of, planted, scene, tiny_vit
from tests.server.serving import listening

import heedful
from heedful.reports import first_screen
from heedful.server import app

pytestmark = pytest.mark.browser
GIVEN = """([data, type, event]) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0)), files = new DataTransfer();
  files.items.add(new File([bytes], "x", { type }));
  const more = { bubbles: true, cancelable: true };
  if (event === "paste") dispatchEvent(new ClipboardEvent("paste", { ...more, clipboardData: files }));
  else dispatchEvent(new DragEvent("drop", { ...more, dataTransfer: files }));
}"""


STROKE = """(count) => { const grid = document.querySelector("#try .cells");
  for (let cell = 0; cell < count; cell += 1) {
    const box = grid.querySelector(`[data-cell="${cell}"]`).getBoundingClientRect();
    const place = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true };
    grid.dispatchEvent(new PointerEvent("pointermove", place));
  } }"""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app.ServerState]:
    config = app.ServerConfig(runs=tmp_path_factory.mktemp("runs"))
    found = app.load_state([planted(), tiny_vit(), "zoo:sentiment"], config)
    yield found
    found.close()
    found.jobs.join()


@pytest.fixture(scope="module")
def visit(state: app.ServerState) -> Iterator[Callable[..., Visit]]:
    with listening(state, app.ServerConfig(runs=state.runs.root)) as address, visits(address) as found:
        yield found


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "scene.png"
    path.write_bytes(file_of(scene()))
    return path


def sent(visit: Callable[..., Visit], picture: Path, tab: str = "", more: str = "", **options: Any) -> Visit:
    """The page with a picture, after its test."""
    page = visit(more, **options)
    page.tab.set_input_files("#picture-input", str(picture))
    page.see("#verdict svg.picture")
    page.see("#verdict .sentences", re.compile("etter than random"))
    if tab:
        page.tab.get_by_role("tab", name=tab).click()
    return page


def dropped(page: Visit, file: bytes, kind: str, event: str = "drop") -> None:
    page.tab.evaluate(GIVEN, [base64.b64encode(file).decode(), kind, event])


def test_a_picture_is_explained_as_in_python(visit: Callable[..., Visit], picture: Path) -> None:
    page = sent(visit, picture)
    assert not page.tab.locator("#text-input").is_visible()
    own = heedful.explain(planted(), picture)
    page.see("#answer .verdict", "bright")
    assert first_screen.why(own) in page.tab.inner_text("#verdict .sentences")
    assert first_screen.better_than_random(own) in page.tab.inner_text("#verdict .sentences")
    maps = page.tab.locator("#methods .map")
    names = [text.split(" (")[0] for text in maps.locator(".name").all_inner_texts()]
    assert {*own} <= set(names)
    assert maps.locator("svg.picture").count() == len(names)
    assert "picture" in page.tab.inner_text("#picture")


def test_tabs_are_those_that_make_sense(visit: Callable[..., Visit]) -> None:
    page = visit()
    names = page.tab.get_by_role("tab").all_inner_texts()
    assert not {"Features", "Generate"} & set(names)
    assert {"Methods", "Evidence", "Try it", "How it was made"} <= set(names)
    page.tab.select_option("#model", "zoo:sentiment")
    page.see("#examples button", "the service is not bad")
    assert page.tab.locator("#text-input").is_visible()
    assert not page.tab.locator("#picture").is_visible()
    page.tab.select_option("#model", NAME)
    page.see("#answer", "Choose a picture")
    assert not page.tab.locator("#text-input").is_visible()


@pytest.mark.parametrize("event", ["drop", "paste"])
def test_dropped_and_pasted(visit: Callable[..., Visit], event: str) -> None:
    page = visit()
    dropped(page, file_of(scene()), "image/png", event)
    page.see("#answer .verdict", "bright")
    dropped(page, file_of(255 - scene()), "image/png", event)
    page.see("#answer .verdict", "dark")


def test_what_is_refused_is_said(visit: Callable[..., Visit]) -> None:
    page = visit()
    dropped(page, b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml")
    page.see("#problem", "no picture of a known format")
    dropped(page, b"<script>alert(1)</script>", "image/png")
    page.see("#problem", "cannot be read as a picture")
    dropped(page, b"text", "text/plain")
    page.see("#problem", "no picture of a known format")
    dropped(page, bytes((16 << 20) + 1), "image/png")
    page.see("#problem", "larger than 16 MB")
    dropped(page, file_of(scene()), "image/png")
    page.see("#answer .verdict", "bright")
    assert not page.tab.locator("#problem").is_visible()
    refused = [line for line in page.told if "415" in line or "400" in line]
    assert len(refused) == 2  # the browser's own words about the two that were sent
    page.told[:] = [line for line in page.told if line not in refused]


def test_the_picture_is_in_the_address_and_sent_again_if_forgotten(
    visit: Callable[..., Visit], picture: Path, state: app.ServerState
) -> None:
    page = sent(visit, picture)
    place = page.tab.url.partition("/#")[2]
    assert "picture=" in place
    other = visit(f"#{place}")
    other.see("#answer .verdict", "bright")
    page = sent(visit, picture)
    state.memory.pictures._pictures.clear()
    page.tab.select_option("#targets select >> nth=0", "dark")
    page.see("#verdict .sentences", "“dark”")  # it was sent again, and asked again
    page.told[:] = [line for line in page.told if "404" not in line]
    state.memory.pictures._pictures.clear()
    lost = visit(f"#{place}")
    lost.see("#problem", "Choose it again")
    lost.see("#answer", "Choose a picture")
    lost.told[:] = [line for line in lost.told if "404" not in line]


def box_of(page: Visit, cell: int) -> dict[str, float]:
    found = page.tab.locator(f"#try [data-cell='{cell}']").bounding_box()
    assert found is not None
    return dict(found)


def middle(box: dict[str, float]) -> tuple[float, float]:
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def brushed(page: Visit, *cells: int) -> None:
    """One stroke of the mouse."""
    page.tab.locator("#try .board").scroll_into_view_if_needed()
    page.tab.mouse.move(*middle(box_of(page, cells[0])))
    page.tab.mouse.down()
    for cell in cells[1:]:
        page.tab.mouse.move(*middle(box_of(page, cell)), steps=4)
    page.tab.mouse.up()


def marked(page: Visit) -> list[int]:
    found = page.tab.locator("#try [aria-selected=true]")
    return [int(found.nth(i).get_attribute("data-cell") or -1) for i in range(found.count())]


def test_brushed_by_mouse(visit: Callable[..., Visit], picture: Path) -> None:
    page = sent(visit, picture, "Try it")
    page.see("#try .outcome", "No cell is marked yet")
    assert page.tab.locator("#try .board svg.picture").count() == 1
    with page.tab.expect_response("**/api/brush") as answered:
        brushed(page, 0, 1, 9)
    assert marked(page) == [0, 1, 9]
    found = answered.value.json()
    effect = found["after"] - found["before"]
    page.see("#try .answer", f"lowers the logit of “bright” by {abs(effect):.2f}")
    page.see("#try .answer", "The same shape at 8 other places")
    page.see("#try .compared tr.actual", f"−{abs(effect):.3f}")
    page.see("#try .compared tr", "occlusion")
    page.see("#try .compared tr.control", "elsewhere")
    page.see("#try img.removed")
    assert "cells=0%2C1%2C9" in page.tab.url
    brushed(page, 1, 0)  # a stroke that begins on a marked cell clears
    assert marked(page) == [9]
    page.tab.locator("#try").get_by_role("button", name="Clear").click()
    page.see("#try .outcome", "No cell is marked yet")
    assert marked(page) == []


def test_brushed_by_keyboard(visit: Callable[..., Visit], picture: Path) -> None:
    page = sent(visit, picture, "Try it")
    page.tab_to("row 1, column 1")
    page.tab.keyboard.press("Space")
    assert marked(page) == [0]
    page.tab.keyboard.press("ArrowRight")
    page.tab.keyboard.press("ArrowDown")
    assert page.focus() == "row 2, column 2"
    page.tab.keyboard.press("Enter")
    assert marked(page) == [0, 9]
    page.tab.keyboard.press("Shift+ArrowRight")
    assert marked(page) == [0, 9, 10]
    page.see("#try .compared")
    assert page.focus() == "row 2, column 3"  # the answer takes no focus away
    page.tab.keyboard.press("End")
    assert page.focus() == "row 2, column 8"
    page.tab.keyboard.press("Escape")
    assert marked(page) == []


def test_brushed_by_finger(visit: Callable[..., Visit], picture: Path) -> None:
    page = sent(visit, picture, "Try it", has_touch=True, viewport={"width": 390, "height": 844})
    page.tab.locator("#try .board").scroll_into_view_if_needed()
    page.tab.touchscreen.tap(*middle(box_of(page, 9)))
    assert marked(page) == [9]
    page.see("#try .compared")
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_many_strokes_ask_once(visit: Callable[..., Visit], picture: Path) -> None:
    page = sent(visit, picture, "Try it")
    asked: list[str] = []
    page.tab.on("request", lambda request: asked.append(request.url) if "/api/brush" in request.url else None)
    page.tab.locator("#try .board").scroll_into_view_if_needed()
    page.tab.mouse.move(*middle(box_of(page, 0)))
    page.tab.mouse.down()
    page.tab.evaluate(STROKE, 16)
    page.tab.mouse.up()
    page.see("#try .compared")
    page.tab.wait_for_timeout(600)
    assert len(marked(page)) == 16
    assert 1 <= len(asked) <= 2  # the first cell may have been asked for when the others came


def test_another_way_to_remove(visit: Callable[..., Visit], picture: Path) -> None:
    page = sent(visit, picture, "Try it")
    brushed(page, 0, 1)
    page.see("#try .compared")
    with page.tab.expect_response("**/api/brush") as answered:
        page.tab.locator("#try label", has_text="Removed part").locator("select").select_option("blur")
    assert answered.value.json()["operators"] == ["blur"]
    page.see("#try .compared tr", "claimed for mean, tried with blur")
    assert "operator=blur" in page.tab.url
    select = page.tab.locator("#try label", has_text="Map of").locator("select")
    select.select_option("lime")
    page.see("#verdict .choice > input:checked + label", "lime")


def test_strength_of_the_colours(visit: Callable[..., Visit], picture: Path) -> None:
    page = sent(visit, picture)
    page.tab.locator("#verdict .heat-strength input").fill("0")
    opacity = "getComputedStyle(document.querySelector('#methods .map .heat')).opacity"
    assert page.tab.evaluate(opacity) == "0"
    assert "opacity=0" in page.tab.url
    page.tab.reload()
    page.see("#methods .map .heat")
    assert page.tab.evaluate(opacity) == "0"


def test_a_saved_picture_opens_again(visit: Callable[..., Visit], picture: Path) -> None:
    page = sent(visit, picture)
    page.tab.get_by_role("button", name="Save in Runs").click()
    page.tab.get_by_role("button", name="Open in Runs").click()
    page.see(".run svg.picture")
    page.tab.get_by_role("button", name="Open in Explain").click()
    page.see("#verdict svg.picture")
    page.see("#answer .verdict", "bright")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out(visit: Callable[..., Visit], picture: Path, scheme: str) -> None:
    page = visit(color_scheme=scheme)
    assert page.serious() == []
    page = sent(visit, picture, color_scheme=scheme)
    assert page.darkness() is (scheme == "dark")
    assert page.serious() == []
    page.tab.get_by_role("tab", name="Try it").click()
    brushed(page, 0, 1)
    page.see("#try .compared")
    assert page.serious() == []


def test_another_picture_of_another_shape(visit: Callable[..., Visit], picture: Path) -> None:
    """Marked cells belong to the picture they were marked on."""
    page = sent(visit, picture, "Try it")
    brushed(page, 0, 1)
    page.see("#try .compared")
    wide = np.zeros((40, 100, 3), dtype=np.uint8)
    dropped(page, file_of(wide), "image/png")
    page.see("#answer .verdict", "dark")
    page.see("#try .outcome", "No cell is marked yet")


def test_heads_as_maps_on_the_picture(visit: Callable[..., Visit], picture: Path) -> None:
    page = visit("#model=ViTForImageClassification")
    page.tab.set_input_files("#picture-input", str(picture))
    page.see("#verdict svg.picture")
    page.tab.get_by_role("tab", name="Attention").click()
    page.tab.get_by_role("button", name="Show every head").click()
    page.see("#attention td[data-layer] svg")
    assert page.tab.locator("#attention td[data-layer]").count() == 4  # two layers of two heads
    page.see("#attention .about", "Click a patch to look from there")
    assert page.serious() == []
