"""A trained autoencoder: reading, writing, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.io.reforged import reforge

import heedful
from heedful.core.errors import HeedfulError
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.features.sae.settings import KINDS
from heedful.io import run_folder

D, WIDTH = 5, 16


def _sae(kind: str) -> SAE:
    draw = torch.Generator().manual_seed(0)
    k = 3 if kind in ("topk", "batchtopk", "matryoshka") else None
    threshold = {"jumprelu": torch.full((WIDTH,), 0.3), "batchtopk": torch.tensor(0.3)}
    threshold |= {"matryoshka": torch.tensor(0.3), "topk": torch.tensor(0.2)}
    shapes = ((D, WIDTH), (WIDTH,), (WIDTH, D), (D,))
    weights = (torch.randn(*shape, generator=draw) for shape in shapes)
    return SAE(
        Config(kind, D, WIDTH, k, (8, 16) if kind == "matryoshka" else ()), *weights, threshold.get(kind)
    )


def _x() -> torch.Tensor:
    return torch.randn(2, 7, D, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
def test_reading(kind: str):
    sae, x = _sae(kind), _x()
    tied = kind not in ("relu", "jumprelu")
    z = (x - sae.b_dec if tied else x) @ sae.W_enc + sae.b_enc
    expected = {
        "topk": lambda: z.relu() * (z >= z.topk(3).values[..., -1:]),
        "batchtopk": lambda: z * (z > 0.3),
        "matryoshka": lambda: z * (z > 0.3),
        "jumprelu": lambda: z * (z > 0.3),
    }.get(kind, z.relu)()
    assert sae.encode(x).shape == (2, 7, WIDTH)
    assert torch.allclose(sae.encode(x), expected, atol=1e-6)
    assert torch.allclose(sae(x), expected @ sae.W_dec + sae.b_dec, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_written_and_read_it_is_the_same(kind: str, tmp_path: Path):
    sae = _sae(kind)
    again = heedful.SAE.load(sae.save(tmp_path / "a" / "b"))
    assert again.config == sae.config
    assert torch.equal(again(_x()), sae(_x()))
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == [
        "manifest.json",
        "result.json",
        "sae.safetensors",
    ]


def test_topk_read_by_its_threshold():
    sae = _sae("topk")
    codes, z = sae.thresholded().encode(_x()), (_x() - sae.b_dec) @ sae.W_enc + sae.b_enc
    assert torch.allclose(codes, z * (z > 0.2), atol=1e-6)
    with pytest.raises(HeedfulError, match="no threshold"):
        _sae("relu").thresholded()


def test_half_precision_inputs_are_read():
    assert _sae("relu").encode(_x().half()).dtype == torch.float32


def test_other_widths_are_refused():
    with pytest.raises(HeedfulError, match="activations of width 4 for an autoencoder of width 5"):
        _sae("relu").encode(torch.zeros(3, 4))


def test_folders_without_one_are_refused(tmp_path: Path):
    with pytest.raises(HeedfulError, match="contains no SAE"):
        SAE.load(tmp_path)
    _sae("relu").save(tmp_path)
    reforge(tmp_path, lambda facts: facts | {"kind": "gated"})
    with pytest.raises(HeedfulError, match="kind gated"):
        SAE.load(tmp_path)
    reforge(tmp_path, lambda facts: facts | {"kind": "relu", "width": 17})
    with pytest.raises(HeedfulError, match=r"W_enc should have shape \(5, 17\)"):
        SAE.load(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(HeedfulError, match="is not a run folder"):
        SAE.load(tmp_path)


def test_an_old_manifest_does_not_vouch_for_new_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Stopped between two renames, the folder holds no autoencoder."""
    _sae("topk").save(tmp_path)
    really = run_folder.write_inside

    def stops(folder: Path, name: str, content: bytes) -> None:
        if name == "manifest.json":
            raise KeyboardInterrupt
        really(folder, name, content)

    monkeypatch.setattr(run_folder, "write_inside", stops)
    with pytest.raises(KeyboardInterrupt):
        _sae("jumprelu").save(tmp_path)
    with pytest.raises(HeedfulError, match="is damaged"):
        SAE.load(tmp_path)
