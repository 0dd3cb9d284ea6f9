"""The gradient theorem: the lab's formulas against autograd, and bugs that its claims must catch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heedful.labs import gradient_theorem as lab
from heedful.labs.base.registry import run_lab
from heedful.nn import OneLayerClassifier, OneLayerConfig


def small() -> tuple[OneLayerClassifier, torch.Tensor]:
    config = OneLayerConfig(vocab_size=9, heads=2, width=6, d_att=4, d_out=3, pad_id=None)
    module = OneLayerClassifier(config, 1).double()
    return module, module.embed(torch.tensor([[0, 4, 2, 2]]))[0].detach()


def test_the_heads_written_out_are_the_model() -> None:
    module, e = small()
    want = module.attend(inputs_embeds=e[None]).logits[0]
    for label in (0, 1):
        torch.testing.assert_close(lab.logit(module, label, e), want[label], atol=1e-14, rtol=0)


def test_autograd_agrees_with_small_steps() -> None:
    """The judge is judged: central differences of the model itself."""
    module, e = small()
    found = lab.by_autograd(module, 1, e, constant_query=False)
    for t, i in ((0, 0), (0, 3), (2, 1)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = e.clone()
            moved[t, i] += step
            ends.append(module.attend(inputs_embeds=moved[None]).logits[0, 1].item())
        assert found[t, i].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-8)


def test_errors_by_hand() -> None:
    case = lab.drawn(3, 7)
    assert case.published[0] > 0.1
    assert case.published[1:].max() < 1e-14
    assert case.ours.max() < 1e-14
    assert case.sums[0] - case.f == pytest.approx(2 * case.covariance, abs=1e-12)


def failed() -> list[str]:
    return [claim.sentence for claim in run_lab("gradient-theorem", fast=True).claims if not claim.holds]


@pytest.fixture
def no_zoo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bugs are planted on random models alone."""
    monkeypatch.setattr(lab, "trained", lambda count, seed: [lab.drawn(6, 500 + i) for i in range(5)])


def test_a_forgotten_query_path_fails(no_zoo: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "query_path", lambda module, label, e: torch.zeros(e.shape[1]).double())
    assert "closed form" in failed()[0]


def test_a_wrong_library_fails(no_zoo: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = lab.gradient
    monkeypatch.setattr(lab, "gradient", lambda *a: (1.001 * right(*a)[0], right(*a)[1]))
    assert "closed form" in failed()[0]


def test_a_wrong_covariance_fails(no_zoo: None, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = property(lambda head: (head.alpha * head.u) @ (head.k @ head.q) / head.scale)  # not centred
    monkeypatch.setattr(lab.HeadTerms, "covariance", bare)
    assert any("covariance" in sentence for sentence in failed())


def test_digits() -> None:
    cases = [lab.drawn(1, 0)]
    found = lab.digits(cases, "published")
    assert found[0][1] == pytest.approx(-np.log10(cases[0].published[0]))
    assert found[5][1] > 14
