"""The picture by every method, side by side: what was measured first, then each method with its standing."""

from __future__ import annotations

import math
from dataclasses import replace

from heedful.comparisons.result import Comparison, ranked_unit, unit_noun
from heedful.comparisons.single_text import lower_than_controls, standings
from heedful.core.defaults import CONTROL, CONTROLS
from heedful.core.document import Group, Legend, Node, PictureMap, Section
from heedful.core.internals import Removal
from heedful.core.phrases import listed, plural
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.input_map import Maps, effects_map, shaded_map, unshaded_map
from heedful.reports.tested_methods import ordered


def by_method(comparison: Comparison) -> Section:
    """One small map per method, those that beat most random orders first. Each has its own scale: the numbers
    of methods have different units."""
    x, unit = comparison.x, ranked_unit(comparison)
    cols = {col.method: col for col in columns(comparison)}
    tiles = [_tile(f"the {x.noun}", "as the model sees it", unshaded_map(x))]
    if (measured := most_measured(comparison)) is not None:
        tiles.append(_measured(measured, columns(comparison)[0], unit))
    for method in ordered(comparison):
        col = cols[method]
        tiles.append(_tile(col.label, standing_text(comparison, method), shaded_map(col, x, unit)))
    lead = (
        f"Full colour is each method's own strongest {unit_noun(comparison)}, "
        "because their numbers have different units. Beside them: what was measured."
    )
    signed = [cols[method].item.signed for method in cols]
    legend = Legend(True, not all(signed), hatched=True, parts=comparison.words.parts)
    return Section("The picture by every method", (legend, Group(tuple(tiles), "maps")), lead, "maps-part")


def most_measured(comparison: Comparison) -> Removal | None:
    """The removal that measured most units; of equals, that of the evidence."""
    used = {e.operator for e in comparison.evidence}
    known = [r for r in comparison.internals.removals if any(map(math.isfinite, r.leave_one_out))]
    return max(known, key=lambda r: (_count(r), r.operator in used), default=None)


def _count(measured: Removal) -> int:
    return sum(map(math.isfinite, measured.leave_one_out))


def _measured(measured: Removal, col: ScoreColumn, unit: str) -> Section:
    x = col.item.x
    noun, count, total = x.unit_noun(unit), _count(measured), len(measured.leave_one_out)
    some = f", {count} of {total} {plural(noun)}" if count < total else ""
    text = f"each {noun} really removed ({measured.operator}){some}"
    return _tile("measured effect", text, effects_map(measured, col, unit))


def _tile(title: str, text: str, drawn: Maps) -> Section:
    inside: tuple[Node, ...] = tuple(
        replace(each, small=True) if isinstance(each, PictureMap) else each for each in drawn
    )
    return Section(title, inside, text, "map", minor=True)


def standing_text(comparison: Comparison, method: str) -> str:
    """beat 139 of 139 random orders; scored lower than edges here"""
    one = next((each for each in standings(comparison.evidence) if each.method == method), None)
    parts = []
    if one is not None:
        parts.append(f"beat {one.beat} of {one.draws} random orders")
    elif method != CONTROL and comparison.evidence:
        parts.append("not judged: fitted by the same removal")
    if method in CONTROLS:
        parts.append("does not look at the model")
    if below := lower_than_controls(comparison.evidence).get(method):
        parts.append(f"scored lower than {listed(list(below))} here")
    return "; ".join(parts)
