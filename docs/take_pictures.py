"""Takes the pictures of reports that README.md, docs/report.md and docs/images.md show:
python docs/take_pictures.py

Needs Chromium and playwright (`make test` installs playwright). Each picture keeps the words of its page, so
tests/test_docs_pictures.py notices when the page says something else. docs/serve.md has its own script,
tests/server/pictures.py.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

import heedful

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
METHODS = ["occlusion", "chefer", "integrated-gradients", "edges"]


class Shot(NamedTuple):
    """One picture of a page."""

    page: str  # of PAGES
    width: int
    height: int | None = None  # None: the whole page
    scale: float = 1
    scheme: str = "light"


PICTURES = {
    "demo": Shot("text", 1000, 620, 2),
    "report": Shot("text", 1100),
    "picture-report": Shot("picture", 1000, 1960),
    "picture-dark": Shot("picture", 1000, 1000, 1, "dark"),
}


def readme_text() -> str:
    """The text that README explains."""
    found = re.search(r'^text = "(.*)"$', (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise SystemExit("README.md has no line: text = ...")
    return found[1]


def page() -> str:
    """The report of README's Python, as HTML."""
    return heedful.explain(heedful.load("zoo:sentiment"), readme_text()).page()


def picture_page() -> str:
    """The report of the first picture of docs/images.md, as HTML."""
    from PIL import Image

    with Image.open(ROOT / "docs" / "examples" / "pictures" / "01.png") as image:
        colours = np.asarray(image.convert("RGB"))
    return heedful.explain(heedful.load("zoo:digits-vit"), colours, METHODS).page()


PAGES = {"text": page, "picture": picture_page}


def words(html: str) -> str:
    """What the top of a page says, without what differs from run to run: the part before the tabs."""
    body = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", html.split("<body", 1)[-1], flags=re.S)
    plain = re.sub(r"<[^>]+>", " ", body.split('class="tabs"', 1)[0])
    return " ".join(plain.split())


def take(pages: Mapping[str, str]) -> None:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-quic"])
        for name, shot in PICTURES.items():
            path, info = Path(folder) / f"{shot.page}.html", PngInfo()
            path.write_text(pages[shot.page], encoding="utf-8")
            info.add_itxt("words", words(pages[shot.page]))
            look = {"device_scale_factor": shot.scale, "color_scheme": shot.scheme}
            tab = browser.new_page(viewport={"width": shot.width, "height": shot.height or 900}, **look)
            tab.goto(path.as_uri())
            tab.wait_for_timeout(400)
            target = IMAGES / f"{name}.png"
            tab.screenshot(path=target, full_page=shot.height is None, animations="disabled")
            # no colour far off, as in tests/server/pictures.py
            image = Image.open(target).convert("RGB")
            image = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            image.save(target, optimize=True, pnginfo=info)
            print(target.relative_to(ROOT))
        browser.close()


def chromium() -> str:
    import shutil

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    return found


if __name__ == "__main__":
    take({name: made() for name, made in PAGES.items()})
