"""The whole trial: every test in one table, words that follow from numbers, a result that opens again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reports.opened import without_note

import heedful
from heedful.core.document import Headline
from heedful.core.errors import HeedfulError
from heedful.io.datasets.labelled_texts import LabelledTexts
from heedful.trials.rationale_data import with_marks
from heedful.trials.result import Trial
from heedful.trials.rows import BESIDE_ALL_WORDS, BESIDE_ONE_WORD, TrialRow
from heedful.trials.sentences import UNDECIDED, answer, conclusion, statements
from heedful.trials.tests import retrain_uniform, uniform_attention
from heedful.trials.tests.correlation import LEFT_OUT
from heedful.trials.tests.seeds import TWO_SEEDS
from heedful.trials.tests.trained_adversary import ATTENTION, LIMIT

TEXTS = ["the cat sat on the mat", "a dog ran to the low house", "not bad at all", "hello world"]
LIGHT: dict[str, Any] = {"permutations": 5, "starts": 2, "climb": 5}
ALL = ("correlation", "permutation", "adversary", "uniform", "frozen", "seeds", "trained adversary", "guide")


def learnable(n: int, seed: int) -> tuple[list[str], list[int], list[list[int]]]:
    """A cat or a dog decides; it is what people would mark."""
    rng = np.random.default_rng(seed)
    texts, labels, marks = [], [], []
    for _ in range(n):
        label, place = int(rng.integers(0, 2)), int(rng.integers(0, 5))
        words = list(rng.choice(["the", "sat", "on", "mat", "ran", "to", "low"], 4))
        words.insert(place, ("cat", "dog")[label])
        texts.append(" ".join(words))
        labels.append(label)
        marks.append([int(k == place) for k in range(5)])
    return texts, labels, marks


@pytest.fixture(scope="module")
def quick(shared: Any) -> Trial:
    return heedful.trial(shared("bert").model, TEXTS, ["positive", "negative", 1, 0], **LIGHT)


@pytest.fixture(scope="module")
def whole(small: Any) -> Trial:
    train = learnable(80, 0)
    texts, labels, _ = learnable(3, 1)
    return heedful.trial(
        small(), texts, labels, train=train, improve=["rationales"], seeds=2, steps=20, **LIGHT
    )


def test_tests_that_train_are_left_out_without_texts_and_said(quick: Trial) -> None:
    assert tuple(dict.fromkeys(f.test for f in quick.findings)) == ALL[:4]
    assert tuple(quick.skipped) == ALL[4:]
    assert quick.texts == 4


def test_every_test_is_held_with_texts_to_train_on(whole: Trial) -> None:
    assert tuple(dict.fromkeys(f.test for f in whole.findings)) == (*ALL, "training")
    assert whole.skipped == {}
    assert tuple(whole.details) == (*ALL, "training")
    assert [said.test for said in whole.statements] == [*ALL, "training"]
    guides = [f.what for f in whole.of("guide") if f.unit == "accuracy"]
    assert any("shuffled" in what for what in guides)
    names = {f.what for f in whole.of("training")}
    assert {"accuracy, none", "AUPRC, rationales", "JSD of an adversary, rationales"} <= names
    assert "tau of attention and leave-one-out, none" in names


def test_every_number_has_a_control_and_an_interval(whole: Trial) -> None:
    for found in whole.findings:
        assert math.isfinite(found.value), found
        assert found.interval[0] <= found.value + 1e-9, found
        assert found.value <= found.interval[1] + 1e-9, found
        assert math.isfinite(found.control) or found.test == "training", found
        assert found.n > 1


def test_a_saved_trial_opens_and_says_the_same(whole: Trial, tmp_path: Path) -> None:
    again = Trial.load(whole.save(tmp_path / "trial"))
    assert again.to_dict() == whole.to_dict()
    assert again.verdict == whole.verdict
    assert without_note(again.page()) == whole.page()
    json.dumps(whole.to_dict(), allow_nan=False)
    lines = whole.to_csv().splitlines()
    assert len(lines) == 1 + len(whole.findings)


def test_what_is_no_trial_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(HeedfulError, match="is not a run folder"):
        Trial.load(tmp_path)
    with pytest.raises(HeedfulError, match="is not a run folder"):
        Trial.load(tmp_path / "nowhere")


def test_the_same_seed_gives_the_same_trial(shared: Any) -> None:
    model = shared("bert").model
    light = {"tests": ["permutation"], **LIGHT}
    some, same, other = (heedful.trial(model, TEXTS, seed=seed, **light) for seed in (0, 0, 1))
    values = [[f.value for f in found.findings] for found in (some, same, other)]
    assert values[0] == values[1]
    assert values[0] != values[2]


def test_mistakes_are_told(shared: Any) -> None:
    model = shared("bert").model
    with pytest.raises(HeedfulError, match="no test 'magic'"):
        heedful.trial(model, TEXTS, tests=["magic"])
    with pytest.raises(HeedfulError, match="Did you mean 'permutation'"):
        heedful.trial(model, TEXTS, tests=["permutations"])
    with pytest.raises(HeedfulError, match="no option speed"):
        heedful.trial(model, TEXTS, speed=3)
    with pytest.raises(HeedfulError, match="no term"):
        heedful.trial(model, TEXTS, improve=["nicer"])
    with pytest.raises(HeedfulError, match="at least two seeds"):
        heedful.trial(model, TEXTS, seeds=1)
    for wrong in ({"permutations": 0}, {"starts": 0}, {"climb": 0}, {"epsilon": -1.0}):
        with pytest.raises(HeedfulError, match="cannot be"):
            heedful.trial(model, TEXTS, **wrong)
    with pytest.raises(HeedfulError, match="one string"):
        heedful.trial(model, "the cat sat")
    with pytest.raises(HeedfulError, match="no test could run"):
        heedful.trial(model, TEXTS, tests=["frozen"])


def test_texts_to_test_on_are_not_trained_on(small: Any) -> None:
    train, tried = learnable(60, 0)[:2], learnable(6, 1)[:2]
    both = tuple(a + b for a, b in zip(train, tried, strict=True))
    found = heedful.trial(small(), *tried, train=both, tests=["frozen"], seeds=2, steps=3)
    assert "6 training texts are among those to test on" in found.notes[0]


def test_one_word_alone_gets_no_verdict(small: Any) -> None:
    found = heedful.trial(small(), ["cat"], tests=["correlation", "adversary"], **LIGHT)
    assert "nan" not in found.verdict
    assert "nothing is said" in found.conclusion
    json.dumps(found.to_dict(), allow_nan=False)


def test_ctrl_c_keeps_the_tests_that_are_finished(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.trials.tests import adversary

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    model, texts = small(), learnable(4, 1)[0]
    monkeypatch.setattr(adversary, "adversary", stop)
    found = heedful.trial(model, texts, tests=["permutation", "adversary", "uniform"], **LIGHT)
    assert {f.test for f in found.findings} == {"permutation"}
    assert set(found.skipped) == {"adversary", "uniform"}
    assert found.interrupted
    with pytest.raises(KeyboardInterrupt):  # nothing is finished: nothing to keep
        heedful.trial(model, texts, tests=["adversary"], **LIGHT)


def test_hyphens_will_do(small: Any) -> None:
    train, tried = learnable(60, 0)[:2], learnable(6, 1)[:2]
    found = heedful.trial(small(), *tried, train=train, tests=["trained-adversary"], seeds=2, steps=5)
    assert {f.test for f in found.findings} == {"trained adversary"}


# --- words follow from numbers ------------------------------------------------------------------------------


def tried(rows: tuple[TrialRow, ...], texts: int) -> Trial:
    """A trial with the words that follow from these rows."""
    return Trial(
        rows, texts, statements=statements(rows), conclusion=conclusion(rows, texts), answer=answer(rows)
    )


def adversary(share: float, layer: int = 0, reach: float = 0.02, n: int = 9) -> TrialRow:
    """So far of what is possible, and how sure that is."""
    extra = {
        "highest JSD of any weights": 0.6,
        "share of texts with an adversary": 1.0,
        "attention on words": 0.95,
        "share of starts feasible": 0.5,
    }
    ends = (0.6 * (share - reach), 0.6 * (share + reach))
    return TrialRow(
        "adversary",
        f"other attention, layer {layer}",
        0.6 * share,
        ends,
        0.1,
        "x",
        n,
        extra=extra,
        variant=f"layer {layer}",
    )


def test_the_conclusion_follows_how_far_attention_can_go() -> None:
    free, part, held = (tried((adversary(share),), 9) for share in (0.9, 0.3, 0.05))
    assert "other attention gives the same answers in every layer" in free.conclusion
    assert "in part" in part.conclusion
    assert "hardly any other" in held.conclusion
    assert "Nothing else here speaks against" in held.conclusion
    mixed = tried((adversary(0.9, 0), adversary(0.05, 1)), 9)
    assert "replaceable in layer 0" in mixed.conclusion
    assert "nothing is said" in tried((), 9).conclusion


def test_the_conclusion_is_no_surer_than_the_interval() -> None:
    unsure = tried((adversary(0.6, reach=0.3),), 9)
    assert "in part" in unsure.conclusion
    assert "too few" in tried((adversary(0.9, n=2),), 2).conclusion
    nothing = TrialRow("adversary", "other attention, layer 0", math.nan, (math.nan, math.nan), n=9)
    assert "nothing is said" in tried((nothing,), 9).conclusion
    assert "No text has two words" in tried((nothing,), 9).statements[0].showed


def test_the_headline_is_the_answer_and_no_surer_than_the_tests() -> None:
    free, part, held = (tried((adversary(share),), 9).answer for share in (0.9, 0.3, 0.05))
    assert free == "Attention alone does not explain these predictions"
    assert part == UNDECIDED
    assert held == "This test does not speak against attention as an explanation"
    mixed = tried((adversary(0.9, 0), adversary(0.05, 1)), 9).answer
    assert mixed == "In 1 of 2 layers, attention alone does not explain these predictions"
    assert tried((adversary(0.6, reach=0.3),), 9).answer == UNDECIDED
    assert tried((adversary(0.9, n=2),), 2).answer.startswith("2 texts are too few")
    assert tried((), 9).answer == UNDECIDED
    document = tried((adversary(0.9),), 9).document()
    assert isinstance(document.nodes[0], Headline)
    assert document.nodes[0].text == free


def test_a_test_that_speaks_against_attention_is_counted_in_the_headline() -> None:
    ranks = TrialRow(
        "correlation",
        "attention and leave-one-out, layer 0",
        0.1,
        (-0.1, 0.3),
        0.0,
        n=9,
        extra={"share significant": 0.1},
        key=LEFT_OUT,
        variant="layer 0",
    )
    found = tried((ranks, adversary(0.05)), 9)
    assert found.answer == "1 of 2 tests speaks against attention as an explanation"


def test_sentences_have_one_format_for_numbers() -> None:
    said = tried((adversary(0.9),), 9).statements[0]
    assert "For 100 % of texts" in said.showed
    assert "JSD 0.54 (0.53 to 0.55) of at most 0.60" in said.showed
    assert "Up to 50 % of the starts" in said.more


def test_a_search_that_never_kept_the_answer_is_told() -> None:
    found = adversary(0.05)
    lost = replace(found, extra={**found.extra, "share of starts feasible": 0.0})
    assert "longer search" in tried((lost,), 9).conclusion
    assert "longer search" not in tried((found,), 9).conclusion


def test_the_conclusion_says_how_little_could_move() -> None:
    found = adversary(0.9)
    few = replace(found, extra={**found.extra, "attention on words": 0.3})
    assert "Only attention to words was changed, which is 30 % of it" in tried((few,), 9).conclusion


def test_heads_that_cancel_are_told() -> None:
    found = adversary(0.9)
    both = [replace(found, extra={**found.extra, "JSD of the heads' mean": mean}) for mean in (0.01, 0.14)]
    assert "moves less, by JSD 0.01 to 0.14" in tried(tuple(both), 9).conclusion
    far = replace(found, extra={**found.extra, "JSD of the heads' mean": 0.5})
    assert "heads" not in tried((far,), 9).conclusion
    assert "moves by JSD 0.50" in tried((far,), 9).statements[0].more


def test_other_tests_may_speak_against_it() -> None:
    def ranks(low: float) -> TrialRow:
        return TrialRow(
            "correlation",
            "attention and leave-one-out, layer 0",
            0.1,
            (low, 0.3),
            0.0,
            "x",
            9,
            extra={"share significant": 0.1},
            key=LEFT_OUT,
            variant="layer 0",
        )

    assert "not clearly better than chance" in tried((adversary(0.05), ranks(-0.1)), 9).conclusion
    assert "better than chance" not in tried((adversary(0.05), ranks(0.05)), 9).conclusion
    unknown = replace(ranks(0.1), value=math.nan, interval=(math.nan, math.nan))
    assert "better than chance" not in tried((adversary(0.05), unknown), 9).conclusion
    moved = TrialRow(
        "trained adversary",
        "attention moved, lambda 1",
        0.5,
        (0.4, 0.6),
        0.1,
        "seeds",
        9,
        extra={"TVD": 0.01, "lambda": 1.0},
        key=ATTENTION,
    )
    apart = TrialRow("seeds", "attention of two seeds apart", 0.1, (0.05, 0.2), 0.3, "x", 3, key=TWO_SEEDS)
    said = tried((adversary(0.05), apart, moved), 9).conclusion
    assert "Another model gives the same answers" in said
    assert "Nothing else here" not in said


def test_an_adversary_beyond_the_seeds_is_told_from_one_that_is_not() -> None:
    seeds = TrialRow("seeds", "attention of two seeds apart", 0.15, (0.1, 0.2), 0.3, "x", 3, key=TWO_SEEDS)

    def said(low: float, tvd: float) -> str:
        extra = {"TVD": tvd, "lambda": 1.0}
        line = TrialRow(
            "trained adversary",
            "attention moved, lambda 1",
            0.3,
            (low, 0.4),
            0.15,
            "x",
            9,
            extra=extra,
            key=ATTENTION,
        )
        return tried((seeds, line), 9).statements[1].showed

    assert "That is further than" in said(0.25, 0.01)
    assert "not clearly further" in said(0.18, 0.01)  # beyond the mean of seeds, not beyond their interval
    assert "No trained adversary kept" in said(0.25, 2 * LIMIT)


def test_shuffling_is_read_beside_a_deleted_word() -> None:
    def said(low: float, high: float) -> str:
        extra = {"more than one word deleted": (low + high) / 2, "at least": low, "at most": high}
        found = TrialRow(
            "permutation",
            "weights, layer 0",
            0.2,
            (0.1, 0.3),
            0.1,
            "one word",
            9,
            extra=extra,
            key=BESIDE_ONE_WORD,
        )
        return tried((found,), 9).statements[0].showed

    assert "matters less" in said(-0.2, -0.1)
    assert "matters more" in said(0.1, 0.2)
    assert "matters" not in said(-0.1, 0.1)
    assert "no clear difference" in said(-0.1, 0.1)
    assert "no clear difference" in said(-0.004, -0.001)  # below what two decimals show


@pytest.mark.parametrize("value", [0.0, 1e-3])
def test_two_zeros_are_not_compared(by_hand: Any, value: float) -> None:
    """Answers that hang on nothing, or on words by less than can be seen, though always in one direction."""
    words = ("cat", "dog", "sat", "ran", "low", "mat", "not", "bad")
    toy = by_hand({word: (0.2 * i, value * (1 + i % 3)) for i, word in enumerate(words)}, "cat dog")
    rng = np.random.default_rng(41)
    texts = [" ".join(rng.choice(words, 4)) for _ in range(5)]
    found = heedful.trial(toy.cases.model, texts, [0, 1, 0, 1, 0], **LIGHT)
    by_test = {line.test: line.showed for line in found.statements}
    for test in ("permutation", "uniform"):
        assert by_test[test].endswith("Neither changes the answer, so this test shows nothing here.")
    assert "single word" not in found.verdict.split("Not shown")[1]
    assert "neither other attention nor deleting words changes the answers" in found.conclusion
    assert "better than chance" not in found.conclusion
    assert "nan" not in found.verdict


def test_an_accuracy_that_stays_does_not_go() -> None:
    def said(own: float, moved: float) -> str:
        lines = (
            TrialRow(
                "uniform",
                "uniform attention, change of the answer, layer 0",
                moved,
                (0.0, 0.3),
                0.2,
                key=BESIDE_ALL_WORDS,
            ),
            TrialRow(
                "uniform",
                "uniform attention, accuracy, layer 0",
                0.8,
                (0.6, 0.9),
                0.5,
                extra={"accuracy of the model as it is": own},
                key=uniform_attention.ACCURACY,
            ),
        )
        return tried(lines, 9).statements[0].showed

    assert "accuracy stays at 0.80" in said(0.8, 0.1)
    assert "accuracy goes from 0.90 to 0.80" in said(0.9, 0.1)
    assert "shows nothing" not in said(0.8, 0.0)  # all words deleted does change the answer


def test_training_that_failed_says_nothing_of_attention() -> None:
    def said(low: float, lost: float) -> str:
        own = {"this model": 0.9}
        lines = (
            TrialRow(
                "frozen",
                "accuracy, trained freely",
                0.7,
                (low, 0.8),
                0.55,
                "x",
                3,
                "accuracy",
                own,
                retrain_uniform.FREE,
                "accuracy",
            ),
            TrialRow(
                "frozen",
                "accuracy, lost without attention",
                0.1,
                (lost, 0.2),
                0.0,
                "x",
                3,
                "accuracy",
                {},
                retrain_uniform.LOST,
                "accuracy",
            ),
        )
        return tried(lines, 9).statements[0].showed

    assert "did not clearly learn" in said(0.5, 0.05)
    assert "attention helps them" in said(0.6, 0.05)
    assert "not shown that they need attention" in said(0.6, -0.05)


# --- marks --------------------------------------------------------------------------------------------------


def test_marked_texts_are_split_and_never_on_both_sides(small: Any) -> None:
    texts, labels, marks = learnable(40, 3)
    given = LabelledTexts([*texts, "the mat"], [*labels, 0], [*marks, None])
    train, held = with_marks(small(), given, 16)
    assert held.marks is not None
    assert bool(held.marks.any(1).all())
    rows = {tuple(row[m.bool()].tolist()) for row, m in zip(train.ids, train.mask, strict=True)}
    assert not rows & {tuple(row[m.bool()].tolist()) for row, m in zip(held.ids, held.mask, strict=True)}
    assert train.marks is not None
    assert int((~train.marks.any(1)).sum()) == 1  # the text nobody marked


# --- page ---------------------------------------------------------------------------------------------------


def test_the_page_shows_every_number_and_runs_nothing(whole: Trial) -> None:
    html = whole.page()
    assert html.count("<script") == 1  # the house's own, for charts; its hash is in the policy
    assert "script-src 'sha256-" in html
    assert html.count("<tr>") >= len(whole.findings)
    for said in whole.statements:
        assert said.title in html
    assert "Not shown:" in html
    assert html.count('<svg class="plot') >= len(ALL)


def test_names_are_escaped(quick: Trial) -> None:
    evil = replace(quick, model={"name": "<script>alert(1)</script>"}, notes=("<img onerror=x>",))
    for html in (evil.page(), evil._repr_html_()):
        assert "<script>alert" not in html
        assert "<img" not in html
