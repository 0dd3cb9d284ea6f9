"""A shaded picture as SVG. The picture itself is in a page once, however many maps are drawn over it.

    definitions   the picture, each map as a few paths (one per hue and level), the hatching
    a map         the picture in grey, the colours, then outlines and numbers of the units a sentence names

Blue is for the target, orange against it, violet a size without a sign: hues that every common kind of colour
blindness keeps apart. What is against the target is also hatched. Colours are in the drawing, not in the
style sheet: they lie on the picture and not on the paper, and rules do not reach what is drawn by reference.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from heedful.core.document import Part, PictureMap
from heedful.reports.html_parts import esc
from heedful.reports.shading import TOO_WEAK, hue, level

COLOURS = {"pos": "#1766bd", "neg": "#dd6b00", "any": "#7350bd"}
OPAQUE = 0.85  # of the strongest unit
PIXELATED = 128  # pixels of a side below which a picture is drawn in squares
MAX_RULER = 20  # rows or columns that are numbered at the edge
MAX_TIPS = 400  # parts that have a text of their own under the pointer


class PictureDefinitions:
    """What the drawings of one body share; `prefix` keeps its ids apart from those of other bodies."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._known: dict[str, str] = {}  # id -> element

    def named(self, kind: str, inside: str) -> str:
        """The id of an element `<kind ID inside`, defined once."""
        name = f"{self.prefix}p{hashlib.sha256((kind + inside).encode()).hexdigest()[:12]}"
        self._known.setdefault(name, f'<{kind} id="{esc(name)}"{inside}')
        return name

    def svg(self) -> str:
        """All of them; "" where no picture was drawn."""
        if not self._known:
            return ""
        inside = "".join(self._known.values())
        return f'<svg class="unseen" width="0" height="0" aria-hidden="true"><defs>{inside}</defs></svg>'


def draw(node: PictureMap, shared: PictureDefinitions) -> str:
    width, height = node.size
    unit = max(node.size) / 100  # lines and letters grow with the picture
    drawn = [f'<use class="photo" href="#{esc(_photo(node, shared))}"/>']
    if any(level(part.share) for part in node.parts):
        drawn[0] = drawn[0].replace("photo", "photo under")
        drawn.append(f'<g class="heat"><use href="#{esc(_heat(node, shared, unit))}"/></g>')
    elif node.overlay:
        drawn[0] = drawn[0].replace("photo", "photo under")
        data = base64.b64encode(node.overlay).decode()
        size = f'width="{width}" height="{height}" preserveAspectRatio="none" image-rendering="pixelated"'
        drawn.append(f'<image class="heat over" href="data:image/png;base64,{data}" {size}/>')
    if not node.small:
        drawn += [*_named(node, unit), *_tips(node)]
    edge = 0.0
    if not node.small and 1 < max(node.grid) <= MAX_RULER:
        edge = 6 * unit
        drawn += _ruler(node, unit)
    box = " ".join(f"{value:g}" for value in (-edge, -edge, width + edge, height + edge))
    kind = "picture small" if node.small else "picture"
    label = f'viewBox="{box}" role="img" aria-label="{esc(node.title)}"'
    shaded = node.overlay or any(level(part.share) for part in node.parts)
    weak = f'<p class="lead">{esc(TOO_WEAK.capitalize())}.</p>' if node.parts and not shaded else ""
    return f'<svg class="{kind}" {label}>{"".join(drawn)}</svg>{"" if node.small else weak}'


def _photo(node: PictureMap, shared: PictureDefinitions) -> str:
    width, height = node.size
    squares = ' image-rendering="pixelated"' if max(node.size) < PIXELATED else ""
    data = base64.b64encode(node.png).decode()
    size = f'width="{width}" height="{height}"'
    return shared.named("image", f' href="data:image/png;base64,{data}" {size}{squares}/>')


def _heat(node: PictureMap, shared: PictureDefinitions, unit: float) -> str:
    """One path per hue and level."""
    groups: dict[tuple[str, int], list[Part]] = {}
    for part in node.parts:
        if steps := level(part.share):
            groups.setdefault((hue(part.share, node.signed), steps), []).append(part)
    hatched = _hatching(shared, unit) if any(kind == "neg" for kind, _ in groups) else ""
    paths = []
    for (kind, steps), parts in sorted(groups.items()):
        fill = f"url(#{hatched})" if kind == "neg" else COLOURS[kind]
        inside = "".join(map(_rectangle, _joined(parts)))
        paths.append(f'<path fill="{esc(fill)}" fill-opacity="{OPAQUE * steps / 9:.2f}" d="{inside}"/>')
    return shared.named("g", f">{''.join(paths)}</g>")


def _hatching(shared: PictureDefinitions, unit: float) -> str:
    """Orange with slanted lines: a second cue beside the colour."""
    size = f"{3 * unit:.3g}"
    square = f'<rect width="{size}" height="{size}" fill="{COLOURS["neg"]}"/>'
    line = f'<rect width="{unit:.3g}" height="{size}" fill="#4a2100"/>'
    turned = f' width="{size}" height="{size}" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    return shared.named("pattern", f"{turned}>{square}{line}</pattern>")


def _joined(parts: Iterable[Part]) -> list[tuple[int, int, int, int]]:
    """Neighbours in a row as one rectangle."""
    boxes: list[tuple[int, int, int, int]] = []
    for left, top, right, bottom in sorted((part.box for part in parts), key=lambda box: (box[1], box[0])):
        if boxes and boxes[-1][1:] == (top, left, bottom):
            boxes[-1] = (boxes[-1][0], top, right, bottom)
        else:
            boxes.append((left, top, right, bottom))
    return boxes


def _rectangle(box: Sequence[int]) -> str:
    left, top, right, bottom = box
    return f"M{left} {top}H{right}V{bottom}H{left}z"


def _named(node: PictureMap, unit: float) -> Iterable[str]:
    """An outline and a number for each unit that a sentence names."""
    for number, index in enumerate(node.named, 1):
        boxes = [part.box for part in node.parts if part.unit == index]
        if not boxes:
            continue
        path = _outline(boxes)
        for colour, wide in (("#fff", 2.2), ("#111", 1.0)):  # one of them is seen on any picture
            stroke = f'stroke="{colour}" stroke-width="{wide * unit:.3g}"'
            yield f'<path class="outline" fill="none" {stroke} d="{path}"/>'
        left, top, *_ = min(boxes, key=lambda box: (box[1], box[0]))
        x, y, size = left + 3.2 * unit, top + 3.2 * unit, 4.6 * unit
        yield f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{3.2 * unit:.3g}" fill="#111"/>'
        place = f'x="{x:.4g}" y="{y + 0.35 * size:.4g}" font-size="{size:.3g}"'
        style = 'text-anchor="middle" fill="#fff" font-weight="700"'
        yield f'<text class="number" {place} {style}>{number}</text>'


def _outline(boxes: Sequence[tuple[int, int, int, int]]) -> str:
    """Edges that belong to one box only."""
    edges = Counter(
        edge
        for left, top, right, bottom in boxes
        for edge in (
            (left, top, right, top),
            (left, bottom, right, bottom),
            (left, top, left, bottom),
            (right, top, right, bottom),
        )
    )
    return "".join(f"M{a} {b}L{c} {d}" for (a, b, c, d), count in edges.items() if count == 1)


def _tips(node: PictureMap) -> Iterable[str]:
    if len(node.parts) > MAX_TIPS:
        return
    for part in node.parts:
        left, top, right, bottom = part.box
        place = f'x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"'
        where = f' data-w="{part.unit}"' if part.unit >= 0 else ""
        yield f'<rect class="tip"{where} {place} fill="transparent"><title>{esc(part.tip)}</title></rect>'


def _ruler(node: PictureMap, unit: float) -> Iterable[str]:
    """Numbers of rows and columns at the edge, as a sentence counts them."""
    (width, height), (rows, columns) = node.size, node.grid
    kind, away = f'class="ruler" font-size="{3.4 * unit:.3g}"', f"{-1.5 * unit:.3g}"
    for column in range(columns):
        x = (column + 0.5) * width / columns
        yield f'<text {kind} x="{x:.4g}" y="{away}" text-anchor="middle">{column + 1}</text>'
    for row in range(rows):
        y = (row + 0.5) * height / rows + 1.2 * unit
        yield f'<text {kind} x="{away}" y="{y:.4g}" text-anchor="end">{row + 1}</text>'
