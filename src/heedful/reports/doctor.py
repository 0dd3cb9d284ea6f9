"""What a model can do, as a document: how many methods work, what the model is, why others do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heedful.core.document import Cell, Column, Document, Facts, Headline, Row, Table

NAMES = (
    "name",
    "kind",
    "reads",
    "class",
    "labels",
    "parameters",
    "window",
    "dtype",
    "attention",
    "fingerprint",
    "capabilities",
)
MANY = 12  # values of a list that are written out


def document(facts: Mapping[str, Any], methods: Sequence[Mapping[str, Any]]) -> Document:
    works = sum(bool(row["ok"]) for row in methods)
    known = [*NAMES, *(key for key in facts if key not in NAMES)]
    pairs = tuple((name, _value(facts[name])) for name in known if facts.get(name) not in (None, "", []))
    rows = tuple(
        Row((Cell(row["method"]), Cell("yes" if row["ok"] else "no"), Cell(row["why"], style="wrap")))
        for row in methods
    )
    columns = (Column("method"), Column("works", words=True), Column("why not", words=True))
    headline = Headline(f"{works} of {len(methods)} methods work", source=str(facts.get("name", "")))
    return Document(
        f"{facts.get('name')}: what works", (headline, Facts(pairs), Table("Methods", columns, rows))
    )


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        more = f", … ({len(value)} in all)" if len(value) > MANY else ""
        return ", ".join(str(item) for item in value[:MANY]) + more
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
