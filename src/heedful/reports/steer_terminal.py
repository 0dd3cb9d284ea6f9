"""Steering in the terminal: before | after side by side, and a sweep as a table beside its controls."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.core.evidence import MeasuredValue
from heedful.core.numbers import by_size, with_interval
from heedful.features.steering.results import Continuation, Sides, Sweep, SweepPoint
from heedful.reports.visible import visible


def show_sides(sides: Sides, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", expand=True)
    for name in sides.columns:
        table.add_column(name, ratio=1, overflow="fold")
    table.add_row(*(Text(_lines(side.text)) for side in sides.columns.values()))
    table.add_row()
    table.add_row(*(Text(_judged(side), "dim") for side in sides.columns.values()))
    console.print(table)
    if sides.same:
        console.print(Text("The steer changed no token.", "dim"))
    for line in sides.notes:
        console.print(Text(visible(line), "dim"))


def _lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))


def _judged(side: Continuation) -> str:
    return f"perplexity unsteered {by_size(side.perplexity)}, repeats {side.repetition:.0%}"


def show_sweep(sweep: Sweep, console: Console) -> None:
    for part in render(sweep):
        console.print(part)


def render(sweep: Sweep) -> Iterator[RenderableType]:
    count = len(sweep.prompts)
    yield Text(f"{sweep.model.get('name')} steered at {sweep.settings.get('site')}, {count} prompts", "bold")
    yield Text("")
    yield _table(sweep)
    yield Text("")
    yield from (Text(visible(line)) for line in sweep.sentences())
    example = next((w for w in sweep.base.texts), None)
    if example is not None:
        yield Text("")
        yield Text(f"After “{visible(sweep.prompts[example.prompt])}”", "bold")
        yield _texts(sweep)


def _table(sweep: Sweep) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("strength", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for name in ("added", "perplexity", "× unsteered", "presence", "repeats"):
        table.add_column(name, justify="right")
    last = ""
    for point in sweep.points:
        table.add_row("" if point.strength == last else point.strength, *row(point))
        last = point.strength
    return table


def row(point: SweepPoint) -> tuple[str, ...]:
    """The cells of a point after its strength."""
    numbers = (point.perplexity, point.ratio, point.presence, point.repetition)
    return (point.method, by_size(point.size), *map(ranged, numbers))


def ranged(mean: MeasuredValue) -> str:
    """A mean, and its interval where there is one."""
    if mean.low == mean.high:
        return by_size(mean.value)
    return with_interval(mean.value, mean.low, mean.high, by_size)


def _texts(sweep: Sweep) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for point in sweep.points:
        if point.method in ("unsteered", sweep.methods[0] if sweep.methods else ""):
            name = "unsteered" if point.method == "unsteered" else point.strength
            table.add_row(Text(name, "dim"), Text(_lines(point.texts[0].text)))
    return table
