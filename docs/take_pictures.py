"""Takes the pictures of reports that README.md and docs/report.md show: python docs/take_pictures.py

Needs Chromium and playwright (`make test` installs playwright). Each picture keeps the words of its page, so
tests/test_docs_pictures.py notices when the page says something else. docs/serve.md has its own script,
tests/server/pictures.py.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import heedful

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
# name -> (width, height, scale); height None: the whole page
PICTURES = {"demo": (1000, 620, 2), "report": (1100, None, 1)}


def readme_text() -> str:
    """The text that README explains."""
    found = re.search(r'^text = "(.*)"$', (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise SystemExit("README.md has no line: text = ...")
    return found[1]


def page() -> str:
    """The report of README's Python, as HTML."""
    return heedful.explain(heedful.load("zoo:sentiment"), readme_text()).page()


def words(html: str) -> str:
    """What the top of a page says, without what differs from run to run: the part before the tabs."""
    body = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", html.split("<body", 1)[-1], flags=re.S)
    plain = re.sub(r"<[^>]+>", " ", body.split('class="tabs"', 1)[0])
    return " ".join(plain.split())


def take(html: str) -> None:
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo
    from playwright.sync_api import sync_playwright

    info = PngInfo()
    info.add_itxt("words", words(html))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-quic"])
        for name, (width, height, scale) in PICTURES.items():
            size = {"width": width, "height": height or 900}
            tab = browser.new_page(viewport=size, device_scale_factor=scale)
            tab.goto(path.as_uri())
            tab.wait_for_timeout(400)
            target = IMAGES / f"{name}.png"
            tab.screenshot(path=target, full_page=height is None, animations="disabled")
            image = Image.open(target).convert("RGB").quantize(128, dither=Image.Dither.NONE)
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
    take(page())
