"""A figure of an atlas for a paper: all heads, one matrix, the links of a layer, or which heads look alike.

Files are .png or .svg. Needs matplotlib, which is no dependency of its own: pip install 'heedful[plots]'.
Nothing of its global state is touched. Text stays text in SVG, so any script the reader's fonts know is
shown; in PNG a sign that no font of this machine has is a box.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.heads.atlas import Atlas
from heedful.heads.head_distance import heads_layout
from heedful.heads.maps import MapAxis, Maps
from heedful.heads.word_maps import reachable
from heedful.io.files import write_file
from heedful.modalities.image import ImageInput
from heedful.reports import atlas_image, atlas_patches
from heedful.reports.visible import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans Hebrew", "Noto Sans Arabic", "Arial Unicode MS")
VIEWS = ("grid", "matrix", "head", "layout")
MAX_LABELS = 120  # tokens of a figure, at most, that all have their label
MAX_LINKS = 8000  # drawn, strongest first
MIN_LINK_SHARE = 0.01  # share of the strongest under which a link is not drawn
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "heedful",  # the same figure twice is the same file
    "text.parse_math": False,  # a token "$x$" is no formula
    "axes.unicode_minus": False,
}


def draw(
    atlas: Atlas,
    path: str | Path,
    *,
    view: str = "grid",
    layer: int | None = None,
    head: int | None = None,
    stack: str = "self",
) -> None:
    """Write a figure. `grid` shows all heads (of one layer, if named), `matrix` one head (0.0 if none is
    named), `head` the links of one head, or of all heads of the layer in their colours, `layout` all heads as
    points, those that look alike together."""
    target = Path(path)
    if target.suffix.lower() not in (".png", ".svg"):
        raise HeedfulError(f"cannot draw to {target.name}", "figures are .png or .svg", "Name one of these")
    if view not in VIEWS:
        raise HeedfulError(f"there is no view {view!r}", "", f"Use one of: {', '.join(VIEWS)}")
    maps = atlas.stack(stack)
    _check("layer", layer, maps.layers)
    _check("head", head, maps.heads)
    matplotlib = _matplotlib()
    known = set(matplotlib.font_manager.get_font_names())
    fonts = {"font.family": [font for font in FONTS if font in known]}
    with matplotlib.rc_context(STYLE | fonts), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # a box stands for it
        made = {"grid": _grid, "matrix": _matrix, "head": _head, "layout": _layout}[view](
            atlas, maps, layer, head
        )
        date: dict[str, Any] = {"metadata": {"Date": None}} if target.suffix.lower() == ".svg" else {}
        drawn = BytesIO()
        kind = target.suffix.lower()[1:]
        made.savefig(drawn, format=kind, dpi=200, bbox_inches="tight", facecolor="white", **date)
    write_file(target, drawn.getvalue())


def _matplotlib() -> Any:
    try:
        import matplotlib
        import matplotlib.font_manager
    except ImportError as missing:
        raise HeedfulError(
            "figures need matplotlib", "it is not installed", "Type: pip install 'heedful[plots]'"
        ) from missing
    return matplotlib


def _check(name: str, value: int | None, count: int) -> None:
    if value is not None and not 0 <= value < count:
        raise HeedfulError(
            f"there is no {name} {value}",
            f"this model has {count}, counted from 0",
            f"Name one up to {count - 1}",
        )


def _title(atlas: Atlas, maps: Maps, *more: str) -> str:
    name = visible(str(atlas.model.get("name", "a model")))
    return " · ".join([name, *([f"{maps.stack} attention"] if len(atlas.stacks) > 1 else []), *more])


def _grid(atlas: Atlas, maps: Maps, layer: int | None, head: int | None) -> Figure:
    from matplotlib.figure import Figure

    layers = range(maps.layers) if layer is None else [layer]
    heads = range(maps.heads) if head is None else [head]
    kinds = {(kind.layer, kind.head): kind.kind for kind in atlas.kinds(maps.stack)}
    figure = Figure(figsize=(1.0 * len(heads) + 0.6, 1.15 * len(layers) + 0.5), layout="constrained")
    axes = figure.subplots(len(layers), len(heads), squeeze=False)
    for row, at in enumerate(layers):
        for column, which in enumerate(heads):
            box = axes[row, column]
            if isinstance(atlas.x, ImageInput):
                _on_picture(box, atlas.x, maps, maps.weights[at, which])
            else:
                picture = atlas_image.strengths(maps.weights[at, which], 64)
                box.imshow(picture, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
            box.set(xticks=[], yticks=[])
            box.spines[:].set(color="0.7", linewidth=0.5)
            box.set_xlabel(kinds[at, which], fontsize=6, labelpad=2)
            if row == 0:
                box.set_title(f"head {which}", fontsize=7)
            if column == 0:
                box.set_ylabel(f"layer {at}", fontsize=7)
    figure.suptitle(_title(atlas, maps), fontsize=9)
    return figure


def _on_picture(box: Any, x: ImageInput, maps: Maps, weights: Any) -> None:
    """Where the class token looks, over the picture in grey."""
    from heedful.reports.picture_plots import faded

    extent = (0, x.width, x.height, 0)
    box.imshow(faded(x), extent=extent, interpolation="nearest")
    strengths = atlas_image.strengths(atlas_patches.seen(maps, weights), max(maps.grid))
    heat = np.zeros((*strengths.shape, 4))
    heat[..., :3], heat[..., 3] = np.array(atlas_patches.HUE) / 255, strengths
    box.imshow(heat, extent=extent, interpolation="nearest")


def _labels(side: MapAxis) -> tuple[list[int], list[str]]:
    """Places and texts of the labels: all, or every so many."""
    step = -(-len(side) // MAX_LABELS)
    places = list(range(0, len(side), step))
    return places, [visible(side.labels[place]).strip() or "␣" for place in places]


def _matrix(atlas: Atlas, maps: Maps, layer: int | None, head: int | None) -> Figure:
    from matplotlib.figure import Figure

    layer, head = layer or 0, head or 0
    weights = maps.weights[layer, head]  # (Q, K)
    size = [max(1.2, min(14.0, 0.19 * n)) for n in (len(maps.keys), len(maps.queries))]
    figure = Figure(figsize=(size[0] + 1.8, size[1] + 1.2), layout="constrained")
    box = figure.subplots()
    shown = np.ma.masked_where(_unseen(maps, layer), weights)
    picture = box.imshow(
        shown, cmap="Blues", norm=_square_root(float(weights.max())), interpolation="nearest"
    )
    box.xaxis.tick_top()
    for axis, side, turn in ((box.xaxis, maps.keys, 90), (box.yaxis, maps.queries, 0)):
        places, texts = _labels(side)
        axis.set_ticks(places, texts, rotation=turn, fontsize=7)
        for tick, place in zip(axis.get_ticklabels(), places, strict=True):
            tick.set_color("0.45" if side.special[place] else "black")
    box.tick_params(length=0)
    box.set_facecolor("0.95")  # what cannot be looked at
    box.set_ylabel("from", fontsize=8)
    box.set_xlabel("to", fontsize=8)
    box.xaxis.set_label_position("top")
    for edge in box.spines.values():
        edge.set_visible(False)
    bar = figure.colorbar(picture, ax=box, shrink=0.6, pad=0.02)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)
    kind = next(k.kind for k in atlas.kinds(maps.stack) if (k.layer, k.head) == (layer, head))
    figure.suptitle(_title(atlas, maps, f"layer {layer}, head {head}: {kind}"), fontsize=9)
    return figure


def _unseen(maps: Maps, layer: int) -> Any:
    """(Q, K): what the mask of the layer hides."""
    return ~reachable(maps)[layer]


def _square_root(largest: float) -> Any:
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, vmin=0, vmax=largest or 1.0)


def _head(atlas: Atlas, maps: Maps, layer: int | None, head: int | None) -> Figure:
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    layer = layer or 0
    heads = list(range(maps.heads)) if head is None else [head]
    rows = max(len(maps.queries), len(maps.keys))
    figure = Figure(figsize=(4.6, min(60.0, 0.19 * rows + 0.8)), layout="constrained")
    box = figure.subplots()
    result = _links(maps.weights[layer], heads)
    box.add_collection(LineCollection(result.curves, colors=result.colours, linewidths=result.widths))
    for x, side, align in ((-0.03, maps.queries, "right"), (1.03, maps.keys, "left")):
        for place, label in enumerate(side.labels):
            ink = "0.45" if side.special[place] else "black"
            text = visible(label).strip() or "␣"
            box.text(x, place, text, ha=align, va="center", fontsize=7, color=ink)
    box.set(xlim=(-0.6, 1.6), ylim=(rows - 0.3, -0.7))
    box.axis("off")
    named = f"head {heads[0]}" if len(heads) == 1 else f"{len(heads)} heads"
    box.set_title(_title(atlas, maps, f"layer {layer}, {named}"), fontsize=9)
    if len(heads) > 1:
        lines = [Line2D([], [], color=_colour(n, len(heads)), label=str(h)) for n, h in enumerate(heads)]
        figure.legend(
            handles=lines,
            loc="outside lower center",
            ncols=8,
            fontsize=6,
            title="head",
            title_fontsize=6,
            frameon=False,
            handlelength=1,
        )
    figure.supxlabel(result.told, fontsize=6, color="0.4")
    return figure


@dataclass(frozen=True, eq=False)
class Links:
    curves: Any  # (n, 21, 2), strongest last
    colours: Any  # (n, 4)
    widths: Any  # (n,)
    told: str


def _links(weights: Any, heads: list[int]) -> Links:
    """(H, Q, K) -> the links of some heads; opacity and width are the share of the strongest."""
    chosen = np.asarray(weights)[heads]
    largest = float(chosen.max()) or 1.0
    which, q, k = np.nonzero(chosen >= max(MIN_LINK_SHARE * largest, 1e-12))
    share = chosen[which, q, k] / largest
    order = np.argsort(share, kind="stable")[-MAX_LINKS:]
    text = f"strongest link {largest:.2f}; links under {100 * MIN_LINK_SHARE:.0f} % of it are not drawn"
    if len(order) < len(share):
        text += f", and of {len(share):,} others only the strongest {MAX_LINKS:,}"
    which, q, k, share = which[order], q[order], k[order], share[order]
    x = np.linspace(0, 1, 21)
    y = q[:, None] + (k - q)[:, None] * (x * x * (3 - 2 * x))  # (n, 21)
    colours = np.array([_colour(n, len(heads)) for n in range(len(heads))])[which]
    colours[:, 3] = np.clip(share**1.2, 0.03, 1)
    return Links(np.stack([np.broadcast_to(x, y.shape), y], axis=-1), colours, 0.3 + 1.5 * share, text)


def _layout(atlas: Atlas, maps: Maps, layer: int | None, head: int | None) -> Figure:
    """All heads: a place says nothing without the others, so a named layer or head is written in bold."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm
    from matplotlib.figure import Figure

    head_layout = heads_layout(atlas, maps.stack)
    figure = Figure(figsize=(5.2, 4.6), layout="constrained")
    box = figure.subplots()
    edges = np.arange(maps.layers + 1) - 0.5
    colours = colormaps["viridis"].resampled(maps.layers)
    norm = BoundaryNorm(edges, maps.layers)
    x, y = head_layout.points.T
    marks = box.scatter(x, y, c=head_layout.layers, cmap=colours, norm=norm, s=14)
    for point, at, which in zip(head_layout.points, head_layout.layers, head_layout.heads, strict=True):
        named = layer is not None and at == layer and head in (None, which)
        style: dict[str, Any] = {"fontsize": 6, "fontweight": "bold" if named else "normal"}
        box.annotate(f"{at}.{which}", point, (2, 2), textcoords="offset points", color="0.25", **style)
    box.set(aspect="equal", xticks=[], yticks=[])
    box.margins(0.08)
    bar = figure.colorbar(marks, ax=box, shrink=0.6, ticks=range(0, maps.layers, -(-maps.layers // 12)))
    bar.set_label("layer", fontsize=7)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(_title(atlas, maps, "heads that look alike lie together"), fontsize=9)
    shares = [f"{100 * share:.0f} %" for share in (head_layout.kept, head_layout.by_chance)]
    text = f"the plane shows {shares[0]} of the spread, by chance {shares[1]}"
    figure.supxlabel(text, fontsize=6, color="0.4")
    return figure


def _colour(place: int, heads: int) -> tuple[float, float, float, float]:
    from matplotlib import colormaps

    name, size = ("tab10", 10) if heads <= 10 else ("tab20", 20)
    red, green, blue, _ = colormaps[name](place % size)
    return red, green, blue, 1.0
