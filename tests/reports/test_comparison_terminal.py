"""The terminal view: fits every width, plain when piped, sign by more than colour, safe with hostile text."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

import heedful
from heedful.cli.console import console, counted
from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.document import Cell, Column, Document, Row, Table, text_table
from heedful.core.evidence import Evidence
from heedful.core.target import Target
from heedful.reports import terminal
from heedful.reports.columns import column
from heedful.reports.html import nodes_html
from heedful.reports.terminal import show
from heedful.reports.terminal_grid import bar
from heedful.reports.text_columns import is_text
from heedful.reports.visible import visible

Make = Callable[..., Comparison]


def printed(comparison: Comparison, width: int, verbose: bool = True, **console: bool) -> str:
    out = io.StringIO()
    where = Console(file=out, width=width, highlight=False, **console)  # type: ignore[arg-type]
    show(comparison.document(), where, verbose)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_fits_the_width_and_loses_nothing(make: Make, width: int) -> None:
    comparison = make()
    text = printed(comparison, width)
    assert max(map(cell_len, text.splitlines())) <= width
    col = {item.method: column(item) for item in comparison.attributions}
    for method, one in col.items():
        assert method.split("-")[-1] in text
        for word in one.words:
            assert one.number(word) in text
    assert "…" not in text


def test_wide_holds_all_methods_in_one_block_and_narrow_wraps(make: Make) -> None:
    assert len(re.findall(r"^word ", printed(make(), 200), re.M)) == 1
    assert len(re.findall(r"^word ", printed(make(), 40), re.M)) > 2


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_first_screen_of_a_sentence_is_at_most_25_lines_and_has_the_answer_first(
    make: Make, width: int
) -> None:
    comparison = make("the food is great and the service is not bad and the prices are fine too")
    text = printed(comparison, width, verbose=False)
    if width >= 80:
        assert len(text.splitlines()) <= 24, "one line is left for where to find more"
    assert max(map(cell_len, text.splitlines())) <= width
    first, *_ = text.splitlines()
    assert first.startswith("positive 93.0 %  ▇▇▇▇▇▇▇▇▁")
    assert "What it cost" not in text
    assert "heedful.audit on 50" in re.sub(r"\s+", " ", text)


def test_words_that_occur_twice_are_numbered(make: Make) -> None:
    text = printed(make(), 80, verbose=False)
    assert re.search("^the₁ ", text, re.M)
    assert re.search("^the₂ ", text, re.M)
    assert not re.search("^great₁", text, re.M)


def test_says_prediction_target_cost_notes_and_control(make: Make) -> None:
    text = printed(make(skipped={"lime-exact": "needs one layer"}), 120)
    answer = ("positive 93.0 %", "the logit of “positive”, which is 2.5", "The random control")
    footer = ("forward", "backward", "1,234", "special", "attention switched to eager", "(control)")
    for part in (*answer, *footer, "lime-exact  needs one layer"):
        assert part in re.sub(r" +\n", "\n", text), part


def test_sign_is_in_the_text_and_unsigned_methods_have_none(make: Make) -> None:
    signed = make(methods=[("grad-x-input", True, False)])
    shown = re.findall(r"^\w+[₁₂₃]? +([+−])\d", printed(signed, 80, verbose=False), re.M)
    assert shown == ["+" if word.score > 0 else "−" for word in signed["grad-x-input"].words()]
    assert not re.search(r"[+−]\d", printed(make(methods=[("grad-l2", False, False)]), 80, verbose=False))


def test_a_sign_within_its_error_is_marked_unsure(make: Make) -> None:
    sampled = make(methods=[("lime", True, True)])
    lines = [line for line in printed(sampled, 80, verbose=False).splitlines() if "± 0.30" in line]
    for line, word in zip(lines, sampled["lime"].words(), strict=True):
        assert ("? " in line) == (abs(word.score) <= 1.96 * 0.3)


def test_plain_when_piped_and_with_no_color(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in printed(make(), 80)
    assert re.search(r"\x1b\[[\d;]*3[48]", printed(make(), 80, force_terminal=True, color_system="256"))  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3[48]", printed(make(), 80, force_terminal=True))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):  # as on a terminal: neither colour nor bold nor dim
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr("sys.stdout", out := io.StringIO())
    show(make().document(), console())
    assert "\x1b" not in out.getvalue()
    assert "positive 93.0 %" in out.getvalue()
    monkeypatch.delenv("NO_COLOR")
    show(make().document(), console())
    assert "\x1b[1m" in out.getvalue()


def test_the_time_left_is_of_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each count has its own pace; what has no count, such as loading, has no numbers."""
    now = 100.0
    monkeypatch.setattr("heedful.cli.console.time.monotonic", lambda: now)
    count = counted()
    assert count(0, 0) == ""
    now += 10
    assert count(20, 100) == "20/100, about 40 s left"
    now += 1
    assert count(1, 50) == "1/50"  # another method, which has not shown its pace yet
    now += 2
    assert count(11, 50) == "11/50, about 7.8 s left"
    assert count(0, 1) == ""


def test_an_audit_says_one_time_left_and_counts_its_own_rows() -> None:
    from heedful.cli.commands.audit import _progress
    from heedful.core.progress import Step

    said: list[tuple[str, int, int]] = []
    progress = _progress(lambda step: said.append((step.label, step.done, step.total)), "text")
    progress(Step("auditing texts", done=30, total=100, resumed=20))
    assert said == [
        ("auditing texts", 0, 0),
        ("auditing texts (20 were done earlier)", 10, 80),
    ]
    assert "left" not in said[-1][0], "the bar tells it"


def test_long_texts_keep_the_strongest_words_and_say_so(make: Make) -> None:
    comparison = make(" ".join(f"w{i}" for i in range(100)))
    text = printed(comparison, 200, verbose=False)
    assert "10 of 100 words, by highest scores." in text
    assert len(re.findall(r"^w\d+ +[+−?]?[ \d]", text, re.M)) == 10
    whole = re.sub("[⁺⁻]", "", text.replace("\n", ""))
    assert " ".join(f"w{i}" for i in range(100)) in whole, "the text is whole"
    assert len(re.findall(r"^w\d+ +[+−?]?[ \d]", printed(comparison, 200), re.M)) == 100


def test_text_cannot_steer_the_terminal(hostile: Comparison) -> None:
    text = printed(hostile, 80)
    assert not set(text) & set("\x1b\x00\u202e")
    assert "[bold]&" in printed(hostile, 200)  # not taken for markup
    assert "␛" in text


def test_visible_leaves_ordinary_text_alone() -> None:
    text = "naïve שלום 很好 👩‍👩‍👧 a\u0301"
    assert visible(text) == text
    assert visible("\x1b\x00\n\x7f\x9b\u202e\u2028") == "␛␀␊␡���"


def test_bars_grow_with_the_share() -> None:
    lengths = [sum(8 if c == "█" else " ▏▎▍▌▋▊▉".index(c) for c in bar(share / 40, 5)) for share in range(41)]
    assert lengths == list(range(41))
    assert bar(0.0, 5) == ""
    assert bar(0.001, 5) == "▏"


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 0.02, 1.0, 400.0, 1e7])
def test_numbers_keep_their_digits_at_every_scale(make: Make, scale: float) -> None:
    item = make(methods=[("occlusion", True, False)])["occlusion"]
    one = column(Attribution(item.x, item.target, item.scores * scale, "occlusion"))
    for word in one.words:
        value = float(one.number(word)) * 10.0**one.exponent
        assert value == pytest.approx(abs(word.score), abs=0.006 * one.top)
        assert len(one.number(word)) <= 7


def test_degenerate_scores_are_shown_not_crashed_on(make: Make) -> None:
    base = make("one two three four five six")
    for values in (np.zeros(8), np.full(8, np.nan), np.array([0, 1, np.nan, np.inf, -np.inf, 0, 1, 2.0])):
        odd = Comparison((Attribution(base.x, Target("class"), values, "odd"),), base.model, base.settings)
        assert "odd" in printed(odd, 80)
    single = make("one", methods=[("grad-l2", False, False), ("random", True, False)])
    assert "Do the methods agree?" not in printed(single, 80), "one word has no order"
    assert "no rows" in printed(Comparison((), skipped={"lime": "no rows"}), 80, verbose=False)


@pytest.mark.parametrize("unit", ["token", "sentence"])
def test_rows_are_the_unit_that_was_scored(make: Make, unit: str) -> None:
    comparison = make("It was bad. The end was good.", settings={"unit": unit})
    text = printed(comparison, 200)
    assert re.search(rf"^{unit} ", text, re.M)
    if unit == "sentence":
        assert re.search(r"^It was bad\. ", text, re.M)


def test_the_evidence_cuts_no_name_on_a_narrow_terminal(make: Make) -> None:
    methods = ("grad-l2", "integrated-gradients", "attention-rollout", "lime")
    found = tuple(
        Evidence(metric, "delete", method, 1.0, 0.0, 1.0, 0.9, (0.0, 1.0), 1, (0.0, 0.7))
        for method in methods
        for metric in ("comprehensiveness", "sufficiency", "log-odds")
    )
    comparison = replace(make(), evidence=found)
    table = printed(comparison, 44).split("not judged here")[1].split("Do the methods agree?")[0]
    assert "…" not in table
    assert max(map(cell_len, table.splitlines())) <= 44


def test_strong_words_are_marked_where_there_is_no_colour(make: Make) -> None:
    text = "a b c d e f g h i j"
    base = make(text, methods=[("m", True, False), ("n-l2", False, False)])
    scores = np.array([0.0, 9.0, 0.1, -8.0, *[0.1] * 7, 0.0])
    items = tuple(replace(item, scores=scores if item.signed else abs(scores)) for item in base.attributions)
    found = replace(base, attributions=items)
    plain = re.sub(r"\s*\n", " ", printed(found, 80))
    assert "a⁺ b c⁻ d e f g h i j  (⁺ for, ⁻ against, shaded by m)" in plain
    assert "a* b c* d e f g h i j" in plain
    assert "⁺ towards the target, ⁻ away from it; * strong" in plain, "the legend has the same marks"
    colour = printed(found, 80, force_terminal=True, color_system="256")  # type: ignore[arg-type]
    assert "⁺" not in colour
    assert "blue towards the target" in colour
    assert "shaded by m" in colour


def test_the_demo_sentence_shows_the_contradiction_in_25_lines() -> None:
    text = "the selection on the menu is great and so is the food the service is not bad prices are fine"
    said = str(heedful.explain(heedful.load("zoo:sentiment"), text))
    assert len(said.splitlines()) <= 24, "one line is left for where to find more"
    flat = re.sub(r"\s+", " ", said)
    assert re.search(r"“selection”: [^.]*occlusion.* claim [^“]*, but deleting it gives −0\.06\.", flat)


def test_one_method_alone_names_itself_its_target_and_its_words(make: Make) -> None:
    item = make()["grad-x-input"]
    said = str(item)
    first, *_ = said.splitlines()
    assert first.startswith("grad-x-input")
    assert "the logit of “positive” (2.5)" in first
    top = item.top(1)[0]
    assert re.search(rf"Strongest words: “{top.text}[₁₂]?” \([+−]{abs(top.score):.2f}", said)
    for page in (said, item.page(), item._repr_html_()):
        assert not re.search(
            "a model|No evidence|audit", re.sub("<(style|script).*?</", "", page, flags=re.S)
        )
    assert "sizes without a sign" in str(make()["grad-l2"])


def test_columns_of_text_start_at_the_left() -> None:
    rows = [("w", "occlusion", "+0.31"), ("word", "lime and more", "–")]
    table = text_table("t", ("word", "claimed by", "claimed"), rows)
    assert [is_text(table, place) for place in range(3)] == [True, True, False]
    drawn = nodes_html([table], 2, "")
    assert '<th scope="col" class="words">claimed by</th>' in drawn
    assert '<td class="words"><bdi>lime and more</bdi></td>' in drawn
    assert "<td><bdi>+0.31</bdi></td>" in drawn
    lines = terminal.as_text(Document("t", (table,)), 60).splitlines()
    assert lines[2].startswith("w     occlusion      ")
    numbers = Table("n", (Column("word"), Column("x")), (Row((Cell("a"), Cell("no", shade=0.5))),))
    assert not is_text(numbers, 1), "a shaded cell has a number"
