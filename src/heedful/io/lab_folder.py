"""The folder of a lab: lab.json, report.html and every figure as NAME.svg.

Opens without torch and without the lab. `claims` in the JSON is a view of the parts for other readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heedful.core.lab_report import Claim, Figure, LabReport, Paragraph, Part, Table
from heedful.core.result import reports
from heedful.io.files import write_file
from heedful.io.json_codec import from_jsonable, load_json, to_jsonable

FILE = "lab.json"
KINDS: dict[str, type[Part]] = {"said": Paragraph, "table": Table, "figure": Figure, "claim": Claim}


def to_dict(report: LabReport) -> dict[str, Any]:
    names = {kind: name for name, kind in KINDS.items()}
    parts = [{"kind": names[type(part)], **to_jsonable(part)} for part in report.parts]
    views = {"holds": report.holds, "claims": to_jsonable(report.claims)}
    return {**to_jsonable(report), **views, "parts": parts}


def save(report: LabReport, folder: Path) -> Path:
    standalone = reports("charts.export_svg").standalone
    write_file(folder / FILE, report.to_json())
    for figure in report.figures:
        write_file(folder / f"{figure.name}.svg", standalone(figure.svg))
    report.to_html(folder / "report.html")
    return folder


def load_lab(folder: Path) -> LabReport:
    return load_json(folder / FILE, _from_dict, "lab")


def _from_dict(data: Mapping[str, Any]) -> LabReport:
    parts = [from_jsonable(KINDS[part["kind"]], part) for part in data["parts"]]
    return from_jsonable(LabReport, {**data, "parts": parts})
