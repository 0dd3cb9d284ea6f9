"""A second model that answers like the user's and looks elsewhere: how far can attention go?

    loss = TVD(y', y) - lambda KL(alpha' || alpha)       means over a batch; y, alpha of the user's own model

alpha is the mean over a layer's heads: heads may change places without any change of the answer, so a
divergence head by head would be had for nothing. KL and JSD are means over layers and the text's own queries;
a weight of the user's model counts as at least FLOOR in the KL, which is else unbounded. Of each fit, the
weights with the lowest training loss are kept. What is reported is measured on texts not trained on: TVD, JSD
and accuracy for each lambda, a curve. A point means something beside two others: lambda = 0 (what training
alone moves) and models that differ by a seed.

start = "copy"    from the user's weights: answers agree at the start, which minutes of training can keep.
                  KL has no slope where two agree, so the first steps push by a larger lambda; none of them,
                  nor the copy, is kept: a point is a model that went away and came back as far as it did
start = "fresh"   from drawn weights, as in the paper: needs as many texts as the user's model was trained on
Cost: one fit a lambda and seed, each step with one more forward of the user's model.

Wiegreffe & Pinter 2019, section 4.2.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.charts import Scatter, Series
from heedful.core.errors import HeedfulError
from heedful.core.progress import Progress
from heedful.models.adapter import TokenModel
from heedful.models.contexts import untouched
from heedful.nn.train import TrainConfig
from heedful.stats.divergence import jsd, kl, tvd
from heedful.stats.intervals import Interval, two_way_mean
from heedful.trials.batches import PaddedTexts
from heedful.trials.formatting import above, decimals, row_interval
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.rows import TrialRow, of_key
from heedful.trials.tests.seeds import TWO_SEEDS, Seeds, answers_apart, as_array, hits
from heedful.trials.training import (
    CHUNK_TEXTS,
    FINE_TUNE_LR_FACTOR,
    Loss,
    Passed,
    answers,
    apart,
    copied,
    fit,
    fresh,
    maps,
    run,
    settings,
)

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

WEIGHTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)  # lambda
FLOOR = 1e-8
CHECKS, SAMPLE = 10, 256  # times a fit that the training loss is looked at, and on how many texts
PUSH, PUSHED = 0.3, 0.3  # lambda at the start of a copy, and for which share of the steps
LIMIT = 0.05  # mean TVD up to which an adversary keeps the answers
ATTENTION, ANSWERS = "attention", "answers"  # keys of rows: what moved
LAMBDA, TVD = "lambda", "TVD"


@dataclass(frozen=True)
class AdversaryTraining:
    """Settings of the training of adversaries."""

    weights: Sequence[float] = WEIGHTS  # the lambdas
    seeds: Sequence[int] = (0,)
    config: TrainConfig | None = None  # None: what suits the model's depth, and the start
    start: str = "copy"  # or "fresh"

    def config_for(self, model: TokenModel) -> TrainConfig:
        if self.config is not None:
            return self.config
        config = settings(model, None)
        if self.start == "fresh":
            return config
        return replace(
            config, lr=config.lr * FINE_TUNE_LR_FACTOR, steps=config.steps * 4 // 3, weight_decay=0.0
        )


@dataclass(frozen=True, eq=False)
class LambdaPoint:
    """Results of k adversaries (one per seed) with the same lambda, on n texts not used for training."""

    weight: float  # lambda
    output: Floats  # (k, n) TVD from the user's model
    moved: Floats  # (k, n) JSD from the user's model
    right: Floats  # (k, n)
    models: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class TrainedAdversary:
    """One point per lambda and, for comparison, the distances between models of different seeds."""

    points: tuple[LambdaPoint, ...]
    start: str
    seeds: tuple[int, ...]
    own_right: Floats  # (n,)
    control_moved: float  # JSD between models that differ by a seed; nan where none were trained
    control_output: float  # TVD between them

    def best(self, limit: float = LIMIT) -> LambdaPoint | None:
        """The adversary that moved attention most while the mean TVD stayed at or below the limit."""
        kept = [point for point in self.points if point.weight and point.output.mean() <= limit]
        return max(kept, key=lambda point: float(point.moved.mean())) if kept else None

    def mildest(self) -> LambdaPoint | None:
        """The adversary that moved the answers least."""
        return min((p for p in self.points if p.weight), key=lambda p: float(p.output.mean()), default=None)

    def findings(self) -> list[TrialRow]:
        return [row for point in self.points for row in self._rows(point)]

    def _rows(self, point: LambdaPoint) -> list[TrialRow]:
        output, moved = two_way_mean(point.output, (0.0, 1.0)), two_way_mean(point.moved, (0.0, math.log(2)))
        right, own = float(point.right.mean()), float(self.own_right.mean())
        extra = {LAMBDA: point.weight, TVD: output[0], "accuracy": right, "accuracy of this model": own}
        n, at = point.moved.shape[1], f"{point.weight:g}"
        return [
            TrialRow(
                test="trained adversary",
                what=f"{key} moved, lambda {at}",
                value=value[0],
                interval=value[1],
                control=control,
                control_name="two seeds",
                n=n,
                unit=unit,
                extra=extra,
                key=key,
                variant=at,
            )
            for key, value, control, unit in (
                (ATTENTION, moved, self.control_moved, "JSD, at most 0.693"),
                (ANSWERS, output, self.control_output, "TVD"),
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "seeds": list(self.seeds),
            "accuracy of this model": float(self.own_right.mean()),
            "JSD of seeds": self.control_moved if math.isfinite(self.control_moved) else None,
            "TVD of seeds": self.control_output if math.isfinite(self.control_output) else None,
            "curve": [_estimates(point) for point in self.points],
        }


def _estimates(point: LambdaPoint) -> dict[str, Any]:
    def both(values: Floats, limits: Interval) -> list[Any]:
        value, reach = two_way_mean(values, limits)
        return [value, *reach]

    return {
        "lambda": point.weight,
        "TVD": both(point.output, (0.0, 1.0)),
        "JSD": both(point.moved, (0.0, math.log(2))),
        "accuracy": both(point.right, (0.0, 1.0)),
    }


def trained_adversary(
    model: TokenModel,
    train: PaddedTexts,
    test: PaddedTexts,
    training: AdversaryTraining | None = None,
    *,
    beside: Seeds | None = None,
    progress: Progress | None = None,
) -> TrainedAdversary:
    """Train adversaries for every lambda. `beside` has the distances between seeds, for comparison."""
    training = training or AdversaryTraining()
    weights, seeds, start = training.weights, training.seeds, training.start
    if start not in ("copy", "fresh"):
        raise HeedfulError(f"unknown start {start!r}", fix="Use copy or fresh")
    config = training.config_for(model)
    points = []
    for number, weight in enumerate(weights):
        grown = []
        for count, seed in enumerate(seeds, 1):
            grown.append(_grown(model, train, weight, seed, config, start))
            if progress is not None:
                progress(number * len(seeds) + count, len(weights) * len(seeds))
        points.append(measured(model, grown, test, weight))
    own = (answers(model, test).argmax(1) == test.labels.numpy()).astype(np.float64)
    scale = (math.nan, math.nan)
    if beside is not None:
        scale = beside.between(beside.among)[0], beside.between(beside.among_output)[0]
    return TrainedAdversary(
        points=tuple(points),
        start=start,
        seeds=tuple(seeds),
        own_right=own,
        control_moved=scale[0],
        control_output=scale[1],
    )


def _grown(
    model: TokenModel, train: PaddedTexts, weight: float, seed: int, config: TrainConfig, start: str
) -> Any:
    """One adversary, with the weights of its lowest training loss."""
    student = copied(model) if start == "copy" else fresh(model, seed)
    final, early = objective(model, train, weight), objective(model, train, max(weight, PUSH))
    pushed = int(PUSHED * config.steps) if weight and start == "copy" else 0
    done, best, state = 0, math.inf, copy.deepcopy(student.module.state_dict())

    def loss(passed: Passed, pick: Tensor) -> Tensor:
        return (early if done < pushed else final)(passed, pick)

    def look(step: int, _value: float) -> None:
        nonlocal done, best, state
        done = step + 1
        if done <= pushed or (done % max(1, config.steps // CHECKS) and done < config.steps):
            return
        student.module.eval()
        value = _on_average(student, train, final)
        if value < best:
            best, state = value, copy.deepcopy(student.module.state_dict())

    fit(student, train, config, seed, loss, after_step=look)
    student.module.load_state_dict(state)
    return student


def _on_average(student: TokenModel, train: PaddedTexts, loss: Loss) -> float:
    """The loss on the first training texts."""
    sample = torch.arange(min(SAMPLE, len(train)))
    with torch.no_grad():
        parts = [
            float(loss(run(student, train.pick(p)), p)) * len(p) for p in torch.split(sample, CHUNK_TEXTS)
        ]
    return sum(parts) / len(sample)


def objective(model: TokenModel, data: PaddedTexts, weight: float) -> Loss:
    """TVD of answers less lambda times KL of attention, from the user's model on the same texts."""

    def loss(passed: Passed, pick: Tensor) -> Tensor:
        with untouched(model.module), torch.no_grad():
            base = run(model, data.pick(pick))
        kept = tvd(passed.logits.softmax(-1), base.logits.softmax(-1)).mean()
        return kept - weight * apart(passed, base, _kl).mean() if weight else kept

    return loss


def _kl(alpha: Tensor, base: Tensor) -> Tensor:
    return kl(alpha, base.clamp_min(FLOOR))


def measured(model: TokenModel, grown: Sequence[Any], test: PaddedTexts, weight: float) -> LambdaPoint:
    """What moved, on texts in order."""
    k, n = len(grown), len(test)
    output, moved, right = np.zeros((k, n)), np.zeros((k, n)), np.zeros((k, n))
    done = 0
    for base, *others in zip(*(maps(each, test) for each in (model, *grown)), strict=True):
        at = slice(done, done := done + len(base.logits))
        for i, other in enumerate(others):
            output[i, at], moved[i, at] = answers_apart(other, base), as_array(apart(other, base, jsd))
            right[i, at] = hits(other, test.labels[at])
    return LambdaPoint(weight, output, moved, right, tuple(grown))


# --- in the trial ----------------------------------------------------------------------------------------


def _farthest(rows: Rows) -> TrialRow | None:
    """The trained adversary that moved attention most and kept the answers."""
    kept = [row for row in of_key(rows, ATTENTION) if row.extra[LAMBDA] and row.extra[TVD] <= LIMIT]
    return max(kept, key=lambda row: row.value, default=None)


def _showed(rows: Rows, every: Rows) -> str:
    best, text = _farthest(rows), ""
    if best is None:
        moved = [row for row in of_key(rows, ATTENTION) if row.extra[LAMBDA]]
        best = min(moved, key=lambda row: row.extra[TVD], default=None)
        text = f"No trained adversary kept the answers within a mean TVD of {LIMIT:g}. The closest: "
    if best is None:
        return text.strip()
    text += (
        f"A second model with answers a mean TVD of {decimals(best.extra[TVD])} away has attention JSD "
        f"{row_interval(best)} away."
    )
    for seeds in of_key(every, TWO_SEEDS)[:1]:
        how = "further" if above(best.interval[0], seeds.interval[1]) else "not clearly further"
        text += f" That is {how} than two seeds are apart, JSD {row_interval(seeds)}."
    return text


def _against(rows: Rows, every: Rows) -> str:
    best, seeds = _farthest(rows), of_key(every, TWO_SEEDS)
    if best is not None and seeds and above(best.interval[0], seeds[0].interval[1]):
        return "Another model gives the same answers with attention that differs more than between seeds."
    return ""


def _chart(result: TrainedAdversary) -> Scatter:
    """The curve over lambda, and two seeds beside it."""
    curve = tuple((float(point.output.mean()), float(point.moved.mean())) for point in result.points)
    series = [Series("adversary, by lambda", curve, joined=True)]
    if math.isfinite(result.control_moved) and math.isfinite(result.control_output):
        series.append(Series("two seeds", ((result.control_output, result.control_moved),)))
    title = "how far attention moved against how far the answers moved"
    return Scatter(tuple(series), "change of the answers (TVD)", "change of attention (JSD)", title)


@trial_test(
    "trained adversary",
    title="Can another model learn the same outputs but use different attention?",
    needs={"attentions", "edits", "training texts"},
    cite="Wiegreffe & Pinter 2019",
    order=7,
    words=TrialWords(
        _showed,
        against=_against,
        axes={
            "JSD, at most 0.693": "higher: attention moved further",
            "TVD": "higher: the answers moved further",
        },
    ),
    chart=_chart,
)
def _run(suite: TrialSuite) -> TrainedAdversary:
    """A second model is trained to minimise TVD(y′, y) − λ KL(α′ ‖ α), for six values of λ: similar answers,
    different attention.

    Control: a second model with λ = 0; the difference between two seeds

    Cost: one fit per λ and seed

    Not shown: that the first model's attention is no explanation of the first model: it shows that answers
    like these do not determine it.
    """
    config = None if suite.settings.steps is None else suite.gentle_config
    return trained_adversary(
        suite.cases.model,
        suite.train,
        suite.test,
        AdversaryTraining(seeds=suite.seeds, config=config),
        beside=suite.result("seeds"),
        progress=suite.progress("training adversaries"),
    )
