"""A run that is stopped and resumed is the run that was never stopped, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import heedful
from heedful.core.errors import HeedfulError
from heedful.core.progress import Step
from heedful.features.activations.stream import InMemoryRows
from heedful.features.sae import checkpoint, train
from heedful.features.sae.settings import KINDS, resolve_settings

WEIGHTS = ("W_enc", "b_enc", "W_dec", "b_dec")


def _x() -> Tensor:
    return torch.randn(700, 8, generator=torch.Generator().manual_seed(0)).exp()


def _settings(kind: str) -> dict[str, Any]:
    """Short, with everything a run can remember in use: dead latents, thresholds, resampling, clipping."""
    return {
        "width": 24,
        "kind": kind,
        "steps": 40,
        "batch": 64,
        "k": 3,
        "sparsity": 1e-3 if kind == "jumprelu" else 5.0,
        "lr": 3e-3,
        "dead_rows": 256,
        "clip": 1e-3,  # below every gradient's norm, which therefore counts to its last bit
        "seed": 2,
    }


class _Killed(Exception):
    pass


def _kill_at(step: int) -> Any:
    def progress(standing: Step) -> None:
        if standing.done >= step:
            raise _Killed

    return progress


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_equals_the_unbroken_one(kind: str, tmp_path: Path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums are taken in one order only on one thread
    try:
        told: list[dict[str, Any]] = []
        again: list[dict[str, Any]] = []
        unbroken = heedful.train_sae(
            _x(), **_settings(kind), every=1, progress=lambda step: told.append(step.values)
        )
        for killed_at in (8, 23):  # twice, between checkpoints, which are at 7, 14, 21, ...
            with pytest.raises(_Killed):
                heedful.train_sae(
                    _x(),
                    **_settings(kind),
                    every=1,
                    keep=7,
                    out=tmp_path,
                    resume=True,
                    progress=_kill_at(killed_at),
                )
        resumed = heedful.train_sae(
            _x(),
            **_settings(kind),
            every=1,
            keep=7,
            out=tmp_path,
            resume=True,
            progress=lambda step: again.append(step.values),
        )
    finally:
        torch.set_num_threads(threads)
    assert again[0]["step"] == 22
    assert again == told[21:]
    assert all(torch.equal(getattr(unbroken, name), getattr(resumed, name)) for name in WEIGHTS)
    if unbroken.threshold is not None:
        assert torch.equal(unbroken.threshold, resumed.threshold)
    for fact in ("maxima", "maxima_rows"):
        assert unbroken.config.source[fact] == resumed.config.source[fact]


@pytest.mark.parametrize("kind", KINDS)
def test_weights_come_back_in_their_order(kind: str, tmp_path: Path):
    """The gradient's norm is summed in it: in another order the last bit of every clipped step may differ."""
    settings = resolve_settings(kind, 8, **{name: v for name, v in _settings(kind).items() if name != "kind"})
    begun = train.begin(InMemoryRows(_x()), settings)
    heedful.train_sae(_x(), **_settings(kind), out=tmp_path)
    saved = checkpoint.read(tmp_path / "checkpoint", settings)
    assert saved is not None
    assert list(saved.params) == list(saved.moments) == list(begun.params)
    assert all(saved.params[name].shape == value.shape for name, value in begun.params.items())


def test_without_resume_it_begins_anew(tmp_path: Path):
    told: list[dict[str, Any]] = []
    for _ in range(2):
        heedful.train_sae(
            _x(), **_settings("topk"), out=tmp_path, every=20, progress=lambda step: told.append(step.values)
        )
    assert [t["step"] for t in told] == [20, 40, 20, 40]


def test_a_finished_run_is_only_read(tmp_path: Path):
    first = heedful.train_sae(_x(), **_settings("topk"), out=tmp_path)
    told: list[dict[str, Any]] = []
    again = heedful.train_sae(
        _x(), **_settings("topk"), out=tmp_path, resume=True, progress=lambda step: told.append(step.values)
    )
    assert told == []
    assert torch.equal(first.W_dec, again.W_dec)
    assert torch.equal(first.W_dec, heedful.SAE.load(tmp_path).W_dec)
    assert first.config.source["maxima"] == again.config.source["maxima"]


def test_other_settings_are_refused(tmp_path: Path):
    heedful.train_sae(_x(), **_settings("topk"), out=tmp_path)
    with pytest.raises(HeedfulError, match=r"was begun with steps=40, lr=0\.003"):
        heedful.train_sae(_x(), **_settings("topk") | {"lr": 1e-3, "steps": 50}, out=tmp_path, resume=True)


def test_damage_is_noticed(tmp_path: Path):
    heedful.train_sae(_x(), **_settings("topk"), out=tmp_path)
    (file,) = (tmp_path / "checkpoint").glob("state-*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(HeedfulError, match="damaged"):
        heedful.train_sae(_x(), **_settings("topk"), out=tmp_path, resume=True)


def test_a_checkpoint_cut_short_leaves_the_one_before(tmp_path: Path):
    heedful.train_sae(_x(), **_settings("topk"), out=tmp_path)
    (tmp_path / "checkpoint" / "state-999.safetensors").write_bytes(b"half")  # killed before state.json
    assert heedful.train_sae(_x(), **_settings("topk"), out=tmp_path, resume=True).config.width == 24


def test_a_checkpoint_removes_its_own_files_only(tmp_path: Path):
    place = tmp_path / "checkpoint"
    (place / "notes").mkdir(parents=True)
    theirs = ["notes/mine.txt", "state-best.safetensors", "states.json", ".part", "weights.pt"]
    ours = ["state-3.safetensors", ".state-3.safetensors.part", ".state.json.part"]
    for name in theirs + ours:
        (place / name).write_text(name)
    heedful.train_sae(_x(), **_settings("topk"), out=tmp_path, keep=7)
    left = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert left == {*theirs, "state.json", "state-40.safetensors"}
