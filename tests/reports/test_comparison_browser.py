"""The report of an explanation on paper and on a telephone, in a real browser."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.reports import every

from heedful.comparisons.result import Comparison

TEXT = "the selection on the menu is great and so is the food the service is not bad prices are fine"
PANELS = "[...document.querySelectorAll('.choice > .panel')].filter((p) => p.offsetHeight).length"


@pytest.fixture
def report(make: Callable[..., Comparison], browser: Any, tmp_path: Path) -> Iterator[Any]:
    found = make(TEXT)
    found = replace(found, internals=every.seen(len(found.x.units("word"))))
    path = tmp_path / "report.html"
    path.write_text(found.page(), encoding="utf-8")
    browser.size(1200, 900)
    browser.open(path, ready="main")
    yield browser
    browser.send("Emulation.setEmulatedMedia", media="")


def test_on_paper_the_text_is_shown_by_one_method_and_takes_few_pages(report: Any) -> None:
    report.send("Emulation.setEmulatedMedia", media="print")
    assert report.run(PANELS) == 1
    broken = "[...document.querySelectorAll('.heedful :is(h2, h3, summary), .tabs > label')]"
    assert report.run(f"{broken}.every((e) => getComputedStyle(e).breakAfter === 'avoid')")
    printed = base64.b64decode(report.send("Page.printToPDF")["data"])
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6


def test_on_a_telephone_the_text_is_above_the_picker(report: Any) -> None:
    above = """(() => {
      const [text, first] = ['.choice .text', '.choice > label'].map((s) => document.querySelector(s));
      return text.getBoundingClientRect().bottom <= first.getBoundingClientRect().top;
    })()"""
    assert not report.run(above)
    report.size(390, 800, mobile=True)
    assert report.run(above)
