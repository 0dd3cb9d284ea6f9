"""Which heads look alike, as a section of an atlas: every head a point, one plot per stack.

Distances are those of heedful.heads.head_distance. There are four marks, so more than four layers share them
in order. Cost: that of the distances; a text for which they take more than about a second is not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping

from heedful.core.charts import Scatter, Series
from heedful.core.document import Figure, Fold, Node, Paragraph
from heedful.heads.atlas import Atlas
from heedful.heads.head_distance import heads_layout
from heedful.heads.maps import Maps
from heedful.reports.charts.forest_scatter import MARKS

MAX_COMPARED_NUMBERS = 150_000_000  # pairs of heads times weights of a map: about a second
MIN_HEADS = 3  # heads: fewer lie in a plane whatever they look at
LEAD = (
    "Heads that look alike lie together. Distance is the root of the Jensen–Shannon divergence of two heads' "
    "weights, summed over queries, in the plane that keeps most of it. Where that is little more than by "
    "chance, the plane says nothing."
)


def layouts(atlas: Atlas, names: Mapping[str, str]) -> Fold | None:
    """A plot of each stack that has enough heads; `names` are the titles of stacks."""
    drawn = [
        _layout(atlas, maps, names.get(maps.stack, maps.stack))
        for maps in atlas.stacks
        if maps.layers * maps.heads >= MIN_HEADS
    ]
    return Fold("Which heads look alike", (Paragraph(LEAD, "soft"), *drawn)) if drawn else None


def _layout(atlas: Atlas, maps: Maps, name: str) -> Node:
    if (maps.layers * maps.heads) ** 2 * maps.weights[0, 0].size > MAX_COMPARED_NUMBERS:
        way = f"atlas.to_figure('heads.svg', view='layout', stack='{maps.stack}')"
        return Paragraph(f"{name}: not drawn here, since it takes long on this text; {way} draws it.")
    head_layout = heads_layout(atlas, maps.stack)
    step = -(-maps.layers // len(MARKS))  # layers per mark
    series = []
    for first in range(0, maps.layers, step):
        last = min(first + step, maps.layers) - 1
        pairs = zip(head_layout.points.tolist(), head_layout.layers, strict=True)
        points = [(x, y) for (x, y), layer in pairs if first <= layer <= last]
        series.append(Series(f"layer {first}" if first == last else f"layers {first} to {last}", points))
    share = f"{100 * head_layout.kept:.0f} % of the spread, by chance {100 * head_layout.by_chance:.0f} %"
    across = f"{name}: the plane shows {share}"
    return Figure(
        Scatter(series, across, "second direction", f"{name}, heads as points"), name=f"layout-{maps.stack}"
    )
