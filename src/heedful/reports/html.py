"""Documents as HTML: the one place where text is escaped.

    page(document)        a file of its own
    fragment(document)    a notebook cell, shaded even where the host takes styles away
    body(document)        what is inside a page that has more

Levels: |share| is drawn in nine steps (classes l1 to l9), so no style attribute is needed and a strict
Content-Security-Policy is possible. Classes pos, neg and any are the three hues; pos and neg also differ by
their underline. Tabs, pickers and column switches are radio buttons and checkboxes with rules in the style
sheet: they work without scripts.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from itertools import count

from heedful.core import document as doc
from heedful.core.document import Document, Inline, Node
from heedful.reports import html_frame
from heedful.reports.charts.draw import svg
from heedful.reports.html_parts import esc
from heedful.reports.picture_svg import PictureDefinitions
from heedful.reports.picture_svg import draw as draw_picture
from heedful.reports.shading import FAILED, HOLDS, hue, inline_style, level
from heedful.reports.text_columns import is_text

WIDE = 10  # columns that fit an upright sheet of paper
_WORDS = ' class="words"'  # columns of text start at the left
DATA_NAMES = ("layer", "head", "stack")  # attributes data-NAME that a document may set


def page(document: Document) -> str:
    """A self-contained HTML5 document."""
    islands = [node for top in document.nodes for node in doc.inside(top) if isinstance(node, doc.Island)]
    data = islands[0].data if islands else None
    return html_frame.frame(document.title, body(document, 1, ""), [each.component for each in islands], data)


def fragment(document: Document) -> str:
    """For a notebook cell: ids of its own, and what can be read without scripts."""
    name = f"heedful-{secrets.token_hex(6)}"
    islands = [node for top in document.nodes for node in doc.inside(top) if isinstance(node, doc.Island)]
    return html_frame.cell(
        HtmlRenderer(f"{name}-", notebook=True).document(document, 3),
        name,
        [each.component for each in islands],
    )


def body(document: Document, size: int, prefix: str | None = None) -> str:
    """`size` is the heading level of the headline; ids start with `prefix`, by default one of their own."""
    prefix = f"h{secrets.token_hex(4)}-" if prefix is None else prefix
    return HtmlRenderer(prefix).document(document, size)


def nodes_html(nodes: Sequence[Node], size: int, prefix: str | None = None) -> str:
    """Some nodes, for a page that has more; ids start with `prefix`, by default one of their own."""
    return HtmlRenderer(f"h{secrets.token_hex(4)}-" if prefix is None else prefix).nodes(nodes, size)


@dataclass
class HtmlRenderer:
    """`prefix` keeps ids apart where several documents are on one page."""

    prefix: str
    notebook: bool = False

    def __post_init__(self) -> None:
        self._numbers = count()
        self._pictures = PictureDefinitions(self.prefix)

    def document(self, given: Document, size: int) -> str:
        """The headline has the level `size`, sections the next."""
        heads = [node for node in given.nodes if isinstance(node, doc.Headline)]
        rest = [node for node in given.nodes if not isinstance(node, doc.Headline)]
        return self._whole(f"{self.all(heads, size)}\n{self.all(rest, size + 1)}")

    def nodes(self, nodes: Sequence[Node], size: int) -> str:
        return self._whole(self.all(nodes, size))

    def _whole(self, drawn: str) -> str:
        """With what its pictures share, in front."""
        return f"{shared}\n{drawn}" if (shared := self._pictures.svg()) else drawn

    def all(self, nodes: Sequence[Node], size: int) -> str:
        return "\n".join(text for text in self._each(nodes, size) if text)

    def _each(self, nodes: Sequence[Node], size: int) -> Iterator[str]:
        """Statements that follow each other are one list."""
        waiting: list[str] = []
        for node in nodes:
            if isinstance(node, doc.Statement):
                waiting.append(self._statement(node))
                continue
            if waiting:
                yield f'<ul class="sentences claims">{"".join(waiting)}</ul>'
                waiting = []
            yield self.draw(node, size)
        if waiting:
            yield f'<ul class="sentences claims">{"".join(waiting)}</ul>'

    # --- text --------------------------------------------------------------------------------------

    def inline(self, text: Inline) -> str:
        return esc(text) if isinstance(text, str) else "".join(map(self._span, text))

    def _span(self, given: str | doc.Span) -> str:
        if isinstance(given, str):
            return esc(given)
        inside = esc(given.text)
        if given.link:
            return f'<a href="#{esc(self.prefix + given.link)}">{inside}</a>'
        tag = {"strong": "b", "soft": "small", "code": "code", "name": "bdi"}.get(given.style)
        return f"<{tag}>{inside}</{tag}>" if tag else inside

    @singledispatchmethod
    def draw(self, node: Node, size: int) -> str:
        raise TypeError(f"a document has no {type(node).__name__}")

    @draw.register
    def _(self, node: doc.Headline, size: int) -> str:
        value = f' <span class="chance">{esc(node.value)}</span>' if node.value else ""
        lines = [f'<p class="kicker">{self.inline(node.source)}</p>'] if node.source else []
        lines.append(f'<h{size} class="verdict"><bdi>{esc(node.text)}</bdi>{value}</h{size}>')
        if math.isfinite(node.share):
            lines.append(_meter(node.share))
        if node.others:
            items = "".join(f"<li><bdi>{esc(name)}</bdi> {esc(number)}</li>" for name, number in node.others)
            lines.append(f'<ul class="others">{items}</ul>')
        return f"<header>{''.join(lines)}</header>"

    @draw.register
    def _(self, node: doc.Paragraph, size: int) -> str:
        kind = {"answer": "heed", "soft": "lead", "quote": "said"}.get(node.style, "prose")
        way = ' dir="auto"' if node.style == "quote" else ""
        return f'<p class="{kind}"{way}>{self.inline(node.text)}</p>'

    @draw.register
    def _(self, node: doc.Bullets, size: int) -> str:
        items = "".join(f"<li>{self.inline(item)}</li>" for item in node.items)
        return f'<ul class="sentences">{items}</ul>' if items else ""

    @draw.register
    def _(self, node: doc.Facts, size: int) -> str:
        rows = "".join(f"<div><dt>{esc(name)}</dt><dd>{esc(value)}</dd></div>" for name, value in node.pairs)
        return f'<dl class="facts-list">{rows}</dl>' if rows else ""

    def _statement(self, node: doc.Statement) -> str:
        kind, mark, word = ("held", HOLDS, "holds") if node.holds else ("failed", FAILED, "failed")
        sign = f'<span class="mark-{kind}" role="img" aria-label="{word}">{mark}</span>'
        number = f" <small><bdi>{esc(node.number)}</bdi></small>" if node.number else ""
        return f"<li>{sign}&ensp;<bdi>{esc(node.sentence)}</bdi>{number}</li>"

    @draw.register
    def _(self, node: doc.Statement, size: int) -> str:
        return f'<ul class="sentences claims">{self._statement(node)}</ul>'

    @draw.register
    def _(self, node: doc.Code, size: int) -> str:
        bar = f'<p class="bar">{esc(node.title)}</p>' if node.title else ""
        return f'<div class="code">{bar}<pre dir="ltr">{esc(node.text)}</pre></div>'

    # --- parts -------------------------------------------------------------------------------------

    @draw.register
    def _(self, node: doc.Section, size: int) -> str:
        lead = f'<p class="lead">{self.inline(node.lead)}</p>' if node.lead else ""
        name = esc(node.name)
        inside = self.all(node.nodes, min(6, size + 1))
        kind = " ".join(filter(None, ("" if node.minor else "part", node.name, node.style)))
        anchor = f' id="{esc(self.prefix)}{name}"' if name and not node.minor else ""
        heading = f'<h{size} class="{"name" if node.minor else "title"}">{esc(node.title)}</h{size}>'
        return f'<section class="{esc(kind)}"{anchor}>{heading}{lead}{inside}</section>'

    @draw.register
    def _(self, node: doc.Fold, size: int) -> str:
        opened = " open" if node.opened else ""
        inside = self.all(node.nodes, size)
        return f'<details class="more"{opened}><summary>{esc(node.title)}</summary>{inside}</details>'

    @draw.register
    def _(self, node: doc.Only, size: int) -> str:
        return self.all(node.nodes, size) if node.where == "html" else ""

    @draw.register
    def _(self, node: doc.Group, size: int) -> str:
        kind = esc(node.style or "sides")
        return f'<div class="{kind}"{_data(node.data)}>{self.all(node.nodes, size)}</div>'

    @draw.register
    def _(self, node: doc.Tabs, size: int) -> str:
        return self._tabs(node.title, node.tabs, size, "tabs")

    @draw.register
    def _(self, node: doc.Choice, size: int) -> str:
        if len(node.options) == 1:
            return self.all(node.options[0].nodes, size)
        return self._tabs(node.title, node.options, size, "choice")

    def _tabs(self, title: str, tabs: Sequence[doc.Tab], size: int, kind: str) -> str:
        group = f"{self.prefix}g{next(self._numbers)}"
        drawn = []
        for number, tab in enumerate(tabs):
            name, checked = f"{group}-{number}", " checked" if not number else ""
            note = f" <small>{esc(tab.note)}</small>" if tab.note else ""
            drawn.append(
                f'<input type="radio" name="{group}" id="{name}"{checked}><label for="{name}">'
                f'{esc(tab.title)}{note}</label><div class="panel">{self.all(tab.nodes, size)}</div>'
            )
        return f'<fieldset class="{kind}"><legend>{esc(title)}</legend>{"".join(drawn)}</fieldset>'

    @draw.register
    def _(self, node: doc.Island, size: int) -> str:
        return f'<div class="island" data-island="{esc(node.component)}">{self.all(node.static, size)}</div>'

    # --- figures -----------------------------------------------------------------------------------

    @draw.register
    def _(self, node: doc.Figure, size: int) -> str:
        caption = f'<figcaption class="lead">{esc(node.caption)}</figcaption>' if node.caption else ""
        return f"<figure>{svg(node.chart)}{caption}</figure>"

    @draw.register
    def _(self, node: doc.UnitMap, size: int) -> str:
        inside = "".join(self.piece(piece, node.signed) for piece in node.pieces)
        text = f'<p class="text{" said" if node.quoted else ""}" dir="auto">{inside}</p>'
        if not node.label:
            return text
        return f'<div class="example"><span class="strength">{esc(node.label)}</span>{text}</div>'

    @draw.register
    def _(self, node: doc.PictureMap, size: int) -> str:
        return draw_picture(node, self._pictures)

    def piece(self, piece: doc.Piece, signed: bool) -> str:
        """One piece of a text."""
        text, steps = esc(piece.text), level(piece.share)
        if not steps and not piece.here:
            return text
        kind = f"{hue(piece.share, signed)} l{steps}{' here' if piece.here else ''}"
        tip = f' title="{esc(piece.tip)}"' if piece.tip else ""
        unit = f' data-w="{piece.unit}"' if piece.unit >= 0 else ""
        if self.notebook:  # some hosts take the style sheet away, and paint every <mark> yellow
            style = inline_style(hue(piece.share, signed), steps)
            return f'<span style="{style}" class="shade {kind}"{unit}{tip}>{text}</span>'
        return f'<mark class="{kind}"{unit}{tip}>{text}</mark>'

    @draw.register
    def _(self, node: doc.Legend, size: int) -> str:
        def ramp(kind: str) -> str:
            steps = "".join(f'<i class="{kind} l{n}"></i>' for n in range(1, 10, 2))
            return f'<span class="ramp" aria-hidden="true">{steps}</span>'

        cues = (
            ("", "hatched: ", "")
            if node.hatched
            else ("solid underline: ", "dotted underline: ", "no underline: ")
        )
        items = []
        if node.signed:
            items.append(f"{ramp('pos')} {cues[0]}towards the target")
            items.append(f"{ramp('neg')} {cues[1]}away from it")
        if node.unsigned:
            items.append(f"{ramp('any')} {cues[2]}the method has no sign")
        return (
            f'<ul class="legend{" hatched" if node.hatched else ""}">'
            + "".join(f"<li>{item}</li>" for item in items)
            + "</ul>"
        )

    # --- tables ------------------------------------------------------------------------------------

    @draw.register
    def _(self, node: doc.Table, size: int) -> str:
        words = [is_text(node, place) for place in range(len(node.columns))]
        heads = "".join(map(_head, node.columns, words))
        rows = "".join(self._row(row, words) for row in node.rows)
        wide = " wide" if sum(column.shown for column in node.columns) > WIDE else ""
        kind = f"{esc(node.style)}{' sortable' if node.sortable else ''}".strip()
        switches = self._switches(node.columns) if node.switches else ""
        table = (
            f'<div class="scroll{wide}" role="region" tabindex="0" aria-label="{esc(node.title)}">'
            f'<table class="{kind}"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        )
        return f'<div class="switched">{switches}{table}</div>' if switches else table

    def _switches(self, columns: Sequence[doc.Column]) -> str:
        drawn, group = [], f"{self.prefix}c{next(self._numbers)}"
        for place, column in enumerate(columns[1:], 2):
            name, checked = f"{group}-{place}", " checked" if column.shown else ""
            note = f" {column.note}" if column.note and columns_named(columns, column.title) > 1 else ""
            drawn.append(
                f'<input type="checkbox" class="c{place}" id="{name}"{checked}>'
                f'<label for="{name}">{esc(column.title)}{esc(note)}</label>'
            )
        return '<span class="columns">Columns:</span>' + "".join(drawn)

    def _row(self, row: doc.Row, words: Sequence[bool]) -> str:
        first, *others = row.cells
        unit = f' data-w="{row.unit}"' if row.unit >= 0 else ""
        kind = f' class="{esc(row.kind)}"' if row.kind else ""
        head = f'<th scope="row">{self._inside(first)}</th>'
        cells = "".join(map(self._cell, others, words[1:]))
        return f"<tr{unit}{kind}>{head}{cells}</tr>"

    def _cell(self, cell: doc.Cell, words: bool) -> str:
        kinds = [*filter(None, (cell.style, "words" if words else ""))]
        if math.isfinite(cell.shade):
            kinds += [hue(cell.shade, cell.signed), f"l{level(max(-1.0, min(1.0, cell.shade)))}"]
        kind = f' class="{esc(" ".join(kinds))}"' if kinds else ""
        value = f' data-v="{cell.value:.6g}"' if math.isfinite(cell.value) else ""
        return f"<td{kind}{value}{_data(cell.data)}>{self._inside(cell)}</td>"

    def _inside(self, cell: doc.Cell) -> str:
        text = f"<bdi>{esc(cell.text)}</bdi>" if cell.text else ""
        if cell.picture:
            lines = "".join(f"<small>{esc(line)}</small>" for line in (cell.text, cell.note) if line)
            return f'<img src="data:image/png;base64,{esc(cell.picture)}" alt="{esc(cell.alt)}">{lines}'
        if cell.map is not None:
            lines = "".join(f"<small>{esc(line)}</small>" for line in (cell.text, cell.note) if line)
            return f"{draw_picture(cell.map, self._pictures)}{lines}"
        if cell.link:
            text = f'<a href="#{esc(self.prefix + cell.link)}">{text}</a>'
        return f"{text} <small>{esc(cell.note)}</small>" if cell.note else text


def columns_named(columns: Sequence[doc.Column], title: str) -> int:
    return sum(column.title == title for column in columns)


def _head(column: doc.Column, words: bool) -> str:
    name = esc(column.title) or '<span class="unseen">name</span>'
    note = f"<small>{esc(column.note)}</small>" if column.note else ""
    return f'<th scope="col"{_WORDS if words else ""}>{name}{note}</th>'


def _data(given: doc.Data) -> str:
    return "".join(f' data-{name}="{esc(given[name])}"' for name in DATA_NAMES if name in given)


def _meter(share: float) -> str:
    """A bar of ten steps: no style attribute is needed."""
    steps = max(0, min(10, round(10 * share)))
    bars = "".join(f'<i class="{"on" if n < steps else "off"}"></i>' for n in range(10))
    return f'<span class="meter" aria-hidden="true">{bars}</span>'
