"""The pictures of reports in README and docs show what the report says today."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]


def script() -> Any:
    spec = importlib.util.spec_from_file_location("take_pictures", ROOT / "docs" / "take_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PICTURES = script()


@pytest.fixture(scope="module")
def today() -> str:
    return str(PICTURES.words(PICTURES.page()))


@pytest.mark.parametrize("name", PICTURES.PICTURES)
def test_a_picture_shows_the_report_of_today(name: str, today: str) -> None:
    assert len(today) > 300
    with Image.open(ROOT / "docs" / "images" / f"{name}.png") as image:
        assert image.text["words"] == today, "run: python docs/take_pictures.py"  # type: ignore[attr-defined]


def test_the_readme_shows_it() -> None:
    assert "docs/images/demo.png" in (ROOT / "README.md").read_text(encoding="utf-8")
