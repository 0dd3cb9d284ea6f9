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

Where a name is a number or has one in it ("1" to "5", "1 star" to "5 stars"), a number is never a position:
otherwise 1 would be "2 stars". It is the one name with that number in it, or it is refused. LABEL_0, LABEL_1,
... in this order are no such names. The type does not matter: CSV has no numbers, JSON and Parquet have. An
array or a tensor of no dimension is what it holds.
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

from heedful.core.errors import HeedfulError

WHOLE = re.compile(r"(\d{1,99})(\.0*)?")  # a limit, as Python reads no number of 5,000 digits
BY_POSITION = re.compile(r"(?:label[_ ]?)?(\d{1,99})")
BARE = re.compile(r"-?\d+(\.\d+)?")
IN_A_NAME = re.compile(r"(?:(?<!\w)-)?\d+(?:[.,]\d+)*")  # "-1 (bad)", "1-2 stars", "1,000 or more"
THOUSANDS = re.compile(r",(?=\d{3}(?!\d))")
SHOWN_LABELS = 12  # labels that an error names


def is_missing(value: Any) -> bool:
    """None, NaN, and a text with nothing in it."""
    value = _plain(value)
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, Real) and bool(value != value))


def label_key(value: Any) -> str:
    """The same for all spellings of a label: 1, "1" and "1.0" are "1"; "Positive " is "positive"."""
    value = _plain(value)
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
    value = _plain(value)
    if not isinstance(value, str | Real | np.bool_):
        raise HeedfulError(f"{value!r:.60} is not a label", fix=_known(names))
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
    place = _numbered(key, keys) if _have_numbers(keys) and BARE.fullmatch(key) else _place(key, keys)
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


def _plain(value: Any) -> Any:
    """What an array or a tensor of no dimension holds."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _several(value: Any, names: Sequence[str]) -> list[Any]:
    value = _plain(value)
    if isinstance(value, str):
        if label_key(value) in map(label_key, names):  # a name may hold commas
            return [value]
        if value.strip().startswith("["):
            try:
                return list(json.loads(value))
            except (ValueError, RecursionError):
                raise HeedfulError(f"{value!r:.60} is not a list of labels", fix=_known(names)) from None
        return value.split(",")
    return list(value) if isinstance(value, Iterable) else [value]


def _place(key: str, keys: Sequence[str]) -> int | None:
    """The position that a key stands for, or None."""
    if len(keys) == 2 and key in ("true", "false"):
        return int(key == "true")
    result = BY_POSITION.fullmatch(key)
    return None if result is None else int(result[1])


def _have_numbers(keys: Sequence[str]) -> bool:
    """Whether a name has a number in it; label_0, label_1, ... count positions, as no name does."""
    return any(_numbers_in(own) for i, own in enumerate(keys) if own != f"label_{i}")


def _numbered(key: str, keys: Sequence[str]) -> int | None:
    """The one name with this number in it, or None."""
    fitting = [i for i, own in enumerate(keys) if float(key) in _numbers_in(own)]
    return fitting[0] if len(fitting) == 1 else None


def _numbers_in(name: str) -> list[float]:
    """Of "1,000 to 2.5" 1000 and 2.5; NaN where it is not clear, as in "1.2.3" and "3,5"."""
    texts = [THOUSANDS.sub("", one) for one in IN_A_NAME.findall(name)]
    return [float(one) if BARE.fullmatch(one) else math.nan for one in texts]


def _known(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > SHOWN_LABELS else ""
    return f"The model's labels are: {', '.join(names[:SHOWN_LABELS])}{more}"
