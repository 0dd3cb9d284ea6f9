"""What every command checks of its options before it starts: numbers, and places that it will write to.

Options say their smallest value. Without a largest one, `--beams 1000000000` asks for all memory there is,
and NaN passes every comparison. `check_options` adds these checks to all options of all commands, so that a
new option has them, too. A place that cannot be written to would be told after the work: an option for one is
declared with `written_folder` or `written_file` (heedful.cli.options).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from heedful.core.errors import HeedfulError
from heedful.core.whole_numbers import MAX_COUNT, MAX_SEED

MAX_NUMBER = 10**12  # of what a file or a run may have, and of numbers with a fraction
MAX_TABLE = 10**8  # of rows or columns of one table in memory
MAX_AT_ONCE = 1024  # of what works or grows at the same time
LIMITS = {  # of whole numbers; all others, also of new options, have MAX_COUNT
    "seed": MAX_SEED,
    **dict.fromkeys(("budget", "keep", "limit", "rows", "steps", "train_limit"), MAX_NUMBER),
    **dict.fromkeys(("width", "shard_rows"), MAX_TABLE),
    **dict.fromkeys(("beams", "workers", "threads"), MAX_AT_ONCE),
}


def check_options(command: Any) -> Any:
    """The command, and those below it, with every option checked."""
    for parameter in (parameter for each in _commands(command) for parameter in each.params):
        parameter.callback = _checked(parameter.callback)
    return command


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for below in getattr(command, "commands", {}).values():
        yield from _commands(below)


def _checked(before: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(context: Any, parameter: Any, value: Any) -> Any:
        name = max(parameter.opts, key=len)
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, int | float) and not isinstance(one, bool):
                _check_number(name, one, limit_of(parameter.name, whole=isinstance(one, int)))
        return before(context, parameter, value) if before else value

    return check


def limit_of(option: str, *, whole: bool) -> int:
    """The largest value of an option, by its name in Python."""
    return LIMITS.get(option, MAX_COUNT) if whole else MAX_NUMBER


def _check_number(name: str, number: float, most: int) -> None:
    least = 0 if name == "--seed" else -most
    if not math.isfinite(number):
        raise HeedfulError(f"{name} cannot be {number}", "it must be a finite number")
    if not least <= number <= most:
        raise HeedfulError(f"{name} cannot be {number}", f"the range is {least:,} to {most:,}")


def folder_place(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    from heedful.io.files import check_folder

    return _checked_place(context, parameter, value, check_folder)


def file_place(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    from heedful.io.files import check_file

    return _checked_place(context, parameter, value, check_file)


def _checked_place(context: Any, parameter: Any, value: Any, check: Callable[[Path], None]) -> Any:
    """A place that nobody named is not always written to: whoever writes there checks it."""
    source = context.get_parameter_source(parameter.name)
    if value is not None and (source is None or source.name != "DEFAULT"):
        check(Path(value))
    return value
