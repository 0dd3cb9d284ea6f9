"""A lab as a document: whether its claims hold, then everything it says in order, then how it was made."""

from __future__ import annotations

from collections.abc import Iterator

from heedful.core.document import (
    Cell,
    Code,
    Column,
    Document,
    Facts,
    Figure,
    Fold,
    Headline,
    Node,
    Paragraph,
    Row,
    Section,
    Span,
    Statement,
    Table,
    nodes,
)
from heedful.core.lab_report import Claim, LabReport, NumberTable, Value
from heedful.core.numbers import MISSING, duration

LONG = 24  # rows: a longer table is folded


def document(report: LabReport) -> Document:
    source = ("Lab ", Span(report.lab, "strong"), f", after {report.cite}")
    claims = [Statement(claim.sentence, claim.holds, number(claim)) for claim in report.claims]
    return Document(
        f"{report.answer} {report.title}",
        nodes(
            Headline(report.answer, source=source),
            Paragraph((Span(report.title, "strong"),)),
            claims,
            [*_parts(report)],
            _made(report),
        ),
    )


def shown(value: Value) -> str:
    """A value as it is read: three digits of a fraction, a true minus, – for what is not a number."""
    if value is None:
        return MISSING
    if isinstance(value, float):
        value = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
        return value.replace("-", "−")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def number(claim: Claim) -> str:
    """0.92 (0.9 to 0.94), or 0.693 exactly; then its control."""
    words = f"{shown(claim.value)} exactly"
    if claim.interval is not None:
        low, high = map(shown, claim.interval)
        words = f"{shown(claim.value)} ({low} to {high})"
    if claim.against is not None:
        words += f"; {claim.control or 'control'}: {shown(claim.against)}"
    return words


def _parts(report: LabReport) -> Iterator[Node]:
    """Claims are at the top already."""
    for part in report.parts:
        if isinstance(part, Paragraph):
            yield Paragraph(part.text, "prose")
        elif isinstance(part, Figure):
            yield part
        elif isinstance(part, NumberTable):
            table = _table(part)
            if len(part.rows) > LONG:
                yield Fold(f"{part.title} ({len(part.rows)} rows)", (table,))
            else:
                yield Section(part.title, (table,))


def _table(given: NumberTable) -> Table:
    """A column with words is text."""
    columns = [
        Column(name, words=not place or any(isinstance(row[place], str) for row in given.rows))
        for place, name in enumerate(given.columns)
    ]
    rows = [Row(tuple(_cell(value, n) for n, value in enumerate(row))) for row in given.rows]
    return Table(given.title, tuple(columns), tuple(rows))


def _cell(value: Value, place: int) -> Cell:
    return Cell(shown(value), style="wrap" if place and isinstance(value, str) else "")


def _made(report: LabReport) -> Section:
    settings = report.settings
    flags = (" --fast" if settings.get("fast") else "") + f" --seed {settings.get('seed', 0)}"
    facts = {"after": report.cite}
    if "seconds" in settings:
        facts["time"] = duration(settings["seconds"])
    versions = settings.get("versions") or {}
    facts["versions"] = ", ".join(f"{name} {value}" for name, value in versions.items())
    pairs = tuple((name, value) for name, value in facts.items() if value)
    return Section("How this was made", (Facts(pairs), Code(f"heedful lab run {report.lab}{flags}")))
