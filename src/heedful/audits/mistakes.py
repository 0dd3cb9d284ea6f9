"""Texts whose label the model did not predict: the first few, each with its words and their scores.

They are kept in the result, so that a report can show them without the shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from heedful.audits.audit_run import AuditRun
from heedful.audits.schemas import from_parquet
from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.io.labels import label_index

MAX_NAMED = 5  # units of an input that is no text
MAX_MISTAKES, MAX_WORDS = 5, 60  # in the result; the shards have all texts and words


@dataclass(frozen=True)
class Mistake:
    """One text, with its words as the recommended method scored them."""

    row: int
    label: str
    prediction: str
    method: str  # "" where none is recommended: then the scores are zeros
    words: tuple[str, ...]  # at most MAX_WORDS, around the largest score
    scores: tuple[float, ...]
    signed: bool = True
    cut: tuple[bool, bool] = (False, False)  # words are left out before and after these
    file: str = ""  # that it came from, where it has one of its own

    def __post_init__(self) -> None:
        if len(self.words) != len(self.scores):
            raise ValueError(f"{len(self.words)} words and {len(self.scores)} scores do not go together")


def mistakes_of(run: AuditRun, method: str, labels: Sequence[str]) -> tuple[Mistake, ...]:
    """The first of them by row; `labels` are the model's."""
    wrong: list[tuple[int, int, str, str, str]] = []  # row, shard, label, prediction, file
    names = ["row", "label", "prediction", "right", "file"]
    for number in run.numbers():
        texts = from_parquet(run.file(number, "texts.parquet"), names).to_pylist()
        told = ("label", "prediction", "file")
        here = [(t["row"], number, *(t[name] or "" for name in told)) for t in texts if t["right"] is False]
        wrong = sorted([*wrong, *here])[:MAX_MISTAKES]
    return tuple(
        replace(
            _mistake(_units(run, shard, row, method), row, _label(label, labels), prediction, method),
            file=Path(file).name,
        )
        for row, shard, label, prediction, file in wrong
    )


def _units(run: AuditRun, shard: int, row: int, method: str) -> list[Mapping[str, Any]]:
    """What one method says of one text; of any method where this one has no scores."""
    here = from_parquet(run.file(shard, "attributions.parquet"), only={"row": row}).to_pylist()
    chosen = [one for one in here if one["method"] == method] or here
    return [one for one in chosen if all(one[key] == chosen[0][key] for key in ("method", "fit"))]


def _mistake(
    units: Sequence[Mapping[str, Any]], row: int, label: str, prediction: str, method: str
) -> Mistake:
    scored = bool(method and units) and units[0]["method"] == method
    if units and units[0]["start"] is None:  # no text: its strongest units, by name
        by_size = sorted(units, key=lambda one: -abs(one["score"]))
        units = by_size[:MAX_NAMED] if scored else []
    scores = [float(one["score"]) if scored else 0.0 for one in units]
    entry = registry.explainers().get(method)
    start = _window([abs(score) for score in scores])
    end = start + MAX_WORDS
    return Mistake(
        row=row,
        label=label,
        prediction=prediction,
        method=method if scored else "",
        words=tuple(_words(units)[start:end]),
        scores=tuple(scores[start:end]),
        signed=entry.signed if entry else any(score < 0 for score in scores),
        cut=(start > 0, end < len(units)),
    )


def _words(units: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each with a space where the next one does not follow at once; units without a place with a comma."""
    if not units:
        return []
    if units[0]["start"] is None:
        return [one["text"] + "; " for one in units[:-1]] + [units[-1]["text"]]
    gaps = [" " * (later["start"] != one["end"]) for one, later in pairwise(units)]
    return [one["text"] + gap for one, gap in zip(units, [*gaps, ""], strict=True)]


def _window(sizes: Sequence[float]) -> int:
    """Where MAX_WORDS words begin that have the largest score in their middle."""
    best = max(range(len(sizes)), key=sizes.__getitem__, default=0)
    return max(0, min(best - MAX_WORDS // 2, len(sizes) - MAX_WORDS))


def _label(given: str, names: Sequence[str]) -> str:
    """As the model calls it: a file may have 0 and 1."""
    try:
        return names[label_index(given, names)]
    except HeedfulError:
        return given
