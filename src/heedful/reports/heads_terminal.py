"""What `heedful heads` prints: measured roles of heads, each beside its control.

Layers and heads count from 0. Tables fit 80 columns; --csv and --json have every head and every number.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from heedful.heads.roles.induction import HeadRole, Induction
from heedful.heads.roles.pronoun_bias import Bias, HeadBias
from heedful.heads.roles.syntax import HeadAccuracy, Syntax
from heedful.reports.visible import visible

MAX_HEADS = 12  # heads shown of a kind


def show_induction(found: Induction, out: Console) -> None:
    out.print(
        f"{visible(found.model)}: {len(found.heads)} heads, {found.draws} texts of {found.period} random "
        f"tokens, read twice. Control: a fresh second half. Evenly spread attention would give "
        f"{found.uniform:.3f}."
    )
    for role, target in (("induction", "the token after the same token"), ("duplicate", "the same token")):
        heads = found.named(role)
        out.print()
        if heads:
            out.print(f"{role} heads: {len(heads)}. They look at {target}.")
            _roles(heads, role, out)
        else:
            out.print(f"{role} heads: none. {_nearest(found, role, target)}")
    loss = found.loss
    out.print(
        f"\nLoss a token: {loss.first:.2f} in the first copy, {loss.second:.2f} in the second; change "
        f"{loss.change:+.2f} ({_range(loss.interval)}), without repetition {loss.control:+.2f}."
    )
    _notes(found.notes, out)


def _nearest(found: Induction, role: str, target: str) -> str:
    best = max(found.heads, key=lambda head: getattr(head, role).value - getattr(head, role).control)
    share = getattr(best, role)
    return (
        f"No head's attention to {target} is for sure {found.margin:g} above its control; nearest is layer "
        f"{best.layer} head {best.head}: {share.value:.3f}, control {share.control:.3f}."
    )


def _roles(heads: Sequence[HeadRole], role: str, out: Console) -> None:
    table = _table("layer", "head", "attention", "control", "difference, for all heads together")
    for head in heads[:MAX_HEADS]:
        share = getattr(head, role)
        row = (str(head.layer), str(head.head), f"{share.value:.3f}", f"{share.control:.3f}")
        table.add_row(*row, _range(share.interval))
    out.print(table)
    _rest(len(heads), out)


def show_syntax(found: Syntax, out: Console) -> None:
    out.print(
        f"{visible(found.model)}: {found.sentences} sentences, relations with at least {found.least} "
        "examples. % of words whose most-attended other word is their head (to), or whom their head "
        "attends more than any other word does (from). Chosen on one half of the sentences, measured on the "
        "other; naive: both on all.\n"
    )
    table = _table("relation", "n", "head", "right", "offset", "gain, 95 %", "naive", "chance")
    for row in found.relations:
        name = f"{row.layer}-{row.head} {row.direction}" + ("" if row.agreed else " ?")
        table.add_row(
            Text(visible(row.relation)),
            f"{row.n:,}",
            name,
            _percent(row.crossed.accuracy),
            _percent(row.crossed.baseline),
            _gain(row.crossed),
            _percent(row.naive.accuracy),
            _percent(row.chance),
        )
    out.print(table)
    sure = [row for row in found.relations if row.crossed.interval[0] > 0]
    out.print(
        f"\nIn {len(sure)} of {len(found.relations)} rows a head beats the best fixed offset, the interval "
        "being above 0. Each interval is for its own row: of 40 rows without an effect about one "
        "shows it all the same. ?: the two halves chose different heads; the one named is best on all."
    )
    _notes(found.notes, out)


def _gain(choice: HeadAccuracy) -> str:
    low, high = choice.interval
    return f"{100 * choice.gain:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def show_bias(found: Bias, out: Console) -> None:
    out.print(
        f"{visible(found.model)}: {found.templates} templates in four variants. Attention from the pronoun "
        "to a or b; the share of a; how it moves with the pronoun (1 less 2) and with the place (a first "
        "less b first). Intervals and p are for all heads together.\n"
    )
    heads = found.moved()
    largest = sorted(found.heads, key=lambda head: -abs(head.pronoun.value))
    table = _table("layer", "head", "to a or b", "share of a", "pronoun", "p", "place")
    _bias_row(table, "all", "", found.overall)
    for head in heads[:MAX_HEADS] or largest[:3]:
        _bias_row(table, str(head.layer), str(head.head), head)
    out.print(table)
    _rest(len(heads), out)
    moved = f"{len(heads)} of {len(found.heads)} heads move" if heads else "No head moves for sure"
    out.print(
        f"\n{moved} with the pronoun; the largest effect is {abs(largest[0].pronoun.value):.3f}. With "
        f"pronoun labels drawn at random, the largest of any head stays below {found.control:.3f} in 95 % "
        "of draws."
    )
    if found.preference is not None:
        result = found.preference
        out.print(
            f"Where the pronoun is due, the logit of pronoun 1 less that of 2 is {result.value:+.2f} "
            f"({_range(result.interval)}); a first less b first: {result.roles:+.2f} "
            f"({_range(result.roles_interval)})."
        )
    _notes(found.notes, out)


def _bias_row(table: Table, layer: str, head: str, row: HeadBias) -> None:
    effect, place = f"{row.pronoun.value:+.3f} ({_range(row.pronoun.interval)})", f"{row.roles.value:+.3f}"
    table.add_row(layer, head, f"{row.mass:.3f}", f"{row.share:.3f}", effect, f"{row.pronoun.p:.4f}", place)


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index == 0 else "right", no_wrap=True)
    return table


def _range(interval: tuple[float, float]) -> str:
    return f"{interval[0]:+.3f} to {interval[1]:+.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _rest(count: int, out: Console) -> None:
    if count > MAX_HEADS:
        out.print(f"… and {count - MAX_HEADS} more: --csv has every head")


def _notes(notes: Sequence[str], out: Console) -> None:
    for note in notes:
        out.print(Text(f"note: {visible(note)}", "dim"))
