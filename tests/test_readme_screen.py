"""The first screen that README shows is what its Python prints."""

from __future__ import annotations

import re
from pathlib import Path

import heedful

README = Path(__file__).parents[1] / "README.md"


def test_the_first_screen_of_the_readme_is_real() -> None:
    page = README.read_text(encoding="utf-8")
    text = re.search(r'^text = "(.*)"$', page, re.M)
    block = re.search(r"^```text\n(.*?)^```$", page, re.M | re.S)
    assert text is not None
    assert block is not None
    printed = str(heedful.explain(heedful.load("zoo:sentiment"), text[1]))
    assert " ".join(printed.split()).startswith(" ".join(block[1].split()))
