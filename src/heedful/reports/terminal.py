"""Documents in the terminal: the answer first, tabs and folds only with `verbose`.

Nothing is cut: a table that is too wide continues below, long names are broken. Control characters in texts
of the user are made visible here, and nowhere else. Output to a file is plain, and so is a terminal's under
NO_COLOR: there the strongest words of a shaded text are marked, great⁺ and bad⁻.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod

from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from heedful.core import document as doc
from heedful.core.document import Document, Inline, Node
from heedful.reports.charts.text import chart_lines
from heedful.reports.half_blocks import half_blocks
from heedful.reports.half_blocks import key as picture_key
from heedful.reports.shading import COLOUR_NAMES, FAILED, HOLDS, TERMINAL_COLOURS, hue, level
from heedful.reports.terminal_grid import TableGrid
from heedful.reports.visible import visible

STYLES = {"strong": "bold", "soft": "dim", "code": "", "name": ""}
METER = 9  # characters of the bar of a probability
SIGN_MARKS = {"pos": "⁺", "neg": "⁻", "any": "*"}  # behind strong words, where there is no colour
MARKED, LEAST_MARKED = 0.2, 2  # share of the words that are marked, and at least so many


def show(document: Document, console: Console, verbose: bool = False, more: str = "") -> None:
    """`more` is printed last where tabs or folds are left out."""
    plain = console.no_color or console.color_system is None
    renderer = TerminalRenderer(console.width, verbose, plain)
    for each in renderer.all(document.nodes):
        console.print(each)
    if more and renderer.hidden:
        console.print(Text(more, "dim"))


def as_text(document: Document, width: int = 80, verbose: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False, color_system=None)
    show(document, console, verbose)
    return out.getvalue()


@dataclass
class TerminalRenderer:
    """`plain`: there are no colours. `hidden` counts what was left out."""

    width: int
    verbose: bool = False
    plain: bool = False
    hidden: int = 0

    def all(self, nodes: Sequence[Node]) -> Iterator[RenderableType]:
        for node in nodes:
            yield from self.draw(node)

    def inline(self, text: Inline, style: str = "") -> Text:
        if isinstance(text, str):
            return Text(_lines(text), style)
        parts = [(x, "") if isinstance(x, str) else (x.text, STYLES.get(x.style, "")) for x in text]
        return Text.assemble(*((_lines(words), kind) for words, kind in parts), style=style)

    @singledispatchmethod
    def draw(self, node: Node) -> Iterator[RenderableType]:
        raise TypeError(f"a document has no {type(node).__name__}")

    @draw.register
    def _(self, node: doc.Headline) -> Iterator[RenderableType]:
        line = Text.assemble((visible(node.text), "bold"))
        if node.value:
            line.append(f" {visible(node.value)}", "bold")
        if math.isfinite(node.share):
            line.append(f"  {meter(node.share)}", "blue")
        if node.others:
            line.append("   " + "  ".join(f"{visible(a)} {visible(b)}" for a, b in node.others), "dim")
        if node.source:
            line.append("   ")
            line.append_text(self.inline(node.source, "dim"))
        yield line

    @draw.register
    def _(self, node: doc.Paragraph) -> Iterator[RenderableType]:
        if node.style == "prose":
            yield Text("")
        yield self.inline(node.text, "dim" if node.style == "soft" else "")

    @draw.register
    def _(self, node: doc.Bullets) -> Iterator[RenderableType]:
        yield from map(self.inline, node.items)

    @draw.register
    def _(self, node: doc.Facts) -> Iterator[RenderableType]:
        grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        grid.add_column(overflow="fold")
        grid.add_column(overflow="fold")
        for name, value in node.pairs:
            grid.add_row(Text(visible(name), "dim"), Text(_lines(value)))
        yield grid

    @draw.register
    def _(self, node: doc.Statement) -> Iterator[RenderableType]:
        mark = (f"{HOLDS} ", "green") if node.holds else (f"{FAILED} ", "bold red")
        number = (f"  {visible(node.number)}", "dim") if node.number else ""
        yield Text.assemble(mark, visible(node.sentence), number)

    @draw.register
    def _(self, node: doc.Code) -> Iterator[RenderableType]:
        if node.title:
            yield Text(f"{visible(node.title)}:", "dim")
        yield Text(_lines(node.text), no_wrap=True, overflow="fold")

    @draw.register
    def _(self, node: doc.Section) -> Iterator[RenderableType]:
        if node.more and not self.verbose:
            self.hidden += 1
            return
        inside = [*self.all(node.nodes)]
        if not inside and not node.lead:
            return
        yield from (Text(""), Text(visible(node.title), "bold"))
        if node.lead:
            yield self.inline(node.lead, "dim")
        yield from inside

    @draw.register
    def _(self, node: doc.Fold) -> Iterator[RenderableType]:
        if not self.verbose and not node.opened:
            self.hidden += 1
            return
        yield from (Text(""), Text(visible(node.title), "bold"), *self.all(node.nodes))

    @draw.register
    def _(self, node: doc.Tabs) -> Iterator[RenderableType]:
        if not self.verbose:
            self.hidden += 1
            return
        for tab in node.tabs:
            yield from (Text(""), Text(f"── {visible(tab.title)} ──", "bold"), *self.all(tab.nodes))

    @draw.register
    def _(self, node: doc.Choice) -> Iterator[RenderableType]:
        first = node.options[0]
        by = f"{node.title.lower()}{' ' if node.title.endswith(' by') else ': '}{first.title}"
        for inside in first.nodes:
            if isinstance(inside, doc.UnitMap):
                key = self._key(inside, by)
                yield Text.assemble(self._text(inside), (f"  ({visible(key)})", "dim"))
            else:
                yield from self.draw(inside)
            if isinstance(inside, doc.PictureMap) and inside.parts:
                yield Text(f"({visible(picture_key(inside, self.plain, by))})", "dim")

    @draw.register
    def _(self, node: doc.Only) -> Iterator[RenderableType]:
        if node.where == "console" or (node.where == "terminal" and not self.verbose):
            yield from self.all(node.nodes)

    @draw.register
    def _(self, node: doc.Group) -> Iterator[RenderableType]:
        sections = [each for each in node.nodes if isinstance(each, doc.Section)]
        if node.style != "sides" or len(sections) != len(node.nodes):
            yield from self.all(node.nodes)
            return
        grid = Grid(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", expand=True)
        for section in sections:
            grid.add_column(visible(section.title), ratio=1, overflow="fold")
        columns = [[*self.all(section.nodes)] for section in sections]
        for place in range(max(map(len, columns), default=0)):
            grid.add_row(*(each[place] if place < len(each) else "" for each in columns))
        leads = [self.inline(section.lead, "dim") for section in sections]
        if any(leads):
            grid.add_row(*leads)
        yield grid

    @draw.register
    def _(self, node: doc.Island) -> Iterator[RenderableType]:
        yield from self.all(node.static)

    @draw.register
    def _(self, node: doc.Figure) -> Iterator[RenderableType]:
        lines = chart_lines(node.chart, self.width)
        if lines:
            yield Text("")
        for line in lines:
            yield Text(_lines(line), no_wrap=True, overflow="fold")
        if node.caption:
            name = f"figure {node.name}: " if node.name and not lines else ""
            yield Text(visible(f"{name}{node.caption}"), "dim")

    @draw.register
    def _(self, node: doc.UnitMap) -> Iterator[RenderableType]:
        yield self._text(node)

    def _text(self, node: doc.UnitMap) -> Text:
        line = Text(f"{visible(node.label)}  " if node.label else "")
        marked = strong_pieces(node) if self.plain else set()
        for place, piece in enumerate(node.pieces):
            mark = SIGN_MARKS[hue(piece.share, node.signed)] if place in marked else ""
            line.append(_lines(piece.text) + mark, _shade(piece.share, node.signed, piece.here))
        return line

    def _key(self, node: doc.UnitMap, by: str) -> str:
        """What the marks of a text mean, and by which method they are."""
        hues = {hue(node.pieces[place].share, node.signed) for place in strong_pieces(node)}
        means = {"pos": "for", "neg": "against", "any": "strong"}
        marks = [f"{SIGN_MARKS[kind]} {means[kind]}" for kind in means if kind in hues]
        if not self.plain:
            marks = [f"{COLOUR_NAMES[kind]}: {means[kind]}" for kind in means if kind in hues]
        return ", ".join([*marks, by])

    @draw.register
    def _(self, node: doc.PictureMap) -> Iterator[RenderableType]:
        if node.parts:  # without shaded parts there is nothing to see in a terminal
            yield from half_blocks(node, self.plain, self.width)

    @draw.register
    def _(self, node: doc.Legend) -> Iterator[RenderableType]:
        towards, away, size = (SIGN_MARKS if self.plain else COLOUR_NAMES).values()
        parts = [f"{towards} towards the target, {away} away from it"] if node.signed else []
        parts += [f"{size} strong, where a method has no sign"] if node.unsigned else []
        told = f"The strongest fifth of the {node.parts} is marked: " if self.plain else "Colours: "
        yield Text(f"{told}{'; '.join(parts)}.", "dim")

    @draw.register
    def _(self, node: doc.Table) -> Iterator[RenderableType]:
        columns = [n for n, c in enumerate(node.columns) if self.verbose or not node.switches or c.shown]
        yield Text("")
        yield TableGrid(node, columns)


def _shade(share: float, signed: bool, here: bool) -> str:
    steps = level(share)
    colour = TERMINAL_COLOURS[hue(share, signed)] if steps else ""
    weight = "bold reverse" if steps >= 7 else "bold" if steps >= 4 else ""
    return f"{weight} {colour} {'underline' if here else ''}".strip()


def strong_pieces(node: doc.UnitMap) -> set[int]:
    """Places of the pieces that are marked where there is no colour."""
    words = [place for place, piece in enumerate(node.pieces) if piece.unit >= 0]
    most = max(LEAST_MARKED, math.ceil(MARKED * len(words)))
    order = sorted(words, key=lambda place: -abs(node.pieces[place].share))[:most]
    return {place for place in order if level(node.pieces[place].share)} if node.quoted else set()


def meter(share: float) -> str:
    """▇▇▇▇▇▇▇▇▁"""
    full = max(0, min(METER, round(METER * share)))
    return "▇" * full + "▁" * (METER - full)


def _lines(text: str) -> str:
    """Line breaks and tabs stay."""
    parts = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible, part.split("\t"))) for part in parts)
