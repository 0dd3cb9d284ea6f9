"""Every lab has its page, written from a full run, and stands in the list as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from heedful.labs import labs

PAGES = Path(__file__).parents[2] / "docs" / "labs"


def test_the_list_is_that_of_the_labs() -> None:
    rows = re.findall(
        r"^\| \[`?([a-z-]+)`?\]\(\S+\) \| ([\d.]+) \|", (PAGES / "index.md").read_text("utf-8"), re.M
    )
    assert {name: float(minutes) for name, minutes in rows} == {n: each.minutes for n, each in labs().items()}


@pytest.mark.parametrize("name", list(labs()))
def test_a_page_is_of_a_full_run_that_held(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text("utf-8")
    assert page.startswith(f"# {labs()[name].title}\n")
    assert f"`heedful lab run {name} --seed" in page
    assert "--fast" not in page.partition("\n- ")[0]
    assert "\n- ✓ " in page
    assert "\n- ✗ " not in page
    for figure in re.findall(r"\]\((\S+\.svg)\)", page):
        assert (PAGES / figure).is_file()
