"""Imports go one way: what explains knows nothing of what judges explanations."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import heedful

SOURCE = Path(heedful.__file__).parent
JUDGES = ("heedful.metrics", "heedful.audits", "heedful.reports", "heedful.server", "heedful.cli")


def imported(file: Path) -> set[str]:
    """Modules a file imports, those inside functions included."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("folder", ["explainers", "theory", "nn"])
def test_what_explains_imports_nothing_that_judges(folder: str) -> None:
    files = sorted((SOURCE / folder).rglob("*.py"))
    assert files
    for file in files:
        against = {name for name in imported(file) if f"{name}.".startswith(tuple(f"{j}." for j in JUDGES))}
        assert not against, f"{file.relative_to(SOURCE)} imports {sorted(against)}"
