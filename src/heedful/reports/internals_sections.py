"""What-if, attention and features of one explanation, as sections of its page: readable without scripts.

What-if sets each method's claim about a word beside what the model did when that word was really removed.
Nothing is run for it: a word that was never removed alone is shown as "–".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from heedful.comparisons.agreement import kendall
from heedful.comparisons.result import Comparison, ranked_unit
from heedful.core.internals import ActiveFeatures, AttentionSummary, FeatureEffect
from heedful.core.numbers import fixed, fixed_signed, span
from heedful.core.phrases import listed
from heedful.reports.charts.panels import BandCurve, curves
from heedful.reports.columns import Column, columns
from heedful.reports.comparison_sections import number_cell
from heedful.reports.comparison_terminal import strongest
from heedful.reports.html_parts import esc, part, table
from heedful.reports.shading import hue, level

MAX_WORDS = 20  # words in these tables
OWN = "occlusion"  # its scores are the removals themselves


def deletion(comparison: Comparison) -> str:
    """One picture a method: the explained number as its best words go, before the band of random orders."""
    results = next((r for r in comparison.internals.removals if r.curves), None)
    if results is None:
        return ""
    drawn = [BandCurve(method, points, results.band) for method, points in results.curves.items()]
    unit = ranked_unit(comparison)
    title = f"The explained number as {unit}s are removed ({results.operator}), each method's best first"
    caption = (
        f"The explained number as {unit}s go, each method's best first ({esc(results.operator)}); left: none "
        "gone, right: all. Band: where ten random orders lay. Lower and sooner is better."
    )
    return f'{curves(drawn, title)}<p class="lead">{caption}</p>'


def what_if(comparison: Comparison, size: int) -> str:
    """Claimed beside actual, word by word."""
    removals = comparison.internals.removals
    if not removals:
        return ""
    cols, unit = columns(comparison), ranked_unit(comparison)
    kept = strongest(cols, MAX_WORDS)
    top = max(abs(v) for r in removals for v in r.leave_one_out if math.isfinite(v)) or 1.0
    facts = [dict(enumerate(removal.leave_one_out)) for removal in removals]
    rows = []
    for index in kept:
        name = esc(cols[0].words[index].text.strip() or "␣")
        actual = "".join(_actual(fact.get(index, math.nan), top) for fact in facts)
        claims = "".join(number_cell(col, col.words[index]) for col in cols)
        rows.append(f'<tr data-w="{index}"><th scope="row"><bdi>{name}</bdi></th>{actual}{claims}</tr>')
    rows.append(_alike(facts, cols))
    heads = [unit, *(f"actual<small>{esc(r.operator)}</small>" for r in removals)]
    heads += [f"{esc(col.label)}<small>{col.unit or 'claimed'}</small>" for col in cols]
    shown = table(heads, rows, f"Claimed beside actual effect of each {unit}", "sortable what-if")
    return part("what-if", "What if a word were not there?", _lead(comparison, kept), shown, size)


def _lead(comparison: Comparison, kept: Sequence[int]) -> str:
    unit, removals = ranked_unit(comparison), comparison.internals.removals
    lead = (
        f"Actual: how far the explained number fell when this {unit} alone was removed, by "
        f"{listed([esc(r.operator) for r in removals])}; beside it what each method claims. – was not run. "
        "The last row is Kendall’s τ between claim and fact over the words that were removed; where a method "
        "has no sign, sizes are compared."
    )
    count = len(comparison.x.units(unit))
    if len(kept) < count:
        lead += f" Shown are the {len(kept)} strongest of {count} {unit}s."
    if OWN in comparison:
        lead += f" {OWN} is made of such removals: that it fits them is no merit."
    return lead


def _actual(value: float, top: float) -> str:
    if not math.isfinite(value):
        return '<td class="actual">–</td>'
    sign = "+" if value > 0 else "−" if value < 0 else ""
    shade = f"{hue(value, True)} l{level(value / top)}"
    return f'<td class="actual {shade}" data-v="{value:.6g}">{sign}{abs(value):.3f}</td>'


def _alike(facts: Sequence[Mapping[int, float]], cols: Sequence[Column]) -> str:
    """How far claims follow the facts: against the operator with the most words known."""
    fullest = max(facts, key=lambda fact: sum(map(math.isfinite, fact.values())))
    known = {index: value for index, value in fullest.items() if math.isfinite(value)}
    blank = "".join(f"<td>{'τ' if fact is fullest else ''}</td>" for fact in facts)
    cells = "".join(f"<td>{fixed(_tau(col, known))}</td>" for col in cols)
    return f'<tr class="gap last"><th scope="row">claim and fact</th>{blank}{cells}</tr>'


def _tau(col: Column, known: Mapping[int, float]) -> float:
    claims, facts = np.array([col.words[i].score for i in known]), np.array([*known.values()])
    if len(known) < 3 or not np.isfinite(claims).all():
        return math.nan
    return kendall(claims, facts) if col.item.signed else kendall(np.abs(claims), np.abs(facts))


def attention(comparison: Comparison, size: int) -> str:
    """Words by layers; the last row is what special tokens get."""
    summary = comparison.internals.attention
    if summary is None:
        return ""
    unit, cols = ranked_unit(comparison), columns(comparison)
    weights = np.array(summary.weights)  # (L, units)
    order = np.argsort(-weights.mean(0), kind="stable")[:MAX_WORDS]
    top = float(weights.max()) or 1.0
    rows = [
        f'<tr data-w="{i}"><th scope="row">'
        f"<bdi>{esc(cols[0].words[i].text.strip() or '␣')}</bdi></th>"
        + "".join(_weight(float(value), top) for value in weights[:, i])
        + "</tr>"
        for i in sorted(order.tolist())
    ]
    if any(summary.special):
        cells = "".join(f"<td>{100 * share:.0f} %</td>" for share in summary.special)
        rows.append(f'<tr class="gap last"><th scope="row">special tokens</th>{cells}</tr>')
    heads = [unit, *(f"layer {number}" for number in range(len(summary.weights)))]
    shown = table(heads, rows, "Attention by word and layer", "sortable")
    return part("attention", "Where the model looked", _attention_lead(comparison, summary), shown, size)


def _attention_lead(comparison: Comparison, summary: AttentionSummary) -> str:
    place = "from what is written to the text" if summary.cross else "from where the answer is read"
    lead = (
        f"Attention {place}, mean over the heads of a layer. It says where the model looked, not what that "
        "did to the answer: an attention map alone is not evidence for a reason."
    )
    count = len(summary.weights[0])
    if count > MAX_WORDS:
        lead += f" Shown are the {MAX_WORDS} most looked at of {count} {ranked_unit(comparison)}s."
    return f"{lead} Every head is on the page of <code>heedful attention</code>."


def _weight(value: float, top: float) -> str:
    return f'<td class="any l{level(value / top)}" data-v="{value:.6g}">{100 * value:.1f} %</td>'


def features(comparison: Comparison, size: int) -> str:
    """The strongest features of a dictionary, and what the answer does without each."""
    active = comparison.internals.features
    if active is None:
        return ""
    top = max((abs(one.effect) for one in active.features), default=0.0) or 1.0
    rows = [_feature(one, top) for one in active.features]
    heads = ["feature", "effect<small>measured</small>", "effect<small>estimated</small>", "strength"]
    shown = table([*heads, "strongest on"], rows, "Features of this text")
    lines = "".join(f"<li>{esc(line)}</li>" for line in _feature_sentences(active))
    body = f'{shown}<ul class="sentences">{lines}</ul>'
    lead = (
        f"The {len(active.features)} strongest of {active.active:,} features of a dictionary at "
        f"{esc(active.site)} that are active on this text. Effect: how far the explained number falls when "
        "the feature is set to zero on the tokens of the text; estimated: gradient times activation."
    )
    return part("features", "Which features fired", lead, body, size)


def _feature(one: FeatureEffect, top: float) -> str:
    shade = f"{hue(one.effect, True)} l{level(one.effect / top)}"
    words = " · ".join(f"<bdi>{esc(word.strip() or '␣')}</bdi>" for word in one.words)
    return (
        f'<tr><th scope="row">{one.feature}</th><td class="{shade}" data-v="{one.effect:.6g}">'
        f"{fixed_signed(one.effect)}</td><td>{fixed_signed(one.estimate)}</td><td>{one.strength:.3g}</td>"
        f'<td class="wrap">{words}</td></tr>'
    )


def _feature_sentences(active: ActiveFeatures) -> Iterator[str]:
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
