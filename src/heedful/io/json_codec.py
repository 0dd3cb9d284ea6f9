"""Results as JSON and back: the one rule, for files, pages, the server and `--json`.

    NaN                      null; null is NaN again where a float must stand
    infinities               "Infinity" and "-Infinity"
    tuples, sets, arrays     lists (sets sorted); numbers of numpy are plain numbers
    dataclasses              objects, one key per field
    keys                     text
    anything else            its text

Floats are written as Python prints them, so they come back bit for bit. Reading goes by the type hints of a
dataclass: a key it does not know is left out (a view for other readers), a missing one takes its default, and
what does not fit raises ValueError, because a file may come from anybody.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from heedful.core.errors import HeedfulError

T = TypeVar("T")
MAX_DEPTH = 64  # objects and lists inside each other
LARGE_NUMBER = re.compile(r"[eE]\+?\d{3}|\d{300}", re.ASCII)  # may be a number that no float holds
MAX_NUMBER = 1e300  # larger ones become infinite where they are shown, as per cent or as a length
WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a text",
    type(None): "null",
    tuple: "a list",
    list: "a list",
    Sequence: "a list",
}
INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}


def to_jsonable(value: Any) -> Any:
    """Any value as JSON can hold it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((to_jsonable(item) for item in value), key=str)
    if isinstance(value, np.ndarray | np.generic):
        return to_jsonable(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_jsonable(getattr(value, each.name)) for each in fields(value)}
    return str(value)


def from_jsonable(kind: type[T], data: Any) -> T:
    """A dataclass from what `to_jsonable` made of it."""
    value: T = _read(kind, data)
    return value


def json_text(
    data: Any, *, indent: int | None = None, ascii_only: bool = False, compact: bool = False
) -> str:
    marks = (",", ":") if compact else None
    data = to_jsonable(data)
    return json.dumps(data, ensure_ascii=ascii_only, allow_nan=False, indent=indent, separators=marks)


def json_bytes(data: Any) -> bytes:
    """A file: ASCII, one value per line."""
    return (json_text(data, indent=1, ascii_only=True) + "\n").encode("ascii")


def json_object(content: bytes | str) -> dict[str, Any]:
    """Raises ValueError, also for numbers that are not finite and for what is nested too deeply."""
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    parse_float = _finite if LARGE_NUMBER.search(text) else None  # only then: it is slow
    try:
        data = json.loads(text, parse_constant=_finite, parse_float=parse_float)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("it should hold a JSON object")
    _check_depth(data)
    return data


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def _check_depth(data: Any) -> None:
    level, depth = [data], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        inside = (node.values() if isinstance(node, dict) else node for node in level)
        level = [child for children in inside for child in children if isinstance(child, dict | list)]


def parse(content: bytes, path: Path) -> dict[str, Any]:
    """The object of a file of a run."""
    try:
        return json_object(content)
    except ValueError as error:
        why = f"not JSON: {error}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise HeedfulError(f"{path} is damaged", why, "Make the run again") from error


# --- by type hints ---------------------------------------------------------------------------------


def _read(hint: Any, data: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return data
    if origin in (Union, types.UnionType):
        return _one_of(args, data)
    if hint is float:
        return _float(data)
    if is_dataclass(hint):
        return _object(hint, data)
    if origin is np.ndarray and isinstance(data, list):
        return np.array([_float(item) for item in data], dtype=np.float64)
    if origin in (tuple, list, Sequence) and isinstance(data, list):
        return _items(list if origin is Sequence else origin, args, data)
    if origin is not None and isinstance(data, dict) and issubclass(origin, Mapping):
        key, item = args
        return {key(name): _read(item, value) for name, value in data.items()}
    plain = isinstance(hint, type) and isinstance(data, hint)
    if not plain or (isinstance(data, bool) and hint is not bool):
        raise ValueError(f"{data!r:.60} instead of {_word(hint)}")
    return data


def _float(data: Any) -> float:
    if data is None:
        return math.nan
    if isinstance(data, str) and data in INFINITE:
        return INFINITE[data]
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise ValueError(f"{data!r:.60} instead of a number")
    if abs(data) > MAX_NUMBER:
        raise ValueError(f"{data!r:.60} instead of a number of usual size")
    return float(data)


def _one_of(hints: tuple[Any, ...], data: Any) -> Any:
    """The first that fits; null is None where that is one of them."""
    if data is None and type(None) in hints:
        return None
    for hint in hints:
        try:
            return _read(hint, data)
        except ValueError:
            continue
    raise ValueError(f"{data!r:.60} instead of {' or '.join(dict.fromkeys(map(_word, hints)))}")


def _word(hint: Any) -> str:
    """What a reader calls it; classes of the code are objects for them."""
    return next((word for kind, word in WORDS.items() if (get_origin(hint) or hint) is kind), "an object")


def _items(kind: Any, hints: tuple[Any, ...], data: list[Any]) -> Any:
    if kind is tuple and hints[-1] is not Ellipsis:
        if len(hints) != len(data):
            raise ValueError(f"{len(data)} values instead of {len(hints)}")
        return tuple(_read(hint, item) for hint, item in zip(hints, data, strict=True))
    return kind(_read(hints[0], item) for item in data)


def _object(kind: Any, data: Any) -> Any:
    if isinstance(data, kind):
        return data  # read before, for several that share it
    if not isinstance(data, dict):
        raise ValueError(f"{data!r:.60} instead of an object")
    hints, values = _hints(kind), {}
    for each in fields(kind):
        if each.name in data:
            values[each.name] = _read(hints[each.name], data[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"there is no {each.name!r}")
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
