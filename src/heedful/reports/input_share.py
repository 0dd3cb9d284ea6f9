"""Input dependence in words: the text's share of each method's scores, beside its share of the tokens; and
the part of a comparison that is about what was already written. Terminal and page draw both.
"""

from __future__ import annotations

from dataclasses import replace

from heedful.comparisons.result import Comparison, share_by_count
from heedful.core.defaults import CONTROL
from heedful.core.numbers import percent

WHAT = "How much of a method's scores (signs aside) lies on the text, the rest being on what was written"
CANNOT = "– : the method does not score what was written, or not on the scale of the text."


def written_part(comparison: Comparison) -> Comparison | None:
    """The same comparison about what was written; None where no method scores it, or it holds no word."""
    items = tuple(part for item in comparison.attributions if (part := item.of_written()) is not None)
    if not items or not items[0].x.units("word"):
        return None
    return replace(comparison, attributions=items, evidence=())


def shares(comparison: Comparison) -> list[tuple[str, str]]:
    """(method, the text's share as shown), the control last; empty where nothing was written."""
    results = comparison.input_shares()
    named = sorted(results.items(), key=lambda pair: pair[0] == CONTROL)
    return [(f"{name} (control)" if name == CONTROL else name, percent(value)) for name, value in named]


def by_count(comparison: Comparison) -> str:
    """The control in a sentence."""
    return f"{WHAT}. By number of tokens it would be {percent(share_by_count(comparison))}."
