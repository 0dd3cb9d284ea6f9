"""The command that runs now, as one would type it again: the model and every option that was given.

Where the result goes (--html, --out, --json, ...) is left to the reader: it does not change it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer

from heedful.core.command_line import command_line

OUTPUTS = frozenset(["html", "save", "out", "as_json", "as_csv", "quiet", "verbose", "dry_run"])
FROM_INPUT = (("--chat", "-"), ("--pair", "-"))  # standard input, which nobody can type again


def typed(**read: Any) -> str | None:
    """One line, or None where it cannot be typed. `read`: texts by name, which may have come from standard
    input."""
    options: list[tuple[str, Any]] = []
    context, argument = _context(), None
    for parameter in context.command.params:
        name = parameter.name
        given = context.get_parameter_source(name).name == "COMMANDLINE"
        if name in OUTPUTS or not (given or name in read or name == "model"):
            continue
        value = read.get(name, context.params.get(name))
        if parameter.param_type_name == "argument":
            argument = str(value)
        elif value is False:
            options.append((parameter.secondary_opts[0], True))
        else:
            options.append((max(parameter.opts, key=len), value))
    if any(option in FROM_INPUT for option in options):
        return None
    return command_line(str(context.command.name), options, argument)


def _context() -> Any:
    """Of click, or of the copy of it that some versions of typer bring along."""
    package = typer.Context.__mro__[1].__module__.rpartition(".")[0]
    return import_module(f"{package}.globals").get_current_context()
