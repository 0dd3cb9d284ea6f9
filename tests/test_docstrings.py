"""Every public name has a summary, its parameters, what it returns, and an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import heedful

NAMES = [name for name in heedful.__all__ if not name.startswith("__")]
SECTION = re.compile(r"^(\w+)\n-{3,}$", re.MULTILINE)
NO_PARAMETERS = {"Input"}  # an abstract base class: `TextInput` has the parameters
ORDER = ("", "Parameters", "Returns", "Yields", "Examples")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def sections(doc: str) -> dict[str, str]:
    """Text by section; the part before the first one is ""."""
    head, *rest = SECTION.split(doc)
    return {"": head, **dict(zip(rest[::2], rest[1::2], strict=True))}


def documented(text: str) -> list[str]:
    """Names of a section Parameters: the lines that are not indented."""
    return [line.strip().lstrip("*") for line in text.splitlines() if line and not line.startswith(" ")]


def parameters(value: Any) -> list[str]:
    """As a caller gives them: what starts with an underscore is not for callers."""
    return [name for name in inspect.signature(value).parameters if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_every_section(name: str) -> None:
    value = getattr(heedful, name)
    parts = sections(inspect.getdoc(value) or "")
    summary = parts[""].strip().split("\n\n")[0]
    assert summary.endswith((".", ":")), summary
    assert "\n" not in summary, "the summary is one line"
    assert ">>> import heedful" in parts.get("Examples", ""), "an example that runs by itself"
    if inspect.isfunction(value):
        assert {"Returns", "Yields"} & set(parts)
    if name not in NO_PARAMETERS:
        assert documented(parts["Parameters"]) == parameters(value)
        described = re.findall(r"^\S.*\n    \S", parts["Parameters"], re.MULTILINE)
        assert len(described) == len(parameters(value)), "every parameter is described"
    assert list(parts) == [
        part for part in ("", "Parameters", "Returns", "Yields", "Examples") if part in parts
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    doc = inspect.getdoc(getattr(heedful, name)) or ""
    test = doctest.DocTestParser().get_doctest(doc, {}, f"heedful.{name}", None, 0)
    assert test.examples
    assert not [example for example in test.examples if example.options.get(doctest.SKIP)]
    lines: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=lines.append)
    assert result.failed == 0, "".join(lines)
    assert not list(tmp_path.iterdir()), "an example leaves no files"


def test_the_example_of_the_package_runs() -> None:
    assert doctest.testmod(heedful, optionflags=OPTIONS).failed == 0


def test_a_wrong_docstring_is_noticed() -> None:
    text = (
        "Say it.\n\nParameters\n----------\na\n    One.\n*models\n    Many.\n\nExamples\n--------\n>>> 1\n1\n"
    )
    parts = sections(text)
    assert documented(parts["Parameters"]) == ["a", "models"]
    assert list(parts) == ["", "Parameters", "Examples"]
