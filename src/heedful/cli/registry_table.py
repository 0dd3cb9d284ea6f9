"""A list of names with what they are: how `heedful methods` and `heedful metrics` print a registry.

Two columns, whose cells wrap: nothing is cut however narrow the terminal is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class NamedEntry:
    """One name, one sentence that says what it is, and short facts about it."""

    name: str
    summary: str
    facts: tuple[str, ...]


def print_entries(entries: Iterable[NamedEntry], notes: Iterable[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from heedful.cli.console import console

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for entry in entries:
        facts = Text(" · ".join(fact for fact in entry.facts if fact), "dim")
        table.add_row(Text(entry.name, "bold"), Text(entry.summary))
        table.add_row("", facts)
    out = console()
    out.print(table)
    out.print()
    for note in notes:
        out.print(Text(note, "dim"))


def print_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """One entry in full; a fact without words is left out."""
    from rich.table import Table
    from rich.text import Text

    from heedful.cli.console import console

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in facts:
        if words:
            table.add_row(Text(name, "dim"), Text(words))
    out = console()
    out.print(Text(title, "bold"))
    out.print(table)
