"""The example pictures in docs/examples are what their script draws."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_the_script_draws_the_same_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="the extra `images` is not installed")
    script = tmp_path / "make_pictures.py"  # it writes beside itself
    script.write_bytes((EXAMPLES / "make_pictures.py").read_bytes())
    runpy.run_path(str(script), run_name="__main__")
    for table in ("pictures.csv", "scenes.csv"):
        assert (tmp_path / table).read_bytes() == (EXAMPLES / table).read_bytes()
    for folder in ("pictures", "scenes"):
        names = {path.name for path in (EXAMPLES / folder).iterdir()}
        assert {path.name for path in (tmp_path / folder).iterdir()} == names
        for name in sorted(names):  # pixels, not bytes: another zlib packs them in another way
            made, kept = (np.asarray(image.open(root / folder / name)) for root in (tmp_path, EXAMPLES))
            assert np.array_equal(made, kept), name
