"""Texts whose label was not predicted: kept in the result, as the recommended method scored them."""

from __future__ import annotations

from pathlib import Path

import pytest

import heedful
from heedful.audits.row_previews import MAX_MISTAKES
from heedful.audits.shown_rows import MAX_WORDS, ShownRow

GOOD = ("a", "the", "so", "this", "my", "our", "her", "his", "old", "new", "hot", "raw")


class Yes:
    """Labels a text "yes" where it has "good"."""

    def __call__(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 3.0 * text.split().count("good")] for text in texts]


def run(labels: list[str], texts: list[str] | None = None, out: Path | None = None) -> heedful.Audit:
    texts = texts or [f"{word} good day, and bad food" for word in GOOD]
    model = heedful.load(Yes(), labels=("no", "yes"))
    methods, metrics = ["occlusion"], ["comprehensiveness", "sufficiency"]
    return heedful.audit(model, texts, labels=labels, methods=methods, metrics=metrics, draws=5, out=out)


def test_the_first_mistakes_are_kept_without_the_shards(tmp_path: Path) -> None:
    found = run(["1", "0", "no"] + ["no"] * 7 + ["yes"] * 2, out=tmp_path / "run")
    assert found.verdict.use == "occlusion"
    assert (found.labelled, found.right) == (12, 3)
    assert [one.row for one in found.mistakes] == list(range(1, 1 + MAX_MISTAKES))
    first = found.mistakes[0]
    assert (first.label, first.prediction, first.method) == ("no", "yes", "occlusion"), "0 is named"
    assert "".join(first.words) == "the good day, and bad food"
    best = max(range(len(first.scores)), key=first.scores.__getitem__)
    assert first.words[best].strip() == "good"
    assert first.signed
    assert heedful.Audit.load(tmp_path / "run").mistakes == found.mistakes
    found.save(tmp_path / "alone")
    assert not (tmp_path / "alone" / "shards").exists()
    assert heedful.Audit.load(tmp_path / "alone").mistakes == found.mistakes


def test_no_mistake_no_section() -> None:
    found = run(["yes"] * 12)
    assert found.mistakes == ()
    assert "got wrong" not in str(found)


def test_a_long_text_is_shown_around_its_largest_score() -> None:
    long = " ".join(["bad"] * 90 + ["good"] + ["food"] * 90)
    found = run(["no"] + ["yes"] * 12, [long, *(f"{word} good day" for word in GOOD)])
    (one,) = found.mistakes
    assert len(one.words) == len(one.scores) == MAX_WORDS
    assert "good " in one.words
    assert one.cut == (True, True)


def test_without_a_recommendation_nothing_is_shaded() -> None:
    found = run(["no", "yes"], ["a good day", "the good food"])
    assert not found.verdict.use
    (one,) = found.mistakes
    assert one == ShownRow(0, "no", "yes", "", ("a ", "good ", "day"), (0.0, 0.0, 0.0), signed=False)
    assert "a good day" in str(found)


@pytest.mark.parametrize("leaf", ["row", "label", "words", "scores"])
def test_a_damaged_mistake_is_refused(leaf: str) -> None:
    from dataclasses import asdict

    from heedful.io.json_codec import from_jsonable, to_jsonable

    data = to_jsonable(asdict(ShownRow(0, "no", "yes", "", ("a",), (0.0,))))
    with pytest.raises(ValueError, match="instead of"):
        from_jsonable(ShownRow, {**data, leaf: {"x": 1}})
    with pytest.raises(ValueError, match="do not go together"):
        from_jsonable(ShownRow, {**data, "words": ["a", "b"]})
