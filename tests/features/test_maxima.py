"""What each feature reaches is recorded by training: by brute force, of some rows, of workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.features.planted import on_tokens
from torch import Tensor

import heedful
from heedful.features.activations.stream import InMemoryRows
from heedful.features.sae import train
from heedful.features.sae.maxima import row_maxima
from heedful.features.sae.settings import KINDS
from heedful.features.steering.directions import feature_maxima

D = 12


def _rows(n: int = 2048) -> Tensor:
    return torch.randn(n, D, generator=torch.Generator().manual_seed(0)).exp()


def _train(kind: str, x: Tensor, **wanted: Any) -> heedful.SAE:
    return heedful.train_sae(x, 32, kind, **{"batch": 256, "lr": 1e-2, "k": 2, **wanted})


@pytest.mark.parametrize("kind", KINDS)
def test_maxima_are_recorded(kind: str, tmp_path: Path):
    x = _rows()
    sae = _train(kind, x, steps=30, out=tmp_path)  # 8 batches: every row once
    greatest = sae.encode(x).amax(0)
    assert greatest.max() > 0
    assert sae.config.source["maxima"] == pytest.approx(greatest.tolist(), rel=1e-5)
    assert sae.config.source["maxima_rows"] == 2048
    assert heedful.SAE.load(tmp_path).config.source["maxima"] == sae.config.source["maxima"]


def test_maxima_of_some_rows_only(monkeypatch: pytest.MonkeyPatch):
    x = _rows()
    monkeypatch.setattr(train, "MIN_MAXIMA_ROWS", 300)
    sae = _train("topk", x, steps=20)
    rows = list(zip(range(2), InMemoryRows(x).batches(256, 0), strict=False))  # 300 rows: two batches
    greatest = torch.cat([batch for _, batch in rows])
    assert sae.config.source["maxima"] == pytest.approx(sae.encode(greatest).amax(0).tolist(), rel=1e-5)
    assert sae.config.source["maxima_rows"] == 512
    assert sae.encode(x).amax(0).tolist() != pytest.approx(sae.config.source["maxima"], rel=1e-5)
    monkeypatch.setattr(train, "MIN_MAXIMA_ROWS", 1)
    assert _train("topk", x, steps=20).config.source["maxima_rows"] == 256
    assert _train("topk", x, steps=200).config.source["maxima_rows"] == 1024  # a fiftieth of 200 * 256
    assert _train("topk", x[:100], steps=2).config.source["maxima_rows"] == 100  # repeated within the batch


def test_maxima_of_workers_and_of_pieces(monkeypatch: pytest.MonkeyPatch):
    x = _rows()
    sae = _train("topk", x, steps=20)
    alone, seen = row_maxima(sae, InMemoryRows(x), 1000, batch=256, seed=5)
    assert seen == 1024

    class One:
        """One worker of three that hears nothing of the others."""

        world = 3

        def __init__(self, rank: int) -> None:
            self.rank = rank

        def gather(self, values: Tensor) -> Tensor:
            return values

        mean = total = gather

    found = [
        row_maxima(sae, InMemoryRows(x), 1000, batch=256, seed=5, workers=One(rank))[0] for rank in range(3)
    ]
    assert not any(torch.equal(part, alone) for part in found)
    assert torch.allclose(torch.stack(found).amax(0), alone, rtol=1e-5)
    monkeypatch.setattr("heedful.features.sae.maxima.MAX_CODES", 32 * 7)
    assert torch.allclose(row_maxima(sae, InMemoryRows(x), 1000, batch=256, seed=5)[0], alone, rtol=1e-5)


def test_long_texts_count_to_their_last_token(shared: Callable[[str], Any]):
    """Each word alone at one end of a text that is many windows long: cut anywhere, one of them is lost."""
    model = shared("llama").model
    sae = on_tokens(model, ["cat", "mat", "lo"])
    alone = feature_maxima(model, sae, ["a cat", "a mat", "a low"])
    fill = " a dog ran" * model.window
    assert (alone > 0).all()
    assert torch.allclose(feature_maxima(model, sae, [f"a cat{fill} low{fill} mat"]), alone, rtol=1e-5)
    assert not feature_maxima(model, sae, [f"a cat{fill}"])[1:].any()
