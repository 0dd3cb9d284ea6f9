"""Which method to heed: by the share of what a method takes part in, and only by faithfulness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.auditing.answer import AuditVerdict, answer
from heedful.evidence.verdict import FEW, PROMISE, Verdict
from heedful.types import Evidence
from heedful.view.audit_page import page
from heedful.view.audit_summary import SINGLE, blocks
from heedful.view.audit_terminal import as_text

EVERY = ("occlusion", "lime", "grad")


def verdict(lead: str, methods: Sequence[str] = EVERY, dull: str = "", **more: Any) -> Verdict:
    given: dict[str, Any] = {"metric": "aopc", "operator": "mask", "n": 50, "behind": ()} | more
    return Verdict(
        methods=tuple(methods), means=(0.0,) * len(methods), lead=tuple(lead.split()),
        no_better_than_random=tuple(dull.split()), control=0.0, **given,
    )  # fmt: skip


def told(*verdicts: Verdict) -> AuditVerdict:
    return answer(verdicts, 50)


def test_a_method_that_takes_part_less_often_is_not_punished() -> None:
    found = told(
        *[verdict("occlusion")] * 2, verdict("occlusion lime"), *[verdict("lime", ("lime", "grad"))] * 3
    )
    assert found.heed == ("occlusion",)
    assert found.often == "leads in 3 of 3"
    assert "heed occlusion: alone or tied, occlusion leads in 3 of the 3 measurements" in found.headline
    assert "next is lime, in 4 of 6" in found.headline


def test_a_method_must_take_part_in_half() -> None:
    found = told(verdict("occlusion"), *[verdict("lime", ("lime", "grad"))] * 2)
    assert found.heed == ("lime",)
    assert "occlusion takes part in too few to be ranked" in found.headline


def test_only_faithfulness_counts() -> None:
    steady = [verdict("grad", metric="vsi", operator="", faithful=False)] * 9
    assert told(*steady, verdict("lime")).heed == ("lime",)
    alone = told(*steady)
    assert alone.heed == ()
    assert "was not measured" in alone.headline


def test_ties_are_named() -> None:
    found = told(*[verdict("occlusion lime", dull="grad")] * 4)
    assert found.heed == ("occlusion", "lime")
    assert found.often == "tie in 4 of 4"
    assert (
        "occlusion and lime tie, each leading in 4 of the 4 measurements it takes part in" in found.headline
    )
    assert "grad is never shown to be better than a random order" in found.headline
    apart = told(verdict("occlusion lime"), verdict("lime", ("lime", "grad")))
    assert apart.often == "tie in 1 of 1 and 2 of 2"
    assert "(occlusion in 1 of 1, lime in 2 of 2)" in apart.headline


def test_no_clear_lead_is_said() -> None:
    every = told(verdict("occlusion lime grad"))
    half = told(verdict("occlusion"), verdict("occlusion"), verdict("lime"), verdict("grad"))
    none = told(verdict("", dull="occlusion lime grad"))
    assert [found.heed for found in (every, half, none)] == [()] * 3
    assert "no method clearly leads: occlusion, lime and grad tie" in every.headline
    assert "no method clearly leads: at most, occlusion leads in 2 of the 4" in half.headline
    assert "no method leads in any; occlusion, lime and grad are never shown to be better" in none.headline
    few = told(verdict("lime", n=FEW - 1))
    assert few.headline == f"{FEW - 1} texts are too few to tell methods apart; at least {FEW} are needed."


def test_a_measurement_without_a_leader_is_held_against_no_method() -> None:
    """lime is not judged where nobody leads; grad is, and must not fall behind for it."""
    idle = verdict("", ("occlusion", "grad"), dull="occlusion grad")
    found = told(*[verdict("lime grad")] * 3, idle)
    assert found.heed == ("lime", "grad")
    assert "lime and grad tie, each leading in 3 of the 3 measurements" in found.headline
    assert "in 1 of the 4 no method leads, so it is not counted" in found.headline
    assert "next is" not in found.headline
    assert "By 4 measurements" in found.headline
    two = told(verdict("lime"), idle, idle)
    assert two.heed == ("lime",), "half of the measurements with a leader is enough"
    assert "in 2 of the 3 no method leads, so they are not counted" in two.headline
    assert "not counted" not in told(*[verdict("lime")] * 3).headline


def test_never_shown_better_counts_every_measurement() -> None:
    """grad does better where nobody leads together with it: not never."""
    found = told(verdict("lime", dull="grad"), verdict("", ("lime", "grad"), dull="lime"))
    assert "never" not in found.headline


def test_few_texts_are_said_to_tell_little() -> None:
    assert "10 texts tell little: try 50." in told(verdict("lime", n=10)).headline
    assert "29 texts tell little" in told(verdict("lime", n=29), verdict("lime", n=12)).headline
    assert "tell little" not in told(verdict("lime", n=30), verdict("lime", n=12)).headline


def test_what_holds_of_every_verdict_is_said_once() -> None:
    found = many()
    single = " ".join(SINGLE.split())
    for shown in (str(found.verdict), as_text(found, 80), as_text(found, 200), page(found)):
        plain = " ".join(shown.split())
        assert plain.count(PROMISE) == plain.count("no false claim") == 1
    assert str(found.verdict[0]).endswith(PROMISE), "a verdict that stands alone says it"
    assert single in page(found)
    assert single in as_text(found, 200)
    assert single not in " ".join(as_text(found, 80).split()), "no interval stands there"
    few = told(verdict("lime", n=FEW - 1))
    assert "false claim" not in str(few)
    assert "false claim" not in page(replace(found, verdict=few))


def score(texts: list[str]) -> list[float]:
    return [float(3 * text.count("good") - 2 * text.count("bad")) for text in texts]


def test_the_page_says_the_same_and_chance_is_shown(tmp_path: Path) -> None:
    texts = [
        f"{a} good {b} food is not bad" for a in ("a", "the", "so") for b in ("old", "new", "hot", "raw")
    ]
    found = heedful.audit(
        score, texts, methods=["occlusion", "lime"], metrics=["aopc", "sufficiency"], draws=5, out=tmp_path
    )
    clear = replace(found, verdict=told(verdict("occlusion")))
    assert '<bdi>occlusion</bdi> <span class="chance">leads in 1 of 1</span>' in page(clear)
    assert "No method clearly leads</h1>" in page(replace(found, verdict=told(verdict("", dull="lime"))))
    assert heedful.audit.load(tmp_path).verdict == found.verdict
    low, high = found.table[0].chance
    head, first, *_ = (line.split(",") for line in found.to_csv().splitlines())
    line = dict(zip(head, first, strict=True))
    assert (float(line["chance_low"]), float(line["chance_high"])) == (low, high)
    assert f"<td>{low:.4g} to {high:.4g}</td>".replace("-", "−") in page(found)


def test_the_terminal_has_intervals_where_they_fit_and_the_verdicts(tmp_path: Path) -> None:
    found = heedful.audit(score, ["a good day", "good bad food"] * 6, methods=["occlusion"], out=tmp_path)
    best = found.table[0]
    shown = f"{best.skill:.2f} [{best.interval[0]:.2f}, {best.interval[1]:.2f}]".replace("-", "−")
    assert shown in as_text(found, 200)
    assert ", with 95 % intervals" in as_text(found, 200)
    assert shown not in as_text(found, 80)
    narrow = " ".join(as_text(found, 80).split())
    assert all(" ".join(verdict.words.split()) in narrow for verdict in found.verdict)


METRICS = ("comprehensiveness", "sufficiency", "aopc", "insertion", "monotonicity", "infidelity")
METHODS = ("integrated-gradients", "attention-rollout", "lime", "grad-avg")


def many() -> heedful.Audit:
    """Six metrics under two operators, every mark in use."""
    table, judged = [], []
    for metric in METRICS:
        for operator in ("mask", "delete"):
            for method, skill in zip(METHODS, (0.97, 0.5, 0.96, -0.06), strict=True):
                numbers = (skill, 0.0, 1.0, skill, (skill - 0.05, skill + 0.05), 50, (-0.2, 0.2))
                circular = (method, metric) == ("lime", "infidelity")
                table.append(Evidence(metric, operator, method, *numbers, circular))
            given: Any = {"metric": metric, "operator": operator, "behind": ("attention-rollout",)}
            judged.append(verdict("integrated-gradients lime", METHODS, "grad-avg", **given))
    return heedful.Audit(
        Path("run"), table, answer(judged, 50), 50, 50, dict.fromkeys(("asked", "run", "naive"), 0)
    )


@pytest.mark.parametrize("width", [60, 80, 100, 120, 170])
def test_no_table_is_cut_at_any_width(width: int) -> None:
    """Every number keeps its mark, every metric and method its name; read back line by line."""
    found = many()
    lines = as_text(found, width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert "…" not in "".join(lines)
    drawn = iter(lines)
    for block in blocks(found):
        left = list(block.metrics)
        while left:
            heads = next(line for line in drawn if line.startswith("method ")).split()[1:]
            assert heads == left[: len(heads)]
            del left[: len(heads)]
            for method in block.methods:
                line = next(drawn)
                assert line.split()[0] == method
                for metric in heads:
                    interval = block.interval(metric, method) if width == 170 else ""
                    cell = f"{block.shown(metric, method)}{interval} {block.mark(metric, method)}".rstrip()
                    assert cell in line, (metric, method)
                    line = line.partition(cell)[2]
    wanted = {60: 6, 80: 4, 100: 2, 120: 2, 170: 2}
    assert sum(line.startswith("method ") for line in lines) == wanted[width]


def test_numbers_without_a_mark_stand_under_those_with_one() -> None:
    lines = as_text(many(), 100).splitlines()
    rows = [line for line in lines if line.startswith(METHODS) and line.split()[1].startswith(("0.", "−0."))]
    assert len(rows) == 8
    assert len({line.index(".") for line in rows}) == 1


def test_an_audit_of_a_model_that_hardly_reads_says_so() -> None:
    found = replace(many(), made={"model": {"kind": "classifier"}})
    dull = replace(found, table=[replace(e, value=0.0001, best=0.0001) for e in found.table])
    for draw in (page, str):
        assert "there is little to explain" in " ".join(draw(dull).split())
        assert "there is little to explain" not in " ".join(draw(found).split())
