"""Claims that a measurement contradicts: a method claims one sign, and removing the word shows the other.

A claim is looked at if it is strong: a quarter or more of the method's strongest score. Claims about one word
are one line, with all methods that make them.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from textwrap import wrap

from heedful.comparisons.result import Comparison
from heedful.core.defaults import CONTROL
from heedful.core.numbers import fixed_signed, signed
from heedful.core.phrases import listed
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.tested_methods import largest_effect, ordered, passed, recommended, removal
from heedful.reports.word_labels import numbered

STRONG = 0.25  # share of a method's strongest word from which on a claim is looked at
SMALL = 0.02  # share of the largest measured effect below which a sign means nothing
LINES = 2  # of a terminal, for contradictions on the first screen
LINE = 80  # characters
REMOVED = {  # operator -> what was done
    "delete": "deleting",
    "mask": "masking",
    "swap": "replacing",
    "unk": "replacing",
    "pad": "hiding",
    "mean": "averaging out",
    "blur": "blurring",
    "noise": "replacing by noise",
    "inpaint": "filling in",
}


@dataclass(frozen=True)
class Contradiction:
    """Claims about one word, and the effect of really removing it, with the other sign."""

    word: str
    claims: tuple[tuple[str, float], ...]  # (method, score)
    effect: float
    how: str  # "deleting"
    size: float  # sum over the methods of the claim's share of their strongest score

    @property
    def methods(self) -> str:
        return listed([method for method, _ in self.claims])

    @property
    def claimed(self) -> str:
        """One number, a rounded one for several that are alike, or their range."""
        scores = sorted((score for _, score in self.claims), key=abs)
        rounded = {fixed_signed(score, 1) for score in scores}
        if len(scores) > 1 and len(rounded) == 1 and abs(scores[0]) >= 0.1:
            return f"about {rounded.pop()}"
        ends = list(dict.fromkeys(effect_text(score) for score in (scores[0], scores[-1])))
        return " to ".join(ends)

    @property
    def measured(self) -> str:
        return effect_text(self.effect)

    def __str__(self) -> str:
        claim = "claims" if len(self.claims) == 1 else "claim"
        gives = f"but {self.how} it gives {self.measured}"
        return f"“{self.word}”: {self.methods} {claim} {self.claimed}, {gives}."


def effect_text(value: float) -> str:
    """Two decimals, or three digits of a number that would be all zeros."""
    return fixed_signed(value, 2) if abs(value) >= 0.01 or not value else signed(value)


def contradicts(col: ScoreColumn, i: int, effect: float, top: float) -> bool:
    """The method has a sign, and the measured effect has the other."""
    score = col.words[i].score
    known = col.item.signed and math.isfinite(effect) and math.isfinite(score)
    return known and score * effect < 0 and abs(effect) >= SMALL * top


def contradictions(comparison: Comparison, methods: Collection[str] | None = None) -> list[Contradiction]:
    """Words with strong claims of which the measured effect has the other sign, the strongest claims first.
    By default the claims of all methods."""
    measured, order = removal(comparison), ordered(comparison)
    if measured is None:
        return []
    effects, top = measured.leave_one_out, largest_effect(measured)
    cols = [col for col in columns(comparison) if col.method != CONTROL]
    cols = [col for col in cols if methods is None or col.method in methods]
    cols.sort(key=lambda col: order.index(col.method))
    labels = numbered([word.text for word in cols[0].words]) if cols else []
    found = []
    for i, label in enumerate(labels):
        against = [col for col in cols if _strong(col, i) and contradicts(col, i, effects[i], top)]
        if against:
            claims = tuple((col.method, col.words[i].score) for col in against)
            size = sum(abs(col.share(col.words[i])) for col in against)
            how = removing(comparison, measured.operator)
            found.append(Contradiction(label, claims, effects[i], how, size))
    return sorted(found, key=lambda each: -each.size)


def removing(comparison: Comparison, operator: str) -> str:
    """What an operator does. Parts of a pair go in ways of their own: patches are blurred, words deleted."""
    return "removing" if "+" in comparison.x.modality else REMOVED.get(operator, "removing")


def _strong(col: ScoreColumn, i: int) -> bool:
    return abs(col.share(col.words[i])) >= STRONG and not col.unsure(col.words[i])


def first_contradictions(comparison: Comparison) -> list[str]:
    """For the first screen: of methods that passed and of the one that shades the text, as many as fit into
    two lines of a terminal."""
    methods = {one.method for one in passed(comparison)} | {recommended(comparison)}
    if not comparison.evidence:
        methods = {ordered(comparison)[0]}
    lines: list[str] = []
    room = LINES
    for each in contradictions(comparison, methods):
        room -= len(wrap(str(each), LINE))
        if lines and room < 0:
            break
        lines.append(str(each))
    return lines
