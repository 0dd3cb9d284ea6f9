"""An audit in the terminal: skills by method and metric, a table an operator, and the verdicts in words."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from heedful.auditing.result import Audit
from heedful.view.audit_summary import DULL, LEADS, MARKS, Block, blocks, labels, share, skipped
from heedful.view.columns import visible

STYLES = {LEADS: "bold green", DULL: "dim"}


def render(audit: Audit, console: Console) -> Iterator[RenderableType]:
    """Intervals stand beside the skills where every table has room for them."""
    wide = all(
        Measurement.get(console, console.options, _table(block, True)).maximum <= console.width
        for block in blocks(audit)
    )
    yield Text(audit.verdict.headline, "bold")
    for block in blocks(audit):
        yield Text("")
        beside = ", with 95 % intervals" if wide else ""
        yield Text(f"{block.title} (skill{beside}: 0 is a random order, 1 the best found)", "bold")
        yield _table(block, wide)
    yield Text("  ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items()), "dim")
    yield Text("")
    for verdict in audit.verdict:
        yield Text(str(verdict))
    yield Text("")
    for line in (share(audit), labels(audit), *skipped(audit)):
        if line:
            yield Text(line)
    for error in audit.errors[:5]:
        who = f", {error['method']}" if error["method"] else ""
        yield Text(f"row {error['row']}{who}: {visible(str(error['reason']))}", "dim")


def _table(block: Block, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("method", no_wrap=True)
    for metric in block.metrics:
        table.add_column(metric, justify="right")
    for method in block.methods:
        cells = []
        for metric in block.metrics:
            mark = block.mark(metric, method)
            shown = block.shown(metric, method) + (block.interval(metric, method) if wide else "")
            cells.append(Text(f"{shown} {mark or ' '}", STYLES.get(mark, ""), no_wrap=True))
        table.add_row(Text(method), *cells)
    return table


def show(audit: Audit, console: Console) -> None:
    for part in render(audit, console):
        console.print(part)


def as_text(audit: Audit, width: int = 110) -> str:
    out = io.StringIO()
    show(audit, Console(file=out, width=width, highlight=False, markup=False, color_system=None))
    return out.getvalue()
