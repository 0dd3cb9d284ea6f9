"""A table that loses nothing where the terminal is narrow.

Headings are broken after hyphens and at spaces, columns of text are wrapped; then columns continue below,
each part with the names of the rows. Cells of a table with `bars` have a bar as long as their share of the
column's largest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table as Grid
from rich.text import Text

from heedful.core.document import Cell, Table
from heedful.reports.shading import TERMINAL_COLOURS, hue
from heedful.reports.text_columns import is_text
from heedful.reports.visible import visible

EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR = 6  # characters
LEAST_WORDS = 28  # characters of a column of text before it is moved below


class TableGrid:
    """`columns`: the places of those that are shown."""

    def __init__(self, table: Table, columns: Sequence[int]) -> None:
        self.table = table
        self.heads = [_heading(table, place) for place in columns]
        self.rows = [[_cell(row.cells, place) for place in columns] for row in table.rows]
        self.texts = [[_text(cell, table.bars) for cell in row] for row in self.rows]
        self.words = [n == 0 or is_text(table, place) for n, place in enumerate(columns)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Grid]:
        numbers, room = list(range(1, len(self.heads))), options.max_width
        first, heads = (
            max(map(cell_len, (*self.heads[0].split("\n"), *self._column(0))), default=0),
            self.heads,
        )
        if self._wide(first, heads, numbers) > room:
            least = [broken(name, 1) for name in heads]
            heads = [broken(name, self._size(least, place)) for place, name in enumerate(heads)]
            first = min(first, max(room // 4, 12))
        blocks = self._blocks(first, heads, numbers, room)
        for number, block in enumerate(blocks):
            yield self._drawn(first, heads, block, last=number == len(blocks) - 1)

    def _column(self, place: int) -> list[str]:
        return [row[place] for row in self.texts]

    def _size(self, heads: list[str], place: int) -> int:
        return max(map(cell_len, (*heads[place].split("\n"), *self._column(place))))

    def _wide(self, first: int, heads: list[str], places: list[int]) -> int:
        return first + sum(2 + self._least(heads, place) for place in places)

    def _least(self, heads: list[str], place: int) -> int:
        """The width a column needs: text can be wrapped, a number cannot."""
        return min(self._size(heads, place), LEAST_WORDS if self.words[place] else 10**6)

    def _blocks(self, first: int, heads: list[str], places: list[int], room: int) -> list[list[int]]:
        blocks: list[list[int]] = [[]]
        for place in places:
            if blocks[-1] and self._wide(first, heads, [*blocks[-1], place]) > room:
                blocks.append([])
            blocks[-1].append(place)
        return blocks

    def _drawn(self, first: int, heads: list[str], places: list[int], last: bool) -> Grid:
        grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        # rich aligns the cells of a column like its heading: wrapped text is read from the top
        stand: Literal["top", "bottom"] = "top" if any(self.words[place] for place in places) else "bottom"
        for place in (0, *places):
            bars = self.table.bars
            side: Literal["left", "right"] = "left" if self.words[place] or (bars and place) else "right"
            fixed = None if self.words[place] else self._size(heads, place)
            grid.add_column(Text(heads[place]), justify=side, vertical=stand, overflow="fold", width=fixed)
        for cells, texts in zip(self.rows, self.texts, strict=True):
            shown = (Text(texts[place], _style(cells[place])) for place in places)
            grid.add_row(Text(broken(texts[0], first), _style(cells[0])), *shown)
        if not last:
            grid.add_row()
        return grid


def _heading(table: Table, place: int) -> str:
    column = table.columns[place]
    if column.brief:
        return visible(column.brief)
    return "\n".join(filter(None, (visible(column.title), visible(column.note))))


def _cell(cells: Sequence[Cell], place: int) -> Cell:
    return cells[place] if place < len(cells) else Cell("")


def _text(cell: Cell, bars: bool) -> str:
    text = visible(cell.brief) or visible(cell.text) + (f" {visible(cell.note)}" if cell.note else "")
    if bars and math.isfinite(cell.shade):
        return f"{text} {bar(abs(cell.shade), BAR)}".rstrip()
    return text


def _style(cell: Cell) -> str:
    if cell.style in ("good", "strong"):
        return "bold green" if cell.style == "good" else "bold"
    if math.isfinite(cell.shade) and abs(cell.shade) >= 0.05:
        return TERMINAL_COLOURS[hue(cell.shade, cell.signed)]
    return ""


def bar(share: float, width: int) -> str:
    """A bar of eighths of a character; anything above zero shows at least a sliver."""
    eighths = min(8 * width, max(math.ceil(share * 8 * width - 1e-9), 0))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def broken(name: str, width: int) -> str:
    """A name in lines of a width, broken after hyphens and at spaces; a part that is longer stays whole."""
    lines: list[str] = []
    for given in name.split("\n"):
        lines.append("")
        for part in given.replace("-", "-\0").replace(" ", " \0").split("\0"):
            if lines[-1] and cell_len((lines[-1] + part).rstrip()) > width:
                lines.append("")
            lines[-1] += part
    return "\n".join(line.rstrip() for line in lines if line.strip())
