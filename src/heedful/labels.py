"""Labels as people write them, read in one way by every command.

    label_index    "positive", " Positive", 1, 1.0, "1", "1.0", "LABEL_1" -> 1 of ("negative", "positive")
    label_indices  several labels of one text: a list, a JSON list, or names with commas between
    label_key      what two spellings of one label share
    label_classes  labels that are not the model's: which of them are the same
    is_missing     there is no label: None, NaN, an empty text

The first of these that fits decides:

    1  a name, letter by letter; white space around it does not matter
    2  a name in other case, where one name alone fits
    3  a position, counted from 0: 1, 1.0, "1", "1.0", "LABEL_1"; of two labels also true (1) and false (0)

Where a name is itself a number ("1" to "5" stars), a number is a name and never a position: otherwise 1 would
be the first label and 0 would be, too. The type does not matter: CSV has no numbers, JSON and Parquet have.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from heedful.errors import HeedfulError

WHOLE = re.compile(r"(\d+)(\.0*)?")
BY_POSITION = re.compile(r"(?:label[_ ]?)?(\d+)")
SHOWN = 12  # labels that an error names


def is_missing(value: Any) -> bool:
    """None, NaN, and a text with nothing in it."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, Real) and math.isnan(value))


def label_key(value: Any) -> str:
    """The same for all spellings of a label: 1, "1" and "1.0" are "1"; "Positive " is "positive"."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).casefold()
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else str(number)
    text = str(value).strip().casefold()
    whole = WHOLE.fullmatch(text)
    return str(int(whole[1])) if whole else text


def label_index(value: Any, names: Sequence[str]) -> int:
    """Which of `names` is meant, as a position counted from 0."""
    if not isinstance(value, str | Real | np.bool_):
        raise HeedfulError(f"{value!r:.60} is no label", fix=_known(names))
    bare = value.strip() if isinstance(value, str) else None
    exact = [i for i, name in enumerate(names) if name.strip() == bare]
    keys = [label_key(name) for name in names]
    key = label_key(value)
    fitting = exact or [i for i, own in enumerate(keys) if own == key]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = ", ".join(repr(names[i]) for i in fitting)
        raise HeedfulError(f"{value!r:.60} fits several labels: {several}", fix=_known(names))
    place = _place(key, keys)
    if place is None:
        close = difflib.get_close_matches(key, keys, n=1) if key else []
        hint = f"Did you mean {names[keys.index(close[0])]!r}? " if close else ""
        raise HeedfulError(f"unknown label {value!r:.60}", fix=f"{hint}{_known(names)}")
    if place >= len(names):
        raise HeedfulError(
            f"there is no label {value!r:.60}", f"the model has {len(names)}, counted from 0", _known(names)
        )
    return place


def label_indices(value: Any, names: Sequence[str]) -> tuple[int, ...]:
    """The labels of one text, in the order of `names`. An empty list: none of them holds."""
    return tuple(sorted({label_index(one, names) for one in _several(value, names)}))


def label_classes(values: Sequence[Any]) -> tuple[tuple[str, ...], list[int]]:
    """(names, one number per value): spellings of one label are one class, named as it is first written."""
    names: dict[str, str] = {}
    for value in values:
        names.setdefault(label_key(value), str(value).strip())
    order = sorted(names)
    numbers = {key: number for number, key in enumerate(order)}
    return tuple(names[key] for key in order), [numbers[label_key(value)] for value in values]


def _several(value: Any, names: Sequence[str]) -> list[Any]:
    if isinstance(value, str):
        if label_key(value) in map(label_key, names):  # a name may hold commas
            return [value]
        if value.strip().startswith("["):
            try:
                return list(json.loads(value))
            except ValueError:
                raise HeedfulError(f"{value!r:.60} is no list of labels", fix=_known(names)) from None
        return value.split(",")
    return list(value) if isinstance(value, Iterable) else [value]


def _place(key: str, keys: Sequence[str]) -> int | None:
    """The position that a key stands for, or None."""
    if len(keys) == 2 and key in ("true", "false"):
        return int(key == "true")
    found = BY_POSITION.fullmatch(key)
    if found is None or (key == found[1] and any(WHOLE.fullmatch(own) for own in keys)):
        return None
    return int(found[1])


def _known(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > SHOWN else ""
    return f"The model's labels are: {', '.join(names[:SHOWN])}{more}"
