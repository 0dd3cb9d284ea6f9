"""An atlas in the terminal: what each head does, one letter per head, and the strongest links.

    layer   0 1 2 3   special          P previous 1 · ~ broad 11 · - heterogeneous 4
        0   ~ ~ ~ P      13 %

Letters are the kinds of heedful.heads.kinds. `special` is how much the words of the text look at special
tokens, on average over the layer's heads; the line below says what looking everywhere alike would give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.comparisons.result import Comparison
from heedful.core.numbers import percent
from heedful.heads.atlas import Atlas
from heedful.heads.kinds import KINDS, HeadKind
from heedful.heads.top_links import Link
from heedful.reports.comparison_summary import predictions
from heedful.reports.visible import visible

LETTERS = dict(
    zip(KINDS, ("P", "N", "S", "F", "D", ".", "V", "B", "~", "-"), strict=True)  # as KINDS stand
)
BAR = 20


@dataclass(frozen=True)
class AtlasView:
    """What is printed under the table of heads."""

    title: str
    links: Sequence[Link]
    stack: str = "self"
    head: HeadKind | None = None  # the one that is looked at


def show(atlas: Atlas, shown: AtlasView, console: Console | None = None) -> None:
    console = console or Console(highlight=False)
    console.print(render(atlas, shown))


def render(atlas: Atlas, shown: AtlasView) -> Group:
    parts = [*_header(atlas, shown.stack), Text(""), *_heads(atlas, shown.stack), Text("")]
    return Group(*parts, *_links(shown), *_notes(atlas))


def _header(atlas: Atlas, stack: str) -> Iterator[RenderableType]:
    name = visible(str(atlas.model.get("name", "model")))
    ranked = predictions(Comparison((), atlas.model))
    if ranked:
        yield Text.assemble(name, " predicts ", (ranked[0][0], "bold"), "  ", (ranked[0][1], "bold"))
    else:
        yield Text(name)
    maps = atlas.stack(stack)
    others = [other.stack for other in atlas.stacks if other.stack != stack]
    sizes = f"{maps.layers} layers × {maps.heads} heads, {len(maps.queries)} × {len(maps.keys)} {atlas.unit}s"
    more = f"; also: --stack {', --stack '.join(others)}" if others else ""
    yield Text(f"{stack} attention: {sizes}{more}", "dim")


def _heads(atlas: Atlas, stack: str) -> Iterator[RenderableType]:
    kinds, special = atlas.kinds(stack), atlas.special_mass(stack)
    maps = atlas.stack(stack)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    wide = len(str(maps.heads - 1))
    table.add_column("layer", justify="right", no_wrap=True)
    table.add_column(" ".join(f"{head:>{wide}}" for head in range(maps.heads)))
    marked = any(maps.keys.special)
    if marked:
        table.add_column("special", justify="right", no_wrap=True)
    for layer in range(maps.layers):
        row = kinds[layer * maps.heads : (layer + 1) * maps.heads]
        letters = " ".join(f"{LETTERS[kind.kind]:>{wide}}" for kind in row)
        table.add_row(str(layer), letters, *([percent(float(special[layer].mean()))] if marked else []))
    yield table
    counts = Counter(kind.kind for kind in kinds)
    yield Text("  ".join(f"{LETTERS[kind]} {kind} {counts[kind]}" for kind in KINDS if counts[kind]))
    if marked:
        share = percent(atlas.special_share(stack))
        yield Text(
            f"special tokens get {percent(float(special.mean()))}; looking everywhere alike gives {share}",
            "dim",
        )


def _links(shown: AtlasView) -> Iterator[RenderableType]:
    if shown.head is not None:
        scores = "  ".join(f"{name} {score:.2f}" for name, score in shown.head.scores.items())
        place = f"layer {shown.head.layer} head {shown.head.head}"
        yield Text.assemble((f"{place}: {shown.head.kind}", "bold"))
        yield Text(f"{scores}\n(0: as looking everywhere alike, which is broad 1; 1: all of it)", "dim")
    yield Text(shown.title, "bold" if shown.head is None else "")
    if not shown.links:
        yield Text("no two words to link")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("from", justify="right", overflow="fold")
    table.add_column("to", overflow="fold")
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("uniform", justify="right", no_wrap=True, style="dim")
    table.add_column("")
    most = max(link.weight for link in shown.links)
    for link in shown.links:
        bar = "█" * round(BAR * link.weight / most) if most > 0 else ""
        ends = (Text(visible(link.source)), Text(f"→ {visible(link.goal)}"))
        table.add_row(*ends, f"{link.weight:.3g}", f"{link.uniform:.3g}", Text(bar, "magenta"))
    yield table
    yield Text("uniform: the same if every head looked everywhere alike", "dim")


def _notes(atlas: Atlas) -> Iterator[RenderableType]:
    for note in atlas.notes:
        yield Text(f"note: {visible(note)}", "dim")
