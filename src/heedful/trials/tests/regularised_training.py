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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.numbers import with_interval
from heedful.core.phrases import listed
from heedful.core.progress import Progress
from heedful.metrics.plausibility import average_precision
from heedful.models.adapter import TokenModel
from heedful.nn.train import TrainConfig
from heedful.stats.intervals import Interval, two_way_mean
from heedful.trials.adversary_search import Search
from heedful.trials.attention_scores import ALL
from heedful.trials.batches import PaddedTexts
from heedful.trials.examples import again
from heedful.trials.formatting import signed_decimals
from heedful.trials.rationale_data import with_marks
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.regularisers import KINDS, TERMS, diversity, entropy, marked_mass, off_marks
from heedful.trials.rows import TrialRow, of_key
from heedful.trials.tests.adversary import adversary
from heedful.trials.tests.correlation import GRADIENTS, LEFT_OUT, correlation
from heedful.trials.tests.seeds import majority
from heedful.trials.training import (
    FINE_TUNE_LR_FACTOR,
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

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

SHORT_TRIAL_TEXTS = 20  # texts of the short trial that models trained with a term are put to
WEIGHTS = {"none": 0.0, "sharper": 0.1, "flatter": 0.1, "diverse": 0.1, "rationales": 0.3}
DRAWS = 20  # random scores a marked text
Measures = Callable[[Any], Mapping[str, Floats]]  # a model -> name -> one number per text
Measured = Mapping[str, Floats]  # name -> (n,) or, of k seeds, (k, n)
ACCURACY, AUPRC, RANDOM = "accuracy", "AUPRC", "AUPRC of random scores"
MORE, AT_LEAST, AT_MOST = "more than none", "at least", "at most"
UNITS = {ACCURACY: "accuracy", "log-loss": "nats", "entropy of heads": "nats", "diversity of heads": "nats"}


@dataclass(frozen=True, eq=False)
class RegularisedOutcome:
    """Numbers of every kind of training; a row a seed, a column a text."""

    before: Measured  # (1, n) each
    after: Mapping[str, Measured]  # kind -> name -> (k, n)
    weights: Mapping[str, float]
    seeds: tuple[int, ...]
    start: str
    majority: float

    def findings(self) -> list[TrialRow]:
        """Each kind against none, and none against the model as it was."""
        return [
            self._row(kind, name, values)
            for kind, measured in self.after.items()
            for name, values in measured.items()
            if name != RANDOM
        ]

    def _row(self, kind: str, name: str, values: Floats) -> TrialRow:
        value, reach = over_finite(values)
        extra = {"before": _mean(self.before[name]), "weight": self.weights[kind]}
        if kind != "none" and "none" in self.after:
            gap, around = over_finite(values - self.after["none"][name])
            extra |= {MORE: gap, AT_LEAST: around[0], AT_MOST: around[1]}
        control, unit = self._control(kind, name), UNITS.get(name, "")
        what, k = f"{name}, {kind}", len(self.seeds)
        return TrialRow(
            test="training",
            what=what,
            value=value,
            interval=reach,
            control=control[0],
            control_name=control[1],
            n=k,
            unit=unit,
            extra=extra,
            key=name,
            variant=kind,
        )

    def _control(self, kind: str, name: str) -> tuple[float, str]:
        if name == ACCURACY:
            return self.majority, "majority class"
        if name == AUPRC:
            return _mean(self.after[kind][RANDOM]), "random scores"
        return (
            _mean(self.after["none"][name]) if "none" in self.after else math.nan
        ), "trained without a term"

    def to_dict(self) -> dict[str, Any]:
        def estimates(measured: Measured) -> dict[str, Any]:
            return {name: _plain(over_finite(values)) for name, values in measured.items()}

        gaps = {
            kind: {
                name: _plain(over_finite(values - self.after["none"][name])) for name, values in own.items()
            }
            for kind, own in self.after.items()
            if kind != "none" and "none" in self.after
        }
        after = {kind: estimates(own) for kind, own in self.after.items()}
        return {
            "start": self.start,
            "seeds": list(self.seeds),
            "weights": dict(self.weights),
            "majority": self.majority,
            "before": estimates(self.before),
            "after": after,
            MORE: gaps,
        }


def over_finite(values: Floats) -> tuple[float, Interval]:
    """Mean and interval over seeds and the texts that have a number for every seed."""
    kept = values[:, np.isfinite(values).all(0)]
    return two_way_mean(kept) if kept.shape[1] else (math.nan, (math.nan, math.nan))


def _mean(values: Floats) -> float:
    return over_finite(values)[0]


def _plain(estimate: tuple[float, Interval]) -> list[float | None]:
    return [number if math.isfinite(number) else None for number in (estimate[0], *estimate[1])]


@dataclass(frozen=True)
class RegularisedTraining:
    """What is trained, and how."""

    kinds: Sequence[str] = KINDS
    weights: Mapping[str, float] = field(default_factory=dict)  # of the terms, where WEIGHTS shall not hold
    seeds: Sequence[int] = (0, 1, 2)
    config: TrainConfig | None = None  # None: what suits the model's depth, and the start
    start: str = "copy"  # or "fresh"

    def config_for(self, model: TokenModel) -> TrainConfig:
        if self.config is not None:
            return self.config
        config = settings(model, None)
        return replace(config, lr=config.lr * FINE_TUNE_LR_FACTOR) if self.start == "copy" else config

    def check(self, train: PaddedTexts) -> None:
        if unknown := [kind for kind in self.kinds if kind not in KINDS]:
            raise HeedfulError(f"unknown kind {unknown[0]!r}", fix=f"Use some of: {', '.join(KINDS)}")
        if self.start not in ("copy", "fresh"):
            raise HeedfulError(f"unknown start {self.start!r}", fix="Use copy or fresh")
        if "rationales" in self.kinds and (train.marks is None or not train.marks.any()):
            raise HeedfulError(
                "no training text has marks", "supervision by rationales needs some", "Leave rationales out"
            )


def improve(
    model: TokenModel,
    train: PaddedTexts,
    test: PaddedTexts,
    marked: PaddedTexts | None = None,
    training: RegularisedTraining | None = None,
    *,
    measures: Measures | None = None,
    progress: Progress | None = None,
) -> RegularisedOutcome:
    """`train` holds marks for "rationales"; `marked` are texts with marks that are not trained on."""
    training = training or RegularisedTraining()
    training.check(train)
    kinds, seeds, start = training.kinds, training.seeds, training.start
    weights, config = WEIGHTS | dict(training.weights), training.config_for(model)
    after: dict[str, Measured] = {}
    for number, kind in enumerate(kinds):
        each = []
        for count, seed in enumerate(seeds, 1):
            student = trained(model, train, kind, weights[kind], seed, config, start)
            each.append(measure(student, test, marked, measures))
            if progress is not None:
                progress(number * len(seeds) + count, len(kinds) * len(seeds))
        after[kind] = {name: np.stack([own[name] for own in each]) for name in each[0]}
    before = {name: values[None] for name, values in measure(model, test, marked, measures).items()}
    return RegularisedOutcome(
        before=before,
        after=after,
        weights=weights,
        seeds=tuple(seeds),
        start=start,
        majority=majority(train, test),
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
        numbers = {
            ACCURACY: (logp.argmax(-1) == labels),
            "log-loss": -logp.gather(1, labels[:, None])[:, 0],
            "entropy of heads": entropy(passed),
            "diversity of heads": diversity(passed),
        }
        for name, values in numbers.items():
            parts.setdefault(name, []).append(np.asarray(values.double().numpy()))
    by_name = {name: np.concatenate(values) for name, values in parts.items()}
    by_name |= {} if marked is None else plausible(model, marked)
    return by_name | {
        name: np.asarray(values) for name, values in (measures(model) if measures else {}).items()
    }


def plausible(model: TokenModel, marked: PaddedTexts) -> dict[str, Floats]:
    """AUPRC and mass of the shown attention against marks, tokens of the text only; nan without marks."""
    assert marked.marks is not None
    place, row = place_of(model, marked), 0
    rng = np.random.default_rng(0)  # the same random scores for every model
    by_name: dict[str, list[float]] = {AUPRC: [], RANDOM: [], "mass on marks": []}
    for passed in maps(model, marked):
        shown = read(passed, place)[:, -1].mean(1).double().numpy()  # (B, T)
        mass = marked_mass(passed, marked.marks[row : row + len(shown), : shown.shape[1]], place)
        by_name["mass on marks"] += mass.tolist()
        for own in shown:
            words = (marked.mask[row].bool() & ~marked.special[row]).numpy()
            scores, marks = own[words[: len(own)]], marked.marks[row].numpy()[words]
            row += 1
            if not marks.any() or marks.all():
                by_name[AUPRC].append(math.nan)
                by_name[RANDOM].append(math.nan)
                continue
            by_name[AUPRC].append(average_precision(scores, marks))
            chance = [average_precision(rng.random(len(marks)), marks) for _ in range(DRAWS)]
            by_name[RANDOM].append(float(np.mean(chance)))
    return {name: np.array(values) for name, values in by_name.items()}


# --- in the trial ----------------------------------------------------------------------------------------


def _short_trial(suite: TrialSuite, model: TokenModel) -> dict[str, Floats]:
    """One number per text, of the first few: the tests that need no training, on another model."""
    settings = suite.settings
    few = again(suite.cases, model, SHORT_TRIAL_TEXTS)
    search = Search(settings.epsilon, 2, min(60, settings.climb))
    far = adversary(few, seed=settings.seed, search=search).distance.mean(1)
    ranks = correlation(few, seed=settings.seed)
    shown = ranks.pairs[-2][0] if len(ranks.pairs) == 3 else ALL
    tau = {
        f"tau of attention and {to}": ranks.tau[:, ranks.pairs.index((shown, to))]
        for to in (GRADIENTS, LEFT_OUT)
    }
    return {"JSD of an adversary": far} | tau


def _showed(rows: Rows, _: Rows) -> str:
    gaps = {
        name: [_gap(row) for row in of_key(rows, name) if MORE in row.extra] for name in (ACCURACY, AUPRC)
    }
    parts = [f"{name} {listed(own)}" for name, own in gaps.items() if own]
    return f"Change compared with training without a regulariser: {'; '.join(parts)}." if parts else ""


def _gap(row: TrialRow) -> str:
    gap, low, high = (row.extra[name] for name in (MORE, AT_LEAST, AT_MOST))
    return f"{with_interval(gap, low, high, signed_decimals)} ({row.variant})"


@trial_test(
    "training",
    title="Does an attention regulariser make attention a better explanation?",
    needs={"attentions", "edits", "gradients", "training texts", "terms"},
    cite="Bao et al. 2018",
    order=9,
    words=TrialWords(_showed),
)
def _run(suite: TrialSuite) -> RegularisedOutcome:
    """With `--improve`, the model is trained further with an attention regulariser (sharper, flatter, diverse
    or rationales). It is measured before and after.

    Control: the same further training without a regulariser

    Cost: one fit per term and seed

    Not shown: that attention people find plausible is what the model goes by: the term asked for marked
    words, not for their use.
    """
    model, train, marked = suite.cases.model, suite.train, None
    if suite.given is not None and suite.given.rationales is not None:
        train, marked = with_marks(model, suite.given, suite.settings.length)
    return improve(
        model,
        train,
        suite.test,
        marked,
        RegularisedTraining(kinds=suite.terms, seeds=suite.seeds, config=suite.gentle_config),
        measures=partial(_short_trial, suite),
        progress=suite.progress("training with terms"),
    )
