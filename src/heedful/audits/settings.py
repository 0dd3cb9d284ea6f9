"""What the results of an audit depend on besides its rows: settled once, before the first text is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from heedful.core import registry
from heedful.core.defaults import (
    AUDIT_CONTROLS,
    CONTROL,
    CONTROLS,
    FULL_METRICS,
    MIDDLE,
    QUICK_METHOD_COUNT,
    QUICK_METHODS,
    QUICK_METRICS,
)
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.core.registry import Explainer
from heedful.core.whole_numbers import check_seed
from heedful.io.previews import KEEP
from heedful.metrics.score import DRAWS
from heedful.metrics.verdict import JUDGES
from heedful.modalities.encode import long_of_many
from heedful.modalities.kinds import KINDS, checked_unit, words_for
from heedful.modalities.operators import checked_operator

OPERATOR_COUNT = 2  # operators that judge by default: their spread is part of the answer
ALL = "all"
SWAP_ROWS = 200  # rows whose words the operator swap draws from
SHARD_TEXTS = 32  # texts: what is lost at most when a run is killed


@dataclass(frozen=True)
class AuditSettings:
    """Every choice by name; two runs with equal settings on equal rows give equal bytes."""

    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    operators: tuple[str, ...]  # that judge
    fits: tuple[str, ...] = ()  # that fit the methods that remove words; more than one: they take turns
    unit: str = "word"
    seed: int = 0
    draws: int = DRAWS
    long: str = "skip"  # a text that is too long; or "truncate"
    shard: int = SHARD_TEXTS
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    target: Any = None  # what is explained; None: the prediction
    given: tuple[str, ...] = ()  # methods whose scores came from elsewhere
    swap: tuple[str, ...] = ()  # words that the operator swap draws from
    until_decided: bool = False
    keep: str = "png"  # of a picture that a report shows: a small copy, or its "path" and checksum
    search: bool = False  # for the best order of each text, which gives skill 1; the verdict does not use it
    controls: tuple[str, ...] = ()  # that do not look at the model; the methods are compared with them

    @property
    def turns(self) -> bool:
        """Every operator fits in turn, and the others judge."""
        return len(self.fits) > 1

    @property
    def rounds(self) -> tuple[str, ...]:
        """The operators that fit, one after the other; ("",): one round, in which nothing is fitted."""
        return self.fits if self.methods and self.fits else ("",)

    @property
    def runs(self) -> tuple[str, ...]:
        """What explains every input: methods and controls; random scores where both come from elsewhere."""
        return (*self.methods, *self.controls) or (CONTROL,)

    def params_for(self, fit: str) -> dict[str, dict[str, Any]]:
        """Parameters by method: those that remove words do it by `fit`, unless the user chose another."""
        removing = [name for name in self.methods if "operator" in registry.get(name).params]
        own = {name: {"operator": fit} for name in removing} if fit else {}
        return {name: own.get(name, {}) | dict(self.params.get(name, {})) for name in {**own, **self.params}}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def seed_of(self, row: int) -> int:
        """A row's own seed: texts must not share their random orders, or chance would be a habit."""
        return int(np.random.SeedSequence([self.seed, row]).generate_state(1)[0])


def resolve_settings(
    model: Model,
    methods: Iterable[str] | str | None = None,
    metrics: Iterable[str] | str | None = None,
    operators: Sequence[str] | str | None = None,
    *,
    full: bool = False,
    **others: Any,
) -> AuditSettings:
    """Defaults filled in and everything checked against the model, so that no row fails for a misspelt name.

    methods     None: four that the model supports; "all", and None with `full`: all except expensive ones
    metrics     None: one per family of the verdict; with `full`, six that remove words and share their rows
    full        also search for the best order of words, so that skill 1 is what a search can reach
    operators   that judge. None: two that the methods are not fitted by; "all": each judges what the others
                fitted
    """
    given = tuple(others.get("given", ()))
    if others.get("until_decided"):
        others["shard"] = 1  # looked at after every text
    others["search"] = full and not others.get("until_decided")
    methods = None if methods is None else [methods] if isinstance(methods, str) else list(methods)
    wanted = _wanted(model, methods, full, bool(given))
    results = [entry.name for entry in wanted if entry.name not in CONTROLS]
    chosen = _named(metrics, "metric", registry.metrics()) or list(FULL_METRICS if full else QUICK_METRICS)
    controls = _controls(model, wanted, chosen)
    if both := [name for name in given if name in (*results, *controls)]:
        raise HeedfulError(
            f"scores from elsewhere are called {', '.join(both)}",
            "methods here have the same name",
            "Rename them",
        )
    if not results and not given and wanted:
        only = ", ".join(entry.name for entry in wanted)
        raise HeedfulError(
            f"there is no method to audit: {only} does not look at the model",
            "it is a control, with which methods are compared",
            "Name a method, such as --method occlusion",
        )
    if not results and not given:
        raise HeedfulError(
            f"there is no method to audit on {model.name}", fix=f"See: heedful doctor {model.name}"
        )
    for name in chosen:
        model.require(registry.get_metric(name).needs, name)
    judges, fits = _operators(model, operators, others.get("params") or {})
    others["unit"] = checked_unit(model.modality, others.get("unit") or "") or _default_unit(model)
    audit_settings = AuditSettings(tuple(results), tuple(chosen), judges, fits, controls=controls, **others)
    _check(audit_settings)
    return audit_settings


def _controls(model: Model, wanted: Sequence[Explainer], metrics: Sequence[str]) -> tuple[str, ...]:
    """Those that every audit runs where the model's inputs have them, and those that were named. Things are
    often in the middle, so metrics of where a thing is have a bump there as one more."""
    middle = [MIDDLE] if any(registry.get_metric(name).masks for name in metrics) else []
    offered = [name for name in (*AUDIT_CONTROLS, *middle) if not model.lacks(registry.get(name).needs)]
    named = [entry.name for entry in wanted if entry.name in CONTROLS and entry.name != CONTROL]
    return tuple(dict.fromkeys((*offered, *named)))


def _default_unit(model: Model) -> str:
    """As a fixed input has it: all inputs of an audit are cut alike."""
    return model.encode(next(iter(KINDS[model.modality].probes().values()))).default_unit


def _wanted(model: Model, methods: list[str] | None, full: bool, given: bool) -> list[Explainer]:
    """The methods to run; none of ours where an empty list was named and scores from elsewhere are given."""
    if methods is None:
        return supported_methods(model) if full else quick_methods(model)
    if methods == [ALL]:
        return supported_methods(model)
    names = _named(methods, "method", registry.explainers()) if methods or not given else []
    wanted = [registry.get(name) for name in names]
    for entry in wanted:
        model.require(entry.needs, entry.name)
    return wanted


def supported_methods(model: Model) -> list[Explainer]:
    """What a full audit runs: every method that the model supports, except the expensive ones."""
    every = registry.explainers().values()
    return [entry for entry in every if not entry.expensive and not model.lacks(entry.needs)]


def quick_methods(model: Model) -> list[Explainer]:
    """What an audit runs by default. A model that lacks gradients or attention gets the next in the list."""
    able = {entry.name: entry for entry in supported_methods(model) if entry.name not in CONTROLS}
    names = [name for name in dict.fromkeys((*QUICK_METHODS, *able)) if name in able]
    return [able[name] for name in names[:QUICK_METHOD_COUNT]]


def _operators(
    model: Model, named: Sequence[str] | str | None, params: Mapping[str, Mapping[str, Any]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(operators that judge, operators that fit): none is both, unless all take turns."""
    offered = tuple(model.operators)
    if named is None:
        fitting = {offered[0], *(given.get("operator") for given in params.values())}
        judges = [name for name in (*JUDGES, *offered) if name in offered and name not in fitting]
        others = [name for name in offered if name != offered[0]]  # all fit: what each fitted is left out
        return tuple(dict.fromkeys(judges or others or offered))[:OPERATOR_COUNT], offered[:1]
    wanted = _named(named, "operator", offered)
    if wanted == [ALL]:
        return tuple(offered), tuple(offered)
    parts = words_for(model.modality, "part").parts
    judges = [checked_operator(operator, model.named_operators, parts) for operator in wanted]
    free = [name for name in offered if name not in judges]
    return tuple(judges), tuple((free or list(offered))[:1])  # one that fits does not judge what it fitted


def _named(names: Iterable[str] | str | None, what: str, known: Iterable[str]) -> list[str]:
    if names is None:
        return []
    lines = list(dict.fromkeys([names] if isinstance(names, str) else names))
    if not lines or not all(isinstance(name, str) for name in lines):
        raise HeedfulError(f"no {what} was named", fix=f"Known: {', '.join(known)}")
    return lines


def _check(settings: AuditSettings) -> None:
    long_of_many(settings.long)
    check_seed(settings.seed)
    for name, least in (("draws", 2), ("shard", 1)):
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise HeedfulError(f"{name} cannot be {value!r}", f"it is a whole number, {least} or more")
    if settings.keep not in KEEP:
        raise HeedfulError(f"keep cannot be {settings.keep!r}", fix=f"Use one of: {', '.join(KEEP)}")
    for method, given in settings.params.items():
        registry.get(method).check(given)
        if method not in settings.runs:
            raise HeedfulError(
                f"parameters were given for {method!r}, which does not run here",
                fix=f"Running: {', '.join(settings.runs)}",
            )
