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
def today() -> dict[str, str]:
    """What each page says."""
    return {name: PICTURES.words(made()) for name, made in PICTURES.PAGES.items()}


@pytest.mark.parametrize("name", PICTURES.PICTURES)
def test_a_picture_shows_the_report_of_today(name: str, today: dict[str, str]) -> None:
    said = today[PICTURES.PICTURES[name].page]
    assert len(said) > 300
    file = ROOT / "docs" / "images" / f"{name}.png"
    assert file.stat().st_size < 200_000
    with Image.open(file) as image:
        assert image.text["words"] == said, "run: python docs/take_pictures.py"  # type: ignore[attr-defined]


def test_the_docs_of_pictures_show_them() -> None:
    told = (ROOT / "docs" / "images.md").read_text(encoding="utf-8")
    assert all(f"images/{name}.png" in told for name in ("picture-report", "picture-dark"))


def test_the_readme_shows_it() -> None:
    assert "docs/images/demo.png" in (ROOT / "README.md").read_text(encoding="utf-8")
