"""One HTML file for an audit, in the look of the report: no script, nothing fetched, every string escaped."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from heedful.audits.result import MAX_ERRORS, Audit
from heedful.core.evidence import Evidence
from heedful.core.numbers import fixed, short
from heedful.reports.audit_summary import (
    CIRCULAR,
    HEADS,
    LEGEND,
    MARKS,
    SINGLE,
    SkillTable,
    apart_heads,
    blocks,
    judged_apart,
    labels,
    little,
    share,
    skipped,
    verdict_rows,
    wide_spread,
)
from heedful.reports.comparison_page import cell, document
from heedful.reports.comparison_sections import again
from heedful.reports.html_parts import esc, fact_text, part, table
from heedful.reports.shading import hue, level


def page(audit: Audit) -> str:
    """A self-contained HTML5 document."""
    return document(f"{_name(audit)}: which explanation to use", body(audit, 1))


def fragment(audit: Audit) -> str:
    """The same body for a notebook cell."""
    return cell(body(audit, 3))


def body(audit: Audit, size: int) -> str:
    """Every section; `size` is the heading level of the headline."""
    tables = [_skills(block, size + 1, first=not place) for place, block in enumerate(blocks(audit))]
    drawn = [_answer(audit, size), _verdict(audit, size + 1), _apart(audit, size + 1), *tables]
    rest = (_numbers, _spread, _cost, _errors, _made)
    drawn += [draw(audit, size + 1) for draw in rest]
    return "\n".join(text for text in drawn if text)


def _name(audit: Audit) -> str:
    return str(audit.made.get("name") or "a model")


def _answer(audit: Audit, size: int) -> str:
    headline, *rest = audit.verdict.sentences
    title = esc(headline)
    if audit.verdict.use:
        unsure = audit.verdict.compared and not audit.verdict.certified
        sure = ' <span class="chance">not certified</span>' if unsure else ""
        title = f"Use <bdi>{esc(audit.verdict.use)}</bdi>{sure}"
        rest = [headline, *rest]
    kicker = f"Explanations of <b>{esc(_name(audit))}</b>, weighed on {audit.texts:,} texts"
    lines = [f'<p class="kicker">{kicker}</p><h{size} class="verdict">{title}</h{size}>']
    results = [*rest, little(audit), labels(audit), *skipped(audit)]
    items = "".join(f"<li>{esc(line)}</li>" for line in results if line)
    lines.append(f'<ul class="sentences">{items}</ul>')
    return f"<header>{''.join(lines)}</header>"


def _skills(block: SkillTable, size: int, first: bool) -> str:
    rows = []
    for method in block.methods:
        cells = "".join(_skill_cell(block, metric, method) for metric in block.metrics)
        rows.append(f'<tr><th scope="row">{esc(method)}</th>{cells}</tr>')
    lead = (
        "Skill, with its 95 % interval over texts: 0 is a random order, 1 the best found. "
        + f"{CIRCULAR} {MARKS[CIRCULAR]}. {SINGLE}"
    )
    shown = table(["method", *map(esc, block.metrics)], rows, f"Skill by method, {esc(block.title)}")
    return part("skills", esc(block.title), lead if first else "", shown, size)


def _skill_cell(block: SkillTable, metric: str, method: str) -> str:
    result = block.cells.get((metric, method))
    if result is None:
        return "<td>–</td>"
    shade = f"{hue(result.skill, True)} l{level(max(-1.0, min(1.0, result.skill)))}"
    mark = block.mark(metric, method)
    shown = f"{mark} {block.shown(metric, method)}<br>{_interval(result)}"
    return f'<td class="{shade}">{shown}</td>'


def _interval(found: Evidence) -> str:
    if math.isnan(found.interval[0]):
        return ""
    low, high = map(fixed, found.interval)
    return f" <small>{low} to {high}</small>"


def _verdict(audit: Audit, size: int) -> str:
    if not audit.verdict.methods:
        return ""
    rows = [_plain_row(row) for row in verdict_rows(audit)]
    lead = "● better than random orders; ○ not shown to be. " + LEGEND
    shown = table(list(map(esc, HEADS)), rows, "The verdict by method")
    return part("by-method", "The verdict by method", esc(lead), shown, size)


def _apart(audit: Audit, size: int) -> str:
    """What families and operators say by themselves."""
    heads = apart_heads(audit)
    if not heads:
        return ""
    rows = [_plain_row(row) for row in judged_apart(audit)]
    lead = "Share of random orders beaten, by family of metrics and by removal operator. These are no claims."
    return part(
        "apart", "Where they disagree", lead, table(list(map(esc, heads)), rows, "Shares apart"), size
    )


def _plain_row(row: Sequence[str]) -> str:
    return (
        f'<tr><th scope="row">{esc(row[0])}</th>{"".join(f"<td>{esc(cell)}</td>" for cell in row[1:])}</tr>'
    )


def _numbers(audit: Audit, size: int) -> str:
    rows = "".join(_number_row(audit, each) for each in audit.table)
    heads = ["metric", "operator", "method", "value", "random", "range", "best", "skill", "texts"]
    lead = (
        "Means over texts, in the metric's own unit. ↑: high is good; ↓: low is good. "
        "Range: the least and the most that random orders reached on a text, means over texts."
    )
    return part("numbers", "The numbers", lead, table(heads, [rows], "Every number"), size)


def _number(value: float) -> str:
    return short(value, 4)


def _number_row(audit: Audit, found: Evidence) -> str:
    arrow = "↑" if audit.better.get(found.metric) == "high" else "↓"
    texts = (f"{arrow} {found.metric}", found.operator or "–", found.method)
    head = f'<th scope="row">{esc(texts[0])}</th>' + "".join(f"<td>{esc(text)}</td>" for text in texts[1:])
    band = "–" if math.isnan(found.chance[0]) else " to ".join(map(_number, found.chance))
    shown = (_number(found.value), _number(found.control), band, _number(found.best))
    numbers = "".join(f"<td>{text}</td>" for text in shown)
    return f"<tr>{head}{numbers}<td>{fixed(found.skill)}{_interval(found)}</td><td>{found.n:,}</td></tr>"


def _spread(audit: Audit, size: int) -> str:
    """Only where it is wide."""
    result = wide_spread(audit)[:20]
    if not result:
        return ""
    rows = [
        f'<tr><th scope="row">{esc(metric)}</th><td>{esc(method)}</td><td>{fixed(value)}</td></tr>'
        for metric, method, value in result
    ]
    lead = (
        "Removing words makes texts no model was trained on. Where the skill depends much on how they are "
        "removed, that much of the number is the removal and not the explanation."
    )
    shown = table(["metric", "method", "largest less smallest skill"], rows, "Spread over operators")
    return part("spread", "Where the way of removing matters most", lead, shown, size)


def _cost(audit: Audit, size: int) -> str:
    lead = f"{share(audit)} Rows are shared between methods and metrics, within each text."
    return part("cost", "What it cost", esc(lead), "", size)


def _errors(audit: Audit, size: int) -> str:
    if not audit.errors:
        return ""
    rows = [
        f'<tr><th scope="row">{error["row"]}</th><td>{esc(error["method"] or "all")}</td>'
        f'<td class="wrap">{esc(error["reason"])}</td></tr>'
        for error in audit.errors
    ]
    lead = f"Rows count from 0. At most {MAX_ERRORS} are shown; errors.parquet of each shard has them all."
    return part("skipped", "Skipped, and why", lead, table(["row", "method", "reason"], rows, "Errors"), size)


def _made(audit: Audit, size: int) -> str:
    rows = "".join(f"<dt>{esc(name)}</dt><dd>{esc(value)}</dd>" for name, value in _facts(audit))
    return part(
        "made", "How this was made", "", f'<dl class="facts-list">{rows}</dl>{again(audit.command)}', size
    )


def _facts(audit: Audit) -> Iterator[tuple[str, str]]:
    yield "model", _name(audit)
    for name in ("model", "source", "settings", "versions"):
        for key, value in dict(audit.made.get(name, {})).items():
            shown = fact_text(value)
            if shown:
                yield f"source {key}" if name == "source" else key, shown
