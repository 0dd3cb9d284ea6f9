"""What was already written, and the share of the text, in the terminal, on the page and in the table."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from scipy import stats

from heedful.comparisons.result import Comparison, matrix
from heedful.core.attribution import Written
from heedful.core.target import Target
from heedful.modalities.text import TextInput
from heedful.reports import generation_table, terminal
from heedful.reports.columns import columns, written_columns
from heedful.reports.comparison_summary import agreeing, measured, pointed
from heedful.reports.input_share import shares, written_part

Make = Callable[..., Comparison]
EVIL = "<script>alert(3)</script>"


def page(comparison: Comparison) -> str:
    return comparison.page()


def show(comparison: Comparison) -> Callable[[Console], None]:
    return lambda console: terminal.show(comparison.document(), console, verbose=True)


def table(comparison: Comparison) -> Callable[[Console], None]:
    return lambda console: terminal.show(generation_table.document([comparison]), console)


def sentences(comparison: Comparison) -> list[str]:
    return [pointed(comparison), *agreeing(comparison)]


def encode(text: str) -> TextInput:
    spans = tuple(match.span() for match in re.finditer(r"\S+", text))
    n = len(spans)
    tokens = tuple(text[a:b] for a, b in spans)
    return TextInput(text, tuple(range(n)), tokens, spans, (False,) * n, tuple(range(n)), spans, (0,) * n)


def given(comparison: Comparison, text: str = "so good") -> Comparison:
    """grad-l2 cannot, attention has its own scale, lime has errors; all others put 1 on each word."""
    x, items = encode(text), []
    for item in comparison.attributions:
        scores, error = np.ones(len(x)), np.full(len(x), 2.0) if item.method == "lime" else None
        part = None if item.method == "grad-l2" else Written(x, scores, error, "attention" not in item.method)
        items.append(replace(item, target=Target("token", 3, "food", given=x.ids), written=part))
    return replace(comparison, attributions=tuple(items))


def printed(draw: Callable[[Console], None], width: int = 160) -> str:
    out = io.StringIO()
    draw(Console(file=out, width=width, highlight=False))
    return out.getvalue()


def by_hand(comparison: Comparison, method: str) -> str:
    item = comparison[method]
    text = sum(abs(s) for s, special in zip(item.scores, item.x.special, strict=True) if not special)
    return f"{100 * text / (text + np.abs(item.written.scores).sum()):.0f} %"


def test_the_terminal_has_both_parts_and_the_shares(make: Make) -> None:
    comparison = given(make())
    text = printed(show(comparison))
    part = text.split("The text, and what was already written")[1]
    assert "so good" in part
    rows = dict(re.findall(r"^(\S+(?: \(control\))?) {2,}(\d+ %|–) *$", part, re.M))
    expected = {name: by_hand(comparison, name) for name in ("grad-x-input", "integrated-gradients", "lime")}
    expected |= {"grad-l2": "–", "attention-rollout": "–", "random (control)": by_hand(comparison, "random")}
    assert rows == expected
    assert "it would be 83 %" in " ".join(text.split()), "ten words were read and two written"
    assert "does not score what was written" in " ".join(text.split())


def test_without_a_prefix_nothing_is_said(make: Make) -> None:
    comparison = make()
    assert "already written" not in printed(show(comparison))
    assert "already written" not in page(comparison)
    assert written_part(comparison) is None
    assert shares(comparison) == []


def test_the_page_has_the_section(make: Make) -> None:
    comparison = given(make())
    section = page(comparison).split('<section class="part written"')[1].split("</section>")[0]
    assert f"<bdi>lime</bdi></th><td><bdi>{by_hand(comparison, 'lime')}</bdi></td>" in section
    assert "<bdi>grad-l2</bdi></th><td><bdi>–</bdi></td>" in section
    assert "by number of tokens it would be 83 %" in section.lower()
    assert re.search(r"<bdi>good</bdi></th>.*±", section)


def test_hostile_writing_is_shown_and_never_run(make: Make) -> None:
    comparison = given(make(), f"{EVIL} \x1b[31m \u202ered")
    assert EVIL not in page(comparison)
    assert "&lt;script&gt;alert(3)" in page(comparison)
    for text in (
        printed(show(comparison)),
        printed(table(comparison)),
    ):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_written_word_competes_and_is_marked(make: Make) -> None:
    comparison = given(make())
    large = tuple(
        item if item.written is None else replace(item, written=replace(item.written, scores=np.full(2, 9.0)))
        for item in comparison.attributions
    )
    comparison = replace(comparison, attributions=large)
    text = printed(table(comparison), 300)
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("token"))
    head, row = lines[start : start + 2]
    assert "text's share of tokens" in head
    assert row.split()[:4] == ["food", "<", "7", "%"]
    for method, marked in (("grad-x-input", True), ("attention-rollout", False), ("lime", True)):
        cell = row[head.index(method) :].split("  ")[0]
        assert ("‹so›" in cell) == marked, method
    cell = row[head.index("grad-x-input") :]
    assert cell.startswith(f"{by_hand(comparison, 'grad-x-input')} text: ▲‹so›, ▲‹good›, ")
    assert "83 %" in row[: head.index("grad-l2")]


def test_a_causal_step_tells_its_own_words_apart(make: Make) -> None:
    """The last words of the text were written: of [CLS], ten words and [SEP], seven tokens are the prompt."""
    comparison = make()
    comparison = replace(comparison, settings={**comparison.settings, "prompt_tokens": 7})
    item = comparison["lime"]
    sizes = np.abs(item.scores)
    expected = sizes[1:7].sum() / sizes[1:11].sum()
    assert comparison.input_shares()["lime"] == pytest.approx(expected)
    text = printed(table(comparison), 300)
    strongest = sorted(item.words(), key=lambda word: -abs(word.score))[:3]
    for word in strongest:
        late = item.x.word_spans.index((word.start, word.end)) >= 6
        assert (f"‹{word.text}›" if late else word.text) in text
    assert "60 %" in text, "six of ten by count"


def few(make: Make, size: float) -> Comparison:
    """Three words and two written ones: “so” scores `size` times the strongest, “good” a tenth of that."""
    comparison, x = make("we must go", FEW), encode("so good")
    items = []
    for item in comparison.attributions:
        scores = size * np.abs(item.scores[1:4]).max() * np.array([1, 0.1])
        target = Target("token", 3, "food", given=x.ids)
        items.append(replace(item, target=target, written=Written(x, scores)))
    return replace(comparison, attributions=tuple(items))


FEW = (("occlusion", True, False), ("grad-x-input", True, False), ("random", True, False))


@pytest.mark.parametrize("size", [3.0, 20.0])
def test_a_written_word_is_ranked_named_and_drawn_on_the_same_scale(make: Make, size: float) -> None:
    comparison = few(make, size)
    first, *rest = sentences(comparison)
    so = "the written “so”"
    assert first == f"Both methods put {so} first among the words: {so} pushes towards “food”."
    assert not any("fewer than five" in line for line in rest), "five words are ranked"
    assert measured(comparison)[0] == f"The strongest: {so} for 2 of 2 methods."
    tops = {col.method: col.top for col in written_columns(comparison)}
    for col in columns(comparison):
        largest = max(abs(score) for score in col.item.scores[1:4])
        assert col.top == tops[col.method] == pytest.approx(size * largest)
        assert max(abs(col.share(word)) for word in col.words) == pytest.approx(1 / size)


def test_agreement_counts_written_words_where_every_method_scores_them(make: Make) -> None:
    comparison = few(make, 3.0)
    a, b = (
        np.array([*comparison[name].scores[1:4], *comparison[name].written.scores])
        for name in ("occlusion", "grad-x-input")
    )
    assert matrix(comparison)[1][0, 1] == pytest.approx(stats.kendalltau(a, b).statistic)
    first, *others = comparison.attributions
    alone = replace(comparison, attributions=(replace(first, written=None), *others))
    short = stats.kendalltau(a[:3], b[:3]).statistic
    assert matrix(alone)[1][0, 1] == pytest.approx(short)
    assert "not every method scores what was written" in sentences(alone)[1]


def test_another_scale_is_not_mixed_in(make: Make) -> None:
    comparison = few(make, 3.0)
    items = tuple(
        replace(item, written=replace(item.written, same_scale=False)) for item in comparison.attributions
    )
    comparison = replace(comparison, attributions=items)
    assert "written “" not in " ".join(sentences(comparison))
    for col in columns(comparison):
        assert col.top == max(abs(score) for score in col.item.scores[1:4])


@pytest.mark.parametrize("width", [60, 100])
def test_fits_the_width(make: Make, width: int) -> None:
    comparison = given(make())
    for text in (
        printed(show(comparison), width),
        printed(table(comparison), width),
    ):
        assert max(map(cell_len, text.splitlines())) <= width
