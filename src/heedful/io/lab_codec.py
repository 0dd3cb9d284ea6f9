"""A lab as JSON and back. Charts are stored as numbers. `claims` is a view of the parts for other readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful.core.document import Figure, Paragraph
from heedful.core.lab_report import FIGURE_NAME, Claim, LabReport, NumberTable, Part
from heedful.io.chart_codec import chart_from_dict, chart_to_dict
from heedful.io.json_codec import from_jsonable, to_jsonable

KINDS: dict[str, type[Part]] = {
    "paragraph": Paragraph,
    "table": NumberTable,
    "figure": Figure,
    "claim": Claim,
}


def to_dict(report: LabReport) -> dict[str, Any]:
    views = {"holds": report.holds, "claims": to_jsonable(report.claims)}
    return {**to_jsonable(report), **views, "parts": [*map(_part_to_dict, report.parts)]}


def run_title(report: LabReport) -> str:
    return report.title


def blobs(report: LabReport) -> dict[str, bytes]:
    return {}


def from_stored(cls: type[LabReport], data: Mapping[str, Any]) -> LabReport:
    return from_jsonable(cls, {**data, "parts": [*map(_part_from_dict, data["parts"])]})


def _part_to_dict(part: Part) -> dict[str, Any]:
    kind = next(name for name, each in KINDS.items() if type(part) is each)
    more = {"chart": chart_to_dict(part.chart)} if isinstance(part, Figure) else {}
    return {"kind": kind, **to_jsonable(part), **more}


def _part_from_dict(data: Mapping[str, Any]) -> Part:
    if data["kind"] == "figure":  # a chart has a kind of its own
        if not FIGURE_NAME.fullmatch(data["name"]):
            raise ValueError(f"{data['name']!r:.60} is no name of a figure")
        data = {**data, "chart": chart_from_dict(data["chart"])}
    return from_jsonable(KINDS[data["kind"]], dict(data))
