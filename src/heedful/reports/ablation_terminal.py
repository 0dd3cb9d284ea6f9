"""What ablation prints: one text without heads, the worth of heads, a pruning curve. Heads count from 0."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from heedful.core.phrases import listed
from heedful.heads.ablation.ablate_text import AblationResult, Prediction
from heedful.heads.ablation.importance_results import Importance, Unit
from heedful.heads.ablation.pruning_results import Pruning
from heedful.reports.columns import visible
from heedful.stats.intervals import Interval

MAX_HEADS = 10  # heads shown of a kind


def show_without(found: AblationResult, out: Console) -> None:
    """Before the maps of the ablated model: what it says without them."""
    many = f"{len(found.heads)} of {found.of} heads"
    named = ", ".join(found.heads[:8]) + (", ..." if len(found.heads) > 8 else "")
    out.print(Text(f"Without {named} ({many}, {found.how}):", "bold"))
    if found.before:
        mark = {True: "  (another answer)", False: "  (the same answer)", None: ""}[found.changed]
        out.print(f"  with all heads: {_said(found.before)}")
        out.print(f"  without these:  {_said(found.after)}{mark}")
    if found.metric:
        out.print(f"  {found.metric} of {found.about}: {found.value:.3f}, drop {found.drop:+.3f}")
    if found.draws:
        low, high = found.random_range
        others = "a random head" if len(found.heads) == 1 else f"{len(found.heads)} random heads"
        out.print(
            f"  without {others} ({found.draws} draws): drop {found.random:+.3f}, {low:+.3f} to {high:+.3f}"
        )
    _notes(found.notes, out)
    out.print()


def _said(prediction: Prediction) -> str:
    parts = [
        f"{visible(name)!r}" if value != value else f"{visible(name)} {value:.3f}"
        for name, value in prediction
    ]
    return ", ".join(parts)


def show_importance(found: Importance, out: Console) -> None:
    what = "heads" if found.level == "head" else "layers"
    base = ", ".join(f"{name} {value:.3f}" for name, value in found.base.items())
    out.print(
        f"{visible(found.model)}: {len(found.units)} {what}, {found.texts} texts, removed by {found.how}. "
        f"Of {found.about}, with all heads: {base}."
    )
    out.print(
        f"Drop of {found.metric} without each; 95 % intervals for all {what} together. Random signs would "
        f"show up to {found.chance[found.metric]:.4f}."
    )
    ranked = found.ranked()
    shown = ranked if len(ranked) <= 2 * MAX_HEADS else ranked[:MAX_HEADS] + ranked[-MAX_HEADS:]
    out.print()
    _units(found, shown, out)
    if len(shown) < len(ranked):
        out.print(Text(f"... and {len(ranked) - len(shown)} between them; --csv has all", "dim"))
    out.print()
    for reference in found.references:
        low_high = _range(reference.intervals[found.metric])
        out.print(f"For scale, {reference.name}: {reference.drops[found.metric]:+.4f} ({low_high})")
    _verdict(found, what, out)
    if found.agreement is not None:
        size = f"Spearman {found.agreement:.2f} with the size of the drop"
        out.print(f"gradient: how much a {found.level} moves the metric, either way, to first order; {size}.")
    _notes(found.notes, out)


def _units(found: Importance, units: Sequence[Unit], out: Console) -> None:
    other = next(name for name in found.metrics if name != found.metric)
    table = _table(found.level, "drop", "95 % together", "p", f"{other} drop", "gradient", "")
    words = {1: "helps", -1: "better without", 0: ""}
    for unit in units:
        drop = unit.drops[found.metric]
        slope = "" if unit.sensitivity is None else f"{unit.sensitivity:.4f}"
        row = (unit.name, f"{drop.value:+.4f}", _range(drop.interval), f"{drop.p:.3f}")
        effect = unit.effect(found.metric)
        style = {1: "bold", -1: "bold red", 0: "dim"}[effect]
        table.add_row(*row, f"{unit.drops[other].value:+.4f}", slope, words[effect], style=style)
    out.print(table)


def _verdict(found: Importance, what: str, out: Console) -> None:
    better = [unit.name for unit in found.improves]
    if better:
        many = listed(better[:MAX_HEADS]) + (
            "" if len(better) <= MAX_HEADS else f" and {len(better) - MAX_HEADS} more"
        )
        out.print(f"The model does better without {many} (each alone).")
    else:
        out.print(f"No {found.level} was shown to do harm.")
    merely = sum(unit.drops[found.metric].value < 0 for unit in found.unclear)
    out.print(
        f"{len(found.helps)} {what} help; {len(found.unclear)} cannot be told from {what} that do nothing "
        f"({merely} of these seem to do harm)."
    )


def show_pruning(found: Pruning, out: Console) -> None:
    what = "heads" if found.level == "head" else "layers"
    chose, measured = found.texts
    tried = f"all {what} left" if found.shortlist is None else f"the {found.shortlist} missed least"
    out.print(
        f"{visible(found.model)}: {found.units} {what}, removed by {found.how}, at each step the best of "
        f"{tried}. {chose} texts choose, {measured} others measure {found.metric} of {found.about}: "
        f"{found.base:.3f} with all heads."
    )
    out.print()
    table = _table("gone", found.level, found.metric, "drop, 95 % together", "one-shot", "random", "of draws")
    for step in found.steps:
        row = (
            str(step.gone),
            step.name,
            f"{step.value:.3f}",
            f"{step.drop:+.3f} ({_range(step.interval, 3)})",
        )
        table.add_row(*row, f"{step.one_shot:.3f}", f"{step.random:.3f}", _range(step.random_range, 3))
    out.print(table)
    out.print()
    for tolerance in (0.01, 0.05, 0.1):
        out.print(f"A loss above {tolerance:g} is ruled out up to {found.within(tolerance)} {what} gone.")
    if len(found.steps) < found.units:
        out.print(Text(f"{len(found.steps)} of {found.units} steps were taken", "dim"))
    _notes(found.notes, out)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in ("head", "layer", "") else "right")
    return table


def _range(interval: Interval, digits: int = 4) -> str:
    low, high = interval
    return f"{low:+.{digits}f} to {high:+.{digits}f}"


def _notes(notes: Sequence[str], out: Console) -> None:
    for note in notes[:MAX_HEADS]:
        out.print(Text(f"note: {visible(note)}", "dim"))
    if len(notes) > MAX_HEADS:
        out.print(Text(f"note: and {len(notes) - MAX_HEADS} more", "dim"))
