"""One HTML file for a trial, in the look of the report: no script, nothing fetched, every string escaped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from heedful.core.numbers import short, span
from heedful.reports.charts.forest_scatter import Line, Series, forest, scatter
from heedful.reports.comparison_page import cell, document
from heedful.reports.comparison_sections import again
from heedful.reports.html_parts import esc, fact_text, part, table
from heedful.trials.result import Trial, by_unit
from heedful.trials.rows import Statement, TrialChart, TrialRow, by_test


def page(trial: Trial) -> str:
    """A self-contained HTML5 document."""
    return document(f"{_name(trial)}: is attention explanation?", body(trial, 1))


def fragment(trial: Trial) -> str:
    """The same body for a notebook cell."""
    return cell(body(trial, 3))


def body(trial: Trial, size: int) -> str:
    """Every section; `size` is the heading level of the headline."""
    drawn = [_answer(trial, size)]
    statements = {statement.test: statement for statement in trial.statements}
    for test, rows in by_test(trial.findings).items():
        drawn.append(_test(rows, statements.get(test), trial.charts.get(test), size + 1))
    drawn += [_numbers(trial, size + 1), _skipped(trial, size + 1), _made(trial, size + 1)]
    return "\n".join(text for text in drawn if text)


def _name(trial: Trial) -> str:
    return str(trial.model.get("name") or "a model")


def _answer(trial: Trial, size: int) -> str:
    kicker = f"Attention of <b>{esc(_name(trial))}</b> on trial, {trial.texts:,} texts"
    lines = [f'<p class="kicker">{kicker}</p><h{size} class="verdict">Is attention explanation?</h{size}>']
    sentences = "".join(f"<li>{esc(line)}</li>" for line in (trial.conclusion, *trial.notes))
    lines.append(f'<ul class="sentences">{sentences}</ul>')
    return f"<header>{''.join(lines)}</header>"


def _test(rows: Sequence[TrialRow], words: Statement | None, chart: TrialChart | None, size: int) -> str:
    lead = ""
    if words is not None:
        lead = f"{esc(words.showed)} <b>Not shown:</b> {esc(words.not_shown)}"
    test = rows[0].test
    drawn = [
        forest([_line(row) for row in same], f"{unit}, with 95 % interval", f"{test}: {unit}")
        + _caption(same)
        for unit, same in by_unit(rows).items()
    ]
    if chart is not None:
        series = [Series(one.name, one.points, one.joined) for one in chart.series]
        drawn.append(scatter(series, chart.across, chart.up, chart.title))
    title = words.title if words is not None else test
    return part(f"trial-{test.replace(' ', '-')}", esc(title), lead, "".join(drawn), size)


def _caption(rows: Sequence[TrialRow]) -> str:
    names = dict.fromkeys(row.control_name for row in rows if row.control_name and math.isfinite(row.control))
    return f'<p class="lead">◇ {esc("; ".join(names))}</p>' if names else ""


def _line(row: TrialRow) -> Line:
    return Line(row.what, row.value, *row.interval, control=row.control)


def _numbers(trial: Trial, size: int) -> str:
    heads = ["test", "what", "value", "95 % interval", "control", "n", "unit", "also"]
    rows = [_row(row) for row in trial.findings]
    lead = "Every number of the trial, with the control it is read by."
    return part("numbers", "The numbers", lead, table(heads, rows, "Every number"), size)


def _row(row: TrialRow) -> str:
    control = "–"
    if math.isfinite(row.control):
        control = f"{short(row.control)} <small>{esc(row.control_name)}</small>"
    also = ", ".join(f"{esc(name)} {short(value)}" for name, value in row.extra.items())
    cells = (
        esc(row.what),
        short(row.value),
        span(*row.interval),
        control,
        f"{row.n:,}",
        esc(row.unit),
        also,
    )
    return f'<tr><th scope="row">{esc(row.test)}</th>' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"


def _skipped(trial: Trial, size: int) -> str:
    if not trial.skipped:
        return ""
    rows = [
        f'<tr><th scope="row">{esc(test)}</th><td class="wrap">{esc(why)}</td></tr>'
        for test, why in trial.skipped.items()
    ]
    return part("skipped", "Not held, and why", "", table(["test", "why"], rows, "Tests not held"), size)


def _made(trial: Trial, size: int) -> str:
    rows = "".join(f"<dt>{esc(name)}</dt><dd>{esc(value)}</dd>" for name, value in _facts(trial))
    code = again(trial.settings.get("command"), interrupted=trial.interrupted)
    return part("made", "How this was made", "", f'<dl class="facts-list">{rows}</dl>{code}', size)


def _facts(trial: Trial) -> Iterator[tuple[str, str]]:
    for given in (trial.model, trial.settings):
        for name, value in given.items():
            if name != "command" and (shown := fact_text(value)):
                yield name, shown
