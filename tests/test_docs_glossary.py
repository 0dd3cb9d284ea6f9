"""The glossary has the project's terms, each short and with a link, and links into headings are right."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FRONT = ("faq", "glossary", "comparison", "index", "start", "models", "weigh", "report", "add-an-explainer")
PATHS = ("for-models", "for-research", "for-teaching")
PAGES = [ROOT / "README.md", *(DOCS / f"{name}.md" for name in (*FRONT, *PATHS))]
LINK = re.compile(r"\]\(([^)#:]*?\.(?:md|png|ipynb))?(?:#([\w-]+))?\)")
TERMS = re.split(r"^### ", (DOCS / "glossary.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Ids of the headings, as the docs site makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return frozenset(re.sub(r"[-\s]+", "-", heading) for heading in plain)


def test_there_are_thirty_terms_in_order() -> None:
    names = [term.splitlines()[0] for term in TERMS]
    assert len(names) >= 30
    assert names == sorted(names, key=str.lower)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.splitlines()[0])
def test_a_term_is_short_and_leads_on(term: str) -> None:
    _, _, text = term.partition("\n")
    meaning = text.partition("→")[0]
    assert LINK.search(text), "no link"
    assert len(re.findall(r"[.:?](?:\s|$)", meaning)) <= 4, "more than two or three sentences"
    assert len(meaning.split()) <= 60


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings_that_are_there(page: Path) -> None:
    for name, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / name) if name else page
        assert target.is_file(), f"{page.name} links to {name}"
        if heading:
            assert heading in anchors(target), f"{page.name} links to {target.name}#{heading}"
