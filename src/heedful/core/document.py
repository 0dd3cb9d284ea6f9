"""Documents: what a result shows, as data. The terminal, the HTML report and the notebook draw any document.

A document starts with the answer. What a reader may need later is in tabs and folds: the report shows them
one click away, the terminal shows them with --verbose. Text here is never escaped: each renderer makes it
safe for the place where it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heedful.core.charts import Chart


@dataclass(frozen=True)
class Span:
    """A few words inside a line: "strong", "soft", "code", "name" (text of the user) or a link."""

    text: str
    style: str = ""
    link: str = ""  # the anchor of a section in the same document


Inline = str | tuple[str | Span, ...]
Data = Mapping[str, str]  # what scripts of the page find a part by; the renderer knows the names it allows


@dataclass(frozen=True)
class Headline:
    """The answer in a few words, with a number and its bar where it is a probability."""

    text: str
    value: str = ""
    share: float = math.nan  # of a bar, from 0 to 1
    source: Inline = ""  # what the answer is about: the model, the data
    others: tuple[tuple[str, str], ...] = ()  # further labels with their values


@dataclass(frozen=True)
class Paragraph:
    """A paragraph: plain, or one of "answer" (stands out), "prose" (space above it, in the terminal too),
    "soft" (an explanation) and "quote" (a text)."""

    text: Inline
    style: str = ""


@dataclass(frozen=True)
class Bullets:
    """Short sentences, one per line."""

    items: tuple[Inline, ...]


@dataclass(frozen=True)
class Facts:
    """Names with their values."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Statement:
    """A sentence that was tested, and whether it is true."""

    sentence: str
    holds: bool
    number: str = ""


@dataclass(frozen=True)
class Code:
    """What to type."""

    text: str
    title: str = ""


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    title: str
    note: str = ""  # a unit or an operator, in small print
    brief: str = ""  # what a terminal shows instead
    shown: bool = True  # at first, where the columns can be switched
    words: bool = False  # text, not numbers


@dataclass(frozen=True)
class Cell:
    """A value as it is read. `shade` from -1 to 1 colours it; `value` sorts it."""

    text: str
    note: str = ""  # small: an interval, an error
    shade: float = math.nan
    signed: bool = True
    value: float = math.nan
    style: str = ""  # "strong", "unsure", "wrap" (long text), "good" or "bad"
    link: str = ""
    picture: str = ""  # a PNG as base64, above the text
    alt: str = ""  # the picture in words
    brief: str = ""  # what a terminal shows instead of text and note
    map: PictureMap | None = None  # above the text, too
    data: Data = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """Cells of a table. `unit` is the place of the word it is about, `kind` "gap" or "last"."""

    cells: tuple[Cell, ...]
    unit: int = -1
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first cell of a row names it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    sortable: bool = False
    switches: bool = False  # the reader chooses the columns
    bars: bool = False  # the terminal draws the shade of a cell as a bar
    style: str = ""

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("a table without columns")


@dataclass(frozen=True)
class Piece:
    """Part of a text. `share` from -1 to 1 colours it."""

    text: str
    share: float = 0.0
    tip: str = ""
    unit: int = -1
    here: bool = False  # underlined


@dataclass(frozen=True)
class UnitMap:
    """A text whose pieces are shaded by their scores."""

    pieces: tuple[Piece, ...]
    signed: bool = True
    label: str = ""  # a number in front of it
    quoted: bool = False

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True)
class Part:
    """A rectangle of a picture: (left, top, right, bottom), and its share of the strongest, -1 to 1."""

    box: tuple[int, int, int, int]
    share: float = 0.0
    tip: str = ""
    unit: int = -1  # of several parts that belong together


@dataclass(frozen=True)
class PictureMap:
    """A picture whose parts are shaded by their scores."""

    png: bytes
    size: tuple[int, int]  # width, height
    parts: tuple[Part, ...]
    signed: bool = True
    title: str = ""  # for those who cannot see it
    named: tuple[int, ...] = ()  # units that a sentence names: outlined, and numbered from 1
    grid: tuple[int, int] = (0, 0)  # rows and columns by which its units are counted, if they are
    small: bool = False  # one of many, without numbers
    overlay: bytes = b""  # a transparent PNG over the whole picture, for maps of which there are very many


@dataclass(frozen=True)
class Legend:
    """What colours mean."""

    signed: bool
    unsigned: bool
    hatched: bool = False  # of a picture, where what is against the target is hatched
    parts: str = "words"  # what is coloured


@dataclass(frozen=True)
class Figure:
    """A chart with its caption; `name` is that of its file."""

    chart: Chart
    caption: str = ""
    name: str = ""


@dataclass(frozen=True)
class Section:
    """Nodes under a heading."""

    title: str
    nodes: tuple[Node, ...]
    lead: Inline = ""
    name: str = ""  # for styles and links
    style: str = ""  # a class of the style sheet
    more: bool = False  # the terminal shows it with --verbose only
    minor: bool = False  # one of several alike, with a small heading


@dataclass(frozen=True)
class Fold:
    """What is shown when somebody opens it."""

    title: str
    nodes: tuple[Node, ...]
    opened: bool = False


@dataclass(frozen=True)
class Tab:
    """One page of `Tabs`."""

    title: str
    nodes: tuple[Node, ...]
    note: str = ""


@dataclass(frozen=True)
class Tabs:
    """Pages of which one is shown. In the terminal: all of them, with --verbose."""

    title: str
    tabs: tuple[Tab, ...]


@dataclass(frozen=True)
class Choice:
    """The same thing by several methods: one is shown, a picker switches. The terminal shows the first."""

    title: str
    options: tuple[Tab, ...]


@dataclass(frozen=True)
class Only:
    """What one renderer alone shows: "html", "console" (the terminal) or "terminal" (the same, left out with
    --verbose)."""

    where: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Group:
    """Nodes side by side where there is room."""

    nodes: tuple[Node, ...]
    style: str = ""
    data: Data = field(default_factory=dict)


@dataclass(frozen=True)
class Island:
    """What a script draws from `data`; `static` is shown where no script runs."""

    component: str
    data: Mapping[str, Any] = field(default_factory=dict)
    static: tuple[Node, ...] = ()


Node = (
    Headline
    | Paragraph
    | Bullets
    | Facts
    | Statement
    | Code
    | Table
    | UnitMap
    | PictureMap
    | Legend
    | Figure
    | Section
    | Fold
    | Tabs
    | Choice
    | Only
    | Group
    | Island
)


@dataclass(frozen=True)
class Document:
    """A title for the window, then nodes: the answer first."""

    title: str
    nodes: tuple[Node, ...]


def inside(node: Node) -> Iterator[Node]:
    """The node and all nodes below it."""
    yield node
    for each in below(node):
        yield from inside(each)


def below(node: Node) -> Iterator[Node]:
    if isinstance(node, Section | Fold | Group | Only):
        yield from node.nodes
    elif isinstance(node, Tabs | Choice):
        for tab in node.tabs if isinstance(node, Tabs) else node.options:
            yield from tab.nodes
    elif isinstance(node, Island):
        yield from node.static


def plain(line: Inline) -> str:
    """A line without its styles."""
    return line if isinstance(line, str) else "".join(x if isinstance(x, str) else x.text for x in line)


def nodes(*given: Node | Sequence[Node] | None) -> tuple[Node, ...]:
    """One flat tuple; None is left out."""
    flat: list[Node] = []
    for each in given:
        if each is not None:
            flat += [*each] if isinstance(each, Sequence) else [each]
    return tuple(flat)


def text_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], words: bool = False) -> Table:
    """A table of plain strings; `words`: all columns are text."""
    columns = tuple(Column(head, words=words or not place) for place, head in enumerate(heads))
    style = "wrap" if words else ""
    made = [Row(tuple(Cell(text, style=style if n else "") for n, text in enumerate(row))) for row in rows]
    return Table(title, columns, tuple(made))
