"""An audit as a document: which method to use and why, a dot plot with the random line, the texts that the
model got wrong; all tables one click away.
"""

from __future__ import annotations

from collections.abc import Iterator

from heedful.audits.result import MAX_ERRORS, Audit
from heedful.core.charts import Forest, Line
from heedful.core.document import (
    Bullets,
    Cell,
    Code,
    Column,
    Document,
    Facts,
    Figure,
    Headline,
    Node,
    Paragraph,
    Row,
    Section,
    Span,
    Tab,
    Table,
    Tabs,
    nodes,
)
from heedful.core.numbers import percent
from heedful.metrics import sensitivity_warning
from heedful.metrics.smoothing import smoothing_sentences
from heedful.metrics.verdict_sentences import answer, grounds
from heedful.reports.audit_rows import labels, shown_rows
from heedful.reports.audit_tables import (
    apart_section,
    measured_section,
    number_sections,
    ordered,
    skill_sections,
    smoothing_section,
    spread_section,
    verdict_section,
)
from heedful.reports.html_parts import fact_text
from heedful.stats.intervals import share_of_count

MOST_LISTED, FIRST_LISTED = 40, 10  # values of a setting: of longer lists the first are shown


STATED = "These numbers are stated by the file. They were not computed again from its shards."
REASONS = "The report, and -v, list the reasons under Skipped."


def document(audit: Audit) -> Document:
    return Document(
        f"{_name(audit)}: which explanation to use",
        nodes(
            Headline(audit.verdict.headline),
            Bullets(tuple(_sentences(audit))),
            _source(audit),
            _chart(audit),
            measured_section(audit),
            smoothing_section(audit),
            shown_rows(audit),
            Tabs("More", tuple(_tabs(audit))),
        ),
    )


def _name(audit: Audit) -> str:
    return str(audit.made.get("name") or "a model")


# --- the answer ------------------------------------------------------------------------------------


def _source(audit: Audit) -> Paragraph:
    """Of which model and how many texts."""
    texts = audit.verdict.words.counted(audit.texts)
    return Paragraph((Span(_name(audit), "strong"), f", {texts}"), "soft")


def _sentences(audit: Audit) -> Iterator[str]:
    """Who else, and what was left out; the reasons are under By method."""
    _, *rest = answer(audit.verdict)
    yield from rest
    yield from filter(None, ("" if audit.verified else STATED, _little(audit), *_skipped(audit)))
    yield from smoothing_sentences(audit.smoothed)
    if not audit.mistakes:
        yield from filter(None, (labels(audit),))


def _little(audit: Audit) -> str:
    """A sentence where the model hardly reads the texts."""
    kind = str(dict(audit.made.get("model", {})).get("kind"))
    return sensitivity_warning.of_many(audit.table, kind, audit.verdict.words)


def _skipped(audit: Audit) -> Iterator[str]:
    if audit.copies:
        rows = "1 row has" if audit.copies == 1 else f"{audit.copies:,} rows have"
        yield f"{rows} the {audit.verdict.words.noun} of another: copies count once."
    if gone := audit.rows - audit.texts - audit.copies:
        yield f"{gone:,} of {audit.rows:,} rows were skipped. {REASONS}"
    for method, count in audit.failed.items():
        yield f"{method} has no scores on {audit.verdict.words.counted(count)}. {REASONS}"
    for metric in audit.silent:
        yield f"{metric} had no value on any {audit.verdict.words.noun}: nothing was measured by it."


def _chart(audit: Audit) -> Figure | None:
    """The number of the headline for every method, with exact intervals."""
    lines = [_line(one.method, one.won, one.texts) for one in ordered(audit) if one.texts]
    controls = [one for one in audit.verdict.controls if one.texts]
    lines += [_line(f"{one.control} (control)", one.won, one.texts) for one in controls] if lines else []
    if not lines or audit.verdict.flat:
        return None
    many = audit.verdict.words.many
    name = f"share of {many} on which it beat most random orders"
    chart = Forest(lines, name, f"Share of {many} won, by method", "high", 0.5, "random", ends=(0.0, 1.0))
    alone = "Lines: 95 % intervals, each for one method."
    alone += " A control does not look at the model." if controls else ""
    if audit.verdict.looked_always:
        alone = f"Lines: 95 % intervals as if the number of {many} had been fixed in advance."
    corrected = " The verdict is corrected for the number of methods." if grounds(audit.verdict) else ""
    return Figure(chart, f"{alone}{corrected}", "verdict")


def _line(name: str, won: int, texts: int) -> Line:
    share, (low, high) = share_of_count(won, texts)
    return Line(name, share, low, high)


# --- everything else -------------------------------------------------------------------------------


def _tabs(audit: Audit) -> Iterator[Tab]:
    """Without those that would be empty."""
    sure = grounds(audit.verdict)
    drawn = {
        "By method": nodes(Bullets(tuple(sure)) if sure else None, verdict_section(audit)),
        "Where they disagree": nodes(apart_section(audit), spread_section(audit)),
        "Skill": tuple(skill_sections(audit)),
        "Numbers": tuple(number_sections(audit)),
        "Skipped": nodes(_errors(audit)),
        "How it was made": _made(audit),
    }
    yield from (Tab(title, each) for title, each in drawn.items() if each)


def cost(audit: Audit) -> str:
    """Model inputs that were needed, and run."""
    requested, run, naive = (audit.cost[name] for name in ("asked", "run", "naive"))
    if not requested:
        return "No model input was needed."
    text = f"{requested:,} model inputs were needed and {run:,} run, {percent(run / requested)}"
    if not naive:
        return f"{text}."
    return f"{text}; without any sharing it would be {naive:,}, of which this is {percent(run / naive)}."


def _errors(audit: Audit) -> Section | None:
    if not audit.errors:
        return None
    rows = [
        Row(
            (
                Cell(str(error["row"])),
                Cell(error["method"] or "all"),
                Cell(str(error["reason"]), style="wrap"),
            )
        )
        for error in audit.errors
    ]
    lead = (
        "Row numbers start at 0; the header is not counted. "
        f"At most {MAX_ERRORS} are shown; errors.parquet of each shard has them all."
    )
    columns = (Column("row"), Column("method", words=True), Column("reason", words=True))
    return Section("Skipped, and why", (Table("Skipped rows", columns, tuple(rows), style="skipped"),), lead)


def _made(audit: Audit) -> tuple[Node, ...]:
    shared = f"Methods and metrics share model inputs, within each {audit.verdict.words.noun}."
    return nodes(
        Section("What it cost", (), f"{cost(audit)} {shared}"),
        Section(
            "How this was made",
            nodes(
                Facts(tuple(_facts(audit))), Code(audit.command, "Command line") if audit.command else None
            ),
        ),
    )


def _facts(audit: Audit) -> Iterator[tuple[str, str]]:
    yield "model", _name(audit)
    for name in ("model", "source", "settings", "versions"):
        for key, value in dict(audit.made.get(name, {})).items():
            if isinstance(value, list | tuple) and len(value) > MOST_LISTED:
                value = [*value[:FIRST_LISTED], f"… ({len(value)} in all; manifest.json has them)"]
            if shown := fact_text(value):
                yield f"source {key}" if name == "source" else key, shown
