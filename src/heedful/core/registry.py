"""Explainers and metrics register themselves: a function, what it needs, whom it cites.

    @explainer("occlusion", needs={"values"}, takes=("unit", "operator"), cite="Zeiler & Fergus 2014")
    def occlusion(q: Question) -> Attribution: ...

    @metric("compactness", kind="re-explain", better="high", best=1.0, cite="Hurley & Rickard 2009")
    def compactness(subject, rng) -> float: ...

An explainer's keyword parameters, and what it `takes` of the question, become CLI flags and docs. Third
parties add theirs through the entry-point group "heedful.plugins": any module named there is imported before
the list is read.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar, get_args, get_type_hints

from heedful.core.attribution import Attribution
from heedful.core.declarations import declared_facts, import_plugins
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.result import NotebookRepr
from heedful.core.target import Target
from heedful.core.whole_numbers import MAX_COUNT, MAX_SEED

PACKAGES = ("heedful.explainers", "heedful.metrics")  # every module of these registers what it has
LIMITATIONS = "Limitations:"
Found = TypeVar("Found")
Rows = tuple[int, int]  # the fewest model inputs a method can do with, and the most it asks for
Counts = Callable[[Input, Target, Mapping[str, Any]], int | Rows]  # (text, target, parameters) -> rows


@dataclass(frozen=True)
class Param:
    """A keyword parameter of an explainer, as its signature tells it."""

    name: str
    default: Any
    kinds: tuple[type, ...] = ()  # of int, float, str, bool, NoneType; empty: anything goes

    @property
    def most(self) -> int:
        """The largest whole number that it takes. A method may need memory for as many rows."""
        if int not in self.kinds:
            return int(sys.float_info.max)
        return MAX_SEED if self.name == "seed" else MAX_COUNT

    def settled(self, value: Any) -> Any:
        """A whole number where a float is meant is that float."""
        whole = isinstance(value, int) and float in self.kinds and int not in self.kinds
        return float(value) if whole else value

    def refuses(self, value: Any) -> str:
        """Why a value cannot be meant, in a clause, or ""."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            fits = isinstance(value, self.kinds) or (isinstance(value, int) and float in self.kinds)
            if fits and value != value:
                return "not a number"
            if fits and value < 0 and self.name != "layer":
                return "it cannot be negative"
            if fits and isinstance(value, int) and abs(value) > self.most:
                return f"the limit is {self.most:,}" if int in self.kinds else "it is too large"
        else:
            fits = isinstance(value, self.kinds) and not (isinstance(value, bool) and bool not in self.kinds)
        names = " or ".join("nothing" if kind is type(None) else kind.__name__ for kind in self.kinds)
        return "" if fits or not self.kinds else f"it takes {names}"


COMMON = {
    "unit": Param("unit", "", (str,)),
    "operator": Param("operator", None, (str, type(None))),
    "seed": Param("seed", 0, (int,)),
}


@dataclass(frozen=True)
class Explainer(NotebookRepr):
    """A registered method."""

    name: str
    run: Callable[..., Attribution]
    needs: frozenset[str]
    cite: str
    summary: str
    takes: tuple[str, ...] = ()  # of COMMON: what of the question changes its answer
    default_operator: str = ""  # where the model offers it; else the model's first
    signed: bool = True  # scores push towards (+) or away from (-); unsigned ones only say how much
    params: Mapping[str, Param] = field(default_factory=dict)
    expensive: bool = False  # a pass per token, or thousands: runs only when named
    properties: frozenset[str] = frozenset()  # what heedful.checks holds it to: see `explainer`
    counts: Counts | None = None
    for_classes: bool = False  # the target must be a predicted class, or one output rather than another

    @property
    def limitations(self) -> str:
        """When not to believe it, as its docstring tells."""
        return limitations_of(self.run)

    def rows(self, x: Input, target: Target, params: Mapping[str, Any]) -> Rows:
        """Fewest and most model inputs it asks for, a trace being one; other methods may have run some."""
        if self.counts is None:
            return (1, 1) if self.needs & {"gradients", "attentions", "values"} else (0, 0)
        values = self.counts(x, target, {p.name: p.default for p in self.params.values()} | dict(params))
        return values if isinstance(values, tuple) else (values, values)

    def check(self, params: Mapping[str, Any]) -> None:
        """Refuse unknown parameters and values of the wrong kind, in a sentence."""
        if unknown := set(params) - set(self.params):
            known = ", ".join(self.params) or "none"
            close = [c for name in sorted(unknown) for c in difflib.get_close_matches(name, self.params, n=1)]
            hint = f"Did you mean {' and '.join(map(repr, dict.fromkeys(close)))}? " if close else ""
            raise HeedfulError(
                f"{self.name} has no parameter {', '.join(sorted(unknown))}", fix=f"{hint}It takes: {known}"
            )
        for name, value in params.items():
            if why := self.params[name].refuses(value):
                raise HeedfulError(f"{self.name}.{name} cannot be {_shown(value)}", why)

    def settled(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters, checked, those that were not named at their defaults."""
        self.check(params)
        named = {name: self.params[name].settled(value) for name, value in params.items()}
        return {name: param.default for name, param in self.params.items()} | named


def _shown(value: Any) -> str:
    """Python writes out no number of over 4,300 digits."""
    long = isinstance(value, int) and value.bit_length() > 1000
    return f"a number of {value.bit_length():,} bits" if long else repr(value)


def limitations_of(function: Callable[..., Any]) -> str:
    """The paragraph of a docstring that begins with "Limitations:"; "" where there is none."""
    lines = [part.replace("\n", " ") for part in (inspect.getdoc(function) or "").split("\n\n")]
    return next(
        (part.removeprefix(LIMITATIONS).strip() for part in lines if part.startswith(LIMITATIONS)), ""
    )


_explainers: dict[str, Explainer] = {}


def explainer(
    name: str,
    *,
    needs: set[str],
    cite: str,
    takes: tuple[str, ...] = (),
    default_operator: str = "",
    signed: bool = True,
    expensive: bool = False,
    properties: tuple[str, ...] = (),
    rows: Counts | None = None,
    for_classes: bool = False,
) -> Callable[[Callable[..., Attribution]], Callable[..., Attribution]]:
    """Register a function `(question, *, params...) -> Attribution` (heedful.engine.question).

    `takes` names what of the question changes the answer: "unit", "operator", "seed". They become parameters
    beside the function's own.
    `properties`, to which heedful.checks.check_explainer holds the method (heedful.checks.properties says
    more): "linear" (exact on a sum of word weights), "complete" (scores sum to output - base), "unused"
    (zero for a token that cannot reach the output), "symmetric" (interchangeable tokens score alike),
    "gradient-mean", "gradient-l1", "gradient-l2", "gradient-x-input" (that function of the gradient, to
    finite differences).
    `rows` gives, for a text, a target and the parameters, how many model inputs it will ask for, or the
    fewest and the most, so that costs can be foretold; left out, the one pass of a trace is counted.
    `for_classes`: it explains a predicted class, or one output rather than another, and no other target.
    """

    def register(function: Callable[..., Attribution]) -> Callable[..., Attribution]:
        if name in _explainers and _explainers[name].run.__module__ != function.__module__:
            raise ValueError(f"two explainers are called {name!r}")
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        if unknown := set(takes) - set(COMMON):
            raise ValueError(f"{name} takes {', '.join(unknown)}; a question has {', '.join(COMMON)}")
        _explainers[name] = Explainer(
            name=name,
            run=function,
            needs=frozenset(needs),
            cite=cite,
            summary=summary,
            takes=takes,
            default_operator=default_operator,
            signed=signed,
            params=_keyword_params(function) | {each: COMMON[each] for each in takes},
            expensive=expensive,
            properties=frozenset(properties),
            counts=rows,
            for_classes=for_classes,
        )
        return function

    return register


def sampled(d: int, samples: int | None, default: int, exact: int = 0) -> Rows:
    """Rows of a method that draws masks over d units, or runs all 2^d of them up to `exact` units."""
    every = max(2, 2 ** min(d, 60))  # the text and the empty text are always run
    if d <= exact:
        return every, every
    most = min(every, max(default, 9 * d // 4) if samples is None else samples)
    return min(2 * (d + 5), most), most


def sampled_over(d: int, target: Target, count: Callable[[int], Rows]) -> Rows:
    """Rows of a method over d units of the text and those of what was written, at most one per token."""
    each = [count(d + more) for more in range(len(target.given) + 1)]
    return min(least for least, _ in each), max(most for _, most in each)


def _keyword_params(function: Callable[..., Any]) -> dict[str, Param]:
    parameters = inspect.signature(function).parameters.values()
    hints = get_type_hints(function)
    return {
        p.name: Param(p.name, p.default, _kinds(hints.get(p.name)))
        for p in parameters
        if p.kind is p.KEYWORD_ONLY
    }


def _kinds(hint: Any) -> tuple[type, ...]:
    """The plain types of `int`, `float | None` and their like; () for anything else."""
    kinds = get_args(hint) or (hint,)
    return kinds if all(kind in (int, float, str, bool, type(None)) for kind in kinds) else ()


@dataclass(frozen=True)
class MetricRows:
    """What a metric that explains again asks of a model for one method on one input, at most."""

    forwards: int = 0  # model inputs
    graded: int = 0  # model inputs with a backward pass
    again: tuple[Input, ...] = ()  # inputs that the method explains anew


MetricCounts = Callable[[Model, Input, Target, str], MetricRows]  # (model, input, target, unit)


@dataclass(frozen=True)
class Metric(NotebookRepr):
    """A registered way to weigh an explanation; heedful.metrics.score runs it."""

    name: str
    run: Callable[..., Any]
    kind: str  # "removal": (scores, rng) -> Probe; "re-explain": (subject, rng) -> float
    better: str  # "high" or "low"
    cite: str
    summary: str
    best: float | None = None  # what nothing can beat; None: the best order found
    needs: frozenset[str] = frozenset()  # of the model, beyond what the explainer needs
    family: str = ""  # its voice in the verdict: "remove-top", "keep-top"; "": it takes no part
    expensive: bool = False  # explains again many times: runs only when named
    shuffled: bool = False  # the control is the method's own scores in random order
    goal: str = ""  # of `search`: "deletion" or "insertion" finds the order that is best by it; "": none does
    rationales: bool = False  # it says nothing where nobody marked a reason
    masks: bool = False  # it says nothing where nobody marked the thing that must be found
    chance: Callable[..., float] | None = None  # subject -> the mean value of random scores, if known
    smooths: bool = False  # it may reward smooth maps: an audit also measures each method's smoothed scores
    scale_free: bool = True  # seven times the scores have the same value
    spoiled_by: str = "noise"  # what it must notice: "noise", "silent" or "stuck" (heedful.checks.metrics)
    counts: MetricCounts | None = None  # of "re-explain"; None: it looks at the scores alone

    def rows(self, model: Model, x: Input, target: Target, unit: str) -> MetricRows:
        """What it asks for beyond the explanation itself, where it explains again."""
        if self.counts is None or model.lacks(self.needs):
            return MetricRows()
        return self.counts(model, x, target, unit)

    @property
    def limitations(self) -> str:
        """When not to believe it, as its docstring tells."""
        return limitations_of(self.run)


_metrics: dict[str, Metric] = {}


def metric(
    name: str,
    *,
    kind: str,
    better: str,
    cite: str,
    best: float | None = None,
    needs: Collection[str] = (),
    family: str = "",
    expensive: bool = False,
    shuffled: bool = False,
    goal: str = "",
    rationales: bool = False,
    masks: bool = False,
    chance: Callable[..., float] | None = None,
    smooths: bool = False,
    scale_free: bool = True,
    spoiled_by: str = "noise",
    rows: MetricCounts | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a metric.

    kind="removal"      `(scores (d,), rng) -> Probe` (heedful.metrics.faithfulness): rows with units removed,
                        and the metric from their values; runs under every operator, rows shared by all
    kind="re-explain"   `(subject, rng) -> float` (heedful.metrics.metric_input): may explain the text, or
                        another, again; nan where the metric says nothing about this text or method
    family         of a metric that takes part in the verdict: "remove-top" or "keep-top". Metrics of one
                   family share one voice
    shuffled       of a metric whose rows do not depend on the scores: its control is the method's own scores
                   in random order, so that their signs and sizes alone earn nothing
    goal           what `search` looks for to find the best that any order reaches: "deletion", "insertion"
    rationales     of a metric that needs what people marked as the reason
    masks          of a metric that needs to know where the thing is that must be found
    chance         of a metric whose mean over random scores is known: `subject -> float`
    smooths        of a metric that may reward smooth maps: an audit also measures smoothed scores
    scale_free, spoiled_by   what heedful.checks.check_metric holds it to
    rows           of a metric that explains again: what it asks for, so that costs can be foretold; left out,
                   it asks for nothing.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in _metrics and _metrics[name].run.__module__ != function.__module__:
            raise ValueError(f"two metrics are called {name!r}")
        if kind not in ("removal", "re-explain") or better not in ("high", "low"):
            raise ValueError(f"{name}: kind is 'removal' or 're-explain', better is 'high' or 'low'")
        if family and (kind != "removal" or shuffled):
            raise ValueError(
                f"{name}: a metric of the verdict removes words, and its control is random orders"
            )
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        _metrics[name] = Metric(
            name=name,
            run=function,
            kind=kind,
            better=better,
            cite=cite,
            summary=summary,
            best=best,
            needs=frozenset(needs),
            family=family,
            expensive=expensive,
            shuffled=shuffled,
            goal=goal,
            rationales=rationales,
            masks=masks,
            chance=chance,
            smooths=smooths,
            scale_free=scale_free,
            spoiled_by=spoiled_by,
            counts=rows,
        )
        return function

    return register


@cache
def _import_all() -> None:
    for name in PACKAGES:
        for module in iter_modules(import_module(name).__path__):
            import_module(f"{name}.{module.name}")
    import_plugins()


def explainers() -> dict[str, Explainer]:
    """Every registered explainer by name, the control last."""
    _import_all()
    return dict(sorted(_explainers.items(), key=lambda item: (item[0] == "random", item[0])))


def get(name: str) -> Explainer:
    return _found(name, explainers(), "method")


def forget(name: str) -> None:
    """Take an explainer out again, such as one that was registered for one dictionary."""
    get(name)
    del _explainers[name]


def metrics() -> dict[str, Metric]:
    """Every registered metric by name, those that remove words first."""
    _import_all()
    return dict(sorted(_metrics.items(), key=lambda item: (item[1].kind != "removal", item[0])))


def get_metric(name: str) -> Metric:
    return _found(name, metrics(), "metric")


def better_and_family(metric: str) -> tuple[str, str]:
    """Direction and family of a metric. A stored audit opens with these, so nothing is imported for ours."""
    if metric not in _metrics and (facts := declared_facts("heedful.metrics", "metric").get(metric)):
        return facts["better"], facts.get("family", "")
    entry = _metrics.get(metric) or get_metric(metric)
    return entry.better, entry.family


def is_smoothed(metric: str) -> bool:
    """Whether an audit also measures smoothed scores by this metric, likewise."""
    if metric not in _metrics and (facts := declared_facts("heedful.metrics", "metric").get(metric)):
        return bool(facts.get("smooths", False))
    return (_metrics.get(metric) or get_metric(metric)).smooths


def is_signed(method: str) -> bool | None:
    """Whether the scores of a method have a sign, likewise; None where there is no such method."""
    if method not in _explainers and (facts := declared_facts("heedful.explainers", "explainer").get(method)):
        return bool(facts.get("signed", True))
    entry = _explainers.get(method) or (explainers().get(method) if method else None)
    return None if entry is None else entry.signed


def _found(name: str, known: Mapping[str, Found], what: str) -> Found:
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1) or [k for k in known if name and name in k]
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise HeedfulError(f"unknown {what} {name!r}", fix=f"{hint}Known: {', '.join(known)}")
    return known[name]


@dataclass(frozen=True)
class Support:
    """Whether a model supports a method, and why not."""

    method: str
    ok: bool
    why: str = ""


def support(model: Model) -> list[Support]:
    """What `heedful doctor` prints: what runs on the target that is chosen where none is named."""
    reasons = {
        name: model.lacks(entry.needs) or (model.lacks_class() if entry.for_classes else "")
        for name, entry in explainers().items()
    }
    return [Support(name, not why, why) for name, why in reasons.items()]
