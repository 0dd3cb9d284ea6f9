"""An audit in the terminal and on the page: the verdict first, and nothing cut."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.verdicts.laws import LAWS, pools

import heedful
from heedful.audits.shown_rows import ShownRow
from heedful.core import registry
from heedful.core.evidence import Evidence
from heedful.metrics.verdict import MethodFacts, judge
from heedful.metrics.verdict_sentences import PROMISE
from heedful.metrics.verdict_types import Verdict
from heedful.reports.audit_tables import HEADS, SINGLE, blocks, verdict_rows
from heedful.reports.terminal import as_text as drawn
from heedful.stats.intervals import share_of_count

METRICS = ("comprehensiveness", "sufficiency", "aopc", "insertion", "monotonicity", "infidelity")
METHODS = ("method-0", "method-1", "method-2", "method-3")


def judged(quality: tuple[float, ...] = (2.5, 1.2, 0.0, -1.0), n: int = 50, seed: int = 0) -> Verdict:
    given = pools(LAWS["symmetric"], np.array(quality), n, np.random.default_rng(seed))
    inputs = {f"method-{place}": 10.0 * place + 1 for place in range(len(quality))}
    return judge(given, MethodFacts(inputs, {"method-0": ("mask",)}))


def many(verdict: Verdict | None = None) -> heedful.Audit:
    """Six metrics under two operators."""
    table = []
    for metric in METRICS:
        for operator in ("mask", "delete"):
            for method, skill in zip(METHODS, (0.97, 0.5, 0.96, -0.06), strict=True):
                numbers = (skill, 0.0, 1.0, skill, (skill - 0.05, skill + 0.05), 50, (-0.2, 0.2))
                circular = (method, operator) == ("method-0", "mask")
                family = registry.get_metric(metric).family
                table.append(Evidence(metric, operator, method, *numbers, circular, family=family))
    cost = dict.fromkeys(("asked", "run", "naive"), 0)
    return heedful.Audit(Path("run"), table, verdict or judged(), 50, 50, cost)


def plain(text: str) -> str:
    return " ".join(text.split())


def as_text(found: heedful.Audit, width: int, verbose: bool = True) -> str:
    return drawn(found.document(), width, verbose)


def page(found: heedful.Audit) -> str:
    return found.page()


def test_the_answer_stands_first_everywhere() -> None:
    found = many()
    assert found.verdict.use == "method-0"
    first = f"Use method-0: it beat random orders on {found.verdict['method-0'].won} of 50 texts."
    rest = "No method is better. Better than random, too: method-1. Not proven better: method-2, method-3."
    assert found.verdict.headline == str(found.verdict).splitlines()[0] == str(found).splitlines()[0] == first
    for width in (70, 80, 170):
        for verbose in (False, True):
            shown = as_text(found, width, verbose)
            assert shown.splitlines()[0] == first, "the first line is the sentence, and nothing else"
            assert plain(shown).startswith(f"{first} {rest} a model, 50 texts")
    html = page(found)
    assert f"<bdi>{first}</bdi></h1>" in html
    assert html.index(first) < html.index("No method is better.") < html.index("<svg") < html.index("<table")
    short = as_text(found, 80, verbose=False)
    for detail in ("standard deviations", "usually detects", "The test removed words by", PROMISE):
        assert detail not in short
        assert detail in as_text(found, 170)
    for shown in (str(found.verdict), plain(as_text(found, 80)), html):
        assert shown.count(PROMISE) == 1


def test_the_terminal_shows_one_screen_unless_asked() -> None:
    """The answer, one line per method with its interval and the random line; tables with --verbose."""
    found = many()
    short = as_text(found, 80, verbose=False)
    assert len(short.splitlines()) <= 30
    for one in found.verdict.methods:
        share, (low, high) = share_of_count(one.won, one.texts)
        assert any(
            line.startswith(one.method)
            and re.search(rf"{share:.2f}\d* \({low:.2f}\d* to {high:.2f}\d*\)", line)
            for line in short.splitlines()
        )
    axis = next(line for line in short.splitlines() if line.split() == ["0", "0.5", "random", "1"])
    drawn_lines = [line for line in short.splitlines() if line.startswith("method-") and "│" in line]
    assert {line.index("│") for line in drawn_lines} == {axis.index("0.5") + 1}, "0.5 is below its line"
    assert "higher is better" in short
    assert "orders beaten" not in short
    assert "orders beaten" in plain(as_text(found, 80))


def test_mistakes_are_shown_with_their_words() -> None:
    words, scores = ("not ", "good", "."), (-2.0, 1.0, 0.0)
    one = ShownRow(7, "negative", "positive", "method-0", words, scores, cut=(True, False))
    more = tuple(replace(one, row=row) for row in (8, 9, 11))
    found = replace(many(), labelled=50, right=45, mistakes=(one, *more))
    short, html = as_text(found, 80, verbose=False), page(found)
    lead = "The prediction is the label on 45 of 50 labelled texts. The words are shaded by method-0."
    for shown in (plain(short), plain(html)):
        assert f"{lead} The first 4 of 5 mistakes:" in shown
    assert "Row 7: predicted positive, but the label is negative" in short
    assert "… not⁻ good⁺." in short
    assert "Row 11" not in short
    assert "Row 11" in as_text(found, 80)
    marks = [
        re.search(rf'<mark class="{shade}" [^>]*title="{score}"[^>]*>{word}</mark>', html)
        for shade, score, word in (("neg l9", "−2", "not"), ("pos l5", r"\+1", "good"))
    ]
    assert all(marks)
    numbers = re.findall(r'data-w="(\d+)"', html)
    assert len(numbers) == len(set(numbers)), "a word is not lit up with a word of another text"
    right = replace(found, right=50, mistakes=())
    assert "The prediction is the label on 50 of 50 labelled texts." in as_text(right, 80, verbose=False)
    assert "got wrong" not in page(right)
    none = replace(one, method="", scores=(0.0, 0.0, 0.0))
    assert "shaded by" not in page(replace(found, mistakes=(none,)))


@pytest.mark.parametrize("width", [60, 80, 100, 170])
def test_the_verdict_of_every_method_is_in_the_table(width: int) -> None:
    found = many()
    rows = verdict_rows(found)
    assert rows[0][0] == "● method-0"
    assert {row[0] for row in rows} >= {"○ method-2", "○ method-3"}
    shown, html = plain(as_text(found, width)), page(found)
    for row in rows:
        assert all(f"><bdi>{cell}</bdi></td>" in html for cell in row[1:])
        for part in plain(" ".join(row)).split():
            assert part in shown
    assert all(head.format(many="texts") in html for head in HEADS)


def test_no_method_is_named_where_none_is_better() -> None:
    found = many(judged((0.0, 0.0, 0.0, 0.0)))
    assert "No method is proven better than a random order" in as_text(found, 80)
    assert "No method is proven better than a random order on this model (50 texts).</bdi></h1>" in page(
        found
    )
    unsure = many(judged((1.2, 1.2, 1.2, 0.0), 20, 3))
    assert f"Use {unsure.verdict.use}, not certified: it beat random orders on" in page(unsure)
    assert "but another method may be better by up to" in page(unsure)


def test_few_texts_promise_nothing() -> None:
    few = many(judged(n=5))
    for shown in (plain(as_text(few, 80)), page(few)):
        assert "5 texts are too few for a verdict: at least 10 are needed." in shown
        assert PROMISE not in shown


def score(texts: list[str]) -> list[float]:
    return [float(3 * text.count("good") - 2 * text.count("bad")) for text in texts]


def test_the_range_of_random_orders_is_shown(tmp_path: Path) -> None:
    texts = [
        f"{a} good {b} food is not bad" for a in ("a", "the", "so") for b in ("old", "new", "hot", "raw")
    ]
    found = heedful.audit(
        score, texts, methods=["occlusion", "lime"], metrics=["aopc", "sufficiency"], draws=5, out=tmp_path
    )
    assert repr(heedful.Audit.load(tmp_path).verdict) == repr(found.verdict)
    low, high = found.table[0].chance
    head, first, *_ = (line.split(",") for line in found.to_csv().splitlines())
    line = dict(zip(head, first, strict=True))
    assert (float(line["chance_low"]), float(line["chance_high"])) == (low, high)
    assert f"<bdi>{low:.4g} to {high:.4g}</bdi>".replace("-", "−") in page(found)


def test_every_skill_has_its_interval() -> None:
    found = many()
    best = found.table[0]
    shown = f"{best.skill:.2f} ({best.interval[0]:.2f} to {best.interval[1]:.2f})"
    for width in (60, 80, 200):
        assert shown in as_text(found, width)
        assert plain(SINGLE) in plain(as_text(found, width))
    assert plain(SINGLE) in plain(page(found))


@pytest.mark.parametrize("width", [60, 80, 100, 120, 170])
def test_no_table_is_cut_at_any_width(width: int) -> None:
    """Every number keeps its mark, every metric and method its name; read back line by line."""
    found = many()
    lines = as_text(found, width).splitlines()
    assert all(len(line.rstrip()) <= width for line in lines)
    assert "…" not in "".join(lines)
    rest = iter(lines[next(i for i, line in enumerate(lines) if line.startswith("Words removed by")) :])
    for block in blocks(found):
        left = list(block.metrics)
        while left:
            heads = next(line for line in rest if line.startswith("method ")).split()[1:]
            assert heads == left[: len(heads)]
            del left[: len(heads)]
            for method in block.methods:
                line = next(rest)
                assert line.split()[0] == method
                for metric in heads:
                    made = block.cell(metric, method)
                    cell = f"{made.text} {made.note}"
                    assert made.text.startswith("↻") == block.cells[metric, method].circular
                    assert cell in line, (metric, method)
                    line = line.partition(cell)[2]


def test_an_audit_of_a_model_that_hardly_reads_says_so() -> None:
    found = replace(many(), made={"model": {"kind": "classifier"}})
    dull = replace(found, table=[replace(e, value=0.0001, best=0.0001) for e in found.table])
    for draw in (page, str):
        assert "there is little to explain" in plain(draw(dull))
        assert "there is little to explain" not in plain(draw(found))


def test_shares_apart_are_on_the_page(tmp_path: Path) -> None:
    """By family and by operator, with the spread; in turns each operator judges what the others fitted."""
    texts = [f"{a} good {b} bad" for a in ("a", "the", "so", "this") for b in ("old", "new", "hot")]
    options: dict[str, Any] = {"methods": ["occlusion"], "metrics": ["aopc", "insertion"], "draws": 5}
    found = heedful.audit(score, texts, out=tmp_path, operators="all", **options)
    one = found.verdict["occlusion"]
    assert set(one.by_operator) == {"delete", "mask", "swap"}
    assert set(one.by_family) == {"remove-top", "keep-top"}
    assert {(cell.fit, cell.operator) for cell in found.verdict.cells} == {
        (fit, by) for fit in one.by_operator for by in one.by_operator if fit != by
    }
    html = page(found)
    assert "spread over operators" in html
    for name, share in one.by_operator.items():
        assert f">{name}</th>" in html
        assert f"<bdi>{100 * share:.0f} %</bdi>" in html
