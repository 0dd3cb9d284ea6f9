"""Is attention needed at all? The same model trained again, freely and with its attention frozen to uniform.

    free      k fits, as they are
    uniform   k fits, same seeds and budget: uniform attention, always
    finding   free - uniform, paired by seed and text, of accuracy and of macro-F1

Control: the majority class. Where uniform attention does as well, the task needs no attention, and a map of
attention says nothing about how it must be solved.
Macro-F1 is the mean over classes of 2 TP / (2 TP + FP + FN).
Cost: 2 k fits. Needs texts to train on.

Wiegreffe & Pinter 2019, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from heedful.core.arrays import Floats
from heedful.core.progress import Progress
from heedful.models.adapter import TokenModel
from heedful.nn.train import TrainConfig
from heedful.stats.intervals import WHOLE, Interval, resample_counts, two_way_interval, variance
from heedful.trials.batches import PaddedTexts
from heedful.trials.formatting import above, decimals, row_interval
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.rows import TrialRow
from heedful.trials.training import answers, fit, fresh, settings

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

Labels = npt.NDArray[np.int64]
ACCURACY = "accuracy"
SCORES = (ACCURACY, "macro-F1")
FREE, UNIFORM, LOST = "free", "uniform", "lost"  # keys of rows
OWN = "this model"


@dataclass(frozen=True, eq=False)
class Judged:
    """k models on the same n texts: how often they are right, and how sure that is."""

    predicted: Labels  # (k, n)
    truth: Labels  # (n,)
    classes: int

    def scores(self, score: str) -> Floats:
        """(k,) a seed."""
        return _score(score, self._pairs(), np.ones((1, len(self.truth))))[:, 0]

    def value(self, score: str) -> tuple[float, Interval]:
        return self._estimate(self.scores(score), self._draws(score), (0.0, 1.0))

    def over(self, other: Judged, score: str) -> tuple[float, Interval]:
        """How much more than another's, seed by seed and text by text."""
        gaps = self.scores(score) - other.scores(score)
        return self._estimate(gaps, self._draws(score) - other._draws(score), WHOLE)

    def _estimate(self, each: Floats, draws: Floats, limits: Interval) -> tuple[float, Interval]:
        mean = float(each.mean())
        seeds = (variance(each) / len(each), len(each))
        return mean, two_way_interval(mean, seeds, (variance(draws), len(self.truth)), limits)

    def _draws(self, score: str) -> Floats:
        """(D,) mean over seeds, texts drawn again with repetition: the same draws for every model."""
        parts = [_score(score, self._pairs(), times).mean(0) for times in _times(len(self.truth))]
        return np.concatenate(parts)

    def _pairs(self) -> Floats:
        """(k, n, C, C): one where the truth is the row and the model said the column."""
        one = np.eye(self.classes)
        return np.asarray(one[self.truth][None, :, :, None] * one[self.predicted][:, :, None, :])


@lru_cache(maxsize=1)  # drawing costs more than counting, and a table of models asks for the same again
def _times(n: int) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(resample_counts(n, 0))


def _score(score: str, pairs: Floats, times: npt.NDArray[Any]) -> Floats:
    """(k, D) from pairs (k, n, C, C) and how often each text counts (D, n)."""
    counts = np.einsum("dn,knab->kdab", times, pairs, optimize=True)
    both = np.einsum("kdaa->kda", counts)
    if score == ACCURACY:
        return np.asarray(both.sum(-1) / counts.sum((-1, -2)))
    either = counts.sum(-1) + counts.sum(-2)  # 2 TP + FP + FN
    present = either > 0  # a class nobody has or says has no F1
    f1 = np.divide(2 * both, either, out=np.zeros_like(both), where=present)
    return np.asarray(f1.sum(-1) / present.sum(-1))


@dataclass(frozen=True, eq=False)
class UniformRetraining:
    """The results of training with free attention and with uniform attention."""

    seeds: tuple[int, ...]
    students: tuple[Any, ...]  # the free ones
    free: Judged
    uniform: Judged
    majority: Judged  # (1, n)
    own: Judged  # (1, n) the user's model
    own_uniform: Judged  # (1, n) the user's model, its attention made uniform after training

    def findings(self) -> list[TrialRow]:
        rows, k = [], len(self.seeds)
        for score in SCORES:
            least = self.majority.value(score)[0], "majority class"
            own = {OWN: self.own.value(score)[0]}
            lost, none = self.free.over(self.uniform, score), (0.0, "a task that needs none")
            after = {"uniform only after training": self.own.over(self.own_uniform, score)[0]}
            for key, name, value, control, extra in (
                (FREE, "trained freely", self.free.value(score), least, own),
                (UNIFORM, "trained with uniform attention", self.uniform.value(score), least, own),
                (LOST, "lost without attention", lost, none, after),
            ):
                rows.append(
                    TrialRow(
                        test="frozen",
                        what=f"{score}, {name}",
                        value=value[0],
                        interval=value[1],
                        control=control[0],
                        control_name=control[1],
                        n=k,
                        unit=score,
                        extra=extra,
                        key=key,
                        variant=score,
                    )
                )
        return rows

    def to_dict(self) -> dict[str, Any]:
        parts = {
            "free": self.free,
            "uniform": self.uniform,
            "majority": self.majority,
            "this model": self.own,
            "this model, uniform": self.own_uniform,
        }
        scores = {name: {s: judged.scores(s).tolist() for s in SCORES} for name, judged in parts.items()}
        return {"seeds": list(self.seeds), "scores": scores}


def frozen(
    model: TokenModel,
    train: PaddedTexts,
    test: PaddedTexts,
    seeds: Sequence[int] = (0, 1, 2),
    config: TrainConfig | None = None,
    *,
    progress: Progress | None = None,
) -> UniformRetraining:
    """Train two models per seed: one with free attention and one with uniform attention."""
    config, students = settings(model, config), []
    predicted: dict[bool, list[Labels]] = {False: [], True: []}
    for number, seed in enumerate(seeds):
        for flat in (False, True):
            student = fresh(model, seed)
            fit(student, train, config, seed, frozen=flat)
            predicted[flat].append(_predicted(student, test, flat))
            students += [] if flat else [student]
            if progress is not None:
                progress(2 * number + flat + 1, 2 * len(seeds))
    most = np.full(len(test), int(torch.mode(train.labels).values))
    own, own_flat = _predicted(model, test, False), _predicted(model, test, True)
    names = ("free", "uniform", "majority", "own", "own_uniform")
    parts = (*predicted.values(), [most], [own], [own_flat])
    judged = {name: judge(part, test, model) for name, part in zip(names, parts, strict=True)}
    return UniformRetraining(tuple(seeds), tuple(students), **judged)


def judge(predicted: Sequence[Labels], test: PaddedTexts, model: TokenModel) -> Judged:
    """The predicted labels of several models, with the true labels of the test texts."""
    return Judged(np.stack(predicted), test.labels.numpy(), len(model.labels))


def _predicted(model: TokenModel, test: PaddedTexts, flat: bool) -> Labels:
    return np.asarray(answers(model, test, flat).argmax(1))


# --- in the trial ----------------------------------------------------------------------------------------


def _showed(rows: Rows, _: Rows) -> str:
    by_key = {row.key: row for row in rows if row.variant == ACCURACY}
    free, lost = by_key[FREE], by_key[LOST]
    if not above(free.interval[0], free.control):
        return (
            "Models of this kind, trained again, did not clearly learn the task: their accuracy is "
            f"{row_interval(free)}, the majority class has {decimals(free.control)}. So this test shows "
            "nothing about attention."
        )
    text = (
        f"Models of this kind, trained again, reach an accuracy of {row_interval(free)} (this model: "
        f"{decimals(free.extra[OWN])}, majority class: {decimals(free.control)}). With uniform attention "
        f"they lose {row_interval(lost)}."
    )
    if above(lost.interval[0], 0.0):
        return text + " So attention helps them."
    return text + " So it is not shown that they need attention."


@trial_test(
    "frozen",
    title="Is a model retrained with uniform attention as accurate?",
    needs={"attentions", "edits", "training texts"},
    cite="Wiegreffe & Pinter 2019",
    order=5,
    words=TrialWords(_showed),
)
def _run(suite: TrialSuite) -> UniformRetraining:
    """Models of the same kind are trained, some with free attention and some with uniform attention. Seeds
    and budget are the same.

    Control: the accuracy of the most frequent label

    Cost: two fits per seed

    Not shown: anything about one text: a task may need attention as a whole and a single answer not.
    """
    progress = suite.progress("training, free and uniform")
    return frozen(suite.cases.model, suite.train, suite.test, suite.seeds, suite.config, progress=progress)
