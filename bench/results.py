"""bench/results/latest.json: what was measured, by workload, each with its date, versions and machine.

Running some workloads leaves the results of the others as they were.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.timing import Ratio

LATEST = Path(__file__).parent / "results" / "latest.json"
PACKAGES = ("heedful", "torch", "transformers", "tokenizers", "numpy", "captum", "lime", "shap", "inseq")
RIVALS = Path(__file__).parents[1] / ".venv" / "rivals"  # environments of rivals that need their own


@dataclass(frozen=True)
class Result:
    """One workload's ratios, and where and when they were measured."""

    title: str
    date: str
    seconds: float
    machine: dict[str, Any]
    versions: dict[str, str]
    ratios: list[Ratio]


def record(name: str, title: str, seconds: float, ratios: Sequence[Ratio]) -> None:
    """Put a workload's ratios into the file, in place of its former ones."""
    document = _document()
    document[name] = {
        "title": title,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds),
        "machine": machine(),
        "versions": versions(),
        "ratios": [_rounded(ratio.as_dict()) for ratio in ratios],
    }
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read() -> dict[str, Result]:
    document = _document()
    return {name: Result(**facts | {"ratios": ratios(facts["ratios"])}) for name, facts in document.items()}


def _document() -> dict[str, Any]:
    return json.loads(LATEST.read_text(encoding="utf-8")) if LATEST.is_file() else {}


def ratios(found: Sequence[dict[str, Any]]) -> list[Ratio]:
    """From JSON."""
    known = [{k: v for k, v in ratio.items() if k != "missed"} for ratio in found]
    return [Ratio(**ratio | {"rows": tuple(ratio["rows"])}) for ratio in known]


def machine() -> dict[str, Any]:
    """What a reader needs to judge the seconds by."""
    import torch

    return {
        "cpu": _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory": _line("/proc/meminfo", "MemTotal"),
        "system": platform.system(),
    }


def _line(path: str, name: str) -> str:
    """The value of the first line `name: value`."""
    if not Path(path).is_file():
        return ""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    return found | {package: _version(package) for package in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        apart = sorted(RIVALS.glob(f"{package}/lib/python*/site-packages/{package}-*.dist-info"))
        return apart[0].name.split("-")[1].removesuffix(".dist") if apart else "not installed"


def _rounded(ratio: dict[str, Any]) -> dict[str, Any]:
    """Four digits: the rest is noise."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in ratio.items()}
