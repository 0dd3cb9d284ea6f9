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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.progress import Progress
from heedful.models.adapter import TokenModel
from heedful.models.contexts import untouched
from heedful.nn.train import TrainConfig
from heedful.stats.divergence import jsd, kl, tvd
from heedful.stats.intervals import Interval, two_way_mean
from heedful.trials.batches import PaddedTexts
from heedful.trials.rows import TrialRow
from heedful.trials.tests.seeds import Seeds, answers_apart, as_array, hits
from heedful.trials.training import (
    CHUNK,
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

WEIGHTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)  # lambda
FLOOR = 1e-8
CHECKS, SAMPLE = 10, 256  # times a fit that the training loss is looked at, and on how many texts
PUSH, PUSHED = 0.3, 0.3  # lambda at the start of a copy, and for which share of the steps
GENTLE = 1 / 3  # of the learning rate, where training starts from the user's weights
LIMIT = 0.05  # mean TVD up to which an adversary keeps the answers


@dataclass(frozen=True, eq=False)
class LambdaPoint:
    """One lambda: k seeds on n texts not trained on."""

    weight: float  # lambda
    output: Floats  # (k, n) TVD from the user's model
    moved: Floats  # (k, n) JSD from the user's model
    right: Floats  # (k, n)
    models: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class TrainedAdversary:
    """The curve, and what to read it by."""

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
        return [found for point in self.points for found in self._lines(point)]

    def _lines(self, point: LambdaPoint) -> list[TrialRow]:
        n = point.moved.shape[1]
        output, moved = two_way_mean(point.output, (0.0, 1.0)), two_way_mean(point.moved, (0.0, math.log(2)))
        right, own = float(point.right.mean()), float(self.own_right.mean())
        extra = {"lambda": point.weight, "TVD": output[0], "accuracy": right, "accuracy of this model": own}
        what, seeds = f"lambda {point.weight:g}", "two seeds"
        return [
            TrialRow(
                "trained adversary",
                f"attention moved, {what}",
                *moved,
                self.control_moved,
                seeds,
                n,
                "JSD, at most 0.693",
                extra,
            ),
            TrialRow(
                "trained adversary",
                f"answers moved, {what}",
                *output,
                self.control_output,
                seeds,
                n,
                "TVD",
                extra,
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "seeds": list(self.seeds),
            "accuracy of this model": float(self.own_right.mean()),
            "JSD of seeds": self.control_moved if math.isfinite(self.control_moved) else None,
            "TVD of seeds": self.control_output if math.isfinite(self.control_output) else None,
            "curve": [_told(point) for point in self.points],
        }


def _told(point: LambdaPoint) -> dict[str, Any]:
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
    weights: Sequence[float] = WEIGHTS,
    seeds: Sequence[int] = (0,),
    config: TrainConfig | None = None,
    *,
    start: str = "copy",
    beside: Seeds | None = None,
    progress: Progress | None = None,
) -> TrainedAdversary:
    """`weights` are the lambdas; `beside` gives the distances of seeds."""
    if start not in ("copy", "fresh"):
        raise HeedfulError(f"unknown start {start!r}", fix="Use copy or fresh")
    if config is None:
        config = settings(model, None)
        gentle = replace(config, lr=config.lr * GENTLE, steps=config.steps * 4 // 3, weight_decay=0.0)
        config = gentle if start == "copy" else config
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
    return TrainedAdversary(tuple(points), start, tuple(seeds), own, *scale)


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


def _on_average(student: Any, train: PaddedTexts, loss: Loss) -> float:
    """The loss on the first training texts."""
    sample = torch.arange(min(SAMPLE, len(train)))
    with torch.no_grad():
        parts = [float(loss(run(student, train.pick(p)), p)) * len(p) for p in torch.split(sample, CHUNK)]
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
