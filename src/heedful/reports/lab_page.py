"""One HTML file for a lab, in the look of the report: no script, nothing fetched, every string escaped.

Figures are SVG that the lab drew with heedful.reports.charts.forest_scatter or
heedful.reports.charts.panels, which escape their text.
"""

from __future__ import annotations

from collections.abc import Iterator

from heedful.core.lab_report import Claim, Figure, LabReport, Paragraph, Part, Table
from heedful.reports.comparison_page import cell, document
from heedful.reports.html_parts import esc, part, table
from heedful.reports.lab_terminal import FAILED, HELD, number, shown

STYLE = (
    ".heedful .prose{max-width:50em;margin-top:1.6em;text-wrap:pretty}"
    ".heedful figure{margin:2em 0 0}"
    ".heedful .claims li{padding-inline-start:1.6em;text-indent:-1.6em}"
    ".heedful .claims small{color:var(--soft);font-variant-numeric:tabular-nums}"
    ".heedful .mark-held{color:var(--for-line)}"
    ".heedful .mark-failed{color:var(--against-line);font-weight:700}"
)


def page(report: LabReport) -> str:
    """A self-contained HTML5 document."""
    return document(f"{report.title}: {report.answer}", body(report, 1), style=STYLE)


def fragment(report: LabReport) -> str:
    """The same body for a notebook cell."""
    return cell(body(report, 3), STYLE)


def body(report: LabReport, size: int) -> str:
    """The answer, then all that was told, in order; `size` is the heading level of the title."""
    results = (drawn for given in report.parts if (drawn := _part(given, size + 1)))
    return "\n".join([_answer(report, size), *results, _made(report, size + 1)])


def _answer(report: LabReport, size: int) -> str:
    kicker = f'<p class="kicker">Lab <b>{esc(report.lab)}</b>, after {esc(report.cite)}</p>'
    claims = "".join(map(_claim, report.claims))
    return (
        f'<header>{kicker}<h{size} class="verdict">{esc(report.title)}</h{size}>'
        f'<p class="explained">{esc(report.answer)}</p><ul class="sentences claims">{claims}</ul></header>'
    )


def _claim(claim: Claim) -> str:
    kind, mark, word = ("held", HELD, "holds") if claim.holds else ("failed", FAILED, "failed")
    sign = f'<span class="mark-{kind}" role="img" aria-label="{word}">{mark}</span>'
    result, numbers = f"<bdi>{esc(claim.sentence)}</bdi>", f"<small><bdi>{esc(number(claim))}</bdi></small>"
    return f"<li>{sign}&ensp;{result} {numbers}</li>"


def _part(given: Part, size: int) -> str:
    """Claims stand at the top."""
    if isinstance(given, Paragraph):
        return f'<p class="prose">{esc(given.text)}</p>'
    if isinstance(given, Table):
        heads = map(esc, given.columns)
        return part("numbers", esc(given.title), "", table(heads, _rows(given), esc(given.title)), size)
    if isinstance(given, Figure):
        return f'<figure>{given.svg}<figcaption class="lead">{esc(given.caption)}</figcaption></figure>'
    return ""


def _rows(given: Table) -> Iterator[str]:
    for first, *others in given.rows:
        cells = "".join(f"<td>{esc(shown(value))}</td>" for value in others)
        yield f'<tr><th scope="row">{esc(shown(first))}</th>{cells}</tr>'


def _made(report: LabReport, size: int) -> str:
    settings = report.settings
    flags = (" --fast" if settings.get("fast") else "") + f" --seed {settings.get('seed', 0)}"
    facts = {"command": f"heedful lab run {report.lab}{flags}"}
    if "seconds" in settings:
        facts["time"] = f"{settings['seconds']:.1f} seconds"
    versions = settings.get("versions") or {}
    facts["versions"] = ", ".join(f"{name} {value}" for name, value in versions.items())
    rows = "".join(f"<dt>{name}</dt><dd>{esc(value)}</dd>" for name, value in facts.items() if value)
    return part("made", "How this was made", "", f'<dl class="facts-list">{rows}</dl>', size)
