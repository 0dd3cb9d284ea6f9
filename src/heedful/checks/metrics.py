"""Conventions of metrics as executable checks, for ours and for yours:

    from heedful.checks import check_metric
    check_metric("my-metric")

On a model whose right explanation is known: a sum of word weights, explained by removing each word. A
metric that says nothing there (nan) is checked on a two-layer BERT, whose words are removed likewise; one for
pictures on a small convolutional network.

    repeatable     the same seed gives the same value, and the model is left as it was
    numbers        finite or nan, for the truth, for chance, for scores that are all zero and for a single
                   word; and nothing beats what the metric says cannot be beaten
    size           seven times the scores have the same value, unless the metric minds their size (scale_free)
    truth          the truth does better than the truth spoilt
    chance         random scores, drawn anew at every question, do no better than the truth

Spoilt is the truth plus noise, drawn anew at every question. Where noise is not what a metric looks for,
another way is named (`spoiled_by`, or `spoil`): "silent", half the scores set to zero; "stuck", the same
whatever the model. A metric that looks for what is stuck finds chance innocent, so chance is not held to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heedful.checks.known_models import linear_model, stack_model
from heedful.checks.known_pictures import conv_model, sample_pictures
from heedful.checks.module_state import changes, noticed
from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.registry import Metric
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.engine.session import Session, session_of

TEXT = "the cat sat on the mat the sat on mat"
DRAWS = 4
NOISE = 1.0  # of the standard deviation of the truth
SLACK = 1e-9  # rounding

Change = Callable[[Floats, np.random.Generator], Floats]
CHANGES: dict[str, Change] = {
    "truth": lambda scores, rng: scores,
    "sevenfold": lambda scores, rng: 7 * scores,
    "noise": lambda scores, rng: scores + NOISE * scores.std() * rng.normal(size=len(scores)),
    "silent": lambda scores, rng: scores * (rng.permutation(len(scores)) < len(scores) // 2),
    "stuck": lambda scores, rng: scores,
    "zero": lambda scores, rng: 0 * scores,
    "chance": lambda scores, rng: rng.normal(size=len(scores)),
}


@dataclass(frozen=True)
class Bench:
    """A metric, and the question it is tried on."""

    metric: Metric
    model: Model
    x: Input
    target: Target

    def value(self, kind: str, seed: int = 0, draw: int = 0) -> float:
        """The metric of an explanation of some kind."""
        change, rng = CHANGES[kind], np.random.default_rng([seed, draw])

        def again(model: Model, x: Input, target: Target, _seed: int) -> Attribution:
            attribution = truth(self.model if kind == "stuck" else model, x, target)
            method = "random" if kind == "chance" else attribution.method
            return replace(attribution, scores=change(attribution.scores, rng), method=method)

        item = again(self.model, self.x, self.target, seed)
        draws = np.random.default_rng(seed)
        return float(
            _by_rows(self, item, draws) if self.metric.kind == "removal" else _asked(self, item, again, draws)
        )


def truth(model: Model, x: Input, target: Target) -> Attribution:
    """What each unit adds, by taking it out: on a sum of word weights its weight, and without error."""
    operator = _operator(model)
    attribution = run_explainer("occlusion", model, x, target, operator=operator)
    nothing = np.zeros((1, len(x.units())), dtype=bool)
    base = float(model.values(x, target, nothing, operator)[0])
    return replace(attribution, base=base, stderr=np.zeros(len(attribution.scores)))


def _operator(model: Model | Session) -> str:
    offered = session_of(model).model.operators
    return "delete" if "delete" in offered else offered[0]


def _by_rows(bench: Bench, item: Attribution, rng: np.random.Generator) -> float:
    from heedful.metrics.faithfulness import Ends
    from heedful.stats.rounding import rounding_step

    plan = bench.metric.run(item.unit_scores(), rng)
    edges, operator = np.repeat([[True], [False]], plan.keep.shape[1], axis=1), _operator(bench.model)
    values = bench.model.values(bench.x, bench.target, np.concatenate([edges, plan.keep]), operator)
    ends = Ends(float(values[0]), float(values[1]), rounding_step(bench.model, values))
    return float(plan.finish(values[2:], ends))


def _asked(
    bench: Bench, item: Attribution, again: Callable[..., Attribution], rng: np.random.Generator
) -> float:
    from heedful.metrics.metric_input import MetricInput

    words = truth(bench.model, bench.x, bench.target).words()
    middle = float(np.mean([word.score for word in words]))
    marked = tuple(word.score > middle for word in words)
    most = max(word.score for word in words)
    best = [word.score >= most - SLACK for word in words]  # the thing that must be found
    mask = np.append(best, False)[bench.x.units().owner]  # -1: an atom of no unit
    return float(bench.metric.run(MetricInput(bench.model, item, again, rationale=marked, mask=mask), rng))


def check_metric(name: str, *, spoil: str | None = None, sized: bool | None = None) -> None:
    """Every check on a registered metric; the first that fails raises AssertionError with a sentence."""
    metric = registry.get_metric(name)
    spoil = metric.spoiled_by if spoil is None else spoil
    if spoil not in ("noise", "silent", "stuck"):
        raise HeedfulError(f"the truth cannot be spoilt by {spoil!r}", fix="Use noise, silent or stuck")
    models: tuple[Model, ...] = (linear_model(), stack_model())
    if "picture" in metric.needs:
        models = (conv_model(),)
    before = [noticed(model.module) for model in models]
    bench = bench_of(metric, models)
    check_repeatable(bench)
    for model, state in zip(models, before, strict=True):
        left = changes(state, noticed(model.module))
        assert not left, f"{name} left traces in the model: {', '.join(left)}"
    check_numbers(bench)
    if not (not metric.scale_free if sized is None else sized):
        check_size(bench)
    check_truth(bench, spoil)
    if spoil != "stuck":
        check_chance(bench)


def bench_of(metric: Metric, models: Sequence[Model]) -> Bench:
    """On the first model of which the metric says something."""
    for model in models:
        if model.lacks(metric.needs):
            continue
        x = model.encode(sample_pictures()[0] if "picture" in model.capabilities else TEXT)
        bench = Bench(metric, model, x, model.target(x))
        if np.isfinite(bench.value("truth")):
            return bench
    raise AssertionError(
        f"{metric.name} says nothing about the truth on any model of heedful.checks.known_models"
    )


def check_repeatable(bench: Bench) -> None:
    """The same seed, the same value."""
    first, again = (bench.value("noise", seed=3) for _ in range(2))
    same = first == again or (np.isnan(first) and np.isnan(again))
    assert same, f"{bench.metric.name} differs from itself under one seed"


def check_numbers(bench: Bench) -> None:
    """Finite or nan, and never beyond the best."""
    x = bench.model.encode(sample_pictures()[1] if "picture" in bench.model.capabilities else "cat")
    short = replace(bench, x=x, target=bench.model.target(x))
    tried = [(b, kind) for b in (bench, short) for kind in ("truth", "noise", "chance", "zero")]
    for where, kind in tried:
        value, best, name = where.value(kind), bench.metric.best, bench.metric.name
        assert not np.isinf(value), f"{name} is infinite for {kind} on {where.x.raw!r}"
        if best is not None and np.isfinite(value):
            beyond = value - best if bench.metric.better == "high" else best - value
            assert beyond <= SLACK, f"{name} is {value:.6g} for {kind}, beyond its best of {best:g}"


def check_size(bench: Bench) -> None:
    """A positive factor changes nothing."""
    once, sevenfold = bench.value("truth"), bench.value("sevenfold")
    close = np.isclose(once, sevenfold, rtol=1e-6, atol=SLACK)
    assert close, f"{bench.metric.name} minds the size of scores: {once:.6g} and {sevenfold:.6g}"


def check_truth(bench: Bench, spoil: str) -> None:
    """Better than spoilt, on the mean of some draws."""
    gain = _gain(bench, spoil)
    assert gain > SLACK, (
        f"{bench.metric.name} finds the truth no better than the truth with {spoil}: {gain:.3g}"
    )


def check_chance(bench: Bench) -> None:
    gain = _gain(bench, "chance")
    assert gain >= -SLACK, f"{bench.metric.name} finds random scores better than the truth, by {-gain:.3g}"


def _gain(bench: Bench, kind: str) -> float:
    """How much better the truth does."""
    apart = [bench.value("truth", draw) - bench.value(kind, draw, draw) for draw in range(DRAWS)]
    return float(np.mean(apart)) * (1 if bench.metric.better == "high" else -1)
