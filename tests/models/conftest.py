"""Fixtures of the zoo's tests: an empty cache and a local index that holds one tiny carrier."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from heedful.models.zoo import catalog
from heedful.models.zoo.catalog import Entry


def _helper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fake_carrier", Path(__file__).with_name("fake_carrier.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Shop:
    """Where the fake carrier is, what it must hash to, and what has happened so far."""

    helper: ModuleType
    index: Path
    cache: Path
    marker: Path
    log: Path
    entry: Entry

    @property
    def wheel(self) -> Path:
        return self.index / self.entry.wheel

    @property
    def conversions(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def close(self) -> None:
        """Empty the index: whoever still needs pip fails from now on."""
        for path in self.index.iterdir():
            path.unlink()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    helper = _helper()
    index, cache = tmp_path / "index", tmp_path / "cache"
    index.mkdir()
    marker, log = tmp_path / "marker", tmp_path / "log"
    entry = helper.entry(helper.make_wheel(index / "tiny_carrier-1.0-py3-none-any.whl", marker))
    helper.install_converter(log)
    monkeypatch.setattr(catalog, "PULLED", (entry,))
    monkeypatch.setenv("HEEDFUL_CACHE", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    yield Shop(helper, index, cache, marker, log, entry)
    sys.modules.pop("heedful.models.zoo.convert.tiny", None)
    assert not marker.exists(), marker.read_text()
