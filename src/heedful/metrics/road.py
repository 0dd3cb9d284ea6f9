"""ROAD: remove and debias, without retraining. What is removed is filled in from its neighbours, with noise.

    MoRF, share p   the p with the highest scores are gone            f should fall: most relevant first
    LeRF, share p   the p with the lowest scores are gone             f should stay: least relevant first
    road-morf       mean over shares of f(x) - f(x without the top p)                          high is good
    road-lerf       mean over shares of f(x) - f(x without the lowest p)                       low
    combined        (LeRF values - MoRF values) / 2, mean over shares

Filling in: of a picture by the operator `inpaint` (each place is the weighted mean of its eight neighbours);
elsewhere in the space of embeddings, each position on the line between its nearest kept neighbours, noise a
hundredth of the spread of each coordinate. Neighbouring words are not alike, so for text this hides a removal
less well. Ties are broken at random.

What others do under the same name. The authors' code calls "LeRF at p" the removal of everything but the top
p: a share of 1 - p is gone, so it is ours at 1 - p. In the same code
`run_road(imputation="linear")` compares where it should assign, so that the name changes nothing; here there
is one imputation, and an unknown order is an error.
pytorch-grad-cam's percentile q removes the top 100 - q %.

The claim of the paper is that rankings of methods by MoRF and by LeRF agree: the report of an audit with both
metrics has Kendall's tau. And smoothing a map, which adds no information, improves it (Song et al. 2023):
`road` weighs each method beside its own scores smoothed over neighbours, and random scores beside smoothed
random scores.

Cost: one model input per share and order; with embeddings a forward and backward each. Needs: values or
gradients. Rong et al. 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.defaults import CONTROL, MIN_COMPARED_TEXTS
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER, Input
from heedful.core.model import Masks, Model
from heedful.core.registry import MetricRows, metric
from heedful.core.result import NotebookRepr
from heedful.core.target import Target
from heedful.engine.session import Session
from heedful.metrics.faithfulness import ranked, tops
from heedful.metrics.metric_input import MetricInput, inputs_per_mask
from heedful.metrics.rankings import ranking_tau
from heedful.modalities.neighbours import SMOOTHED, smoothed
from heedful.stats.best_comparison import ALPHA
from heedful.stats.exchange_test import holm
from heedful.stats.intervals import Interval, bootstrap, percentile_interval
from heedful.stats.linear_imputation import NOISE, imputed_row
from heedful.stats.paired_test import paired_p

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ORDERS = ("morf", "lerf")
INPAINT = "inpaint"


def _rows(model: Model, x: Input, target: Target, unit: str) -> MetricRows:
    count = len(SHARES) + 1
    if INPAINT in model.operators:
        return MetricRows(count * inputs_per_mask(model, x, target, INPAINT, unit))
    return MetricRows(graded=count if "gradients" in model.capabilities else 0)


@metric("road-morf", kind="re-explain", better="high", smooths=True, rows=_rows, cite="Rong et al. 2022")
def road_morf(subject: MetricInput, rng: np.random.Generator) -> float:
    """How far the output falls when the top units are filled in from their neighbours.

    Limitations: Smooth maps do better than rough maps without knowing more. What is filled in from neighbours
    is no word, and for pictures it is a guess.
    """
    return _fall(subject, "morf", rng)


@metric("road-lerf", kind="re-explain", better="low", smooths=True, rows=_rows, cite="Rong et al. 2022")
def road_lerf(subject: MetricInput, rng: np.random.Generator) -> float:
    """How far the output falls when the units with the lowest scores are filled in from their neighbours.

    Limitations: Smooth maps do better than rough maps without knowing more. What is filled in from neighbours
    is no word, and for pictures it is a guess.
    """
    return _fall(subject, "lerf", rng)


def _fall(subject: MetricInput, order: str, rng: np.random.Generator) -> float:
    item = subject.item
    if len(subject.scores) < 2 or not can_fill(subject.session):
        return float("nan")
    keep = kept(subject.scores, order, SHARES, rng)
    whole = np.ones((1, keep.shape[1]), dtype=bool)
    values = filled_values(subject.session, item.x, item.target, np.concatenate([whole, keep]), subject.unit)
    return float(values[0] - values[1:].mean())


def can_fill(session: Session) -> bool:
    """Whether removed units can be filled in from their neighbours."""
    return INPAINT in session.model.operators or "gradients" in session.model.capabilities


def kept(scores: Floats, order: str, shares: Sequence[float], rng: np.random.Generator) -> Masks:
    """(shares, d): what is left when a share is gone, the highest scores first ("morf") or the lowest."""
    if order not in ORDERS:
        raise HeedfulError(f"unknown order {order!r}", fix=f"Use one of: {', '.join(ORDERS)}")
    counts = [round(share * len(scores)) for share in shares]
    return ~tops(ranked(scores if order == "morf" else -scores, rng), counts)


def filled_values(
    session: Session, x: Input, target: Target, keep: Masks, unit: str = "", seed: int = 0
) -> Floats:
    """(n,) target values of x with units gone and filled in, as `keep` (n, d) says."""
    if INPAINT in session.model.operators:
        return session.values(x, target, keep, INPAINT, unit)
    import torch

    session.model.require({"gradients"}, "ROAD")
    embeds = session.model.lookup(x, target)
    vectors, units = embeds.double().cpu().numpy(), x.units(unit)
    own = vectors[units.owner != NEVER]
    mean, spread = own.mean(0), NOISE * own.std(0)
    gone = np.concatenate([~keep, np.zeros((len(keep), 1), dtype=bool)], axis=1)[:, units.owner]
    rng = np.random.default_rng(seed)
    rows = np.stack([imputed_row(vectors, out, mean, spread, rng) for out in gone])
    if (written := session.model.written(target)) is not None and len(written):
        after = session.model.lookup_written(target).double().cpu().numpy()
        rows = np.concatenate([rows, np.broadcast_to(after, (len(rows), *after.shape))], axis=1)
    values, _ = session.gradients(x, target, torch.from_numpy(rows).to(embeds))
    return np.asarray(values.double().cpu().numpy())


# --- over a set of inputs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoadCurve:
    """One method: share of right answers, and mean value of the target, at each share removed."""

    method: str
    accuracy: Mapping[str, tuple[float, ...]]  # by order
    value: Mapping[str, tuple[float, ...]]
    combined: float  # (LeRF - MoRF) / 2 of the value, mean over shares and inputs: high is good
    interval: Interval  # 95 %, of `combined`, over inputs


@dataclass(frozen=True)
class Road(NotebookRepr):
    """ROAD over a set of inputs, controls included."""

    shares: tuple[float, ...]
    curves: tuple[RoadCurve, ...]  # best first
    tau: float  # Kendall's tau of the rankings by MoRF and by LeRF, over the methods
    n: int
    better: tuple[str, ...] = ()  # methods shown better than random scores and smoothed random scores
    smoothing: tuple[str, ...] = ()  # methods whose scores are shown better when smoothed

    def __getitem__(self, method: str) -> RoadCurve:
        return next(curve for curve in self.curves if curve.method == method)

    def __str__(self) -> str:
        """Means are described; what is called better was tested."""
        own = [curve for curve in self.curves if _base(curve.method) != CONTROL and _plain(curve.method)]
        lines = []
        if own:
            first, (low, high) = own[0], own[0].interval
            mean = f"{first.combined:.3g} ({low:.3g} to {high:.3g})"
            lines.append(f"Highest mean of both orders on {self.n} inputs: {first.method}, {mean}.")
            lines.append(self._tested([curve.method for curve in own]))
        lines.append(f"The rankings by MoRF and by LeRF agree with τ = {self.tau:.2f} (1: the same ranking).")
        if self.smoothing:
            names = ", ".join(self.smoothing)
            lines.append(f"Shown to be better when smoothed, which adds no information: {names}.")
        return " ".join(lines)

    def _tested(self, methods: Sequence[str]) -> str:
        if self.n < MIN_COMPARED_TEXTS:
            return f"To test it against random scores, at least {MIN_COMPARED_TEXTS} inputs are needed."
        controls = "random scores and smoothed random scores"
        rest = [method for method in methods if method not in self.better]
        lines = [f"Better than {controls}: {', '.join(self.better)}."] if self.better else []
        lines += [f"Not shown better than {controls}: {', '.join(rest)}."] if rest else []
        return " ".join(lines)


def _plain(method: str) -> bool:
    return not method.endswith(SMOOTHED)


def _base(method: str) -> str:
    return method.removesuffix(SMOOTHED)


def road(
    session: Session,
    inputs: Sequence[Input],
    scores: Mapping[str, Sequence[Floats]],
    *,
    unit: str = "",
    labels: Sequence[int] | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
) -> Road:
    """ROAD curves of several methods over inputs, beside random scores and all of them smoothed.

    Parameters
    ----------
    session
        A model at work.
    inputs
        As the model reads them.
    scores
        By method, one score per unit for each input.
    unit
        What is removed. "" is the default unit of each input.
    labels
        The true class of each input. If `None`, an answer is right if it is that of the whole input.
    shares
        Shares of the units that are removed.
    seed
        Of ties and random scores.

    Returns
    -------
    Road
        Curves with controls, and Kendall's tau between the rankings by both orders.

    Examples
    --------
    >>> import heedful
    >>> model = heedful.load("zoo:sentiment")
    >>> x = model.encode("The food was great but the waiter was rude")
    >>> item = heedful.explain(model, x, methods=["occlusion"])["occlusion"]
    >>> found = road(Session(model), [x], {"occlusion": [item.unit_scores()]}, shares=(0.3, 0.6))
    >>> sorted(curve.method for curve in found.curves)
    ['occlusion', 'occlusion, smoothed', 'random', 'random, smoothed']
    """
    rng = np.random.default_rng([seed, 1])
    every = {name: list(each) for name, each in scores.items() if name != CONTROL}
    every[CONTROL] = [rng.normal(size=len(x.units(unit))) for x in inputs]
    every |= {
        name + SMOOTHED: [smoothed(x, own, unit) for x, own in zip(inputs, each, strict=True)]
        for name, each in every.items()
    }
    results = {name: np.zeros((2, len(inputs), len(shares), 2)) for name in every}  # value, right
    for place, x in enumerate(inputs):
        predicted = session.model.target(x)
        truth = predicted.index if labels is None else int(labels[place])
        keep = [
            kept(each[place], order, shares, np.random.default_rng([seed, place]))
            for each in every.values()
            for order in ORDERS
        ]
        answers = _answers(session, x, truth, keep, unit).reshape(len(every), len(ORDERS), len(shares), 2)
        for name, own in zip(every, answers, strict=True):
            results[name][:, place] = own
    curves = [_curve(name, result, seed) for name, result in results.items()]
    named = [curve for curve in curves if not curve.method.endswith(SMOOTHED)]
    means = [[float(np.mean(curve.value[order])) for curve in named] for order in ORDERS]
    tau = ranking_tau([-value for value in means[0]], means[1])
    ordered = tuple(sorted(curves, key=lambda curve: -curve.combined))
    combined = {name: _combined(result) for name, result in results.items()}
    better, smoothing = _shown(combined, seed)
    return Road(tuple(shares), ordered, tau, len(inputs), better, smoothing)


def _shown(each: Mapping[str, Floats], seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Methods that are better than both controls, and those that smoothing makes better: paired tests over
    inputs, Holm over all tests of a kind, 2.5 % each. `each`: by name, one value per input."""
    names = [name for name in each if _plain(name)]
    methods = [name for name in names if name != CONTROL]
    if len(each[CONTROL]) < MIN_COMPARED_TEXTS:
        return (), ()
    controls = (CONTROL, CONTROL + SMOOTHED)
    above = [(name, each[name] - each[control]) for name in methods for control in controls]
    gains = [(name, each[name + SMOOTHED] - each[name]) for name in names]
    return _significant(above, seed), _significant(gains, seed)


def _significant(gaps: Sequence[tuple[str, Floats]], seed: int) -> tuple[str, ...]:
    """Names of which every difference is shown to be above 0."""
    if not gaps:
        return ()
    p = holm(paired_p(np.stack([gap for _, gap in gaps], axis=1), seed))
    failed = {name for (name, _), value in zip(gaps, p, strict=True) if not value <= ALPHA}
    return tuple(name for name in dict.fromkeys(name for name, _ in gaps) if name not in failed)


def _answers(session: Session, x: Input, truth: int | None, keep: Sequence[Masks], unit: str) -> Floats:
    """(all masks, 2): the value of the class, and whether no other class has more."""
    target = session.model.target(x, truth)
    lead = replace(target, kind="margin") if len(session.model.labels) > 1 else None
    # rows of pictures are small and run in batches; embeddings of all masks at once would take much memory
    groups = [np.concatenate(keep)] if INPAINT in session.model.operators else keep
    parts = []
    for masks in groups:
        own = filled_values(session, x, target, masks, unit)
        ahead = filled_values(session, x, lead, masks, unit) if lead else np.zeros(len(masks))
        parts.append(np.stack([own, ahead >= 0], 1))
    return np.concatenate(parts)


def _combined(result: Floats) -> Floats:
    """(inputs,) of (orders, inputs, shares, 2)."""
    values: Floats = (result[1, ..., 0] - result[0, ..., 0]).mean(1) / 2
    return values


def _curve(name: str, result: Floats, seed: int) -> RoadCurve:
    each = _combined(result)
    means = bootstrap(lambda counts: counts @ each / counts.sum(-1), len(each), seed)
    value, accuracy = (
        {order: tuple(result[o, ..., part].mean(0).tolist()) for o, order in enumerate(ORDERS)}
        for part in (0, 1)
    )
    return RoadCurve(name, accuracy, value, float(each.mean()), percentile_interval(means))
