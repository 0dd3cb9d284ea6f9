"""A trial in the terminal: the numbers of each test beside their controls, and what it showed and did not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.core.numbers import short, span
from heedful.core.phrases import listed
from heedful.reports.terminal_text import terminal_text
from heedful.reports.visible import visible
from heedful.trials.result import Trial, by_unit
from heedful.trials.rows import TrialRow, by_test


def render(trial: Trial) -> Iterator[RenderableType]:
    name, count = trial.model.get("name", "a model"), f"{trial.texts:,} text{'s' * (trial.texts != 1)}"
    yield Text(f"Is attention explanation? {name}, {count}", "bold")
    statements = {statement.test: statement for statement in trial.statements}
    for test, rows in by_test(trial.findings).items():
        words = statements.get(test)
        yield Text("")
        yield Text(visible(words.title) if words else test, "bold")
        for unit, same in by_unit(rows).items():
            controls = dict.fromkeys(row.control_name for row in same if row.control_name)
            beside = f"; control: {', '.join(controls)}" if controls else ""
            yield Text(visible(f"{unit}{beside}"), "dim")
            yield _table(same, words.column if words else ("", ""))
        if words:
            yield Text(visible(words.showed))
            yield Text(f"Not shown: {visible(words.not_shown)}", "dim")
    yield Text("")
    yield Text(visible(trial.conclusion), "bold")
    for why, tests in _skipped(trial).items():
        yield Text(f"Not held: {listed(tests)}. {visible(why)}", "dim")
    for line in trial.notes:
        yield Text(visible(line), "dim")


def _skipped(trial: Trial) -> dict[str, list[str]]:
    """Tests that were not held, by reason."""
    by_reason: dict[str, list[str]] = {}
    for test, why in trial.skipped.items():
        by_reason.setdefault(why, []).append(test)
    return by_reason


def _table(rows: Sequence[TrialRow], column: tuple[str, str]) -> Table:
    """`column` names the further number that the published test reports, and its heading."""
    extra, heading = column
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("value", "95 % interval", "control", "n", *([heading] if heading else [])):
        table.add_column(visible(name), justify="right", no_wrap=name != heading)
    for row in rows:
        more = [short(row.extra.get(extra, math.nan))] if heading else []
        interval = span(*row.interval)
        table.add_row(visible(row.what), short(row.value), interval, short(row.control), f"{row.n:,}", *more)
    return table


def show(trial: Trial, console: Console) -> None:
    for part in render(trial):
        console.print(part)


def as_text(trial: Trial, width: int = 110) -> str:
    return terminal_text(lambda console: show(trial, console), width)
