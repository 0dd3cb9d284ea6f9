"""One HTML file for an atlas of attention, and its static part for notebooks.

With scripts off it is a picture of every head with its kind and its mass on special tokens, the kinds, which
heads look alike, and the notes. The script adds the head view, the matrix of one head and saving; it draws
from the numbers in the page (see atlas_data) and opens only the heads that are looked at. Nothing is fetched,
every string escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heedful.comparisons.result import Comparison
from heedful.core.arrays import Floats
from heedful.heads.atlas import Atlas
from heedful.heads.kinds import HeadKind
from heedful.heads.maps import MapAxis, Maps
from heedful.reports import atlas_image
from heedful.reports.atlas_data import Packed, pack
from heedful.reports.atlas_layout import layouts
from heedful.reports.comparison_page import cell, component, document, script_data
from heedful.reports.comparison_sections import QUOTE
from heedful.reports.comparison_summary import predictions
from heedful.reports.html_parts import esc, part, table
from heedful.reports.visible import visible

SCRIPTS = ("atlas_data.js", "atlas_canvas.js", "atlas_links.js", "atlas_matrix.js", "atlas.js")
STACKS = {"self": "Self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}
Level = tuple[Atlas, list[Packed]]


@dataclass(frozen=True, eq=False)
class Sheet:
    """What is told of one stack, worked out once."""

    maps: Maps
    unit: str
    kinds: list[HeadKind]  # layer-major
    mass: Floats | None  # (L, H) on special tokens; None where there are none
    alike: float  # that mass for a head that looks everywhere alike

    @property
    def name(self) -> str:
        return STACKS.get(self.maps.stack, self.maps.stack)

    def share(self, layer: int, head: int) -> str:
        return "–" if self.mass is None else f"{100 * self.mass[layer, head]:.0f} %"


def page(atlas: Atlas) -> str:
    """A self-contained HTML5 document."""
    levels, sheets = _levels(atlas), _sheets(atlas)
    script = '(() => {\n"use strict";\n' + component("atlas_own.js") + scripts() + "\n})();"
    data = script_data(_numbers(_title(atlas), sheets, levels))
    return document(_title(atlas), _body(atlas, sheets, 1, levels), script, data, component("atlas.css"))


def scripts() -> str:
    """What draws an atlas, given `root`, `data` and `address`."""
    return "\n".join(map(component, SCRIPTS))


def parts(atlas: Atlas, size: int = 2) -> tuple[str, dict[str, Any]]:
    """What stands in the page, and the numbers that `scripts` draws from: for a page that has more."""
    levels, sheets = _levels(atlas), _sheets(atlas)
    return _body(atlas, sheets, size, levels), _numbers(_title(atlas), sheets, levels)


def fragment(atlas: Atlas) -> str:
    """What can be read without scripts, for a notebook cell."""
    return cell(_body(atlas, _sheets(atlas), 3), component("atlas.css"))


def _body(atlas: Atlas, sheets: Sequence[Sheet], size: int, levels: Sequence[Level] = ()) -> str:
    """Every section; `size` is the heading level of the headline."""
    parts = [
        _answer(atlas, sheets, size),
        _grids(sheets, size + 1),
        _kinds(sheets, size + 1),
        _scores(sheets),
        layouts(atlas, STACKS, size + 1),
    ]
    parts += [_inside(levels, size + 1), _notes(atlas, size + 1), _made(atlas, size + 1)]
    return "\n".join(text for text in parts if text)


def _sheets(atlas: Atlas) -> list[Sheet]:
    return [
        Sheet(
            maps,
            atlas.unit,
            atlas.kinds(maps.stack),
            atlas.special_mass(maps.stack) if any(maps.keys.special) else None,
            atlas.special_share(maps.stack),
        )
        for maps in atlas.stacks
    ]


def _levels(atlas: Atlas) -> list[Level]:
    """The atlas as it is and, where it differs, the same at the other level, in one budget."""
    shown = [atlas]
    if atlas.unit == "token" and any(_split(side) for m in atlas.stacks for side in (m.queries, m.keys)):
        shown.append(atlas.words())
    if atlas.unit == "word" and atlas.tokens is not None:
        shown.append(atlas.tokens)
    result = iter(pack([maps for each in shown for maps in each.stacks]))
    return [(each, [next(result) for _ in each.stacks]) for each in shown]


def _split(side: MapAxis) -> bool:
    """Whether some word is more than one token."""
    words = [word for word in side.words if word >= 0]
    return len(set(words)) < len(words)


def _title(atlas: Atlas) -> str:
    return f"Attention of {atlas.model.get('name', 'a model')}"


def _answer(atlas: Atlas, sheets: Sequence[Sheet], size: int) -> str:
    ranked = predictions(Comparison((), model=atlas.model))
    lines = [f'<p class="kicker">Attention of <b>{esc(atlas.model.get("name", "a model"))}</b></p>']
    heading = "Every head on one text"
    if ranked:
        heading = f'<bdi>{esc(ranked[0][0])}</bdi> <span class="chance">{esc(ranked[0][1])}</span>'
    lines.append(f'<h{size} class="verdict">{heading}</h{size}>')
    text = atlas.x.text if len(atlas.x.text) <= QUOTE else atlas.x.text[:QUOTE] + " …"
    lines.append(f'<p class="said" dir="auto">{esc(text)}</p>')
    items = [f"<li>{esc(_about(sheet))}</li>" for sheet in sheets]
    items.append(
        "<li>A weight says where a head looks, not what that does to the answer: "
        "an attention map alone is not evidence for a reason.</li>"
    )
    return f'<header>{"".join(lines)}<ul class="sentences">{"".join(items)}</ul></header>'


def _about(sheet: Sheet) -> str:
    maps = sheet.maps
    size = f"{maps.layers} × {maps.heads} heads, {len(maps.queries):,} × {len(maps.keys):,} {sheet.unit}s"
    line = f"{sheet.name}{', causal' if maps.causal else ''}: {size}."
    if sheet.mass is None:
        return line
    return (
        f"{line} Words give {100 * float(sheet.mass.mean()):.0f} % of their attention to special tokens, "
        f"mean over heads; a head that looks everywhere alike gives them {100 * sheet.alike:.0f} %."
    )


def _grids(sheets: Sequence[Sheet], size: int) -> str:
    lead = (
        "Row of a picture: what looks; column: what is looked at. Strength is the square root of the mean "
        "weight of a block, relative to the strongest of that head. Layers and heads count from 0."
    )
    if any(sheet.mass is not None for sheet in sheets):
        lead += " The share is what words give to special tokens."
    grids = "".join(_grid(sheet, f"h{size + 1}" if len(sheets) > 1 else "") for sheet in sheets)
    return part("grids", "Every head", lead, grids, size)


def _grid(sheet: Sheet, heading: str) -> str:
    maps, most = sheet.maps, atlas_image.side(sheet.maps.layers * sheet.maps.heads)
    cells = []
    for kind in sheet.kinds:
        rows = maps.weights[kind.layer, kind.head]
        picture = atlas_image.uri(atlas_image.png(atlas_image.strengths(rows, most)))
        share = "" if sheet.mass is None else f"<small>{sheet.share(kind.layer, kind.head)}</small>"
        cells.append(
            f'<td data-layer="{kind.layer}" data-head="{kind.head}"><img src="{picture}" '
            f'alt="layer {kind.layer}, head {kind.head}"><small>{esc(kind.kind)}</small>{share}</td>'
        )
    rows_of = [cells[n * maps.heads : (n + 1) * maps.heads] for n in range(maps.layers)]
    rows_html = [f'<tr><th scope="row">{n}</th>{"".join(row)}</tr>' for n, row in enumerate(rows_of)]
    head = ["layer", *(f"head {head}" for head in range(maps.heads))]
    title = f'<{heading} class="name">{esc(sheet.name)}</{heading}>' if heading else ""
    shown = table(
        head, rows_html, f"{esc(sheet.name)}, every head", "heads few" if maps.heads <= 8 else "heads"
    )
    return f'<div class="stack" data-stack="{esc(maps.stack)}">{title}{shown}</div>'


def _kinds(sheets: Sequence[Sheet], size: int) -> str:
    """How many heads do what."""
    rows, several = [], len(sheets) > 1
    for sheet in sheets:
        groups: dict[str, list[tuple[int, int]]] = {}
        for kind in sheet.kinds:
            groups.setdefault(kind.kind, []).append((kind.layer, kind.head))
        for name, heads in sorted(groups.items(), key=lambda item: -len(item[1])):
            mass = sheet.mass
            special = (
                "–" if mass is None else f"{100 * sum(float(mass[at]) for at in heads) / len(heads):.0f} %"
            )
            which = ", ".join(f"{layer}.{head}" for layer, head in heads)
            stack = f"<td>{esc(sheet.name.lower())}</td>" if several else ""
            rows.append(
                f'<tr><th scope="row">{esc(name)}</th>{stack}<td>{len(heads)}</td><td>{special}</td>'
                f'<td class="wrap">{which}</td></tr>'
            )
    head = ["kind", *["attention"] * several, "heads", "on special tokens", "which (layer.head)"]
    lead = "By measured rules on this one text; a head may do something else on another."
    return part("kinds", "What the heads do", lead, table(head, rows, "Kinds of heads"), size)


def _scores(sheets: Sequence[Sheet]) -> str:
    """Every score of every head, folded. 0 is what looking everywhere alike gives."""
    out = []
    for sheet in sheets:
        names = list(dict.fromkeys(name for kind in sheet.kinds for name in kind.scores))
        rows = []
        for kind in sheet.kinds:
            results = [kind.scores.get(name) for name in names]
            cells = "".join(f"<td>{'–' if v is None else f'{v:.2f}'.replace('-', '−')}</td>" for v in results)
            place = f"{kind.layer}.{kind.head}"
            rows.append(f'<tr><th scope="row">{place}</th><td>{esc(kind.kind)}</td>{cells}</tr>')
        shown = table(["head", "kind", *map(esc, names)], rows, f"{esc(sheet.name)}, scores of every head")
        title = f"{esc(sheet.name)}: scores of every head"
        out.append(f'<details class="more"><summary>{title}</summary>{shown}</details>')
    return f'<section class="scores">{"".join(out)}</section>'


def _inside(levels: Sequence[Level], size: int) -> str:
    """What this page holds of the weights, and what not."""
    items = []
    for atlas, packed in levels:
        for maps, kept in zip(atlas.stacks, packed, strict=True):
            name = f"{STACKS.get(maps.stack, maps.stack)} between {atlas.unit}s"
            line = f"{name}: every weight." if kept.dense else f"{name}: {_left(maps, kept)}"
            items.append(f"<li>{esc(line)} No weight shown is off by more than {kept.error:.1g}.</li>")
    if not items:
        return ""
    lead = "Weights are kept in 8 bits of their row's largest, so that the page stays small."
    return part(
        "internals", "What this page holds", lead, f'<ul class="sentences">{"".join(items)}</ul>', size
    )


def _left(maps: Maps, held: Packed) -> str:
    masses = maps.weights.sum(axis=(2, 3), dtype=float).ravel()
    share = 100 * float((held.left * masses).sum() / masses.sum())
    most = int(held.left.argmax())
    anyway = f" except for the {held.least} largest of each row" if held.least else ""
    return (
        f"weights under {held.threshold:.2g} or a 510th of their row's largest are left out{anyway}, "
        f"together {share:.1f} % of the mass (at most {100 * held.left[most]:.0f} % of a head's, "
        f"{most // maps.heads}.{most % maps.heads}); "
        "the matrix shows their mean in the row, the head view does not show them."
    )


def _notes(atlas: Atlas, size: int) -> str:
    notes = list(dict.fromkeys([*atlas.notes, *atlas.x.notes]))
    items = "".join(f"<li>{esc(note)}</li>" for note in notes)
    return part("notes", "Notes", "", f'<ul class="sentences">{items}</ul>', size) if notes else ""


def _made(atlas: Atlas, size: int) -> str:
    facts = [(key, value) for key, value in atlas.model.items() if isinstance(value, str | int | float)]
    if atlas.target is not None:
        facts.append(("gradients of", atlas.target.name))
    rows = "".join(f"<dt>{esc(key)}</dt><dd>{esc(value)}</dd>" for key, value in facts if value != "")
    return part("made", "How this was made", "", f'<dl class="facts-list">{rows}</dl>', size) if rows else ""


def _numbers(title: str, sheets: Sequence[Sheet], levels: Sequence[Level]) -> dict[str, Any]:
    """What the script draws from."""
    masses = {sheet.maps.stack: sheet.mass for sheet in sheets if sheet.mass is not None}
    return {
        "title": visible(title),
        "kinds": {sheet.maps.stack: [kind.kind for kind in sheet.kinds] for sheet in sheets},
        "special": {
            name: [round(float(share), 4) for share in mass.ravel()] for name, mass in masses.items()
        },
        "levels": [
            {"unit": each.unit, "stacks": [_stack(m, p) for m, p in zip(each.stacks, packed, strict=True)]}
            for each, packed in levels
        ],
    }


def _stack(maps: Maps, packed: Packed) -> dict[str, Any]:
    same = maps.queries.labels == maps.keys.labels and maps.queries.special == maps.keys.special
    return {
        "stack": maps.stack,
        "shape": packed.shape,
        "causal": maps.causal,
        "top": packed.top,
        "dense": packed.dense,
        "threshold": packed.threshold,
        "left": [round(float(share), 4) for share in packed.left],
        "queries": _side(maps.queries),
        "keys": None if same else _side(maps.keys),
        "heads": [base64.b64encode(blob).decode() for blob in packed.blobs],
    }


def _side(side: MapAxis) -> dict[str, Any]:
    labels = [visible(label) for label in side.labels]
    return {"labels": labels, "special": [i for i, special in enumerate(side.special) if special]}
