"""The answer in plain sentences: what was predicted, which words most methods point at, how far they agree.

Only what was measured is said. Agreement between methods is not evidence that any of them is right, so it
always stands beside the random control and the band that chance alone would give.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from statistics import median

from heedful.agreement import chance_band, matrix, ranked_count, ranked_unit
from heedful.types import CONTROL, Comparison
from heedful.view.columns import Column, columns, visible
from heedful.wording import listed

PROBABILITIES = ("classifier", "multi-label", "causal-lm", "encoder-decoder")
COUNTS = ("no", "one", "two", "three", "four", "five")


def quote(text: str) -> str:
    return f"“{visible(text.strip())}”"


def percent(value: float) -> str:
    """Never rounds a probability to a certainty."""
    if 0.9995 <= value < 1:
        return "> 99.9 %"
    return "< 0.1 %" if 0 < value < 0.0005 else f"{100 * value:.1f} %"


def predictions(comparison: Comparison) -> list[tuple[str, str, float]]:
    """(label, value as shown, share of a bar from 0 to 1), highest first."""
    rows = [(visible(str(label)).strip() or "␣", float("nan") if value is None else float(value))
            for label, value in comparison.model.get("prediction") or ()]  # fmt: skip
    values = [value for _, value in rows]
    chances = all(0 <= value <= 1 for value in values) and (
        comparison.model.get("kind") in PROBABILITIES or abs(sum(values) - 1) < 1e-3
    )
    if chances:
        return [(label, percent(value), value) for label, value in rows]
    return [(label, f"{value:.4g}", math.nan) for label, value in rows]


def explained(comparison: Comparison) -> str:
    """Which number the scores explain, with its value."""
    target, output = comparison.target, comparison.attributions[0].output
    label = quote(target.label or f"{target.kind} {target.index}")
    number = "score" if comparison.model.get("kind") == "function" else "logit"
    what = {
        "class": f"the {number} of {label}",
        "label": f"the {number} of {label}",
        "regression": f"the output {label}",
        "token": f"the logit of the token {label}",
        "sequence": f"the log-probability of {label}",
    }.get(target.kind, label)
    if target.contrasted:
        what += f" minus that of {quote(target.contrast_label or str(target.contrast))}"
    value = f"{output:.4g}".replace("-", "−")
    return what if math.isnan(output) else f"{what}, which is {value}"


def sentences(comparison: Comparison) -> list[str]:
    """One to three plain sentences."""
    ranked = [col for col in columns(comparison) if col.method != CONTROL and _has_ranking(col)]
    if not ranked:
        return ["No method ranks the words of this text: every score is the same."]
    return [line for line in (_strongest(ranked, ranked_unit(comparison)), *_agreement(comparison)) if line]


def _has_ranking(col: Column) -> bool:
    sizes = {abs(word.score) for word in col.words}
    return len(sizes) > 1 and all(map(math.isfinite, sizes))


def _top(col: Column, k: int) -> list[int]:
    return sorted(range(len(col.words)), key=lambda i: -abs(col.words[i].score))[:k]


def _strongest(ranked: list[Column], unit: str) -> str:
    words = [quote(word.text) for word in ranked[0].words]
    if len(ranked) == 1:
        found = [words[i] for i in _top(ranked[0], 3)]
        return f"{ranked[0].method} gives its largest scores to {listed(found)}."
    k = 3 if len(words) > 5 else 1
    counts = Counter(i for col in ranked for i in _top(col, k))
    common = [(i, n) for i, n in counts.most_common(3) if n > len(ranked) / 2]
    place = "the strongest" if k == 1 else f"one of the {COUNTS[k]} strongest"
    if not common:
        most = "both methods" if len(ranked) == 2 else f"most of the {len(ranked)} methods"
        return f"No {unit} is {place} for {most}."
    first, *rest = [f"{words[i]} {{}}for {n} of {len(ranked)} methods" for i, n in common]
    return listed([first.format(f"is {place} {unit}s " if k > 1 else f"is {place} {unit} ")]
                 + [text.format("").removesuffix(" methods") for text in rest]) + "."  # fmt: skip


def _agreement(comparison: Comparison) -> list[str]:
    (methods, values), unit = matrix(comparison, "kendall"), ranked_unit(comparison)
    real = [i for i, method in enumerate(methods) if method != CONTROL]
    pairs = [values[i, j] for i, j in combinations(real, 2) if math.isfinite(values[i, j])]
    band = chance_band(ranked_count(comparison))
    if math.isnan(band):
        return [f"The text has fewer than five {unit}s: how far rankings of so few agree says nothing."]
    lines = []
    if pairs:
        far = sum(abs(value) > band for value in pairs)
        chance = f"; {far} of {len(pairs)} lie outside the ±{band:.2f} that chance gives 95 % of the time."
        lines.append(
            f"The methods' rankings of the {unit}s agree at a median Kendall τ of {_tau(pairs)} over "
            f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} (1: same order, 0: unrelated)" + chance
        )
    if CONTROL not in methods:
        return [
            *lines,
            "No random control was run, so nothing here says what an uninformed method looks like.",
        ]
    control = [values[methods.index(CONTROL), i] for i in real]
    control = [value for value in control if math.isfinite(value)]
    if control:
        lines.append(
            f"The random control, which knows nothing of the model, agrees with them at {_tau(control)}."
        )
    return lines


def notes(comparison: Comparison) -> list[tuple[str, str]]:
    """(who says it, what) for the text and every method; a note of several methods is given once."""
    said: dict[str, list[str]] = {}
    for item in comparison.attributions:
        for note in (*item.x.notes, *item.notes):
            who = "text" if note in item.x.notes else item.method
            if who not in said.setdefault(note, []):
                said[note].append(who)
    return [(", ".join(who), visible(note)) for note, who in said.items()]


def _tau(values: list[float]) -> str:
    middle, low, high = (signed(value) for value in (median(values), min(values), max(values)))
    return middle if low == high else f"{middle} (from {low} to {high})"


def signed(value: float) -> str:
    """Two decimals with a true minus sign; "–" for nan."""
    return "–" if math.isnan(value) else f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
