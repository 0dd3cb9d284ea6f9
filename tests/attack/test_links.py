"""Links in a folder that is written to: refused before the first file is written, so nothing leaves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful import HeedfulError
from heedful.io.files import write_file, write_inside

Work = Callable[[Path, Any], object]


def train(out: Path, model: Any) -> object:
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return heedful.train_sae(data, width=6, kind="topk", k=2, batch=32, steps=2, keep=1, out=out)


def harvest(out: Path, model: Any) -> object:
    return heedful.harvest(model, ["the cat sat", "hello world"], "blocks.0.resid", out)


def audit(out: Path, model: Any) -> object:
    return heedful.audit(model, ["the cat sat", "hello world"], methods=["occlusion"], out=out)


WORK: dict[str, tuple[Work, str, tuple[str, ...]]] = {
    "train": (train, "bert", ("checkpoint", "checkpoint/state.json", "pilot.json", "result.json", ".lock")),
    "harvest": (harvest, "gpt2", ("shards", ".part", ".part/progress.json", "result.json", ".lock")),
    "audit": (audit, "bert", ("shards", "shards/000000", "manifest.json", ".lock")),
}


@pytest.mark.parametrize(("name", "linked"), [(name, each) for name in WORK for each in WORK[name][2]])
def test_a_run_is_not_written_through_a_link_below_its_folder(
    name: str, linked: str, shared: Callable[[str], Any], tmp_path: Path
) -> None:
    work, model, _ = WORK[name]
    run, away = tmp_path / "run", tmp_path / "away"
    away.mkdir()
    place = run / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(away / "file" if place.suffix == ".json" or linked == ".lock" else away)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(HeedfulError, match=f"{linked.split('/')[-1]} is a link"):
        work(run, shared(model).model)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "write", [lambda p: write_file(p, "new"), lambda p: write_inside(p.parent, p.name, "new")]
)
def test_what_is_written_beside_its_place_follows_no_link(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".report.html.part").symlink_to(victim)
    write(tmp_path / "report.html")
    assert victim.read_text() == "precious"
    assert (tmp_path / "report.html").read_text() == "new"
    assert not (tmp_path / "report.html").is_symlink()
