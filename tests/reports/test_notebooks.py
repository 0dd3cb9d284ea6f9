"""Notebooks: every result shows itself, two do not disturb each other, the example notebooks run."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import html5lib
import nbformat
import numpy as np
import pytest
from tests.reports import every, every_head

import heedful
from heedful.core.errors import HeedfulError
from heedful.core.evidence import MeasuredValue
from heedful.core.model import Model

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def classes() -> set[type]:
    """Public classes, and what public functions return."""
    found = {value for name in heedful.__all__ if inspect.isclass(value := getattr(heedful, name))}
    for name in heedful.__all__:
        if inspect.isfunction(function := getattr(heedful, name)):
            try:
                kind = typing.get_type_hints(function).get("return")
            except NameError:  # a name that only type checkers know
                continue
            found |= {each for each in (kind, *typing.get_args(kind)) if inspect.isclass(each)}
    ours = {kind for kind in found if kind.__module__.startswith("heedful") and kind is not HeedfulError}
    return ours - {Model, heedful.ImageReader}  # a model, and how pictures are read for one, are no results


@pytest.mark.parametrize("kind", sorted(classes(), key=str), ids=lambda kind: kind.__name__)
def test_every_public_result_shows_itself(kind: type) -> None:
    assert hasattr(kind, "_repr_html_"), f"{kind.__module__}.{kind.__name__}"


def test_what_functions_return_is_among_them() -> None:
    assert {"Plan", "Comparison", "Audit", "Atlas", "Importance", "Pruning", "SAE"} <= {
        kind.__name__ for kind in classes()
    }


def plain() -> dict[str, Callable[[], Any]]:
    """Results without a page of their own, with markup in what comes from outside."""
    import torch

    from heedful.features.measures.quality import Measured
    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config
    from heedful.retraining.gold_features import Recall

    evil, figure = every.EVIL, MeasuredValue(0.5, 0.4, 0.6)
    weights = (torch.zeros(2, 3), torch.zeros(3), torch.zeros(3, 2), torch.zeros(2))
    return {
        "evidence": lambda: every.evidence(evil),
        "verdict": lambda: every.audit().verdict,
        "method verdict": lambda: every.audit().verdict.methods[0],
        "text": lambda: every.explanation().x,
        "internals": lambda: every.explanation().internals,
        "sae": lambda: SAE(Config("relu", 2, 3, source={"site": evil}), *weights),
        "measured": lambda: Measured({evil: figure}, {}, {"loss": 1.0}, {"texts": evil}, (evil,)),
        "recall": lambda: Recall(evil, "tree", 0.5, (0.4, 0.6), 0.2, 9, 3, 0.9, 1.0),
        "readings": lambda: every.features().readings,
        "interpretation": lambda: every.features().pages[0].interpretation,
    }


@pytest.mark.parametrize("kind", [*plain(), *every.KINDS])
def test_a_cell_is_valid_safe_and_readable_without_scripts(kind: str) -> None:
    made = {**plain(), **every_head.made(every.EVIL)}.get(kind) or getattr(every, kind)
    cell = made()._repr_html_()
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree = parser.parseFragment(cell)
    said = "".join("".join(e.itertext()) for e in tree.iter() if e.tag in ("td", "th", "dd", "li", "p", "h3"))
    assert len(said) > 40
    if kind != "splitting":
        assert "onerror" in said
    assert "window.ran" not in "".join("".join(e.itertext()) for e in tree.iter("script"))
    assert len([*tree.iter("script")]) == 1
    assert not [e for e in tree.iter("img") if not (e.get("src") or "").startswith("data:")]
    ids = [e.get("id") for e in tree.iter() if isinstance(e.tag, str) and e.get("id")]
    root = ids[0]
    assert all(name.startswith(root) for name in ids)
    style = re.sub(r"/\*.*?\*/|@media[^{]*\{", "", next(tree.iter("style")).text or "", flags=re.DOTALL)
    for rule in re.findall(r"([^{}]+)\{", style):
        assert all(f"#{root}" in selector for selector in re.split(r",(?![^(]*\))", rule)), rule


def test_numbers_of_any_result_are_its_own() -> None:
    from heedful.reports.notebook_fields import one_line

    assert one_line(0.12345) == "0.1235"
    assert one_line(-3.0) == "−3"
    assert one_line({"value": 0.5, "low": 0.4, "high": 0.6}) == "0.5 (0.4 to 0.6)"
    assert one_line(np.zeros((3, 4))) == "3 × 4 numbers"
    assert one_line(list(range(20))) == "0, 1, 2, 3, 4, 5, 6, 7 … (20 in all)"
    assert one_line(float("nan")) == "–"


# --- the example notebooks -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runner() -> Any:
    spec = importlib.util.spec_from_file_location("run_notebooks", ROOT / "docs" / "run_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(outputs: list[dict[str, Any]]) -> list[str]:
    """What was said, without its digits: these may differ in the last place from machine to machine."""
    texts = ["".join(o.get("text") or o["data"]["text/plain"]) for o in outputs]
    return [re.sub(r"[-+]?\d+(\.\d+)?(e-?\d+)?", "#", text)[:2000] for text in texts]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if path.stem == "pictures" else ()) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_an_example_notebook_runs_and_holds_what_it_gives(
    path: Path, runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(stored))
    fresh = runner.execute(stored)
    shown = 0
    for before, after in zip(stored["cells"], fresh["cells"], strict=True):
        if before["cell_type"] == "code":
            assert words(before["outputs"]) == words(after["outputs"]), "".join(before["source"])
            shown += sum("text/html" in o.get("data", {}) for o in before["outputs"])
    assert shown >= 1, "nothing to see where it cannot be run"
    assert path.stat().st_size < 1_000_000


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the kernel's own libraries warn of what they will change
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_real_kernel_gives_what_the_notebook_holds(path: Path, tmp_path: Path) -> None:
    """The quick test runs cells as plain Python; this one runs them in Jupyter's own kernel."""
    client = pytest.importorskip("nbclient", reason="a real kernel needs: pip install nbclient ipykernel")
    pytest.importorskip("ipykernel", reason="a real kernel needs: pip install nbclient ipykernel")
    stored = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    client.NotebookClient(
        fresh, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = 0
    for before, after in zip(stored.cells, fresh.cells, strict=True):
        if before.cell_type == "code":
            kept = [o for o in after.outputs if o.get("name") != "stderr"]
            assert words(before.outputs) == words(kept), before.source
            shown += sum("text/html" in o.get("data", {}) for o in kept)
    assert shown >= 1


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 3
