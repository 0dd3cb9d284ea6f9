"""Every Python block of the README and the docs runs, page by page, in one namespace a page."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from heedful.core import registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")  # the examples that a page opens
    registry.explainers()  # all of ours are there before a page adds its own, which goes with the page
    monkeypatch.setattr(registry, "_explainers", dict(registry._explainers))
    namespace: dict[str, object] = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), namespace)
    assert "heedful" in namespace or "GPT2" in namespace


def test_links_between_pages_hold() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#:]+\.(?:md|png|html|svg|ipynb))(?:#[\w-]+)?\)", text):
            assert (page.parent / link).is_file(), f"{page.name} links to {link}"


def test_every_method_and_metric_has_a_page_that_says_when_it_lies() -> None:
    for folder, entries in (("methods", registry.explainers()), ("metrics", registry.metrics())):
        names = {path.stem for path in (ROOT / "docs" / folder).glob("*.md")}
        ours = {name for name, entry in entries.items() if entry.run.__module__.startswith("heedful")}
        assert names == ours
        for name in ours:
            assert len(entries[name].limitations) > 40, f"{name} does not say its limitations"


def test_every_page_is_reached_from_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}" in menu, f"{page.name} is not in the menu of mkdocs.yml"


def test_generated_pages_are_current() -> None:
    """`make docs` writes them; a method that was added or changed makes them stale."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for name, make in generate.PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == make(), f"run make docs: {name} is stale"
