"""--out of every command that makes a result: what `heedful report` opens again is what was shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from heedful.cli.main import main
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config

TEXTS = ["a good film", "a bad film", "not good", "not bad at all", "dull", "a great story"]
Cap = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("save")
    rows = "".join(f"{text},{n % 2}\n" for n, text in enumerate(TEXTS))
    (folder / "reviews.csv").write_text(f"text,label\n{rows}")
    (folder / "texts.txt").write_text("The people of the nation are strong. We must act.\n" * 20)
    draw = torch.Generator().manual_seed(0)
    weights = (torch.randn(*shape, generator=draw) * 0.3 for shape in ((192, 8), (8,), (8, 192), (192,)))
    SAE(Config("relu", 192, 8, source={"site": "blocks.0.resid"}), *weights).save(folder / "sae")
    return folder


def commands(home: Path) -> dict[str, list[str]]:
    small = [str(home / "reviews.csv"), "--model", "zoo:one-layer", "--label-column", "label"]
    steer = ["steer", "We must", "--sae", str(home / "sae"), "--feature", "3=4", "--max-new-tokens", "3"]
    page = ["features", "page", str(home / "sae"), str(home / "texts.txt"), "--feature", "3"]
    return {
        "attention": ["attention", "not bad", "--model", "zoo:sentiment"],
        "head-importance": ["heads", "importance", *small, "--no-gradient"],
        "pruning": ["heads", "prune", *small, "--steps", "1", "--draws", "1"],
        "feature-pages": [*page, "--html", str(home / "page.html")],
        "steer": steer,
        "sweep": [*steer, "--sweep", "0,1"],
    }


@pytest.mark.parametrize(
    "kind", ["attention", "head-importance", "pruning", "feature-pages", "steer", "sweep"]
)
def test_what_is_saved_is_reported(kind: str, home: Path, tmp_path: Path, capsys: Cap) -> None:
    command, run = commands(home)[kind], tmp_path / "run"
    assert main([*command, "--out", str(run), "--json"]) == 0
    out, err = capsys.readouterr()
    shown = json.loads(out)
    assert err.splitlines().count(f"saved {run} (open it with: heedful report {run})") == 1
    assert f"wrote {run}" not in err
    assert json.loads((run / "manifest.json").read_text())["kind"] == kind
    assert main(["report", str(run), "--json", "--html", str(tmp_path / "report.html")]) == 0
    again = json.loads(capsys.readouterr().out)
    assert {name: again[name] for name in ("model", "notes")} == {n: shown[n] for n in ("model", "notes")}
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    if kind in ("steer", "sweep", "feature-pages"):
        whole = {name: value for name, value in shown.items() if name != "page"}
        assert again == whole | {"verified": False}


def test_another_result_is_refused_before_the_work(home: Path, tmp_path: Path, capsys: Cap) -> None:
    from tests.reports import every

    every.trial().save(tmp_path)
    others = {**commands(home), "explanation": ["explain", "not bad", "--model", "no-such-model"]}
    for command in others.values():
        assert main([*command, "--out", str(tmp_path)]) == 2
        assert "already holds a run of kind trial" in capsys.readouterr().err
