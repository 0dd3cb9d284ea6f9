"""An audit as a document: which method to use and why, a dot plot with the random line, the texts that the
model got wrong; all tables one click away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from heedful.audits.mistakes import MAX_WORDS, Mistake
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
    Fold,
    Headline,
    Legend,
    Node,
    Paragraph,
    Piece,
    Row,
    Section,
    Span,
    Tab,
    Table,
    Tabs,
    UnitMap,
    nodes,
)
from heedful.core.numbers import percent, signed
from heedful.io.labels import SHOWN_LABELS
from heedful.metrics import sensitivity_warning
from heedful.metrics.verdict import MethodVerdict
from heedful.metrics.verdict_sentences import answer, grounds
from heedful.reports.audit_tables import (
    apart_section,
    number_sections,
    ordered,
    skill_sections,
    spread_section,
    verdict_section,
)
from heedful.reports.html_parts import fact_text
from heedful.stats.intervals import share_of_count

OPEN_MISTAKES = 2  # the others are folded
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
            _mistakes(audit),
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


def labels(audit: Audit) -> str:
    """How often the prediction is the label."""
    results = []
    if audit.labelled:
        results.append(
            f"The prediction is the label on {audit.right:,} of {audit.labelled:,} labelled "
            f"{audit.verdict.words.many}."
        )
    if audit.unknown:
        what = "1 label names" if audit.unknown == 1 else f"{audit.unknown:,} labels name"
        results += [f"{what} no label of the model.", *_unknown_labels(audit)]
    return " ".join(results)


def _unknown_labels(audit: Audit) -> list[str]:
    """Which labels these are, of the first rows, and what they might have been."""
    names = list(dict(audit.made.get("model", {})).get("labels") or ())
    if len(names) < 2:  # a value, not a choice
        return []
    known = ", ".join(f"{name} ({place})" for place, name in enumerate(names[:SHOWN_LABELS]))
    known += ", …" if len(names) > SHOWN_LABELS else ""
    return [
        f'Row {each["row"]}: the label "{each["label"][:60]}" is none of {known}; '
        f"its {audit.verdict.words.noun} counts as unlabelled."
        for each in audit.unknown_labels
    ]


def _chart(audit: Audit) -> Figure | None:
    """The number of the headline for every method, with exact intervals."""
    lines = [_line(one) for one in ordered(audit) if one.texts]
    if not lines or audit.verdict.flat:
        return None
    many = audit.verdict.words.many
    name = f"share of {many} on which it beat most random orders"
    chart = Forest(lines, name, f"Share of {many} won, by method", "high", 0.5, "random", ends=(0.0, 1.0))
    alone = "Lines: 95 % intervals, each for one method."
    if audit.verdict.looked_always:
        alone = f"Lines: 95 % intervals as if the number of {many} had been fixed in advance."
    corrected = " The verdict is corrected for the number of methods." if grounds(audit.verdict) else ""
    return Figure(chart, f"{alone}{corrected}", "verdict")


def _line(one: MethodVerdict) -> Line:
    share, (low, high) = share_of_count(one.won, one.texts)
    return Line(one.method, share, low, high)


# --- the texts the model got wrong -----------------------------------------------------------------


def _mistakes(audit: Audit) -> Section | None:
    if not audit.mistakes:
        return None
    drawn = [_mistake(one) for one in audit.mistakes]
    first, others = drawn[:OPEN_MISTAKES], drawn[OPEN_MISTAKES:]
    more = Fold(f"{len(others)} more", nodes(*others)) if others else None
    shaded = [one for one in audit.mistakes if one.method]
    words, signs = audit.verdict.words, {one.signed for one in shaded}
    legend = Legend(True in signs, False in signs, parts=words.parts) if shaded else None
    by = f" The {words.parts} are shaded by {audit.verdict.use}." if shaded else ""
    count = audit.labelled - audit.right
    some = f" The first {len(drawn)} of {count:,} mistakes:" if count > len(drawn) else ""
    lead = f"{labels(audit)}{by}{some}"
    return Section(
        f"{words.many.capitalize()} that the model got wrong", nodes(*first, legend, more), lead, "mistakes"
    )


def _mistake(one: Mistake) -> list[Node]:
    said = (
        "Row ",
        f"{one.row}{f' ({one.file})' if one.file else ''}: predicted ",
        Span(one.prediction, "strong"),
        ", but the label is ",
        Span(one.label, "strong"),
    )
    most = max((abs(s) for s in one.scores if math.isfinite(s)), default=0.0) or 1.0
    pieces: list[Piece] = []
    for place, (word, score) in enumerate(zip(one.words, one.scores, strict=True)):
        text = word.rstrip()
        unit = MAX_WORDS * one.row + place  # words of other texts have other numbers
        pieces.append(Piece(text, score / most if math.isfinite(score) else 0.0, signed(score), unit))
        pieces += [Piece(word[len(text) :])] if text != word else []
    before, after = (Piece("… "),) * one.cut[0], (Piece("…"),) * one.cut[1]
    shown = [UnitMap((*before, *pieces, *after), one.signed, quoted=not one.file)] if pieces else []
    return [Paragraph(said), *shown]


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
