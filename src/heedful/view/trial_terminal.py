"""A trial in the terminal: what each test showed and did not, then the numbers beside their controls."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.debate.findings import Finding
from heedful.debate.result import Trial
from heedful.view.columns import visible
from heedful.wording import listed

ALSO = {
    "correlation": ("share significant", "significant"),
    "permutation": ("Spearman of largest weight and change", "with largest weight"),
    "adversary": ("share of starts feasible", "starts feasible"),
}


def render(trial: Trial) -> Iterator[RenderableType]:
    yield Text(
        f"Is attention explanation? {trial.model.get('name', 'a model')}, {trial.texts:,} texts", "bold"
    )
    yield Text("")
    yield _table(trial)
    for said in trial.statements:
        yield Text("")
        yield Text.assemble((said.title, "bold"), f"\n{visible(said.showed)}")
        yield Text(f"Not shown: {visible(said.not_shown)}", "dim")
    yield Text("")
    yield Text(visible(trial.conclusion), "bold")
    for why, tests in _refused(trial).items():
        yield Text(f"Not held: {listed(tests)}. {visible(why)}", "dim")
    for line in trial.notes:
        yield Text(visible(line), "dim")


def _refused(trial: Trial) -> dict[str, list[str]]:
    """Tests that were not held, by reason."""
    found: dict[str, list[str]] = {}
    for test, why in trial.refused.items():
        found.setdefault(why, []).append(test)
    return found


def _table(trial: Trial) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("test", no_wrap=True)
    table.add_column("what")
    for name in ("value", "95 % interval", "control"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("also", no_wrap=True)
    last = ""
    for f in trial.findings:
        shown = "" if f.test == last else f.test
        low, high = f.interval
        span = f"{_short(low)} to {_short(high)}" if math.isfinite(low) and math.isfinite(high) else "–"
        what = Text.assemble(visible(f.what), (f"  {f.unit}", "dim"))
        table.add_row(shown, what, _short(f.value), span, _short(f.control), f"{f.n:,}", _also(f))
        last = f.test
    return table


def _also(found: Finding) -> Text:
    """The further number the published test reports."""
    name, told = ALSO.get(found.test, ("", ""))
    value = found.extra.get(name, math.nan)
    return Text(f"{told} {value:.2f}" if math.isfinite(value) else "", "dim")


def _short(value: float) -> str:
    return f"{value:.3f}".replace("-", "−") if math.isfinite(value) else "–"


def show(trial: Trial, console: Console) -> None:
    for part in render(trial):
        console.print(part)


def as_text(trial: Trial, width: int = 110) -> str:
    out = io.StringIO()
    show(trial, Console(file=out, width=width, highlight=False, markup=False, color_system=None))
    return out.getvalue()
