"""A trial in the terminal: the numbers of each test beside their controls, and what it showed and did not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.core.phrases import listed
from heedful.reports.columns import visible
from heedful.reports.printed import printed
from heedful.trials.result import Trial, by_unit
from heedful.trials.rows import TrialRow, by_test

ALSO = {
    "correlation": ("share significant", "significant"),
    "permutation": ("Spearman of largest weight and change", "Spearman with largest weight"),
    "adversary": ("share of starts feasible", "starts feasible"),
}


def render(trial: Trial) -> Iterator[RenderableType]:
    name, count = trial.model.get("name", "a model"), f"{trial.texts:,} text{'s' * (trial.texts != 1)}"
    yield Text(f"Is attention explanation? {name}, {count}", "bold")
    said = {statement.test: statement for statement in trial.statements}
    for test, findings in by_test(trial.findings).items():
        yield Text("")
        yield Text(said[test].title if test in said else test, "bold")
        for unit, same in by_unit(findings).items():
            controls = dict.fromkeys(f.control_name for f in same if f.control_name)
            beside = f"; control: {', '.join(controls)}" if controls else ""
            yield Text(visible(f"{unit}{beside}"), "dim")
            yield _table(same)
        if test in said:
            yield Text(visible(said[test].showed))
            yield Text(f"Not shown: {visible(said[test].not_shown)}", "dim")
    yield Text("")
    yield Text(visible(trial.conclusion), "bold")
    for why, tests in _refused(trial).items():
        yield Text(f"Not held: {listed(tests)}. {visible(why)}", "dim")
    for line in trial.notes:
        yield Text(visible(line), "dim")


def _refused(trial: Trial) -> dict[str, list[str]]:
    """Tests that were not held, by reason."""
    found: dict[str, list[str]] = {}
    for test, why in trial.skipped.items():
        found.setdefault(why, []).append(test)
    return found


def _table(findings: Sequence[TrialRow]) -> Table:
    also = ALSO.get(findings[0].test, ("", ""))[1]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("value", "95 % interval", "control", "n", *([also] if also else [])):
        table.add_column(name, justify="right", no_wrap=name != also)
    for f in findings:
        low, high = f.interval
        span = f"{_short(low)} to {_short(high)}" if math.isfinite(low) and math.isfinite(high) else "–"
        more = [_also(f)] if also else []
        table.add_row(visible(f.what), _short(f.value), span, _short(f.control), f"{f.n:,}", *more)
    return table


def _also(found: TrialRow) -> str:
    """The further number the published test reports."""
    return _short(found.extra.get(ALSO[found.test][0], math.nan))


def _short(value: float) -> str:
    return f"{value:.3f}".replace("-", "−") if math.isfinite(value) else "–"


def show(trial: Trial, console: Console) -> None:
    for part in render(trial):
        console.print(part)


def as_text(trial: Trial, width: int = 110) -> str:
    return printed(lambda console: show(trial, console), width)
