"""Does the explanation name the words that people name? Marks are the units that people gave as the reason.

    plausibility       AUPRC: mean over marked units, by score, of the precision there (average precision;
                       equal scores are one step)
    plausibility-f1    F1 of the top k units against the marked units
    plausibility-iou   F1 of spans: the top k units, neighbours merged, against the marked spans. A predicted
                       span counts if it covers a marked span with
                           |both| / |either| >= 1/2
                       precision is over predicted spans, recall over marked spans

A metric of one text uses k = the number of units marked there: the method need not guess this number, and
precision, recall and F1 of units are then the same number. `agreement` is ERASER's measure over a set of
texts: k = the mean share of marked units over the set, times the length of each text. Micro sums counts over
texts. Macro is, as in ERASER's scripts, the mean of F1 over texts for units, and for spans the F1 of mean
precision and mean recall. ERASER's scripts print the area under the curve in two ways, joined by lines and by
steps (average precision); here it is by steps, which do not overestimate it.

This is not a measure of truth. A model may decide for reasons that no person would give; an explanation that
shows these reasons is right, but not plausible. If the marks are long passages, single words cannot match a
span. A text in which nothing or everything is marked has no value (nan). Cost: no model inputs.

DeYoung et al. 2020 (ERASER).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats, Span
from heedful.core.errors import HeedfulError
from heedful.core.phrases import counted
from heedful.core.registry import metric
from heedful.core.result import NotebookRepr
from heedful.metrics.faithfulness import ranked
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.random_orders import merged_scores

Marks = npt.NDArray[np.bool_]  # (d,)
THRESHOLD = 0.5


def _marks(subject: MetricInput) -> Marks | None:
    """The rationale, or None where it says nothing about an order of units."""
    if subject.rationale is None:
        return None
    marks = np.array(subject.rationale, dtype=bool)
    x = subject.item.x
    if len(marks) != len(subject.scores):
        raise HeedfulError(
            f"the rationale is about {len(marks)} units, "
            f"the {x.noun} has {counted(len(subject.scores), x.unit_noun(subject.unit))}",
            fix="heedful.io.rationales.by_unit converts marks to the units of a text",
        )
    return marks if marks.any() and not marks.all() else None


@metric(
    "plausibility", kind="re-explain", better="high", best=1.0, cite="DeYoung et al. 2020", rationales=True
)
def plausibility(subject: MetricInput, rng: np.random.Generator) -> float:
    """Area under the precision-recall curve for the units that people marked.

    Limitations: It measures agreement with people, not with the model: a correct explanation of a wrong
    model gets a bad value.
    """
    marks = _marks(subject)
    return float("nan") if marks is None else average_precision(subject.scores, marks)


@metric(
    "plausibility-f1", kind="re-explain", better="high", best=1.0, cite="DeYoung et al. 2020", rationales=True
)
def plausibility_f1(subject: MetricInput, rng: np.random.Generator) -> float:
    """F1 of the top units against the units that people marked; both sets have the same size.

    Limitations: It measures agreement with people, not with the model: a correct explanation of a wrong
    model gets a bad value.
    """
    marks = _marks(subject)
    if marks is None:
        return float("nan")
    return f1(*unit_counts(top(subject.scores, int(marks.sum()), rng), marks))


@metric(
    "plausibility-iou",
    kind="re-explain",
    better="high",
    best=1.0,
    cite="DeYoung et al. 2020",
    rationales=True,
)
def plausibility_iou(subject: MetricInput, rng: np.random.Generator) -> float:
    """F1 of spans of top units against marked spans; two spans match if their overlap (IOU) is at least 1/2.

    Limitations: It measures agreement with people, not with the model: a correct explanation of a wrong
    model gets a bad value.
    """
    marks = _marks(subject)
    if marks is None:
        return float("nan")
    return f1(*span_counts(top(subject.scores, int(marks.sum()), rng), marks))


def average_precision(scores: Floats, marks: Marks) -> float:
    """sum over distinct scores, highest first, of (recall gained there) * (precision from there up)."""
    scores = merged_scores(scores)
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # the last unit of each score
    hits = np.cumsum(marks[order])[ends]
    return float(np.sum(np.diff(hits, prepend=0) * hits / (ends + 1)) / marks.sum())


def top(scores: Floats, k: int, rng: np.random.Generator) -> Marks:
    """(d,) True for the k highest scores; ties in random order."""
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[ranked(scores, rng)[:k]] = True
    return chosen


Counts = tuple[int, int, int]  # right, predicted, marked


def unit_counts(chosen: Marks, marks: Marks) -> Counts:
    return int((chosen & marks).sum()), int(chosen.sum()), int(marks.sum())


def span_counts(chosen: Marks, marks: Marks, threshold: float = THRESHOLD) -> Counts:
    """Predicted spans that cover some marked span well enough, predicted spans, marked spans."""
    predicted, marked = runs(chosen), runs(marks)
    right = sum(max((iou(own, other) for other in marked), default=0.0) >= threshold for own in predicted)
    return right, len(predicted), len(marked)


def runs(marks: Marks) -> list[Span]:
    """Half-open stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marks, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def iou(a: Span, b: Span) -> float:
    """Units in both over units in either."""
    both = max(0, min(a[1], b[1]) - max(a[0], b[0]))
    return both / (a[1] - a[0] + b[1] - b[0] - both)


def f1(right: int, predicted: int, marked: int) -> float:
    """Harmonic mean of precision and recall."""
    return harmonic(_share(right, predicted), _share(right, marked))


def harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True)
class Agreement(NotebookRepr):
    """One method on n texts, as ERASER reports it."""

    auprc: float
    f1_micro: float
    f1_macro: float
    iou_micro: float
    iou_macro: float
    share: float  # of units predicted
    n: int


def agreement(
    scores: Sequence[Floats], marks: Sequence[Marks], share: float | None = None, seed: int = 0
) -> Agreement:
    """Text by text. share: of a text's units that are predicted; None: as many as are marked on average."""
    if len(scores) != len(marks) or any(len(a) != len(b) for a, b in zip(scores, marks, strict=False)):
        raise HeedfulError("every text needs one score and one mark a unit")
    rng = np.random.default_rng(seed)
    share = float(np.mean([own.mean() for own in marks])) if share is None else share
    chosen = [top(own, max(1, round(share * len(own))), rng) for own in scores]
    units = [unit_counts(a, b) for a, b in zip(chosen, marks, strict=True)]
    spans = [span_counts(a, b) for a, b in zip(chosen, marks, strict=True)]
    values = [average_precision(a, b) for a, b in zip(scores, marks, strict=True) if b.any() and not b.all()]
    auprc = float(np.mean(values)) if values else float("nan")
    each = float(np.mean([f1(*counts) for counts in units]))
    return Agreement(
        auprc=auprc,
        f1_micro=micro(units),
        f1_macro=each,
        iou_micro=micro(spans),
        iou_macro=macro(spans),
        share=share,
        n=len(scores),
    )


def micro(counts: Sequence[Counts]) -> float:
    """F1 of the sums over texts."""
    right, predicted, marked = (sum(column) for column in zip(*counts, strict=True))
    return f1(right, predicted, marked)


def macro(counts: Sequence[Counts]) -> float:
    """F1 of the means over texts of precision and of recall."""
    precision = np.mean([_share(right, predicted) for right, predicted, _ in counts])
    recall = np.mean([_share(right, marked) for right, _, marked in counts])
    return harmonic(float(precision), float(recall))
