"""Conventions as executable checks, for our explainers and for yours:

    from heedful.checks import check_explainer
    check_explainer("my-method", heedful.load("zoo:sentiment"))

and for metrics: `check_metric("my-metric")` (heedful.checks.metrics).

Each check is a function that raises AssertionError with a sentence. What holds for every explainer (EVERY) is
checked on the model given; the properties of a method (see `registry.explainer`) on small models whose right
answer is known (heedful.checks.known_models), and on the model given where the property holds for any model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from heedful.checks import conventions, properties
from heedful.checks.conventions import explained
from heedful.checks.known_models import linear_model
from heedful.checks.metrics import check_metric
from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.core.registry import Explainer

Check = Callable[[Explainer, Model], None]

EVERY: tuple[Check, ...] = (
    conventions.check_scores,
    conventions.check_odd_inputs,
    conventions.check_deterministic,
    conventions.check_model_untouched,
    conventions.check_remembered,
    conventions.check_chunks,
)
# property -> check, on each of the models of heedful.checks.known_models that has what the method needs
KNOWN: dict[str, Callable[[Explainer], None]] = {
    "linear": properties.check_linear,
    "unused": properties.check_unused,
    "symmetric": properties.check_symmetric,
    **{name: partial(properties.check_differences, property_name=name) for name in properties.READINGS},
}
# property -> check, on the model given
ANY: dict[str, Check] = {
    "complete": properties.check_complete,
    **{name: partial(properties.check_slopes, property_name=name) for name in properties.READINGS},
}


def check_explainer(name: str, model: Model | None = None) -> None:
    """Every check that applies to a registered explainer; the first that fails raises."""
    entry = registry.get(name)
    chosen = linear_model() if model is None else model
    if why := chosen.lacks(entry.needs):
        raise HeedfulError(f"{name} cannot be checked on {chosen.name}", why, "Give a model it supports")
    check_on(entry, chosen)
    check_properties(entry)


def check_on(entry: Explainer, model: Model) -> None:
    """The conventions, and the properties that hold for any model, on this one."""
    for check in (*EVERY, *(ANY[name] for name in sorted(entry.properties) if name in ANY)):
        check(entry, model)


def check_properties(entry: Explainer) -> None:
    """The properties, on models whose answer is known."""
    if unknown := entry.properties - KNOWN.keys() - ANY.keys():
        raise HeedfulError(
            f"{entry.name} promises {', '.join(sorted(unknown))}, which no check knows",
            fix=f"Promises are: {', '.join(sorted(KNOWN.keys() | ANY.keys()))}",
        )
    for name in sorted(entry.properties & KNOWN.keys()):
        KNOWN[name](entry)


__all__ = [
    "ANY",
    "EVERY",
    "KNOWN",
    "check_explainer",
    "check_metric",
    "check_on",
    "check_properties",
    "explained",
    "linear_model",
]
