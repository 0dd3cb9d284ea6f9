"""Any result as a notebook cell: single values as a list, rows of like things as tables, notes as sentences.

What it shows is what `to_dict` tells, or the fields of a dataclass. Arrays are told by their shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from heedful.core.numbers import short
from heedful.reports.comparison_page import cell
from heedful.reports.html_parts import esc, part, table

MAX_ROWS = 30  # of a table; the object has them all
MAX_VALUES = 8  # values of a list that are written out


def fragment(thing: Any) -> str:
    """For a notebook cell."""
    return cell(body(thing, 3))


def body(thing: Any, size: int, title: str = "") -> str:
    """`size` is the heading level of the title, which is the name of the class unless one is given."""
    data, name = told(thing), esc(title or type(thing).__name__)
    notes = data.pop("notes", None) or ()
    words = str(thing).splitlines() if "__str__" in vars(type(thing)) else []
    items = "".join(f"<li>{esc(line)}</li>" for line in [*words, *map(str, notes)])
    text = f'<ul class="sentences">{items}</ul>' if items else ""
    head = f'<header><p class="kicker">heedful</p><h{size} class="title">{name}</h{size}>{text}</header>'
    shown = {key: value for key, value in data.items() if not _empty(value)}
    single = {key: line for key, value in shown.items() if (line := one_line(value)) is not None}
    rows = "".join(f"<dt>{esc(_spaced(key))}</dt><dd>{esc(line)}</dd>" for key, line in single.items())
    facts = f'<dl class="facts-list">{rows}</dl>' if rows else ""
    return "\n".join([head, facts, *_tables(shown, single, size + 1)])


def _empty(value: Any) -> bool:
    """Nothing to tell: no value, an empty list, or a function."""
    nothing = value is None or (isinstance(value, str | tuple | list | dict | frozenset) and not value)
    return nothing or (callable(value) and not is_dataclass(value))


def told(thing: Any) -> dict[str, Any]:
    """As names and values."""
    if callable(result := getattr(thing, "to_dict", None)):
        return dict(result())
    names = [field.name for field in fields(thing) if not field.name.startswith("_")]
    return {name: getattr(thing, name) for name in names}


def one_line(value: Any) -> str | None:
    """In one line, or None where that takes a table."""
    if value is None or isinstance(value, bool):
        return "–" if value is None else "yes" if value else "no"
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return short(value, 4)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{' × '.join(map(str, value.shape))} numbers" if value.shape else one_line(value.item())
    if isinstance(value, Mapping):
        return _pairs(value)
    if is_dataclass(value):
        return _pairs(told(value))
    if isinstance(value, Sequence):
        return _list(value)
    if isinstance(value, frozenset | set):
        return _list(sorted(value, key=str))
    if isinstance(value, type):
        return value.__name__
    return str(getattr(value, "name", None) or type(value).__name__)


def _pairs(value: Mapping[Any, Any]) -> str | None:
    """A number with its interval, or a few single values."""
    if {"value", "low", "high"} <= set(value):
        return f"{one_line(value['value'])} ({one_line(value['low'])} to {one_line(value['high'])})"
    lines = [(key, one_line(item)) for key, item in value.items() if item is not None]
    if len(lines) > MAX_VALUES or any(line is None or len(line) > 60 for _, line in lines):
        return None
    return ", ".join(f"{_spaced(key)} {line}" for key, line in lines)


def _list(value: Sequence[Any]) -> str | None:
    """Written out where few; a list of things with parts is a table."""
    if any(isinstance(item, Mapping) or is_dataclass(item) for item in value):
        return None
    lines = [line for item in value[:MAX_VALUES] if (line := one_line(item)) is not None]
    more = f" … ({len(value):,} in all)" if len(value) > MAX_VALUES else ""
    return ", ".join(lines) + more


def _tables(data: Mapping[str, Any], single: Mapping[str, str], size: int) -> Iterator[str]:
    for key, value in data.items():
        if key in single:
            continue
        if isinstance(value, Mapping) or is_dataclass(value):
            given = value if isinstance(value, Mapping) else told(value)
            rows = [{"": name, **_parts(item)} for name, item in given.items()]
        else:
            rows = [_parts(item) for item in value]
        if rows:
            yield part("rows", esc(_spaced(key)), _more(len(rows)), _table(rows[:MAX_ROWS], key), size)


def _parts(item: Any) -> dict[str, Any]:
    if isinstance(item, Mapping):
        return dict(item) if one_line(item) is None or "low" not in item else {"value": item}
    return told(item) if is_dataclass(item) else {"value": item}


def _table(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    heads = list(dict.fromkeys(key for row in rows for key in row))
    lines = []
    for row in rows:
        first, *others = [esc(one_line(row.get(head)) or _count(row.get(head))) for head in heads]
        cells = "".join(f"<td>{text}</td>" for text in others)
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return table([esc(_spaced(head)) for head in heads], lines, esc(_spaced(name)))


def _count(value: Any) -> str:
    return f"{len(value):,} entries" if hasattr(value, "__len__") else "…"


def _more(count: int) -> str:
    return f"The first {MAX_ROWS} of {count:,}." if count > MAX_ROWS else ""


def _spaced(name: object) -> str:
    return str(name).replace("_", " ").strip() or "name"
