"""One rule for JSON: what comes back is what went in, and what does not fit is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.io.csv_text import csv_text
from heedful.io.json_codec import from_jsonable, json_bytes, json_text, parse, to_jsonable


@dataclass(frozen=True)
class Inner:
    name: str
    pair: tuple[float, float] = (math.nan, math.inf)


@dataclass(frozen=True, eq=False)
class Outer:
    count: int
    scores: Floats
    inner: tuple[Inner, ...]
    by: Mapping[int, list[float]] = field(default_factory=dict)
    cell: str | int | float | None = None
    maybe: Inner | None = None
    flag: bool = False
    free: Any = None


FULL = Outer(
    3,
    np.array([0.1, math.nan, -math.inf]),
    (Inner("a"), Inner("b", (1e-320, -0.0))),
    {7: [math.inf, 0.1 + 0.2]},
    cell=2.0,
    maybe=Inner("c"),
    flag=True,
    free={"x": [1]},
)


def test_numbers_that_json_has_not() -> None:
    values = [math.nan, math.inf, -math.inf, np.float32(0.5), np.int64(3), np.bool_(True), {2.0}, (1,)]
    assert to_jsonable(values) == [None, "Infinity", "-Infinity", 0.5, 3, True, [2.0], [1]]
    assert to_jsonable(np.array([[1.0, math.nan]])) == [[1.0, None]]
    assert to_jsonable({1: Path("a")}) == {"1": "a"}
    assert json_text([math.nan, "ä"]) == '[null, "ä"]'
    assert json_bytes(["ä"]) == b'[\n "\\u00e4"\n]\n'


def test_what_is_written_comes_back() -> None:
    again = from_jsonable(Outer, json.loads(json_text(FULL)))
    assert again.scores.dtype == np.float64
    assert np.array_equal(again.scores, FULL.scores, equal_nan=True)
    assert repr(again.inner) == repr(FULL.inner)
    assert (again.count, again.by, again.maybe and again.maybe.name) == (3, {7: [math.inf, 0.1 + 0.2]}, "c")
    assert isinstance(again.cell, float)
    assert (again.flag, again.free) == (True, {"x": [1]})


def test_a_view_is_left_out_and_a_default_taken() -> None:
    inner = from_jsonable(Inner, {"name": "a", "shown": "A"})
    assert repr(inner) == repr(Inner("a"))


@pytest.mark.parametrize(
    "spoilt",
    [
        {"count": "3"},
        {"count": True},
        {"count": 3.5},
        {"scores": "0.1"},
        {"scores": ["0.1"]},
        {"scores": [True]},
        {"inner": [{"name": 1}]},
        {"inner": [{}]},
        {"inner": [{"name": "a", "pair": [1.0]}]},
        {"inner": ["a"]},
        {"by": [1]},
        {"by": {"x": [1.0]}},
        {"maybe": 3},
        {"flag": 1},
        {"cell": [1]},
    ],
)
def test_what_does_not_fit_is_refused(spoilt: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_jsonable(Outer, to_jsonable(FULL) | spoilt)
    with pytest.raises(ValueError, match="there is no 'count'"):
        from_jsonable(Outer, {})


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in (b"{", b"[1]", b"[" * 100_000, b"\xff"):
        with pytest.raises(HeedfulError, match="is damaged"):
            parse(content, path)


def test_csv_has_the_same_rule() -> None:
    assert csv_text(["a", "b"], [[math.nan, None], [0.1 + 0.2, "x,y"]]) == (
        'a,b\n,\n0.30000000000000004,"x,y"\n'
    )
