"""Whether there is anything to explain: how far the output moved when words really went.

    moved = max |f(x) - f(x less some words)|      over the rows that were run anyway

Of a logit or log-probability, less than 0.01 is little: it changes no probability by more than about one
hundredth of itself. Any other output has a unit of its own, so less than a thousandth of f(x) is little.
A model that hardly reads its text still ranks words, and that ranking can do better than chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from heedful.core.evidence import Evidence
from heedful.core.internals import Removal
from heedful.core.phrases import InputWords

LOGIT_KINDS = ("classifier", "multi-label", "causal-lm", "encoder-decoder")  # kinds of models
REMOVE_TOP = "remove-top"  # the family of metrics that say how far the output falls
MIN_CHANGE, MIN_CHANGE_SHARE = 0.01, 0.001
TEXT = InputWords()


def of_one_text(removals: Sequence[Removal], kind: str, words: InputWords = TEXT) -> str:
    """A sentence where little moved, or ""."""
    output = next((p[0][1] for r in removals for p in r.curves.values() if p[0][0] == 0), math.nan)
    moves = [value for removal in removals for value in removal.leave_one_out]
    for removal in removals:
        moves += [value - output for points in removal.curves.values() for _, value in points]
        moves += [value - output for _, *ends in removal.band for value in ends]
    most = _most(moves)
    least = MIN_CHANGE if kind in LOGIT_KINDS else MIN_CHANGE_SHARE * abs(output)
    if not most < least:
        return ""
    return (
        f"No removal of {words.parts} moves the output by more than {_up(most)}: there is little to explain."
    )


def of_many(table: Iterable[Evidence], kind: str, words: InputWords = TEXT) -> str:
    """The same of means over texts; of an output without a known unit nothing can be said."""
    here = [e for e in table if e.family == REMOVE_TOP]  # changes, in the output's own unit
    most = _most([value for e in here for value in (e.value, e.control, e.best)])
    if kind not in LOGIT_KINDS or not most < MIN_CHANGE:
        return ""
    return (
        f"On the mean over {words.many}, no method's removal of {words.parts} moves the output by more than "
        f"{_up(most)}: "
        "there is little to explain."
    )


def _most(moves: Iterable[float]) -> float:
    """nan where nothing is known."""
    return max((abs(move) for move in moves if math.isfinite(move)), default=math.nan)


def _up(most: float) -> str:
    """To one digit, and never below: 0.00031 is 0.0004."""
    unit = 10.0 ** math.floor(math.log10(most)) if most else 1.0
    return f"{math.ceil(most / unit - 1e-9) * unit:.1g}"
