"""Making attention better: the model trained on, with a term on its heads, and measured before and after.

    loss = cross-entropy + weight * term           terms: heedful.trials.regularisers

    before       the user's model as it is
    none         trained as long on the same texts without a term: what training alone changes
    sharper, flatter, diverse, rationales

Measured on texts not trained on: accuracy, log-loss (-ln p of the label), entropy and diversity of heads; on
marked texts the share of attention on marks and AUPRC of the shown attention against them, beside AUPRC of
random scores; and whatever `measures` gives, such as the tests of the trial. Every kind stands beside "none",
paired by seed and text. start = "copy" goes on from the user's weights, "fresh" begins anew.
Plausible attention is not faithful attention: the term asks for marked words, not for their use.
Cost: one fit a kind and seed, and the measures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.progress import Progress
from heedful.metrics.plausibility import average_precision
from heedful.models.adapter import TokenModel
from heedful.nn.train import TrainConfig
from heedful.stats.intervals import Interval, two_way_mean
from heedful.trials.batches import PaddedTexts
from heedful.trials.regularisers import KINDS, TERMS, diversity, entropy, marked_mass, off_marks
from heedful.trials.rows import TrialRow
from heedful.trials.tests.seeds import majority
from heedful.trials.tests.trained_adversary import GENTLE
from heedful.trials.training import (
    Loss,
    Passed,
    copied,
    fit,
    fresh,
    maps,
    place_of,
    read,
    right,
    settings,
)

WEIGHTS = {"none": 0.0, "sharper": 0.1, "flatter": 0.1, "diverse": 0.1, "rationales": 0.3}
DRAWS = 20  # random scores a marked text
Measures = Callable[[Any], Mapping[str, Floats]]  # a model -> name -> one number per text
Measured = Mapping[str, Floats]  # name -> (n,) or, of k seeds, (k, n)
RANDOM = "AUPRC of random scores"
UNITS = {"accuracy": "accuracy", "log-loss": "nats", "entropy of heads": "nats", "diversity of heads": "nats"}


@dataclass(frozen=True, eq=False)
class Improved:
    """Numbers of every kind of training; a row a seed, a column a text."""

    before: Measured  # (1, n) each
    after: Mapping[str, Measured]  # kind -> name -> (k, n)
    weights: Mapping[str, float]
    seeds: tuple[int, ...]
    start: str
    majority: float

    def findings(self) -> list[TrialRow]:
        """Each kind against none, and none against the model as it was."""
        found = []
        for kind, measured in self.after.items():
            for name, values in measured.items():
                if name != RANDOM:
                    found.append(self._line(kind, name, values))
        return found

    def _line(self, kind: str, name: str, values: Floats) -> TrialRow:
        value, reach = over_told(values)
        extra = {"before": _mean(self.before[name]), "weight": self.weights[kind]}
        if kind != "none" and "none" in self.after:
            gap, around = over_told(values - self.after["none"][name])
            extra |= {"more than none": gap, "at least": around[0], "at most": around[1]}
        control, told = self._control(kind, name)
        unit = UNITS.get(name, "")
        return TrialRow(
            "training", f"{name}, {kind}", value, reach, control, told, len(self.seeds), unit, extra
        )

    def _control(self, kind: str, name: str) -> tuple[float, str]:
        if name == "accuracy":
            return self.majority, "majority class"
        if name == "AUPRC":
            return _mean(self.after[kind][RANDOM]), "random scores"
        return (
            _mean(self.after["none"][name]) if "none" in self.after else math.nan
        ), "trained without a term"

    def to_dict(self) -> dict[str, Any]:
        def told(measured: Measured) -> dict[str, Any]:
            return {name: _plain(over_told(values)) for name, values in measured.items()}

        gaps = {
            kind: {name: _plain(over_told(values - self.after["none"][name])) for name, values in own.items()}
            for kind, own in self.after.items()
            if kind != "none" and "none" in self.after
        }
        after = {kind: told(own) for kind, own in self.after.items()}
        return {
            "start": self.start,
            "seeds": list(self.seeds),
            "weights": dict(self.weights),
            "majority": self.majority,
            "before": told(self.before),
            "after": after,
            "more than none": gaps,
        }


def over_told(values: Floats) -> tuple[float, Interval]:
    """Mean and interval over seeds and the texts that have a number for every seed."""
    kept = values[:, np.isfinite(values).all(0)]
    return two_way_mean(kept) if kept.shape[1] else (math.nan, (math.nan, math.nan))


def _mean(values: Floats) -> float:
    return over_told(values)[0]


def _plain(found: tuple[float, Interval]) -> list[float | None]:
    return [number if math.isfinite(number) else None for number in (found[0], *found[1])]


def improve(
    model: TokenModel,
    train: PaddedTexts,
    test: PaddedTexts,
    marked: PaddedTexts | None = None,
    kinds: Sequence[str] = KINDS,
    *,
    weights: Mapping[str, float] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    config: TrainConfig | None = None,
    start: str = "copy",
    measures: Measures | None = None,
    progress: Progress | None = None,
) -> Improved:
    """`train` holds marks for "rationales"; `marked` are texts with marks that are not trained on."""
    _check(train, kinds, start)
    weights = WEIGHTS | dict(weights or {})
    if config is None:
        config = settings(model, None)
        config = replace(config, lr=config.lr * GENTLE) if start == "copy" else config
    after: dict[str, Measured] = {}
    for number, kind in enumerate(kinds):
        told = []
        for count, seed in enumerate(seeds, 1):
            student = trained(model, train, kind, weights[kind], seed, config, start)
            told.append(measure(student, test, marked, measures))
            if progress is not None:
                progress(number * len(seeds) + count, len(kinds) * len(seeds))
        after[kind] = {name: np.stack([own[name] for own in told]) for name in told[0]}
    before = {name: values[None] for name, values in measure(model, test, marked, measures).items()}
    return Improved(before, after, weights, tuple(seeds), start, majority(train, test))


def _check(train: PaddedTexts, kinds: Sequence[str], start: str) -> None:
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise HeedfulError(f"unknown kind {unknown[0]!r}", fix=f"Use some of: {', '.join(KINDS)}")
    if start not in ("copy", "fresh"):
        raise HeedfulError(f"unknown start {start!r}", fix="Use copy or fresh")
    if "rationales" in kinds and (train.marks is None or not train.marks.any()):
        raise HeedfulError(
            "no training text has marks", "supervision by rationales needs some", "Leave rationales out"
        )


def trained(
    model: TokenModel,
    train: PaddedTexts,
    kind: str,
    weight: float,
    seed: int,
    config: TrainConfig,
    start: str,
) -> Any:
    """One model, trained on with one term."""
    student = copied(model) if start == "copy" else fresh(model, seed)
    fit(student, train, config, seed, objective(train, kind, weight, place_of(model, train)))
    return student


def objective(train: PaddedTexts, kind: str, weight: float, place: str) -> Loss:
    """Cross-entropy, and the term."""
    plain = right(train)

    def loss(passed: Passed, pick: Tensor) -> Tensor:
        value = plain(passed, pick)
        if kind == "none" or not weight:
            return value
        if kind != "rationales":
            return value + weight * TERMS[kind](passed).mean()
        assert train.marks is not None
        marks = train.marks[pick, : passed.mask.shape[1]]
        term = off_marks(passed, marks, place).sum() / marks.any(1).sum().clamp_min(1)
        return value + weight * term

    return loss


def measure(
    model: TokenModel, test: PaddedTexts, marked: PaddedTexts | None = None, measures: Measures | None = None
) -> dict[str, Floats]:
    """Name -> one number per text."""
    parts: dict[str, list[Floats]] = {}
    done = 0
    for passed in maps(model, test):
        labels = test.labels[done : done + len(passed.logits)]
        done += len(labels)
        logp = passed.logits.double().log_softmax(-1)
        found = {
            "accuracy": (logp.argmax(-1) == labels),
            "log-loss": -logp.gather(1, labels[:, None])[:, 0],
            "entropy of heads": entropy(passed),
            "diversity of heads": diversity(passed),
        }
        for name, values in found.items():
            parts.setdefault(name, []).append(np.asarray(values.double().numpy()))
    told = {name: np.concatenate(values) for name, values in parts.items()}
    told |= {} if marked is None else plausible(model, marked)
    return told | {name: np.asarray(values) for name, values in (measures(model) if measures else {}).items()}


def plausible(model: TokenModel, marked: PaddedTexts) -> dict[str, Floats]:
    """AUPRC and mass of the shown attention against marks, tokens of the text only; nan without marks."""
    assert marked.marks is not None
    place, row = place_of(model, marked), 0
    rng = np.random.default_rng(0)  # the same random scores for every model
    found: dict[str, list[float]] = {"AUPRC": [], RANDOM: [], "mass on marks": []}
    for passed in maps(model, marked):
        shown = read(passed, place)[:, -1].mean(1).double().numpy()  # (B, T)
        mass = marked_mass(passed, marked.marks[row : row + len(shown), : shown.shape[1]], place)
        found["mass on marks"] += mass.tolist()
        for own in shown:
            words = (marked.mask[row].bool() & ~marked.special[row]).numpy()
            scores, marks = own[words[: len(own)]], marked.marks[row].numpy()[words]
            row += 1
            if not marks.any() or marks.all():
                found["AUPRC"].append(math.nan)
                found[RANDOM].append(math.nan)
                continue
            found["AUPRC"].append(average_precision(scores, marks))
            chance = [average_precision(rng.random(len(marks)), marks) for _ in range(DRAWS)]
            found[RANDOM].append(float(np.mean(chance)))
    return {name: np.array(values) for name, values in found.items()}
