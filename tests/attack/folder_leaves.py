"""Every leaf of a run folder's JSON, one at a time, replaced by what a stranger might put there."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.io.reforged import agree

MARK = "zzmark"  # stands in every hostile text, so that it can be found again
HTML = (
    f"{MARK}</script></style></title></svg></textarea><meta http-equiv=refresh content='0;url=http://x.test'>"
    "<img src=x onerror=window.ran=1><svg onload=window.ran=2><script>window.ran=3</script>"
    "<iframe src=javascript:window.ran=4></iframe><base href=http://x.test><link rel=icon href=//x.test>"
    "<form action=http://x.test><a href='javascript:window.ran=5'>\" onmouseover=window.ran=6 x=\" ' `"
)
ATTRIBUTE = f'{MARK}" onfocus="window.ran=7" autofocus style="background:url(//x.test)'
WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 10**400, 2**63, "Infinity", "NaN", "", "x", [], [[]], {}, {"x": 1},
    [1, "a", None], "\x00", "\ud800",
)  # fmt: skip
Path_ = tuple[Any, ...]  # keys and indices from the root of the JSON


def leaves(data: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Where the leaves are; empty lists and objects are leaves, too."""
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from leaves(value, (*at, key))
    elif isinstance(data, list) and data:
        for index, value in enumerate(data):
            yield from leaves(value, (*at, index))
    else:
        yield at


def keys(data: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Where the keys of objects are."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*at, key)
            yield from keys(value, (*at, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from keys(value, (*at, index))


def value_at(data: Any, at: Path_) -> Any:
    for step in at:
        data = data[step]
    return data


def replaced(data: Any, at: Path_, value: Any) -> Any:
    made = copy.deepcopy(data)
    if not at:
        return value
    value_at(made, at[:-1])[at[-1]] = value
    return made


def renamed(data: Any, at: Path_, name: str) -> Any:
    """The key at the end of `at` gets another name, in the same place."""
    made = copy.deepcopy(data)
    holder = value_at(made, at[:-1])
    pairs = [(name if key == at[-1] else key, value) for key, value in holder.items()]
    holder.clear()
    holder.update(pairs)
    return made


def mutations(folder: Path, name: str, most: int | None, seed: int) -> Iterator[tuple[str, Any]]:
    """(what was changed, the whole JSON after it): `most` of them drawn at random, or all."""
    data = json.loads((folder / name).read_text())
    plans: list[tuple[str, Path_, Any]] = []
    for at in leaves(data):
        hostile = (HTML, ATTRIBUTE) if isinstance(value_at(data, at), str) else (HTML,)
        plans += [("leaf", at, value) for value in (*hostile, *WRONG)]
    plans += [("key", at, HTML) for at in keys(data)]
    if most is not None and len(plans) > most:
        # half of them are markup: wrong types are many, and refused early
        rng = random.Random(seed)
        markup = [plan for plan in plans if isinstance(plan[2], str) and MARK in plan[2]]
        other = [plan for plan in plans if not (isinstance(plan[2], str) and MARK in plan[2])]
        plans = rng.sample(markup, min(len(markup), most // 2)) + rng.sample(
            other, min(len(other), most // 2)
        )
    for kind, at, value in plans:
        change = renamed if kind == "key" else replaced
        yield f"{kind} {'.'.join(map(str, at))} = {value!r:.40}", change(data, at, value)


def forge(folder: Path, name: str, data: Any) -> None:
    """Put it there, with checksums that agree."""
    (folder / name).write_text(json.dumps(data))
    if name != "manifest.json":
        agree(folder)
