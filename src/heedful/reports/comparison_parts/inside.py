"""Inside the model: where it looked, and which features were active."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from heedful.comparisons.result import Comparison, unit_noun
from heedful.core.document import Bullets, Cell, Column, Node, Row, Section, Table
from heedful.core.internals import ActiveFeatures, AttentionSummary, FeatureEffect
from heedful.core.numbers import fixed_signed, span
from heedful.core.phrases import plural
from heedful.reports.columns import columns
from heedful.reports.word_labels import numbered

MAX_WORDS = 20  # words in the table of attention


def attention(comparison: Comparison) -> tuple[Node, ...]:
    """Words by layers; the last row is what special tokens get."""
    summary = comparison.internals.attention
    if summary is None:
        return ()
    unit = unit_noun(comparison)
    labels = numbered([word.text for word in columns(comparison)[0].words])
    weights = np.array(summary.weights)  # (L, units)
    order = np.argsort(-weights.mean(0), kind="stable")[:MAX_WORDS]
    top = float(weights.max()) or 1.0
    rows = [
        Row((Cell(labels[i]), *(_weight(float(value), top) for value in weights[:, i])), unit=i)
        for i in sorted(order.tolist())
    ]
    if any(summary.special):
        cells = tuple(Cell(f"{100 * share:.0f} %") for share in summary.special)
        rows.append(Row((Cell("special tokens"), *cells), kind="gap last"))
    heads = (Column(unit), *(Column(f"layer {number}") for number in range(len(summary.weights))))
    table = Table(f"Attention by {unit} and layer", heads, tuple(rows), sortable=True)
    return (Section("Where the model looked", (table,), _attention_lead(comparison, summary), "attention"),)


def _weight(value: float, top: float) -> Cell:
    return Cell(f"{100 * value:.1f} %", shade=value / top, signed=False, value=value)


def _attention_lead(comparison: Comparison, summary: AttentionSummary) -> str:
    place = "from what is written to the text" if summary.cross else "from where the answer is read"
    lead = (
        f"Attention {place}, mean over the heads of a layer. It shows where the model looked, not what that "
        "did to the answer: an attention map alone is not evidence for a reason."
    )
    count = len(summary.weights[0])
    if count > MAX_WORDS:
        lead += (
            f" Shown are the {MAX_WORDS} {plural(unit_noun(comparison))} of {count} with the most attention."
        )
    return f"{lead} heedful attention shows every head."


def features(comparison: Comparison) -> tuple[Node, ...]:
    """The strongest features of an SAE, and what the answer does without each."""
    active = comparison.internals.features
    if active is None:
        return ()
    top = max((abs(one.effect) for one in active.features), default=0.0) or 1.0
    named = any(one.name for one in active.features)
    heads = [Column("feature"), *([Column("active on", "explanation", words=True)] if named else [])]
    heads += [Column("effect", "measured"), Column("effect", "estimated"), Column("strength")]
    heads.append(Column("strongest on", words=True))
    rows = tuple(_feature(one, top, named) for one in active.features)
    lead = (
        f"The {len(active.features)} strongest of {active.active:,} features of an SAE at {active.site} that "
        "are active on this text. Effect: how far the explained number falls when the feature is set to zero "
        "on the tokens of the text; estimated: gradient times activation."
    )
    inside = (Table("Features of this text", tuple(heads), rows), Bullets(tuple(_feature_lines(active))))
    return (Section("Which features were active", inside, lead, "features"),)


def _feature(one: FeatureEffect, top: float, named: bool) -> Row:
    words = " · ".join(word.strip() or "␣" for word in one.words)
    return Row(
        (
            Cell(str(one.feature)),
            *([Cell(one.name or "–", style="wrap")] if named else []),
            Cell(fixed_signed(one.effect), shade=one.effect / top, value=one.effect),
            Cell(fixed_signed(one.estimate)),
            Cell(f"{one.strength:.3g}"),
            Cell(words, style="wrap"),
        )
    )


def _feature_lines(active: ActiveFeatures) -> Iterator[str]:
    low, high = active.band
    yield (
        f"Removed together they change the explained number by {fixed_signed(active.together)}; "
        f"all features, by {fixed_signed(active.everything)}."
    )
    if math.isfinite(low):
        yield f"As many random active features, removed together: {span(low, high, fixed_signed)} (95 %)."
    if active.control:
        mean = sum(map(abs, active.control)) / len(active.control)
        yield f"One random active feature alone: {mean:.3f}, mean size of {len(active.control)}."
    yield from active.notes
