"""The answer in plain sentences: what was predicted, which words most methods point at, how far they agree.

Only what was measured is said, in words first; the numbers behind them (`measured`) stand further down.
Agreement between methods is not evidence that any of them is right, so it always stands beside the random
control and is held to what chance alone would give.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from statistics import median

from heedful.comparisons.agreement import chance_band
from heedful.comparisons.result import (
    Comparison,
    matrix,
    ranked_count,
    unit_noun,
    with_written,
)
from heedful.core.defaults import CONTROL
from heedful.core.numbers import fixed, short
from heedful.core.phrases import listed, plural
from heedful.reports.columns import ScoreColumn, columns, every_word
from heedful.reports.visible import visible

COUNTS = ("no", "one", "two", "three", "four", "five")


def quote(text: str) -> str:
    return f"“{visible(text.strip())}”"


def after_written(comparison: Comparison) -> str:
    """ "after the text and “the rights”" where the prediction was taken after something already written."""
    written = comparison.model.get("prediction_after")
    return f"after the text and {quote(str(written))}" if written else ""


def explained(comparison: Comparison) -> str:
    """Which number the scores explain, with its value."""
    what, output = explained_number(comparison), comparison.attributions[0].output
    return what if math.isnan(output) else f"{what}, which is {short(output, 4)}"


def explained_number(comparison: Comparison) -> str:
    """Which number the scores explain."""
    target = comparison.target
    label = quote(target.label or f"{target.kind} {target.index}")
    number = (
        "score" if comparison.model.get("kind") == "function" else comparison.model.get("outputs", "logit")
    )
    what = {
        "class": f"the {number} of {label}",
        "label": f"the {number} of {label}",
        "regression": f"the output {label}",
        "token": f"the logit of the token {label}",
        "sequence": f"the log-probability of {label}",
        "similarity": f"the similarity of the picture with {label}",
    }.get(target.kind, label)
    if target.contrasted:
        what += f" minus that of {quote(target.contrast_label or str(target.contrast))}"
    return what


def pointed(comparison: Comparison) -> str:
    """Which words most methods point at."""
    ranked = _ranked(comparison)
    if not ranked:
        which = f"the {comparison.words.parts} of this {comparison.x.noun}"
        return f"No method ranks {which}: every score is the same."
    return _pointed(ranked, comparison)


def _ranked(comparison: Comparison) -> list[ScoreColumn]:
    """Methods with a ranking; behind the words of the text stand those already written, where scored."""
    results = [
        replace(col, words=tuple(word for word, _ in every_word(comparison, col)))
        for col in columns(comparison)
    ]
    return [col for col in results if col.method != CONTROL and _has_ranking(col)]


def _names(comparison: Comparison) -> list[str]:
    """Of all words in the order of `_ranked`; a written one is named as such."""
    words = max((every_word(comparison, col) for col in columns(comparison)), key=len)
    return [f"the written {quote(word.text)}" if written else quote(word.text) for word, written in words]


def _has_ranking(col: ScoreColumn) -> bool:
    sizes = {abs(word.score) for word in col.words}
    return len(sizes) > 1 and all(map(math.isfinite, sizes))


def _top(col: ScoreColumn, k: int) -> list[int]:
    return sorted(range(len(col.words)), key=lambda i: -abs(col.words[i].score))[:k]


def _common(ranked: list[ScoreColumn]) -> tuple[int, list[tuple[int, int]]]:
    """How many words of each method are looked at, and (word, methods) of those that most methods share."""
    k = 3 if max(len(col.words) for col in ranked) > 5 else 1
    counts = Counter(i for col in ranked for i in _top(col, k))
    return k, [(i, n) for i, n in counts.most_common(3) if n > len(ranked) / 2]


def _pointed(ranked: list[ScoreColumn], comparison: Comparison) -> str:
    """Which words, and which way they push."""
    unit, words = unit_noun(comparison), _names(comparison)
    ways = _ways(ranked, words, comparison)
    if len(ranked) == 1:
        results = _top(ranked[0], 3)
        return (
            f"{ranked[0].method} gives most weight to {listed([words[i] for i in results])}{ways(results)}."
        )
    k, common = _common(ranked)
    most = "Both methods" if len(ranked) == 2 else "Most methods"
    if not common:
        return (
            f"The methods point at different {plural(unit)}: none is among the strongest for {most.lower()}."
        )
    results = [i for i, _ in common]
    place = (
        f"first among the {plural(unit)}"
        if k == 1
        else f"among the {COUNTS[k]} {plural(unit)} that matter most"
    )
    return f"{most} put {listed([words[i] for i in results])} {place}{ways(results)}."


def _ways(ranked: list[ScoreColumn], words: list[str], comparison: Comparison) -> Callable[[list[int]], str]:
    """What two thirds of the signed methods say of each word; told where they differ, or where none says."""
    able, target = [col for col in ranked if col.item.signed], comparison.target
    label = quote(target.label or f"{target.kind} {target.index}")
    over = f" rather than {quote(target.contrast_label or str(target.contrast))}" if target.contrasted else ""

    def told(found: list[int]) -> str:
        if not able:
            return ", without saying which way they push"
        votes = {i: [col.words[i].score > 0 for col in able if i < len(col.words)] for i in found}
        ups = {i: sum(each) / len(each) for i, each in votes.items() if each}
        towards = [words[i] for i, up in ups.items() if up >= 2 / 3]
        away = [words[i] for i, up in ups.items() if up <= 1 / 3]
        split = [words[i] for i, up in ups.items() if 1 / 3 < up < 2 / 3]
        parts = [f"{listed(towards)} {_push(towards)} towards {label}{over}"] if towards else []
        other = "it" if towards else f"{label}{over}"
        parts += [f"{listed(away)} {_push(away)} away from {other}"] if away else []
        parts += [f"on {listed(split)} they differ which way"] if split else []
        return ": " + ", ".join(parts) if parts else ""

    return told


def _push(words: list[str]) -> str:
    return "pushes" if len(words) == 1 else "push"


def _measured(comparison: Comparison) -> tuple[list[float], list[float] | None, float]:
    """Kendall's τ of every pair of methods, of the control with each (None: not run), and of chance."""
    methods, values = matrix(comparison, "kendall")
    real = [i for i, method in enumerate(methods) if method != CONTROL]
    pairs = [float(values[i, j]) for i, j in combinations(real, 2) if math.isfinite(values[i, j])]
    band = chance_band(ranked_count(comparison))
    if CONTROL not in methods:
        return pairs, None, band
    row = [float(values[methods.index(CONTROL), i]) for i in real]
    return pairs, [value for value in row if math.isfinite(value)], band


def agreeing(comparison: Comparison) -> list[str]:
    (pairs, control, band), unit = _measured(comparison), plural(unit_noun(comparison))
    if math.isnan(band):
        both = with_written(comparison)
        who = "The text and what was written have" if both else f"The {comparison.x.noun} has"
        alone = (
            ""
            if both or not comparison.target.given
            else (", and not every method scores what was written on the same scale")
        )
        few = "how far rankings of so few agree says nothing"
        return [f"{who} fewer than five {unit}{alone}: {few}."]
    alike, against = sum(v > band for v in pairs), sum(v < -band for v in pairs)
    lines = []
    if len(pairs) == 1:
        do, more = ("agree", "more") if alike else ("do not agree", "no more")
        lines.append(f"The two methods {do}: they order the {unit} {more} alike than chance would.")
    elif pairs:
        share = alike / len(pairs)
        how = "mostly agree" if share >= 2 / 3 else "agree in part" if share >= 1 / 3 else "mostly disagree"
        count = "all" if share == 1 else f"{alike} of"
        text = f"{count} {len(pairs)} pairs of them order the {unit} more alike than chance would"
        turned = f", {against} the other way round" if against else ""
        lines.append(f"The methods {'agree' if share == 1 else how}: {text}{turned}.")
    if control is None:
        return [
            *lines,
            "No random control was run, so nothing here says what an uninformed method looks like.",
        ]
    if control:
        near = sum(value > band for value in control)
        so = f"{near or 'none'} of the {len(control)} methods" if len(control) > 1 else "the method"
        does = "agrees that far with" if near or len(control) > 1 else "does not agree that far with"
        lines.append(f"The random control, which knows nothing of the model, {does} {so}.")
    return lines


def measured(comparison: Comparison) -> list[str]:
    """The numbers behind the sentences, to stand below them."""
    ranked = _ranked(comparison)
    (pairs, control, band), unit = _measured(comparison), plural(unit_noun(comparison))
    lines = []
    if len(ranked) > 1 and (result := _common(ranked))[1]:
        k, common = result
        words = _names(comparison)
        counts = [f"{words[i]} for {n} of {len(ranked)}" for i, n in common]
        place = "The strongest" if k == 1 else f"Among the {COUNTS[k]} strongest"
        lines.append(f"{place}: {listed(counts)} methods.")
    if pairs and not math.isnan(band):
        far = sum(abs(value) > band for value in pairs)
        lines.append(
            f"Median Kendall τ of {_tau(pairs)} over {len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} "
            f"(1: same order, 0: unrelated); {far} of {len(pairs)} lie outside the ±{band:.2f} that chance "
            f"gives 95 % of the time for this many {unit}."
        )
    if control and not math.isnan(band):
        lines.append(f"The random control: {_tau(control)}.")
    return lines


def notes(comparison: Comparison) -> list[tuple[str, str]]:
    """(who says it, what) for the text and every method; a note of several methods is given once."""
    results: dict[str, list[str]] = {}
    for item in comparison.attributions:
        for note in (*item.x.notes, *item.notes):
            who = item.x.noun if note in item.x.notes else item.method
            if who not in results.setdefault(note, []):
                results[note].append(who)
    return [(", ".join(who), visible(note)) for note, who in results.items()]


def _tau(values: list[float]) -> str:
    middle, low, high = (fixed(value) for value in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} (from {low} to {high})"
