"""Every leaf of a JSON document, replaced by what a stranger might write there."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    float("nan"),
    float("inf"),
    "",
    "x",
    "../../x",
    "/etc/passwd",
    "<script>",
    "\ud800",
    [],
    {},
    [[]],
    {"a": 1},
)


def places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand: leaves, and what holds them."""
    yield at
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*at, key))


def changed(data: Any, at: tuple[Any, ...], value: Any, gone: bool = False) -> Any:
    """A copy with another value in one place, or without it."""
    if not at:
        return value
    result = copy.deepcopy(data)
    inner = result
    for key in at[:-1]:
        inner = inner[key]
    if gone:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return result


def mutations(data: Any, count: int | None, seed: int = 11) -> Iterator[tuple[str, Any]]:
    """(what was done, the document): all of them, or `count` drawn by the seed."""
    cases: list[tuple[tuple[Any, ...], Any, bool]] = []
    for at in places(data):
        cases += [(at, value, False) for value in VALUES] + ([(at, None, True)] if at else [])
    drawn = cases if count is None else random.Random(seed).sample(cases, min(count, len(cases)))
    for at, value, gone in drawn:
        yield f"{at} {'removed' if gone else f'= {value!r}'}", changed(data, at, value, gone)
