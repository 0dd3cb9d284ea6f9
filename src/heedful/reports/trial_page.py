"""One HTML file for a trial, in the look of the report: no script, nothing fetched, every string escaped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from heedful.core.numbers import short
from heedful.reports import trial_charts
from heedful.reports.charts.forest_scatter import Line, forest
from heedful.reports.comparison_page import cell, document
from heedful.reports.comparison_sections import again
from heedful.reports.html_parts import esc, fact_text, part, table
from heedful.trials.result import Trial, by_unit
from heedful.trials.rows import Statement, TrialRow, by_test


def page(trial: Trial) -> str:
    """A self-contained HTML5 document."""
    return document(f"{_name(trial)}: is attention explanation?", body(trial, 1))


def fragment(trial: Trial) -> str:
    """The same body for a notebook cell."""
    return cell(body(trial, 3))


def body(trial: Trial, size: int) -> str:
    """Every section; `size` is the heading level of the headline."""
    drawn = [_answer(trial, size)]
    said = {statement.test: statement for statement in trial.statements}
    for test, findings in by_test(trial.findings).items():
        drawn.append(_test(trial, findings, said.get(test), size + 1))
    drawn += [_numbers(trial, size + 1), _refused(trial, size + 1), _made(trial, size + 1)]
    return "\n".join(text for text in drawn if text)


def _name(trial: Trial) -> str:
    return str(trial.model.get("name") or "a model")


def _answer(trial: Trial, size: int) -> str:
    kicker = f"Attention of <b>{esc(_name(trial))}</b> on trial, {trial.texts:,} texts"
    lines = [f'<p class="kicker">{kicker}</p><h{size} class="verdict">Is attention explanation?</h{size}>']
    sentences = "".join(f"<li>{esc(line)}</li>" for line in (trial.conclusion, *trial.notes))
    lines.append(f'<ul class="sentences">{sentences}</ul>')
    return f"<header>{''.join(lines)}</header>"


def _test(trial: Trial, findings: Sequence[TrialRow], said: Statement | None, size: int) -> str:
    lead = ""
    if said is not None:
        lead = f"{esc(said.showed)} <b>Not shown:</b> {esc(said.not_shown)}"
    drawn = [
        forest([_line(f) for f in same], f"{unit}, with 95 % interval", f"{same[0].test}: {unit}")
        + _caption(same)
        for unit, same in by_unit(findings).items()
    ]
    test = findings[0].test
    drawn += trial_charts.of(test, trial.details.get(test, {}))
    title = said.title if said is not None else test
    return part(f"trial-{test.replace(' ', '-')}", esc(title), lead, "".join(drawn), size)


def _caption(findings: Sequence[TrialRow]) -> str:
    names = dict.fromkeys(f.control_name for f in findings if f.control_name and math.isfinite(f.control))
    return f'<p class="lead">◇ {esc("; ".join(names))}</p>' if names else ""


def _line(found: TrialRow) -> Line:
    return Line(found.what, found.value, *found.interval, control=found.control)


def _numbers(trial: Trial, size: int) -> str:
    heads = ["test", "what", "value", "95 % interval", "control", "n", "unit", "also"]
    rows = [_row(found) for found in trial.findings]
    lead = "Every number of the trial, with the control it is read by."
    return part("numbers", "The numbers", lead, table(heads, rows, "Every number"), size)


def _row(found: TrialRow) -> str:
    low, high = found.interval
    span = f"{short(low)} to {short(high)}" if math.isfinite(low) and math.isfinite(high) else "–"
    control = "–"
    if math.isfinite(found.control):
        control = f"{short(found.control)} <small>{esc(found.control_name)}</small>"
    also = ", ".join(f"{esc(name)} {short(value)}" for name, value in found.extra.items())
    cells = (esc(found.what), short(found.value), span, control, f"{found.n:,}", esc(found.unit), also)
    return f'<tr><th scope="row">{esc(found.test)}</th>' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"


def _refused(trial: Trial, size: int) -> str:
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
