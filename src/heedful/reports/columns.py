"""One method as a column of a table: its numbers, its sign marks and its own scale.

Scores of different methods have different units (a gradient's norm, an attention weight, a change of logit),
so each is drawn relative to the method's own strongest word: share = score / max |score|, from -1 to 1. Words
that were already written count, where their scores are on the same scale.
Sign marks: + pushes towards the target, − away from it. With a standard error, a score whose 95 % interval
(± 1.96 standard errors) contains 0 has an unsure sign and is marked so. Unsigned methods show no sign at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from heedful.comparisons.result import Comparison, ranked_unit
from heedful.core.attribution import Attribution, UnitScore
from heedful.core.defaults import CONTROL
from heedful.modalities.text import TextInput
from heedful.reports.tested_methods import nothing_changes
from heedful.stats.intervals import NORMAL_QUANTILE

STYLES = {"+": "blue", "−": "dark_orange3", "": "magenta"}
MARKS = {("+", False): "▲", ("−", False): "▼", ("+", True): "△", ("−", True): "▽"}
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class ScoreColumn:
    """A method's words with what is needed to print them in one aligned column."""

    item: Attribution
    words: tuple[UnitScore, ...]
    top: float  # max |score| over words, written ones too; 0 when there is nothing to scale by
    exponent: int  # numbers are printed in units of 10 ** exponent
    decimals: int

    @property
    def method(self) -> str:
        return self.item.method

    @property
    def label(self) -> str:
        return f"{self.method} (control)" if self.method == CONTROL else self.method

    @property
    def unit(self) -> str:
        """ "×10⁻³" where the numbers are printed in thousandths, else nothing."""
        return f"×10{str(self.exponent).translate(SUPERSCRIPT)}" if self.exponent else ""

    def share(self, word: UnitScore) -> float:
        return word.score / self.top if self.top and math.isfinite(word.score) else 0.0

    def sign(self, word: UnitScore) -> str:
        """ "+", "−" or "" (unsigned method, zero or nan)."""
        if not self.item.signed or not math.isfinite(word.score) or word.score == 0:
            return ""
        return "+" if word.score > 0 else "−"

    def unsure(self, word: UnitScore) -> bool:
        """The 95 % interval of a sampled score contains 0."""
        return (
            bool(self.sign(word))
            and word.stderr is not None
            and abs(word.score) <= NORMAL_QUANTILE * word.stderr
        )

    def number(self, word: UnitScore) -> str:
        """The size without its sign, in the column's unit."""
        return self.show(abs(word.score))

    def error(self, word: UnitScore) -> str:
        return "" if word.stderr is None else self.show(word.stderr)

    def show(self, value: float) -> str:
        return f"{value / 10.0**self.exponent:.{self.decimals}f}" if math.isfinite(value) else "–"


def column(item: Attribution, unit: str = "word", beside: Sequence[UnitScore] = ()) -> ScoreColumn:
    """`beside`: words of another part that is drawn on the same scale."""
    words = tuple(item.units(unit))
    sizes = [abs(word.score) for word in (*words, *beside) if math.isfinite(word.score)]
    top = max(sizes, default=0.0)
    power = math.floor(math.log10(top)) if top else 0
    exponent = 0 if -2 <= power < 4 else 3 * (power // 3)
    return ScoreColumn(item, words, top, exponent, min(4, max(0, 2 - (power - exponent))))


def columns(comparison: Comparison) -> list[ScoreColumn]:
    """Every method's column; the control last. Where nothing that was removed changes the output, no unit is
    stronger than another, and none is shaded."""
    unit = ranked_unit(comparison)
    results = [column(item, unit, written_words(item, unit)) for item in comparison.attributions]
    if nothing_changes(comparison):
        results = [replace(each, top=0.0) for each in results]
    return sorted(results, key=lambda each: each.method == CONTROL)


def written_columns(comparison: Comparison) -> list[ScoreColumn]:
    """The same of what was already written, for the methods that score it, each on the scale of its text."""
    unit = ranked_unit(comparison)
    results = [
        column(part, unit, item.units(unit) if written_words(item, unit) else ())
        for item in comparison.attributions
        if (part := item.of_written()) is not None
    ]
    return sorted(results, key=lambda each: each.method == CONTROL)


def written_words(item: Attribution, unit: str) -> list[UnitScore]:
    """What was already written, where its scores can be compared with those of the text."""
    part = item.of_written()
    same = item.written is not None and item.written.same_scale
    return part.units(unit) if part is not None and same else []


def every_word(comparison: Comparison, col: ScoreColumn) -> list[tuple[UnitScore, bool]]:
    """(word, whether it was already written) of the text and of what was written, on one scale."""
    prompt = comparison.settings.get("prompt_tokens")
    offsets = comparison.x.offsets if isinstance(comparison.x, TextInput) else ()
    end = math.inf if prompt is None or prompt >= len(offsets) else offsets[prompt][0]
    results = [(word, word.start >= end) for word in col.words]
    return results + [(word, True) for word in written_words(col.item, ranked_unit(comparison))]
