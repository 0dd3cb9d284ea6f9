"""Every kind of page: valid HTML, nothing fetched, small, safe with hostile text, all of it to be read."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import html5lib
import pytest
from tests.reports.every import EVIL, KINDS, pages

BLOCKS = {"div", "ul", "ol", "dl", "table", "section", "h1", "h2", "h3", "pre"}
SRC = Path(__file__).parents[2] / "src" / "heedful"


@pytest.fixture(scope="module", params=KINDS)
def source(request: pytest.FixtureRequest) -> str:
    return pages()[request.param]()


def test_no_kind_of_page_is_left_out() -> None:
    """Every result class with a report is tried here."""
    declared = {
        kind
        for file in SRC.rglob("*.py")
        for kind in re.findall(r'kind: ClassVar\[str\] = "([\w-]+)"', file.read_text(encoding="utf-8"))
    }
    named = {"picture": "comparison", "picture_atlas": "atlas"}
    named |= {
        "explanation": "comparison",
        "features": "feature",
        "sweep": "steer",
        "feature": "saved_feature",
    }
    tried = {named.get(kind, kind) for kind in KINDS} | {"attribution"}  # a comparison of one
    assert declared == tried


def test_a_strict_parser_finds_no_error(source: str) -> None:
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree = parser.parse(source)
    ids = [element.get("id") for element in tree.iter() if isinstance(element.tag, str) and element.get("id")]
    assert len(ids) == len(set(ids))
    paragraphs = [p for p in tree.iter("p") if any(child.tag in BLOCKS for child in p.iter())]
    assert not paragraphs, "a block in a paragraph"


def test_headings_go_down_one_step_at_a_time(source: str) -> None:
    tree = html5lib.parse(source, namespaceHTMLElements=False)
    levels = [int(e.tag[1]) for e in tree.iter() if isinstance(e.tag, str) and re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_hostile_text_is_text(source: str) -> None:
    tree = html5lib.parse(source, namespaceHTMLElements=False)
    images = [e for e in tree.iter("img") if not (e.get("src") or "").startswith("data:image/png;base64,")]
    assert not images
    assert len([*tree.iter("script")]) == source.count("<script")
    assert not [
        e for e in tree.iter() if isinstance(e.tag, str) for name in e.attrib if name.startswith("on")
    ]
    said = "".join(tree.find("body").itertext())
    assert 'onerror="window.ran=1"' in said
    assert "שלום 👩‍👩‍👧" in said
    assert "\u202e" not in source, "a sign that turns the text around it"
    assert EVIL not in source


def test_nothing_is_fetched_and_the_page_is_small(source: str) -> None:
    assert len(source.encode()) < 2_000_000
    tree = html5lib.parse(source, namespaceHTMLElements=False)
    named = [e.get(n) for e in tree.iter() if isinstance(e.tag, str) for n in ("src", "href") if e.get(n)]
    assert all(re.match("#|data:image/png", name) for name in named)
    assert not [e for e in tree.iter() if e.tag in ("link", "iframe", "object", "form", "base")]
    assert not re.search(r"@import|url\((?!#)|https?://(?!www.w3.org/2000/svg)", source)
    assert "default-src 'none'" in source
    assert "unsafe" not in source.split("</head>")[0].split("<style>")[0]
