"""Every kind of page in a real browser: hostile text does not run, axe finds nothing serious, charts tell and
save, two notebook outputs keep to themselves."""

from __future__ import annotations

import base64
import json
import re
import time
from html import escape
from pathlib import Path
from typing import Any

import pytest
from tests.reports import every

from heedful.reports.shading import inline_style


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip("axe_playwright_python", reason="axe comes with the test tools")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for kind, make in every.pages().items():
        found[kind] = folder / f"{kind}.html"
        found[kind].write_text(make(), encoding="utf-8")
    return found


def opened(browser: Any, path: Path, dark: bool = False, width: int = 1200) -> None:
    browser.size(width, 900, dark=dark)
    browser.told.clear()
    browser.open(path, ready="main, .cells")


@pytest.mark.parametrize("kind", every.KINDS)
def test_nothing_of_the_user_runs_and_nothing_goes_wrong(
    kind: str, written: dict[str, Path], browser: Any
) -> None:
    opened(browser, written[kind])
    assert browser.run("window.ran === undefined")
    assert browser.told == []
    assert browser.run("document.body.innerText.includes('onerror')")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", every.KINDS)
def test_axe_finds_nothing_serious(
    kind: str, dark: bool, written: dict[str, Path], browser: Any, axe: str
) -> None:
    opened(browser, written[kind], dark)
    browser.run(f"{axe}; 1")
    found = json.loads(browser.run("axe.run(document).then((r) => JSON.stringify(r.violations))"))
    told = [
        (each["id"], each["impact"], [node["html"][:160] for node in each["nodes"][:3]])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert told == []


@pytest.mark.parametrize("kind", every.KINDS)
def test_a_narrow_page_does_not_scroll_sideways(kind: str, written: dict[str, Path], browser: Any) -> None:
    opened(browser, written[kind], width=390)
    assert browser.run("document.documentElement.scrollWidth") <= 390


def test_a_chart_tells_what_is_under_the_pointer_and_by_keyboard(
    written: dict[str, Path], browser: Any
) -> None:
    opened(browser, written["trial"])
    place = browser.run(
        """(() => { const m = document.querySelector("svg.plot [data-tip]"); m.scrollIntoView();
        const b = m.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()"""
    )
    browser.move(place[0] + 3, place[1] + 2)
    shown = 'document.querySelector(".chart .tip").textContent'
    assert "0." in browser.run(shown)
    assert not browser.run('document.querySelector(".chart .tip").hidden')
    browser.run('document.querySelector("svg.plot").focus(), 1')
    before = browser.run(shown)
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    assert browser.run(shown) != before


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", ["explanation", "trial", "features", "splitting", "lab"])
def test_charts_are_saved_as_svg_and_png(
    kind: str, dark: bool, written: dict[str, Path], browser: Any, tmp_path: Path
) -> None:
    """What a click hands to the browser, caught on its way: an SVG that stands alone, a PNG not blank."""
    opened(browser, written[kind], dark)
    browser.run(
        """(() => { window.kept = []; const make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { const r = new FileReader(); r.onload = () => kept.push(r.result);
          r.readAsDataURL(blob); return make.call(URL, blob); };
        HTMLAnchorElement.prototype.click = () => {};
        for (const b of document.querySelectorAll(".chart .keep button")) b.click(); return 1; })()"""
    )
    charts = browser.run('document.querySelectorAll("svg.plot").length')
    assert charts > 0
    browser.wait(f"window.kept.length === {2 * charts}")
    kept = browser.run("window.kept")
    drawn = [base64.b64decode(k.split(",", 1)[1]) for k in kept if k.startswith("data:image/svg+xml")]
    pictures = [base64.b64decode(k.split(",", 1)[1]) for k in kept if k.startswith("data:image/png")]
    assert (len(drawn), len(pictures)) == (charts, charts)
    for content in drawn:
        svg = content.decode()
        assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
        assert "var(" not in svg
        assert "class=" not in svg
        assert "<img" not in svg
        assert re.search(r'<rect[^>]*fill="rgb\((21, 24, 28|255, 255, 255)\)"', svg)
    from io import BytesIO

    from PIL import Image

    for content in pictures:
        image = Image.open(BytesIO(content))
        assert len(image.convert("RGB").getcolors(1 << 24)) > 5


def test_two_outputs_in_one_notebook_keep_to_themselves(browser: Any, tmp_path: Path) -> None:
    """Each sorts its own tables, ids are one thing each, and no style reaches what stands between them."""
    cells = [
        every.explanation()._repr_html_(),
        every.features()._repr_html_(),
        every.features()._repr_html_(),
    ]
    name = cells[0].split('"')[1]
    cells.append(cells[0].replace(name, "heedful-other"))
    page = tmp_path / "notebook.html"
    between = '<p id="between">text of the notebook</p>'
    page.write_text(f'<!DOCTYPE html><body><div class="cells">{between.join(cells)}</div>', encoding="utf-8")
    opened(browser, page)
    assert browser.told == []
    assert browser.run("window.ran === undefined")
    ids = browser.run(
        '[...document.querySelectorAll("[id]")].map((e) => e.id).filter((i) => i !== "between")'
    )
    assert len(ids) == len(set(ids))
    plain = "getComputedStyle(document.getElementById('between'))"
    assert browser.run(f"{plain}.fontFamily").startswith('"Times') or "serif" in browser.run(
        f"{plain}.fontFamily"
    )
    sort = """(() => { const first = document.querySelectorAll(".cells > div")[0];
      const last = document.querySelectorAll(".cells > div")[3];
      const order = (cell) => [...cell.querySelector(".words tbody").rows].map((r) => r.dataset.w).join();
      const before = [order(first), order(last)];
      first.querySelector(".words thead th:nth-child(3) [role=button]").click();
      return [before[0] !== order(first), before[1] === order(last)]; })()"""
    assert browser.run(sort) == [True, True]
    here = browser.run(
        """[...document.querySelectorAll("a[href^='#']")].every((a) =>
        a.closest(".cells > div").contains(document.getElementById(a.getAttribute("href").slice(1))))"""
    )
    assert here


JUPYTERLAB = """.jp-RenderedHTMLCommon dt { float: left; clear: left; width: 20%; max-width: 5em }
.jp-RenderedHTMLCommon dd { float: left; width: 80% }"""


def test_labels_of_facts_are_not_broken_in_jupyterlab(browser: Any, tmp_path: Path) -> None:
    """JupyterLab floats every dt into a narrow column and puts an empty span into headings."""
    cells = [each()._repr_html_() for each in (every.audit, every.trial, every.explanation)]
    page = tmp_path / "lab.html"
    body = f'<div class="cells jp-RenderedHTMLCommon">{"".join(cells)}</div>'
    page.write_text(f"<!DOCTYPE html><style>{JUPYTERLAB}</style><body>{body}", encoding="utf-8")
    opened(browser, page)
    browser.run('document.querySelectorAll("details").forEach((each) => { each.open = true; }), 1')
    labels = browser.run(
        """[...document.querySelectorAll("dt")]
        .filter((e) => e.checkVisibility() && !e.textContent.includes(" "))
        .map((e) => [e.textContent, getComputedStyle(e).float, e.getClientRects()[0].height])"""
    )
    assert len(labels) >= 3
    assert {(float_, height < 40) for _, float_, height in labels} == {("none", True)}
    heading = """(() => { const h = document.querySelector("h3");
      const range = document.createRange();
      const x = () => { range.selectNodeContents(h.lastChild); return range.getBoundingClientRect().x; };
      const before = x();
      h.insertAdjacentHTML("afterbegin", '<span class="numbering-entry"></span>');
      return [before, x()]; })()"""
    before, after = browser.run(heading)
    assert before == after


MANY = (
    *(("attention-avg", "attention-rollout", "grad-l1", "grad-l2", "chefer-lrp", "smoothgrad")),
    *(("grad-x-input", "integrated-gradients", "occlusion", "kernel-shap", "lime", "chefer", "deeplift")),
    "random",
)
UPRIGHT, SIDEWAYS = 695, 1024  # pixels of A4 between its margins


def paper(browser: Any, path: Path, width: int) -> list[tuple[str, float]]:
    """Tables that stick out of a sheet so wide, those meant for the other way of turning it left out."""
    browser.size(width, 1000)
    browser.open(path, ready="main, .cells")
    browser.send("Emulation.setEmulatedMedia", media="print")
    kind = ".part:not(:has(.wide))" if width == UPRIGHT else ".part:has(.wide)"
    found = browser.run(
        f"""[...document.querySelectorAll("main {kind} table")].map((t) =>
        [t.closest(".part").className, t.getBoundingClientRect().right, t.getBoundingClientRect().height])"""
    )
    assert all(height > 0 for *_, height in found), "what is folded up is printed too"
    return [(name, right) for name, right, _ in found if right > width]


@pytest.mark.parametrize("kind", [*every.KINDS, "fourteen methods"])
def test_every_table_fits_the_paper(
    kind: str, written: dict[str, Path], browser: Any, tmp_path: Path, make: Any
) -> None:
    path = written.get(kind, tmp_path / "many.html")
    if kind not in written:
        many = make(methods=[(name, "l" not in name[-2:], name in ("lime", "kernel-shap")) for name in MANY])
        path.write_text(many.page(), encoding="utf-8")
    try:
        assert paper(browser, path, UPRIGHT) == []
        assert paper(browser, path, SIDEWAYS) == []
        if kind not in written:
            assert browser.run('document.querySelectorAll("details:not([open]) table").length') > 0
            lines = (
                "(c) => [...c.childNodes].some((n) => { const r = document.createRange(); r.selectNode(n);"
            )
            lines += " return n.nodeType === 3 && r.getClientRects().length > 1; })"
            assert browser.run(f'[...document.querySelectorAll(".words td")].filter({lines}).length') == 0
            made = base64.b64decode(browser.send("Page.printToPDF", preferCSSPageSize=True)["data"])
            sheets = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", made)
            assert {float(wide) > float(high) for wide, high in sheets} == {False}  # no sheet must be turned
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("sandbox", ["", "allow-scripts"])
@pytest.mark.parametrize("styled", [True, False])
def test_a_cell_in_a_sandbox_is_shaded_by_score(
    styled: bool, sandbox: str, browser: Any, tmp_path: Path
) -> None:
    """As notebook hosts show it: a frame without our origin, scripts or not, styles taken away or not."""
    cell = every.explanation()._repr_html_()
    look = """<script>onload = () => parent.postMessage([...document.querySelectorAll(".shade")].map((e) =>
      [e.className, getComputedStyle(e).backgroundColor, getComputedStyle(e).color]), "*")</script>"""
    cell = cell if styled else re.sub("<style>.*?</style>", "", cell, flags=re.DOTALL)
    frame = f'<iframe sandbox="{sandbox}" width="900" height="1400" srcdoc="{escape(cell + look)}"></iframe>'
    page = tmp_path / "host.html"
    page.write_text(
        f"<!DOCTYPE html><main><script>onmessage = (e) => window.seen = e.data</script>{frame}</main>",
        encoding="utf-8",
    )
    browser.size(1000, 1500)
    browser.told.clear()
    browser.open(page, ready="main")
    if not sandbox:  # no script may look inside: its picture must hold the colours
        from PIL import Image

        shown = cell.split('class="panel">')[1].split("</p>")[0]  # the others wait behind their tabs
        kinds = {inline_style(kind, int(at)) for kind, at in re.findall(r"shade (pos|neg|any) l(\d)", shown)}
        wanted = [bytes.fromhex(each[12:18]) for each in kinds]
        near: list[bytes] = []
        for _ in range(40):  # a frame is painted when it is: on a busy machine after the page is ready
            browser.shot(shot := tmp_path / "shot.png")
            pixels = {rgb for _, rgb in Image.open(shot).convert("RGB").getcolors(1 << 24)}
            near = [
                each
                for each in wanted
                if any(max(abs(a - b) for a, b in zip(each, p, strict=True)) <= 1 for p in pixels)
            ]
            if len(near) == len(wanted):
                break
            time.sleep(0.25)
        assert len(near) == len(wanted) >= 3
        assert (255, 255, 0) not in pixels
        return
    browser.wait("window.seen !== undefined")
    seen = {kind: (back, ink) for kind, back, ink in browser.run("window.seen")}
    assert len(seen) >= 3
    assert len({back for back, _ in seen.values()}) == len({tuple(k.split()[1:3]) for k in seen})
    assert [line for line in browser.told if "sandbox" not in line.lower()] == []


@pytest.mark.parametrize("kind", every.KINDS)
def test_everything_stands_there_without_scripts(kind: str, written: dict[str, Path], browser: Any) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.send("Page.navigate", url=written[kind].resolve().as_uri())
        text = ""
        for _ in range(40):  # on a busy machine a page is there when it is
            time.sleep(0.25)
            if "onerror" in (text := browser.run("document.body ? document.body.innerText : ''")):
                break
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert "onerror" in text
    assert len(text) > 500
