"""Single rows that a report shows, each with its units and their scores as the recommended method has them.

    mistakes   the first rows whose label the model did not predict
    examples   where there are none: a few rows, if they have a preview (heedful.io.previews)

They are kept in the result, so that a report can show them without the shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from heedful.audits.audit_run import AuditRun
from heedful.audits.row_previews import MAX_EXAMPLES, MAX_MISTAKES
from heedful.audits.schemas import rows_of
from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.io.labels import label_index
from heedful.io.previews import read_preview

MAX_NAMED = 5  # units of an input that is no text
MAX_WORDS = 60  # of one text in the result; the shards have all texts and words
NAMES = ("row", "label", "prediction", "right", "file", "preview")  # of the table of texts


@dataclass(frozen=True)
class ShownRow:
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
    preview: str = ""  # the input in small, where it is no text
    unit_scores: tuple[float, ...] = ()  # of all units, for the preview

    def __post_init__(self) -> None:
        if self.preview:
            read_preview(self.preview)  # of a stranger's folder: refused here, if it is none
        if len(self.words) != len(self.scores):
            raise ValueError(f"{len(self.words)} words and {len(self.scores)} scores do not go together")


def mistakes_of(run: AuditRun, method: str, labels: Sequence[str]) -> tuple[ShownRow, ...]:
    """The first of them by row; `labels` are the model's."""
    wrong: list[tuple[int, int, Any]] = []  # row, shard, its line in the table of texts
    for number in run.numbers():
        here = [(text["row"], number, text) for text in _texts(run, number) if text["right"] is False]
        wrong = sorted([*wrong, *here], key=lambda one: one[:2])[:MAX_MISTAKES]
    return tuple(_shown(run, shard, text, method, labels) for _, shard, text in wrong)


def examples_of(run: AuditRun, method: str, labels: Sequence[str]) -> tuple[ShownRow, ...]:
    """The first rows of the first shard, by row, that have a preview."""
    first = run.numbers()[0]
    there = sorted((text for text in _texts(run, first) if text["preview"]), key=lambda text: text["row"])
    return tuple(_shown(run, first, text, method, labels) for text in there[:MAX_EXAMPLES])


def _texts(run: AuditRun, shard: int) -> Iterator[Mapping[str, Any]]:
    return rows_of(run.file(shard, "texts.parquet"), NAMES)


def _shown(
    run: AuditRun, shard: int, text: Mapping[str, Any], method: str, labels: Sequence[str]
) -> ShownRow:
    units = _units(run, shard, text["row"], method)
    label = _label(text["label"], labels) if text["label"] is not None else ""
    shown = _row(units, text["row"], label, text["prediction"] or "", method)
    preview = text["preview"] or ""
    scores = tuple(float(one["score"]) for one in units) if preview and shown.method else ()
    return replace(shown, file=Path(text["file"] or "").name, preview=preview, unit_scores=scores)


def _units(run: AuditRun, shard: int, row: int, method: str) -> list[Mapping[str, Any]]:
    """What one method says of one text; of any method where this one has no scores."""
    here = list(rows_of(run.file(shard, "attributions.parquet"), only={"row": row}))
    chosen = [one for one in here if one["method"] == method] or here
    return [one for one in chosen if all(one[key] == chosen[0][key] for key in ("method", "fit"))]


def _row(units: Sequence[Mapping[str, Any]], row: int, label: str, prediction: str, method: str) -> ShownRow:
    scored = bool(method and units) and units[0]["method"] == method
    if units and units[0]["start"] is None:  # no text: its strongest units, by name
        by_size = sorted(units, key=lambda one: -abs(one["score"]))
        units = by_size[:MAX_NAMED] if scored else []
    scores = [float(one["score"]) if scored else 0.0 for one in units]
    signed = registry.is_signed(method)
    start = _window([abs(score) for score in scores])
    end = start + MAX_WORDS
    return ShownRow(
        row=row,
        label=label,
        prediction=prediction,
        method=method if scored else "",
        words=tuple(_words(units)[start:end]),
        scores=tuple(scores[start:end]),
        signed=any(score < 0 for score in scores) if signed is None else signed,
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
