"""A trial as a document: the answer, one line per test, then the pictures of each test, then numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from heedful.core.charts import Forest, Line
from heedful.core.command_line import stored_line
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
    Node,
    Only,
    Paragraph,
    Row,
    Section,
    Span,
    Tab,
    Table,
    Tabs,
    nodes,
)
from heedful.core.numbers import MISSING, short, span
from heedful.core.phrases import listed
from heedful.reports.html_parts import fact_text
from heedful.trials.result import Trial, by_unit
from heedful.trials.rows import TrialRow, TrialStatement, by_test

QUESTION = "Is attention explanation?"  # the headline where nothing concludes
STOPPED = "This run was interrupted; the command below runs to the end."


def document(trial: Trial) -> Document:
    texts = "1 text" if trial.texts == 1 else f"{trial.texts:,} texts"
    answer = trial.answer or QUESTION
    return Document(
        f"{_name(trial)}: {answer}",
        nodes(
            Headline(answer, source=(Span(_name(trial), "strong"), f", {texts}")),
            Paragraph(trial.conclusion, "answer") if trial.conclusion else None,
            _lines(trial),
            _tests(trial),
            _skipped(trial),
            Bullets(trial.notes) if trial.notes else None,
            Fold("The numbers, with 95 % intervals", tuple(_numbers(trial))),
            Fold("How this was made", _made(trial)),
        ),
    )


def _name(trial: Trial) -> str:
    return str(trial.model.get("name") or "a model")


# --- tests -----------------------------------------------------------------------------------------


def _lines(trial: Trial) -> Section | None:
    """One line per test: the question, and what happened."""
    lines = [(Span(words.title, "strong"), f" {words.showed}") for words in trial.statements]
    return Section("What each test showed", (Bullets(tuple(lines)),), name="showed") if lines else None


def _tests(trial: Trial) -> Tabs:
    """The pictures of each test, and what it did not show."""
    statements = {statement.test: statement for statement in trial.statements}
    tabs = []
    for test, rows in by_test(trial.findings).items():
        words = statements.get(test)
        inside = [_figure(test, unit, same, words) for unit, same in by_unit(rows).items()]
        chart = trial.charts.get(test)
        scatter = Only("html", (Figure(chart, chart.title, f"{test}-texts"),)) if chart else None
        more = Paragraph(words.more) if words and words.more else None
        below = Paragraph((Span("Not shown: ", "strong"), words.not_shown), "soft") if words else None
        tabs.append(Tab(test, nodes(inside, scatter, more, below)))
    return Tabs("The tests", tuple(tabs))


def _figure(test: str, unit: str, rows: Sequence[TrialRow], words: TrialStatement | None) -> Figure:
    lines = [Line(row.what, row.value, *row.interval, control=row.control) for row in rows]
    names = dict.fromkeys(row.control_name for row in rows if row.control_name and math.isfinite(row.control))
    caption = f"◇ control: {'; '.join(names)}." if names else ""
    direction = words.axes.get(unit, "") if words else ""
    title = f"{unit}, with 95 % interval{f' ({direction})' if direction else ''}"
    return Figure(Forest(lines, title, f"{test}: {unit}"), caption, test)


def _skipped(trial: Trial) -> Section | None:
    """Tests that did not run, by reason."""
    by_reason: dict[str, list[str]] = {}
    for test, why in trial.skipped.items():
        by_reason.setdefault(why, []).append(test)
    if not by_reason:
        return None
    items = [f"{listed(tests)}. {why}" for why, tests in by_reason.items()]
    return Section("Skipped, and why", (Bullets(tuple(items)),), name="skipped")


# --- numbers and provenance ------------------------------------------------------------------------


def _numbers(trial: Trial) -> Iterator[Section]:
    """One table per test and unit."""
    for test, rows in by_test(trial.findings).items():
        for unit, same in by_unit(rows).items():
            extras = [*dict.fromkeys(name for row in same for name in row.extra)]
            heads = ("", "value", "control", "n", *extras)
            columns = tuple(Column(head, words=not place) for place, head in enumerate(heads))
            table = Table(f"{test}: {unit}", columns, tuple(_row(row, extras) for row in same))
            names = [*dict.fromkeys(row.control_name for row in same if row.control_name)]
            lead = f"Control: {'; '.join(names)}." if names else ""
            yield Section(f"{test}: {unit}", (table,), lead)


def _row(row: TrialRow, extras: Sequence[str]) -> Row:
    ends = span(*row.interval)
    value = Cell(short(row.value), "" if ends == MISSING else f"({ends})")
    more = (Cell(short(row.extra.get(name, math.nan))) for name in extras)
    return Row((Cell(row.what), value, Cell(short(row.control)), Cell(f"{row.n:,}"), *more))


def _made(trial: Trial) -> tuple[Node, ...]:
    command = stored_line(trial.settings.get("command"))
    stopped = Paragraph(STOPPED, "soft") if trial.interrupted and command else None
    return nodes(Facts(tuple(_facts(trial))), stopped, Code(command, "Command line") if command else None)


def _facts(trial: Trial) -> Iterator[tuple[str, str]]:
    for given in (trial.model, trial.settings):
        for name, value in given.items():
            if name != "command" and (shown := fact_text(value)):
                yield name, shown
