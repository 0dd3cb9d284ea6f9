"""An audit in the terminal: the verdict in words and as a table, then skills by method and metric.

Nothing is cut. Intervals stand beside the skills where every table has room for them; without them, a table
that is still too wide for the terminal is split into several, as many metrics in each as fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.audits.result import Audit
from heedful.reports.audit_summary import (
    HEADS,
    LEGEND,
    MARKS,
    SINGLE,
    SkillTable,
    blocks,
    labels,
    little,
    share,
    skipped,
    verdict_rows,
)
from heedful.reports.terminal_text import terminal_text
from heedful.reports.visible import visible

GAP = 2  # between columns


def render(audit: Audit, console: Console) -> Iterator[RenderableType]:
    wide = all(len(_split(block, True, console.width)) == 1 for block in blocks(audit))
    headline, *rest = audit.verdict.sentences
    yield Text(headline, "bold")
    yield from map(Text, rest)
    if audit.verdict.methods:
        yield Text("")
        yield _verdict(audit)
        yield Text(LEGEND, "dim")
    for block in blocks(audit):
        yield Text("")
        beside = ", with 95 % intervals" if wide else ""
        yield Text(f"{block.title} (skill{beside}: 0 is a random order, 1 the best found)", "bold")
        for place, metrics in enumerate(_split(block, wide, console.width)):
            if place:
                yield Text("")
            yield _table(block, metrics, wide)
    yield Text("  ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items()), "dim")
    if wide:
        yield Text(SINGLE, "dim")
    yield Text("")
    for line in (share(audit), labels(audit), little(audit), *skipped(audit)):
        if line:
            yield Text(line)
    for error in audit.errors[:5]:
        who = f", {error['method']}" if error["method"] else ""
        yield Text(f"row {error['row']}{who}: {visible(str(error['reason']))}", "dim")


def _verdict(audit: Audit) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for place, head in enumerate(HEADS):
        table.add_column(head, justify="right" if place else "left", overflow="fold", no_wrap=bool(place))
    for row in verdict_rows(audit):
        used = row[0].split(" ", 1)[1] == audit.verdict.use
        table.add_row(*map(Text, row), style="bold green" if used else "")
    return table


def _split(block: SkillTable, wide: bool, width: int) -> list[list[str]]:
    """The metrics of each table: as many as the width holds, and at least one."""
    first = max(map(cell_len, ("method", *block.methods)))
    tables: list[list[str]] = [[]]
    taken = first
    for metric in block.metrics:
        size = GAP + _size(block, metric, wide)
        if tables[-1] and taken + size > width:
            tables.append([])
            taken = first
        tables[-1].append(metric)
        taken += size
    return tables


def _table(block: SkillTable, metrics: Sequence[str], wide: bool) -> Table:
    table = Table(
        box=None, pad_edge=False, padding=(0, GAP, 0, 0), collapse_padding=True, header_style="bold"
    )
    table.add_column("method", overflow="fold")
    for metric in metrics:
        table.add_column(metric.rjust(_size(block, metric, wide)), no_wrap=True)
    for method in block.methods:
        cells = []
        for metric in metrics:  # filled up here: rich would take the place of a missing mark for a margin
            shown = _cell(block, metric, method, wide).rjust(_size(block, metric, wide))
            cells.append(Text(shown))
        table.add_row(Text(method), *cells)
    return table


def _size(block: SkillTable, metric: str, wide: bool) -> int:
    return max(cell_len(metric), *(len(_cell(block, metric, method, wide)) for method in block.methods))


def _cell(block: SkillTable, metric: str, method: str, wide: bool) -> str:
    interval = block.interval(metric, method) if wide else ""
    return f"{block.shown(metric, method)}{interval} {block.mark(metric, method) or ' '}"


def show(audit: Audit, console: Console) -> None:
    for part in render(audit, console):
        console.print(part)


def as_text(audit: Audit, width: int = 110) -> str:
    return terminal_text(lambda console: show(audit, console), width)
