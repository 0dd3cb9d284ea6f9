"""Folders of SAELens and dictionary-learning, against what these recorded themselves (record_rivals.py)."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import heedful
from heedful.core.errors import HeedfulError
from heedful.features.sae import architectures
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.base import Params, TrainingState
from heedful.features.sae.settings import resolve_settings

RIVALS = Path(__file__).parent / "rivals"
FOLDERS = sorted(p.name for p in RIVALS.iterdir() if p.is_dir())
LOSSES = json.loads((RIVALS / "losses.json").read_text())


def _load(name: str) -> tuple[SAE, dict[str, Tensor]]:
    return heedful.SAE.load(RIVALS / name, allow_pickle=True), load_file(RIVALS / name / "seen.safetensors")


def test_all_folders_are_there():
    assert len(FOLDERS) == 18


@pytest.mark.parametrize("name", FOLDERS)
def test_they_are_read_as_their_libraries_read_them(name: str):
    sae, seen = _load(name)
    assert torch.allclose(sae.encode(seen["x"]), seen["codes"], atol=2e-6) or name == "saelens-topk-lengths"
    assert torch.allclose(sae(seen["x"]), seen["decoded"], atol=5e-6)
    assert torch.equal(sae.encode(seen["x"]) > 0, seen["codes"] > 0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("saelens-standard", "relu-tied"),
        ("saelens-standard-untied", "relu"),
        ("saelens-topk-untied", "topk"),
        ("saelens-jumprelu-tied", "jumprelu"),
        ("heedful-batchtopk", "jumprelu"),  # SAELens has no other inference kind for it
        ("dictionary-learning-AutoEncoder", "relu-tied"),
        ("dictionary-learning-AutoEncoderNew", "relu"),
        ("dictionary-learning-MatryoshkaBatchTopKSAE", "matryoshka"),
    ],
)
def test_kinds(name: str, kind: str):
    assert _load(name)[0].config.kind == kind


def test_matryoshkas_groups_are_prefixes():
    assert _load("dictionary-learning-MatryoshkaBatchTopKSAE")[0].config.prefixes == (4, 8, 16)


@pytest.mark.parametrize("name", FOLDERS)
def test_saved_for_saelens_they_mean_the_same(name: str, tmp_path: Path):
    sae, seen = _load(name)
    again = heedful.SAE.load(sae.save_saelens(tmp_path))
    assert torch.allclose(again(seen["x"]), sae(seen["x"]), atol=5e-6)
    assert torch.allclose(again.encode(seen["x"]), sae.encode(seen["x"]), atol=5e-6)


def test_pickles_need_a_word():
    with pytest.raises(HeedfulError, match="is a pickle"):
        heedful.SAE.load(RIVALS / "dictionary-learning-AutoEncoder")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architecture": "gated"}, "SAELens's architecture 'gated'"),
        ({"normalize_activations": "layer_norm"}, "normalises each input"),
    ],
)
def test_what_cannot_be_said_in_our_terms_is_refused(change: dict[str, Any], said: str, tmp_path: Path):
    folder = shutil.copytree(RIVALS / "saelens-standard", tmp_path / "sae")
    cfg = json.loads((folder / "cfg.json").read_text())
    (folder / "cfg.json").write_text(json.dumps(cfg | change))
    with pytest.raises(HeedfulError, match=said):
        heedful.SAE.load(folder)


def test_scaled_inputs_are_noted(tmp_path: Path):
    folder = shutil.copytree(RIVALS / "saelens-standard", tmp_path / "sae")
    cfg = json.loads((folder / "cfg.json").read_text())
    (folder / "cfg.json").write_text(json.dumps(cfg | {"normalize_activations": "expected_average_only_in"}))
    assert "scaled" in heedful.SAE.load(folder).config.notes[0]


def _params(sae: SAE) -> Params:
    return {name: value for name, value in sae.params.items() if name != "threshold"}


def _loss(kind: str, params: Params, x: Tensor, silent: int = 0, **wanted: Any) -> float:
    settings = resolve_settings(kind, 6, 16, 10, sparsity_rise=0.0, **wanted)
    memory = TrainingState.new(settings)
    memory.silent[:] = silent
    return architectures.get(kind).loss(params, x, settings, 5, memory).total.item()


# Theirs sum the error over the input's width, 6; ours divides by it where the papers have unit inputs.
TOPK = ("topk", "batchtopk", "matryoshka")
HOW: dict[str, dict[str, Any]] = {"matryoshka": {"prefixes": (4, 8, 16)}}
FOLDER = {"topk": "AutoEncoderTopK", "batchtopk": "BatchTopKSAE", "matryoshka": "MatryoshkaBatchTopKSAE"}


@pytest.mark.parametrize("kind", TOPK)
def test_losses_are_dictionary_learnings(kind: str):
    sae, seen = _load(f"dictionary-learning-{FOLDER[kind]}")
    x, params, how = seen["x"], _params(sae), {"k": 3, **HOW.get(kind, {})}
    error = _loss(kind, params, x, **how)
    theirs = LOSSES[f"dictionary-learning {kind}"]
    weight = 3 if kind == "matryoshka" else 1  # it takes the mean of three losses that weigh a third already
    assert 6 * error == pytest.approx(weight * theirs, rel=1e-5)
    few = _loss(kind, params, x[:4], **how)
    revival = _loss(kind, params, x[:4], silent=20_000_000, **how, k_aux=2) - few
    assert revival > 1e-3
    both = LOSSES[f"dictionary-learning {kind} with dead latents"]
    assert revival == pytest.approx(both - 6 * few / weight, rel=1e-3)


@pytest.mark.parametrize("kind", TOPK)
def test_losses_are_saelens(kind: str) -> None:
    """Without dead latents: its auxiliary loss is not normalised, and lets activations below zero count."""
    sae, seen = _load("saelens-topk")
    levels = 3 if kind == "matryoshka" else 1  # it takes their sum, we the mean
    ours = _loss(kind, _params(sae), seen["x"], k=3, **HOW.get(kind, {}))
    assert 6 * levels * ours == pytest.approx(LOSSES[f"saelens {kind}"], rel=1e-5)


def test_losses_with_a_penalty_are_theirs():
    relu, seen = _load("saelens-standard-untied")
    x = seen["x"]
    assert _loss("relu", _params(relu), x, sparsity=5.0) == pytest.approx(
        LOSSES["saelens standard l1=5"], rel=1e-5
    )
    tied, _ = _load("dictionary-learning-AutoEncoder")
    assert _loss("relu-tied", _params(tied), x, sparsity=2.0) == pytest.approx(
        LOSSES["dictionary-learning standard l1=2"], rel=1e-5
    )
    free = _params(tied) | {"b_dec": torch.zeros(6)}
    assert _loss("relu", free, x, sparsity=2.0) == pytest.approx(
        LOSSES["dictionary-learning april l1=2, no bias"], rel=1e-5
    )
    jump, _ = _load("saelens-jumprelu")
    params = _params(jump) | {"log_threshold": jump.threshold.log()}
    ours = _loss("jumprelu", params, x, sparsity=0.1 / 6)
    assert 6 * ours == pytest.approx(LOSSES["saelens jumprelu l0=0.1"], rel=1e-5)


def test_jumprelus_threshold_moves_as_theirs():
    """Its gradient is an estimate, so no finite difference can check it: another implementation does."""
    jump, seen = _load("dictionary-learning-JumpReluAutoEncoder")
    theta = jump.threshold.log().requires_grad_(True)
    settings = resolve_settings("jumprelu", 6, 16, 10, sparsity=0.0, bandwidth=0.5 / math.sqrt(6))
    found = architectures.get("jumprelu").loss(
        _params(jump) | {"log_threshold": theta}, seen["x"], settings, 5, TrainingState.new(settings)
    )
    assert 6 * found.total.item() == pytest.approx(LOSSES["dictionary-learning jumprelu error"], rel=1e-5)
    (slope,) = torch.autograd.grad(6 * found.total, theta)
    theirs = torch.tensor(LOSSES["dictionary-learning jumprelu error by threshold, bandwidth .5"])
    assert theirs.count_nonzero() > 8
    assert torch.allclose(slope, theirs * jump.threshold, rtol=1e-4, atol=1e-6)  # d/d log = theta d/d theta
