"""`check_explainer`: what holds for every explainer, and the properties that one declares."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from heedful.checks import conventions, properties
from heedful.checks.known_models import linear_model
from heedful.checks.known_pictures import conv_model
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
    usual = conv_model if entry.needs & {"picture", "feature-map"} else linear_model
    chosen = usual() if model is None else model
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
            f"{entry.name} declares {', '.join(sorted(unknown))}, which no check knows",
            fix=f"There are: {', '.join(sorted(KNOWN.keys() | ANY.keys()))}",
        )
    for name in sorted(entry.properties & KNOWN.keys()):
        KNOWN[name](entry)
