"""The pictures of docs/serve.md, taken from a running server: python tests/server/pictures.py ADDRESS
[FOLDER]

`heedful serve zoo:sentiment zoo:lm zoo:digits-vit --port 8765` first. The test of the
same name takes them again and compares.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tests.server.chromium import Visit, visits

TEXT = "the selection on the menu is great and so is the food, the service is not bad"
PROMPT = "My fellow citizens, we must"
PICTURE_MODEL, PICTURE = "zoo:digits-vit", Path(__file__).parents[2] / "docs/examples/pictures/01.png"
DIGIT_CELLS = (27, 28, 35, 36, 37, 43, 44, 45)  # of 8 × 8: where the loop of the digit is
WIDE = {"width": 1100, "height": 860}
NARROW = {"width": 390, "height": 844}
Open = Callable[..., Visit]


def taken(visit: Open, folder: Path, lm: str = "zoo:lm", feature: int | None = None) -> Iterator[Path]:
    """Every picture, as a file."""
    for name, picture in (
        ("methods", methods),
        ("dark", dark),
        ("narrow", narrow),
        ("try", trying),
        ("attention", attention),
        ("picture", brushed),
    ):
        yield kept(picture(visit), folder / f"serve-{name}.png")
    yield kept(generating(visit, lm), folder / "serve-generate.png")
    yield kept(features(visit, lm, feature), folder / "serve-features.png")


# Boxes, in pixels of the picture, of what was timed: it differs from run to run.
TIMED = r"""() => { const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); ) {
    if (!/\d\s*(s|ms|min|h|seconds?)\b/.test(node.data)) continue;
    const box = node.parentElement.getBoundingClientRect(), k = devicePixelRatio;
    if (box.width && box.bottom > 0 && box.top < innerHeight)
      found.push([box.left, Math.max(0, box.top), box.right, box.bottom].map((v) => Math.max(0, v * k)));
  } return found; }"""


def kept(page: Visit, path: Path) -> Path:
    page.tab.wait_for_timeout(400)
    page.tab.mouse.move(0, 0)
    info = PngInfo()
    info.add_text("masks", json.dumps([[round(v) for v in box] for box in page.tab.evaluate(TIMED)]))
    page.tab.screenshot(path=path, animations="disabled")
    # a third of the size, and no colour more than 10 of 255 off: thin lines keep theirs
    Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True, pnginfo=info
    )
    return path


def tested(visit: Open, **options: object) -> Visit:
    page = visit(f"#text={quote(TEXT)}", **options)
    page.see("#verdict .sentences", "andom")  # tested by the page itself
    return page


def methods(visit: Open) -> Visit:
    page = tested(visit, viewport={"width": 1100, "height": 1480})
    page.tab.evaluate("scrollTo(0, 0)")
    return page


def dark(visit: Open) -> Visit:
    page = tested(visit, viewport=WIDE, color_scheme="dark")
    turned(page, "Evidence")
    return page


def narrow(visit: Open) -> Visit:
    page = tested(visit, viewport=NARROW, device_scale_factor=1.5)
    page.tab.evaluate("scrollTo(0, 0)")
    return page


def trying(visit: Open) -> Visit:
    page = visit(
        f"#text={quote(TEXT)}&tab=try&methods=occlusion,grad-x-input",
        viewport={"width": 1100, "height": 1010},
    )
    page.see("#try .word")
    page.tab.locator("#try .word", has_text="great").click()
    page.tab.locator("#try .tools button", has_text="Delete").click()
    page.see("#try .compared")
    page.tab.get_by_role("button", name="Keep as A").click()
    page.tab.locator("#try .word", has_text="bad").click()
    page.tab.locator("#try input.new").fill("terrible")
    page.tab.locator("#try .tools button", has_text="Replace").click()
    page.see("#try .version .said", "terrible")
    turned(page, "Try it")
    return page


def brushed(visit: Open) -> Visit:
    """A picture that was sent, with the cells of the digit marked."""
    size = {"width": 1100, "height": 1180}
    page = visit(f"#model={quote(PICTURE_MODEL)}&methods=occlusion,chefer,edges", viewport=size)
    page.tab.set_input_files("#picture-input", str(PICTURE))
    page.see("#verdict .sentences", "andom")
    turned(page, "Try it")
    page.see("#try .cells")
    for cell in DIGIT_CELLS:
        page.tab.locator(f'#try .cells [data-cell="{cell}"]').click()
    page.see("#try .compared")
    turned(page, "Try it")
    return page


def attention(visit: Open) -> Visit:
    page = visit(f"#text={quote(TEXT)}&tab=attention", viewport=WIDE)
    page.see("#attention button")
    page.tab.get_by_role("button", name="Show every head").click()
    page.see("#attention .views canvas")
    turned(page, "Attention")
    return page


def features(visit: Open, lm: str, feature: int | None) -> Visit:
    size = {"width": 1100, "height": 1560}
    page = visit(f"#text={quote(PROMPT)}&model={quote(lm)}&strength=2&tab=features", viewport=size)
    page.see("#features .fires table")
    page.gone("#features .naming .job")
    if feature is None:
        page.tab.locator("#features .fires tbody button").first.click()
    else:
        page.tab.locator("#features input[type=number]").fill(str(feature))
        page.tab.locator("#features").get_by_role("button", name="Open", exact=True).click()
    page.see("#features .sides.next .bars")
    page.see("#features .limit p")
    page.tab.get_by_role("button", name="Write 40 tokens").click()
    page.see("#features .written .said")
    turned(page, "Features")
    return page


def generating(visit: Open, lm: str) -> Visit:
    size = {"width": 1100, "height": 1200}
    page = visit(f"#text={quote(PROMPT)}&model={quote(lm)}&tab=generate", viewport=size)
    page.tab.get_by_role("button", name="Continue the text").click()
    page.see("#generate table.matrix")
    page.tab.locator("#generate .token").nth(3).click()
    page.see("#generate .why .alternatives")
    turned(page, "Generate")
    return page


def turned(page: Visit, tab: str) -> None:
    """At one of its tabs, which is at the top of the picture."""
    page.tab.get_by_role("tab", name=tab).click()
    page.tab.evaluate("document.getElementById('tabs').scrollIntoView({ block: 'start' })")
    page.tab.evaluate("scrollBy(0, 40)")  # the bar on top covers what is above


if __name__ == "__main__":
    place = Path(sys.argv[2] if len(sys.argv) > 2 else "docs/images")
    with visits(sys.argv[1].rstrip("/")) as opened:
        for made in taken(opened, place):
            print(made)
