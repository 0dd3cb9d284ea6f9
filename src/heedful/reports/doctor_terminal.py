"""The terminal page of `heedful doctor`: what the model is, then method by method yes, or no and why."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from heedful.reports.visible import visible

NAMES = (
    "name",
    "kind",
    "class",
    "labels",
    "parameters",
    "window",
    "dtype",
    "attention",
    "fingerprint",
    "capabilities",
)


def render(facts: dict[str, Any], methods: list[dict[str, Any]]) -> Group:
    top = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    top.add_column(style="dim", no_wrap=True)
    top.add_column(overflow="fold")
    for name in [*NAMES, *(key for key in facts if key not in NAMES)]:
        if facts.get(name) not in (None, "", []):
            top.add_row(name, Text(_value(facts[name])))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("method", no_wrap=True)
    table.add_column("works", no_wrap=True)
    table.add_column("why not", overflow="fold")
    for row in methods:
        works = Text("yes", "blue") if row["ok"] else Text("no", "dark_orange3")
        table.add_row(Text(row["method"]), works, Text(visible(row["why"])))
    return Group(top, Text(""), table)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        shown = ", ".join(str(item) for item in value[:12])
        return visible(shown + (f", … ({len(value)} in all)" if len(value) > 12 else ""))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else visible(str(value))
