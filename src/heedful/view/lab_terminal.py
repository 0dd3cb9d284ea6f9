"""A lab in the terminal: what it says and its tables in order, then each claim and whether it held."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from heedful.labs.report import Cell, Claim, Figure, LabReport, Said, Table
from heedful.view.columns import visible

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
        if isinstance(part, Said):
            yield from (Text(""), Text(visible(part.text)))
        elif isinstance(part, Table):
            yield from (Text(""), Text(visible(part.title), "bold"), _grid(part))
        elif isinstance(part, Figure):
            yield from (Text(""), Text(f"figure {part.name}: {visible(part.caption)}", "dim"))
    yield from (Text(""), Text(report.answer, "bold"))
    for claim in report.claims:
        mark = (f"{HELD} ", "green") if claim.holds else (f"{FAILED} ", "bold red")
        yield Text.assemble(mark, visible(claim.sentence), (f"  {visible(number(claim))}", "dim"))


def _grid(table: Table) -> Grid:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(table.columns):
        words = place == 0 or any(isinstance(row[place], str) for row in table.rows)
        grid.add_column(visible(name), justify="left" if words else "right")
    for row in table.rows:
        grid.add_row(*(Text(visible(shown(cell))) for cell in row))
    return grid


def show(report: LabReport, console: Console) -> None:
    for part in render(report):
        console.print(part)


def as_text(report: LabReport, width: int = 110) -> str:
    out = io.StringIO()
    show(report, Console(file=out, width=width, highlight=False, markup=False, color_system=None))
    return out.getvalue()
