"""How strongly a feature is set: what the user may write, and what it means for activations f (n,).

    3, 3.0, "3"     f := 3, in the autoencoder's own units; 0 takes the feature out
    "5x"            f := 5 times the greatest activation seen on texts (`maxima`)
    "+2", "-2"      f := f + 2 where it stands, never below 0
    "2x own"        f := 2 f; "1x own" changes nothing

No activation is negative, so no feature can be set to less than 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError

FORMS = 'Write a number, "5x" of its maximum, "+2" to add, or "2x own"'
NUMBER = r"\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+"
SHAPE = re.compile(rf"(?P<sign>[-+]?)(?P<number>{NUMBER})(?P<times>[x×]?)\s*(?P<own>(?:own)?)")


@dataclass(frozen=True)
class Strength:
    """One feature's new value."""

    feature: int
    form: str  # "set", "max", "add" or "own"
    amount: float
    said: str

    @property
    def takes_out(self) -> bool:
        """Whether the feature ends lower than it stands."""
        return (
            self.amount < 1
            if self.form == "own"
            else self.amount < 0 or (self.form != "add" and self.amount == 0)
        )

    def new(self, old: Tensor, greatest: float | None) -> Tensor:
        """old (n,) -> (n,)"""
        if self.form == "own":
            return old if self.amount == 1 else old * self.amount
        if self.form == "add":
            return (old + self.amount).clamp_min(0)
        return torch.full_like(old, self.amount * (1.0 if greatest is None else greatest))


def parse(feature: int, value: Any) -> Strength:
    """What a user wrote for one feature."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        form, amount = "set", float(value)
    else:
        result = SHAPE.fullmatch(value.strip()) if isinstance(value, str) else None
        if result is None:
            raise HeedfulError(f"feature {feature} cannot be set to {value!r}", fix=FORMS)
        sign, own, times = result["sign"], result["own"], result["times"]
        amount = float(result["number"]) * (-1 if sign == "-" else 1)
        form = "own" if own else "max" if times else "add" if sign else "set"
        if (own and not times) or (sign and times):
            raise HeedfulError(f"feature {feature} cannot be set to {value!r}", fix=FORMS)
    if not math.isfinite(amount) or (form != "add" and amount < 0):
        raise HeedfulError(f"feature {feature} cannot be set to {value!r}", "activations are never negative")
    return Strength(feature, form, amount, str(value))


def parse_all(how: Mapping[int, Any], width: int) -> tuple[Strength, ...]:
    for feature in how:
        if isinstance(feature, bool) or not isinstance(feature, int) or not 0 <= feature < width:
            raise HeedfulError(f"there is no feature {feature!r}", f"the SAE has features 0 to {width - 1:,}")
    return tuple(parse(feature, value) for feature, value in how.items())


def greatest(wanted: Sequence[Strength], maxima: Any) -> dict[int, float]:
    """The maxima that are needed, from a mapping or one number a feature; refuses what is missing or zero."""
    values: dict[int, float] = {}
    for one in wanted:
        if one.form != "max":
            continue
        known = None
        if isinstance(maxima, Mapping):
            known = maxima.get(one.feature)
        elif maxima is not None and one.feature < len(maxima):
            known = maxima[one.feature]
        if known is None:
            raise HeedfulError(
                f"the maximum of feature {one.feature} is not known",
                f"{one.said!r} is a multiple of it",
                "Give maxima=texts (--texts FILE) to measure it, or an absolute value",
            )
        if not float(known) > 0:
            raise HeedfulError(
                f"feature {one.feature} was never active where its maximum was measured",
                f"so {one.said!r} is not a strength",
                "Give more texts, or an absolute value",
            )
        values[one.feature] = float(known)
    return values
