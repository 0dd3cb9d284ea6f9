"""How far chance alone moves attention: models that differ by nothing but their seed.

    among   median over pairs of seeds of JSD(alpha, alpha') on a text
    own     median over seeds of JSD(alpha, the user's model's alpha): other training, so usually more

alpha is the mean over a layer's heads (which have no order between models), JSD the mean over layers and the
text's own queries. An adversary that moves attention less than a seed does has shown nothing. Scale beside
it: how far the same attention is from uniform. Texts are also binned by their largest weight.
Cost: one fit a seed.

Intervals are over seeds and texts at once: Var = Var_seeds / k + Var_texts / n, Student's t with degrees of
freedom by Satterthwaite, so three seeds give the wide interval they deserve. The seeds' part of
a mean over pairs is the jackknife's, 4 ((k-1)/(k-2))^2 Var / k, Var that of a seed's mean to the others.

Wiegreffe & Pinter 2019, section 4.1; Satterthwaite 1946; Arvesen 1969 (jackknife of U-statistics).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.charts import Scatter, Series
from heedful.core.progress import Progress
from heedful.io.json_codec import to_jsonable
from heedful.models.adapter import TokenModel
from heedful.nn.train import TrainConfig
from heedful.stats.divergence import LN2, jsd, tvd
from heedful.stats.intervals import Interval, two_way_mean
from heedful.trials.batches import PaddedTexts
from heedful.trials.formatting import decimals, row_interval
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.rows import TrialRow, of_key
from heedful.trials.training import Passed, apart, fit, fresh, maps, place_of, read, settings

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)  # bins of the largest weight
TWO_SEEDS = "attention of two seeds"  # key of a row


@dataclass(frozen=True, eq=False)
class Seeds:
    """How much k models that were trained with different seeds differ on n texts."""

    seeds: tuple[int, ...]
    models: tuple[Any, ...]
    right: Floats  # (k, n) 1 where the prediction is the label
    among: Floats  # (k, k, n) JSD between two seeds
    among_output: Floats  # (k, k, n) TVD between two seeds
    own: Floats  # (k, n) JSD to the user's model
    own_output: Floats  # (k, n) TVD to the user's model
    from_uniform: Floats  # (k, n) JSD to uniform attention
    largest: Floats  # (n,) largest weight of the user's model on the text
    own_right: Floats  # (n,)
    majority: float  # share of the largest class

    def between(self, distances: Floats, most: float = math.inf) -> tuple[float, Interval]:
        """Mean over pairs of seeds and texts of distances (k, k, n)."""
        k = len(self.seeds)
        mean = distances.sum(1) / (k - 1)  # (k, n), the diagonal is 0
        if k == 2:  # one pair: nothing is known about seeds
            return two_way_mean(mean[:1], (0.0, most))
        return two_way_mean(mean, (0.0, most), seed_factor=4 * ((k - 1) / (k - 2)) ** 2)

    def medians(self) -> Floats:
        """(n,) among: the middle pair of seeds of each text."""
        upper = np.triu_indices(len(self.seeds), 1)
        return np.asarray(np.median(self.among[upper], axis=0))

    def bins(self) -> list[dict[str, float]]:
        """By the text's largest weight: how many texts, and quartiles of the medians of both distances."""
        rows = []
        among, own = self.medians(), np.median(self.own, axis=0)
        for low, high in pairwise(EDGES):
            inside = (self.largest >= low) & ((self.largest < high) | (high == EDGES[-1]))
            row = {"from": low, "to": high, "texts": float(inside.sum())}
            for name, values in (("among", among), ("own", own)):
                low_q, middle, high_q = (
                    np.quantile(values[inside], [0.25, 0.5, 0.75]) if inside.any() else [math.nan] * 3
                )
                row |= {f"{name} 25 %": low_q, name: middle, f"{name} 75 %": high_q}
            rows.append({key: float(value) for key, value in row.items()})
        return rows

    def findings(self) -> list[TrialRow]:
        among, own = self.between(self.among, LN2), two_way_mean(self.own, (0.0, LN2))
        right, output = two_way_mean(self.right, (0.0, 1.0)), self.between(self.among_output, 1.0)
        scale = float(self.from_uniform.mean()), "the same models from uniform attention"
        other = float(self.own_output.mean()), "a seed and this model"
        jsd_unit, k = "JSD, at most 0.693", len(self.seeds)
        spread = {
            "spread over seeds": float(np.ptp(self.right.mean(1))),
            "this model": float(self.own_right.mean()),
        }
        medians = [{"median": float(np.median(values))} for values in (self.medians(), self.own)]
        again, apart = "accuracy of models trained again", "attention of two seeds apart"
        beside = "attention of a seed and this model apart"
        return [
            TrialRow(
                test="seeds",
                what=again,
                value=right[0],
                interval=right[1],
                control=self.majority,
                control_name="majority class",
                n=k,
                unit="accuracy",
                extra=spread,
            ),
            TrialRow(
                test="seeds",
                what=apart,
                value=among[0],
                interval=among[1],
                control=scale[0],
                control_name=scale[1],
                n=k,
                unit=jsd_unit,
                extra=medians[0],
                key=TWO_SEEDS,
            ),
            TrialRow(
                test="seeds",
                what=beside,
                value=own[0],
                interval=own[1],
                control=scale[0],
                control_name=scale[1],
                n=k,
                unit=jsd_unit,
                extra=medians[1],
            ),
            TrialRow(
                test="seeds",
                what="answers of two seeds apart",
                value=output[0],
                interval=output[1],
                control=other[0],
                control_name=other[1],
                n=k,
                unit="TVD",
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "seeds": list(self.seeds),
            "accuracy": self.right.mean(1).tolist(),
            "accuracy of this model": float(self.own_right.mean()),
            "majority": self.majority,
            "among": self.medians().tolist(),
            "own": np.median(self.own, axis=0).tolist(),
            "largest weight": self.largest.tolist(),
            "bins": to_jsonable(self.bins()),
        }


def seeds(
    model: TokenModel,
    train: PaddedTexts,
    test: PaddedTexts,
    seeds: Sequence[int] = (0, 1, 2),
    config: TrainConfig | None = None,
    *,
    students: Sequence[Any] | None = None,
    progress: Progress | None = None,
) -> Seeds:
    """Train one model per seed, or use trained `students` (for example those of `frozen`), and compare their
    attention."""
    grown = list(students or ())
    for number, seed in enumerate(seeds if students is None else ()):
        grown.append(fresh(model, seed))
        fit(grown[-1], train, settings(model, config), seed)
        if progress is not None:
            progress(number + 1, len(seeds))
    k, n, place = len(grown), len(test), place_of(model, test)
    among, among_output = np.zeros((k, k, n)), np.zeros((k, k, n))
    own, own_output, flat, right = (np.zeros((k, n)) for _ in range(4))
    largest, own_right = np.zeros(n), np.zeros(n)
    done = 0
    for base, *others in zip(*(maps(each, test) for each in (model, *grown)), strict=True):
        here = slice(done, done := done + len(base.logits))
        largest[here] = as_array(read(base, place).mean((1, 2)).amax(-1))
        own_right[here] = hits(base, test.labels[here])
        for i, student in enumerate(others):
            own[i, here], own_output[i, here] = (
                as_array(apart(student, base, jsd)),
                answers_apart(student, base),
            )
            flat[i, here] = as_array(apart(student, student, lambda alpha, _: jsd(alpha, even(alpha))))
            right[i, here] = hits(student, test.labels[here])
        for i, j in combinations(range(k), 2):
            among[i, j, here] = among[j, i, here] = as_array(apart(others[i], others[j], jsd))
            among_output[i, j, here] = among_output[j, i, here] = answers_apart(others[i], others[j])
    share = majority(train, test)
    return Seeds(
        seeds=tuple(seeds),
        models=tuple(grown),
        right=right,
        among=among,
        among_output=among_output,
        own=own,
        own_output=own_output,
        from_uniform=flat,
        largest=largest,
        own_right=own_right,
        majority=share,
    )


def majority(train: PaddedTexts, test: PaddedTexts) -> float:
    """Accuracy of always saying what most training texts are."""
    return float((test.labels == torch.mode(train.labels).values).double().mean())


def even(alpha: Tensor) -> Tensor:
    """Uniform over the keys that have weight."""
    some = (alpha > 0).to(alpha.dtype)
    return some / some.sum(-1, keepdim=True).clamp_min(1)


def answers_apart(some: Passed, other: Passed) -> Floats:
    return as_array(tvd(some.logits.softmax(-1), other.logits.softmax(-1)))


def hits(passed: Passed, labels: Tensor) -> Floats:
    return as_array((passed.logits.argmax(-1) == labels).double())


def as_array(values: Tensor) -> Floats:
    return np.asarray(values.double().numpy())


# --- in the trial ----------------------------------------------------------------------------------------


def _showed(rows: Rows, _: Rows) -> str:
    (apart,) = of_key(rows, TWO_SEEDS)
    return (
        f"The attention of models that differ only in the seed is JSD {row_interval(apart)} apart. From "
        f"uniform attention they are {decimals(apart.control)} apart."
    )


def _chart(result: Seeds) -> Scatter:
    """One point per text."""
    points = tuple(zip(result.largest.tolist(), result.medians().tolist(), strict=True))
    title = "how far seeds are apart against the largest weight of the text"
    return Scatter((Series("texts", points),), "largest weight", "median JSD of two seeds", title)


@trial_test(
    "seeds",
    title="How much does attention differ between random seeds?",
    needs={"attentions", "edits", "training texts"},
    cite="Wiegreffe & Pinter 2019",
    order=6,
    words=TrialWords(
        _showed,
        axes={
            "accuracy": "higher is better",
            "JSD, at most 0.693": "higher: attention depends more on the seed",
            "TVD": "higher: answers depend more on the seed",
        },
    ),
    chart=_chart,
)
def _run(suite: TrialSuite) -> Seeds:
    """The attention of models that differ only in the seed is compared.

    Control: the distance of the same attention from uniform attention

    Cost: no extra cost, because it uses the models that the test `frozen` trains

    Not shown: that either seed is wrong: it is the scale by which adversaries are read.
    """
    students = suite.result("frozen").students
    return seeds(suite.cases.model, suite.train, suite.test, suite.seeds, suite.config, students=students)
