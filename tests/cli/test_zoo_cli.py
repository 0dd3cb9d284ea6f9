"""heedful zoo pull: what is missing is said in one line before anything is downloaded."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from heedful.cli.main import main
from heedful.models.zoo import download, resolve


@pytest.fixture
def without_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An installation without the extra "zoo" and with an empty cache; what would be downloaded."""
    found, fetched = importlib.util.find_spec, list[str]()

    def find_spec(name: str, *more: Any) -> Any:
        return None if name in ("onnx", "gguf") else found(name, *more)

    def fetch(entry: Any, say: Any) -> Path:
        fetched.append(entry.name)
        raise AssertionError("nothing may be downloaded")

    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    monkeypatch.setattr(download, "fetch", fetch)
    return fetched


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["smollm2"], "smollm2 needs gguf to be converted: it is not installed."),
        (["minilm", "titler"], "titler needs onnx to be converted: it is not installed."),
        (["--all"], "prompt-injection, smollm2 and titler need onnx and gguf to be converted: they are not"),
    ],
)
def test_the_extra_is_named_before_anything_starts(
    names: list[str], said: str, without_extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zoo", "pull", *names]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"heedful: {said}")
    assert err.endswith("Type: pip install 'heedful[zoo]'.\n")
    assert err.count("\n") == 1
    assert without_extra == []


def test_what_is_here_or_needs_nothing_is_not_refused(
    without_extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    resolve.require_packages(["minilm", "sentiment"])
    assert main(["zoo", "pull", "sentiment", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["sentiment"]
