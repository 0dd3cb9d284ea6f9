"""An atlas of attention as a document: what the heads do, the strongest links, every head as a picture.

Without scripts it is complete: a picture of every head with its kind and its mass on special tokens, the
kinds, which heads look alike, and the notes. The script adds the head view, the matrix of one head and
saving. It draws from the numbers in the page (heedful.reports.atlas_numbers) and opens only the heads it
shows. In a terminal a picture is one letter: the kind of the head.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.core.arrays import Floats
from heedful.core.document import (
    Bullets,
    Cell,
    Column,
    Document,
    Facts,
    Fold,
    Group,
    Headline,
    Island,
    Node,
    Only,
    Paragraph,
    PictureMap,
    Row,
    Section,
    Span,
    Table,
    nodes,
)
from heedful.core.numbers import fixed, percent, short
from heedful.heads.atlas import Atlas
from heedful.heads.kinds import KINDS, HeadKind
from heedful.heads.maps import MapAxis, Maps
from heedful.heads.patch_rules import mean_distance
from heedful.heads.top_links import Link, strongest
from heedful.reports import atlas_image, atlas_patches
from heedful.reports.atlas_layout import layouts
from heedful.reports.atlas_numbers import STACKS, Level, island_data, packed_levels, stored_weights
from heedful.reports.atlas_patches import head_map, together
from heedful.reports.notes import note_lines
from heedful.reports.prediction import predictions

LETTERS = dict(
    zip(KINDS, ("P", "N", "S", "F", "D", ".", "V", "B", "~", "-"), strict=True)  # in the order of KINDS
)
LOOKS_AT = {
    "previous": "the previous word",
    "next": "the next word",
    "self": "the word itself",
    "first": "the first position",
    "delimiter": "special tokens except the first",
    "period": "punctuation",
    "vertical": "one other word",
    "block": "the same text of a pair",
    "broad": "many words",
    "heterogeneous": "none of these",
}
LETTER = "One letter per head, explained below; layers and heads count from 0."
QUOTE = 400  # characters of the text that are repeated
FEW = 8  # heads per layer up to which pictures are larger
LINKS = 10


@dataclass(frozen=True)
class AtlasView:
    """What is shown closely: the links of one matrix, and the head it is of."""

    title: str
    links: Sequence[Link]
    stack: str = "self"
    head: HeadKind | None = None


@dataclass(frozen=True, eq=False)
class Sheet:
    """What is said about one stack, computed once."""

    maps: Maps
    unit: str
    kinds: list[HeadKind]  # layer-major
    mass: Floats | None  # (L, H) on special tokens; None where there are none
    alike: float  # that mass for a head with uniform attention
    tokens: Maps  # the maps between tokens from which those between words are made

    @property
    def name(self) -> str:
        return STACKS.get(self.maps.stack, self.maps.stack)


def document(
    atlas: Atlas, view: AtlasView | None = None, first: Sequence[Node] = (), numbers: bool = True
) -> Document:
    """`view`: the one stack that is shown, and its links; by default all stacks, and the links of the first.
    `first` is put in front. A terminal does not need the `numbers` that scripts draw from."""
    sheets, levels = _sheets(atlas, view), packed_levels(atlas) if numbers else []
    chosen = view or AtlasView(links_title(), _mean_links(atlas))
    picture = atlas_patches.plain(atlas) if _patches(sheets) else None
    leads = (
        Only("html", (Paragraph(_lead(sheets), "soft"),)),
        Only("terminal", (Paragraph(LETTER, "soft"),)),
    )
    grids = Section("Every head", (*leads, *_stacks(sheets, picture)), name="grids")
    return Document(
        title_of(atlas),
        nodes(
            first,
            _headline(atlas),
            _shown(atlas),
            Bullets((*map(_about, sheets), *_others(atlas, view), _limits())),
            Island("patches" if _patches(sheets) else "atlas", _data(atlas, sheets, levels), (grids,)),
            _kinds(sheets),
            _head_seen(atlas, chosen.head) if _patches(sheets) else _links(chosen),
            _scores(sheets),
            layouts(atlas, STACKS),
            _notes(atlas),
            stored_weights(levels) if levels else None,
            _made(atlas),
        ),
    )


def _patches(sheets: Sequence[Sheet]) -> bool:
    """Of a picture."""
    return any(any(sheet.maps.grid) for sheet in sheets)


def _shown(atlas: Atlas) -> Node:
    """What was read: the text, or the picture with what all heads look at."""
    return together(atlas) if any(atlas.stacks[0].grid) else Paragraph(_quoted(atlas.x.title), "quote")


def _head_seen(atlas: Atlas, kind: HeadKind | None) -> Section | None:
    """The one head that was asked for, on the picture."""
    if kind is None:
        return None
    title = f"layer {kind.layer} head {kind.head}: {kind.kind}"
    lead = f"Where {atlas_patches.reader_of(atlas.stacks[0])} looks."
    return Section(title, (atlas_patches.one_head(atlas, kind.layer, kind.head),), lead)


def links_title(how: str = "mean", layer: int | None = None) -> str:
    """Of the links of many heads together."""
    where = "all heads" if layer is None else f"the heads of layer {layer}"
    return f"Strongest links between words, {how} of {where}"


def title_of(atlas: Atlas) -> str:
    return f"Attention of {atlas.model.get('name', 'a model')}"


def _sheets(atlas: Atlas, view: AtlasView | None) -> list[Sheet]:
    return [
        Sheet(
            maps,
            atlas.unit,
            atlas.kinds(maps.stack),
            atlas.special_mass(maps.stack) if any(maps.keys.special) else None,
            atlas.special_share(maps.stack),
            (atlas.tokens or atlas).stack(maps.stack),
        )
        for maps in atlas.stacks
        if view is None or maps.stack == view.stack
    ]


def _others(atlas: Atlas, view: AtlasView | None) -> list[str]:
    """Stacks that are not shown."""
    names = [maps.stack for maps in atlas.stacks if view is not None and maps.stack != view.stack]
    return [f"There is more: --stack {', --stack '.join(names)}."] if names else []


def _data(atlas: Atlas, sheets: Sequence[Sheet], levels: Sequence[Level]) -> dict[str, object]:
    kinds = {sheet.maps.stack: sheet.kinds for sheet in sheets}
    masses = {sheet.maps.stack: sheet.mass for sheet in sheets if sheet.mass is not None}
    return island_data(title_of(atlas), kinds, masses, levels)


# --- the answer ------------------------------------------------------------------------------------


def _headline(atlas: Atlas) -> Headline:
    source = ("Attention of ", Span(str(atlas.model.get("name", "a model")), "strong"))
    ranked = predictions(atlas.model)
    if not ranked:
        return Headline(f"Every head on one {atlas.x.noun}", source=source)
    label, value, share = ranked[0]
    return Headline(label, value, share, source)


def _quoted(text: str) -> str:
    return text if len(text) <= QUOTE else text[:QUOTE] + " …"


def _about(sheet: Sheet) -> str:
    maps = sheet.maps
    size = f"{maps.layers} × {maps.heads} heads, {_read(sheet.tokens)}"
    line = f"{sheet.name}{', causal' if maps.causal else ''}: {size}. {_common(sheet)}"
    if sheet.mass is None:
        return line
    if any(maps.grid):
        return f"{line} {atlas_patches.mass_line(sheet.mass, sheet.alike)}"
    return (
        f"{line} Words give {percent(float(sheet.mass.mean()))} of their attention to special tokens, mean "
        f"over heads; uniform attention would give them {percent(sheet.alike)}."
    )


def _read(tokens: Maps) -> str:
    """5 words in 6 tokens and 2 special tokens; for cross-attention, both sides."""
    if any(tokens.grid):
        return atlas_patches.counted(tokens)
    if tokens.queries.labels == tokens.keys.labels:
        return _counted(tokens.keys)
    return f"from {_counted(tokens.queries)} to {_counted(tokens.keys)}"


def _counted(side: MapAxis) -> str:
    words = {word for word, special in zip(side.words, side.special, strict=True) if not special}
    special = sum(side.special)
    count = len(side) - special
    text = f"{len(words):,} word{'s' * (len(words) != 1)}"
    if count != len(words):
        text += f" in {count:,} tokens"
    return text + (f" and {special} special token{'s' * (special != 1)}" if special else "")


def _common(sheet: Sheet) -> str:
    """The kinds that most heads are of."""
    counts = sorted(_groups(sheet).items(), key=lambda item: -len(item[1]))
    return "Most common: " + ", ".join(f"{name} ({len(heads)})" for name, heads in counts[:3]) + "."


def _limits() -> str:
    return (
        "A weight says where a head looks, not what that does to the answer: an attention map alone is not "
        "evidence for a reason."
    )


def _mean_links(atlas: Atlas) -> list[Link]:
    """Of the first stack, all heads and layers together."""
    maps = atlas.stacks[0]
    mean, even = (each.weights.mean(axis=(0, 1), dtype=float) for each in (maps, atlas.uniform().stacks[0]))
    return strongest(maps, mean, even, LINKS)


def _links(view: AtlasView) -> Section:
    lead = "Uniform: the same number if every head had uniform attention."
    inside: list[Node] = []
    title = view.title
    if view.head is not None:
        scores = "  ".join(f"{name} {fixed(score)}" for name, score in view.head.scores.items())
        title = f"layer {view.head.layer} head {view.head.head}: {view.head.kind}"
        inside.append(
            Paragraph(f"{scores} (0: as with uniform attention, which is broad 1; 1: all of it)", "soft")
        )
        inside.append(Paragraph(view.title))
    if not view.links:
        return Section(title, (*inside, Paragraph("There are no two words to link.")))
    most = max(link.weight for link in view.links) or 1.0
    rows = [
        Row(
            (
                Cell(link.source.strip() or "␣"),
                Cell(f"→ {link.goal.strip() or '␣'}"),
                Cell(short(link.weight), shade=link.weight / most, signed=False, value=link.weight),
                Cell(short(link.uniform), value=link.uniform),
            )
        )
        for link in view.links
    ]
    columns = (Column("from"), Column("to", words=True), Column("weight"), Column("uniform"))
    return Section(title, (*inside, Table(title, columns, tuple(rows), bars=True, style="links-table")), lead)


# --- every head ------------------------------------------------------------------------------------


def _lead(sheets: Sequence[Sheet]) -> str:
    if _patches(sheets):
        return atlas_patches.LEAD.format(who=atlas_patches.reader_of(sheets[0].maps))
    lead = (
        "Rows of a picture: what looks; columns: what is looked at. Strength is the square root of the mean "
        "weight of a block, relative to the strongest of that head. Layers and heads count from 0."
    )
    if any(sheet.mass is not None for sheet in sheets):
        lead += " The share is what words give to special tokens."
    return lead


def _stacks(sheets: Sequence[Sheet], picture: PictureMap | None) -> list[Group]:
    out = []
    for sheet in sheets:
        table: Node = _grid(sheet, picture)
        inside = Section(sheet.name, (table,)) if len(sheets) > 1 else table
        out.append(Group((inside,), "stack", {"stack": sheet.maps.stack}))
    return out


def _grid(sheet: Sheet, photo: PictureMap | None) -> Table:
    maps, most = sheet.maps, atlas_image.side(sheet.maps.layers * sheet.maps.heads)
    columns = [Column("layer"), *(Column(f"head {head}", brief=str(head)) for head in range(maps.heads))]
    if sheet.mass is not None:
        columns.append(Column("mean", f"on special {_positions(sheet)}", "special"))
    rows = []
    for layer in range(maps.layers):
        kinds = sheet.kinds[layer * maps.heads : (layer + 1) * maps.heads]
        cells = [_picture(sheet, kind, most, photo) for kind in kinds]
        last = [Cell(percent(float(sheet.mass[layer].mean())))] if sheet.mass is not None else []
        rows.append(Row((Cell(str(layer)), *cells, *last)))
    style = "heads few" if maps.heads <= FEW else "heads"
    return Table(f"{sheet.name}, every head", tuple(columns), tuple(rows), style=style)


def _picture(sheet: Sheet, kind: HeadKind, most: int, photo: PictureMap | None) -> Cell:
    weights = sheet.maps.weights[kind.layer, kind.head]
    drawn = None if photo is None else head_map(photo, sheet.maps, kind.layer, kind.head)
    small = b"" if drawn is not None else atlas_image.png(atlas_image.strengths(weights, most))
    share = "" if sheet.mass is None else percent(float(sheet.mass[kind.layer, kind.head]))
    return Cell(
        kind.kind,
        share,
        picture=base64.b64encode(small).decode(),
        alt=f"layer {kind.layer}, head {kind.head}",
        brief=_letters(sheet)[kind.kind],
        map=drawn,
        data={"layer": str(kind.layer), "head": str(kind.head)},
    )


def _letters(sheet: Sheet) -> dict[str, str]:
    return atlas_patches.LETTERS if any(sheet.maps.grid) else LETTERS


def _positions(sheet: Sheet) -> str:
    return "positions" if any(sheet.maps.grid) else "tokens"


def _groups(sheet: Sheet) -> dict[str, list[tuple[int, int]]]:
    groups: dict[str, list[tuple[int, int]]] = {}
    for kind in sheet.kinds:
        groups.setdefault(kind.kind, []).append((kind.layer, kind.head))
    return groups


def _kinds(sheets: Sequence[Sheet]) -> Section:
    """How many heads do what."""
    several, rows = len(sheets) > 1, []
    for sheet in sheets:
        for name, heads in sorted(_groups(sheet).items(), key=lambda item: -len(item[1])):
            mass = sheet.mass
            special = "–" if mass is None else percent(sum(float(mass[at]) for at in heads) / len(heads))
            which = ", ".join(f"{layer}.{head}" for layer, head in heads)
            stack = [Cell(sheet.name.lower(), style="wrap")] if several else []
            first = Cell(name, brief=f"{_letters(sheet)[name]} {name}")
            numbers = (Cell(str(len(heads))), Cell(special), Cell(which, style="wrap"))
            looks = atlas_patches.LOOKS_AT if any(sheet.maps.grid) else LOOKS_AT
            rows.append(Row((first, Cell(looks[name]), *stack, *numbers)))
    columns = (
        Column("kind"),
        Column("looks at", words=True),
        *([Column("attention", words=True)] if several else []),
        Column("heads"),
        Column(f"on special {_positions(sheets[0])}"),
        Column("which (layer.head)", words=True),
    )
    lead = "By measured rules on this one {}; a head may do something else on another."
    table = Table("Kinds of heads", columns, tuple(rows))
    noun = "picture" if _patches(sheets) else "text"
    return Section("What the heads do", (table,), lead.format(noun), "kinds")


# --- the numbers, and how it was made -----------------------------------------------------------------


def _scores(sheets: Sequence[Sheet]) -> list[Fold]:
    """Every score of every head. 0 is what uniform attention gives."""
    out = []
    for sheet in sheets:
        names = list(dict.fromkeys(name for kind in sheet.kinds for name in kind.scores))
        far = mean_distance(sheet.maps) if any(sheet.maps.grid) else None
        rows = []
        for kind in sheet.kinds:
            found = (kind.scores.get(name) for name in names)
            numbers = (Cell("–") if v is None else Cell(fixed(v), value=v) for v in found)
            apart = [] if far is None else [float(far[kind.layer, kind.head])]
            last = (Cell(fixed(value), value=value) for value in apart)
            rows.append(Row((Cell(f"{kind.layer}.{kind.head}"), Cell(kind.kind), *numbers, *last)))
        distance = [] if far is None else [Column("distance", "mean, in patches")]
        columns = (Column("head"), Column("kind", words=True), *map(Column, names), *distance)
        table = Table(f"{sheet.name}, scores of every head", columns, tuple(rows), sortable=True)
        out.append(Fold(f"{sheet.name}: scores of every head", (table,)))
    return out


def _notes(atlas: Atlas) -> Bullets | None:
    notes = note_lines([*dict.fromkeys([*atlas.notes, *atlas.x.notes])])
    return Bullets(tuple(notes)) if notes else None


def _made(atlas: Atlas) -> Fold | None:
    facts = [(key, value) for key, value in atlas.model.items() if isinstance(value, str | int | float)]
    if atlas.target is not None:
        facts.append(("gradients of", atlas.target.name))
    pairs = tuple((key, str(value)) for key, value in facts if value != "")
    return Fold("How this was made", (Facts(pairs),)) if pairs else None
