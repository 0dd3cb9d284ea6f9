"""A lab in the terminal: what it says and its tables in order, then each claim and whether it held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from heedful.core.lab_report import Cell, Claim, Figure, LabReport, Paragraph, Table
from heedful.reports.terminal_text import terminal_text
from heedful.reports.visible import visible

HELD, FAILED = "✓", "✗"


def shown(value: Cell) -> str:
    """A cell as it is read: three digits of a fraction, a true minus, – for what is not a number."""
    if value is None:
        return "–"
    if isinstance(value, float):
        value = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
        return value.replace("-", "−")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def number(claim: Claim) -> str:
    """0.92 (0.9 to 0.94), or 0.693 exactly; then its control."""
    words = f"{shown(claim.value)} exactly"
    if claim.interval is not None:
        low, high = map(shown, claim.interval)
        words = f"{shown(claim.value)} ({low} to {high})"
    if claim.against is not None:
        words += f"; {claim.control or 'control'} {shown(claim.against)}"
    return words


def render(report: LabReport) -> Iterator[RenderableType]:
    yield Text(visible(report.title), "bold")
    yield Text(visible(report.cite), "dim")
    for part in report.parts:
        if isinstance(part, Paragraph):
            yield from (Text(""), Text(visible(part.text)))
        elif isinstance(part, Table):
            yield from (Text(""), Text(visible(part.title), "bold"), _Grid(part))
        elif isinstance(part, Figure):
            yield from (Text(""), Text(f"figure {part.name}: {visible(part.caption)}", "dim"))
    yield from (Text(""), Text(report.answer, "bold"))
    for claim in report.claims:
        mark = (f"{HELD} ", "green") if claim.holds else (f"{FAILED} ", "bold red")
        yield Text.assemble(mark, visible(claim.sentence), (f"  {visible(number(claim))}", "dim"))


class _Grid:
    """A table that loses nothing where it is narrow: headings are broken after hyphens and at spaces, then
    columns of numbers go on below, each part with the names of the rows."""

    def __init__(self, table: Table) -> None:
        self.heads = [visible(name) for name in table.columns]
        self.rows = [[visible(shown(cell)) for cell in row] for row in table.rows]
        spoken = [any(isinstance(row[place], str) for row in table.rows) for place in range(len(self.heads))]
        self.words = [place == 0 or result for place, result in enumerate(spoken)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Grid]:
        numbers, room = list(range(1, len(self.heads))), options.max_width
        first, heads = max(map(cell_len, (self.heads[0], *self._column(0))), default=0), self.heads
        if self._wide(first, heads, numbers) > room:
            least = [broken(name, 1) for name in heads]
            heads = [broken(name, self._size(least, place)) for place, name in enumerate(heads)]
            first = min(first, max(room // 4, 12))
        blocks = [numbers] if any(self.words[1:]) else self._blocks(first, heads, numbers, room)
        for number, block in enumerate(blocks):
            yield self._drawn(first, heads, block, last=number == len(blocks) - 1)

    def _column(self, place: int) -> list[str]:
        return [row[place] for row in self.rows]

    def _size(self, heads: list[str], place: int) -> int:
        return max(map(cell_len, (*heads[place].split("\n"), *self._column(place))))

    def _wide(self, first: int, heads: list[str], places: list[int]) -> int:
        return first + sum(2 + self._size(heads, place) for place in places)

    def _blocks(self, first: int, heads: list[str], places: list[int], room: int) -> list[list[int]]:
        blocks: list[list[int]] = [[]]
        for place in places:
            if blocks[-1] and self._wide(first, heads, [*blocks[-1], place]) > room:
                blocks.append([])
            blocks[-1].append(place)
        return blocks

    def _drawn(self, first: int, heads: list[str], places: list[int], last: bool) -> Grid:
        grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for place in (0, *places):
            side: Literal["left", "right"] = "left" if self.words[place] else "right"
            fixed = None if self.words[place] else self._size(heads, place)
            grid.add_column(Text(heads[place]), justify=side, vertical="bottom", overflow="fold", width=fixed)
        for row in self.rows:
            grid.add_row(Text(broken(row[0], first)), *(Text(row[place]) for place in places))
        if not last:
            grid.add_row()
        return grid


def broken(name: str, width: int) -> str:
    """A name in lines of a width, broken after hyphens and at spaces; a part that is longer stays whole."""
    lines = [""]
    for part in name.replace("-", "-\0").replace(" ", " \0").split("\0"):
        if lines[-1] and cell_len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines if line.strip())


def show(report: LabReport, console: Console) -> None:
    for part in render(report):
        console.print(part)


def as_text(report: LabReport, width: int = 110) -> str:
    return terminal_text(lambda console: show(report, console), width)
