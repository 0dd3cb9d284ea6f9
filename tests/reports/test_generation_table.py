"""The table of what a model wrote: every token, its probability, and each method's strongest words."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.console import Console

from heedful.comparisons.result import Comparison
from heedful.reports import terminal
from heedful.reports.columns import columns
from heedful.reports.generation_table import TOP_WORDS, document

Make = Callable[..., Comparison]


def printed(found: list[Comparison], width: int = 160) -> str:
    out = io.StringIO()
    terminal.show(document(found), Console(file=out, width=width, highlight=False))
    return out.getvalue().lstrip("\n")


def test_one_row_a_token_with_the_strongest_words_first(make: Make) -> None:
    comparison = make()
    lines = printed([comparison, comparison]).splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("token"))
    first, second, *_ = lines[head + 1 :]
    assert first == second
    assert first.split()[:3] == ["positive", "93", "%"]
    lime = next(col for col in columns(comparison) if col.method == "lime")
    best = max(lime.words, key=lambda word: abs(word.score))
    shown = first[lines[head].index("lime") :]
    assert shown.split()[0].strip("▲▼△▽,") == best.text
    assert sum(map(first.count, "▲▼△▽")) == 4 * TOP_WORDS, (
        "signed methods mark their words: 4 of 6 are signed"
    )


def test_the_words_that_mattered_come_first_one_sentence_per_method(make: Make) -> None:
    comparison = make()
    lines = printed([comparison, comparison], 300).splitlines()
    said = lines[: lines.index("")]
    assert len(said) == len(columns(comparison))
    lime = next(col for col in columns(comparison) if col.method == "lime")
    total = sum(abs(word.score) for word in lime.words)
    best = max(lime.words, key=lambda word: abs(word.score))
    share = f"({100 * abs(best.score) / total:.0f} % of its scores)"
    line = next(
        line for line in said if line.startswith("By lime, the words of the prompt that mattered most")
    )
    assert re.search(f"most are “{best.text}[₁₂₃]?” {re.escape(share)}", line)
    assert said[-1].startswith("Control: random scores would name “")


@pytest.mark.parametrize("width", [60, 100])
def test_fits_the_width(make: Make, width: int) -> None:
    assert max(map(cell_len, printed([make()], width).splitlines())) <= width


def test_a_token_outside_the_likeliest_says_so(make: Make) -> None:
    model = {"name": "m", "kind": "causal-lm", "prediction": [["other", 0.4], ["more", 0.2]]}
    assert "< 20 %" in printed([make(model=model)])


def test_hostile_text_cannot_steer_the_terminal(hostile: Comparison) -> None:
    text = printed([hostile])
    assert "\x1b" not in text
    assert "\u202e" not in text
