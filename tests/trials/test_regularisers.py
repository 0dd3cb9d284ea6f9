"""Terms on heads against closed forms, finite differences and training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from heedful.stats.divergence import jsd
from heedful.trials.batches import rows
from heedful.trials.regularisers import TERMS, diversity, entropy, marked_mass, off_marks
from heedful.trials.training import Passed, maps

MASK = torch.tensor([[True] * 5, [True, True, True, False, False]])


def passed(weights: list[torch.Tensor]) -> Passed:
    return Passed(torch.zeros(2, 2), tuple(weights), MASK)


def uniform(layers: int = 2, heads: int = 3) -> Passed:
    rows = (MASK.double() / MASK.sum(1, keepdim=True))[:, None, None].expand(2, heads, 5, 5)
    return passed([rows] * layers)


def drawn(seed: int = 0, heads: int = 3) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 2, heads, 5, 5, generator=rng, dtype=torch.float64)
    return list(scores.masked_fill(~MASK[None, :, None, None], -torch.inf).softmax(-1))


def test_uniform_attention_has_the_entropy_of_the_length() -> None:
    torch.testing.assert_close(entropy(uniform()), torch.tensor([math.log(5), math.log(3)]).double())


def test_one_token_has_none() -> None:
    sharp = torch.zeros(2, 3, 5, 5, dtype=torch.float64)
    sharp[..., 1] = 1
    assert entropy(passed([sharp])).abs().max() == 0


def test_identical_heads_have_no_diversity() -> None:
    alike = [weights[:, :1].expand_as(weights) for weights in drawn()]
    assert diversity(passed(alike)).abs().max() < 1e-12


def test_heads_that_share_nothing_are_as_diverse_as_can_be() -> None:
    apart = torch.zeros(2, 3, 5, 5, dtype=torch.float64)
    for head in range(3):
        apart[:, head, :, head] = 1
    torch.testing.assert_close(diversity(passed([apart])), torch.full((2,), math.log(3)).double())


def test_two_heads_are_as_diverse_as_their_divergence() -> None:
    weights = drawn(heads=2)
    expected = torch.stack([jsd(own[:, 0], own[:, 1]) for own in weights]).mean(0)  # (B, Q)
    per_text = torch.stack([expected[0].mean(), expected[1, :3].mean()])  # rows of padding left out
    torch.testing.assert_close(diversity(passed(weights)), per_text)


def test_entropy_leaves_rows_of_padding_out() -> None:
    weights = drawn()
    broken = [own.clone() for own in weights]
    for own in broken:
        own[1, :, 3:] = torch.tensor([1.0, 0, 0, 0, 0]).double()
    torch.testing.assert_close(entropy(passed(weights)), entropy(passed(broken)))
    torch.testing.assert_close(diversity(passed(weights)), diversity(passed(broken)))


def test_mass_is_what_the_last_layer_shows() -> None:
    weights = drawn()
    marks = torch.tensor([[False, True, False, True, False], [False, False, True, False, False]])
    shown = weights[-1].mean(1)
    expected = torch.stack([shown[0, 0, [1, 3]].sum(), shown[1, 0, 2]])
    torch.testing.assert_close(marked_mass(passed(weights), marks, "first"), expected)
    torch.testing.assert_close(off_marks(passed(weights), marks, "first"), -expected.log())
    last = torch.stack([shown[0, 4, [1, 3]].sum(), shown[1, 2, 2]])
    torch.testing.assert_close(marked_mass(passed(weights), marks, "last"), last)
    every = torch.stack([shown[0, :, [1, 3]].sum(-1).mean(), shown[1, :3, 2].mean()])
    torch.testing.assert_close(marked_mass(passed(weights), marks, "all"), every)


def test_a_text_without_marks_pulls_nowhere() -> None:
    scores = torch.randn(2, 1, 1, 5, dtype=torch.float64, requires_grad=True)
    marks = torch.tensor([[False] * 5, [True, False, False, False, False]])
    off_marks(passed([scores.softmax(-1)]), marks, "first").sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert not scores.grad[0].any()
    assert scores.grad[1].abs().min() > 0


@pytest.mark.parametrize("name", [*TERMS, "rationales"])
def test_gradients_are_finite_differences(name: str) -> None:
    marks = torch.tensor([[False, True, False, True, False], [False, False, True, False, False]])

    def term(scores: torch.Tensor) -> torch.Tensor:
        hidden = scores.masked_fill(~MASK[:, None, None], -torch.inf)
        own = passed([hidden.softmax(-1), (hidden * 0.5).softmax(-1)])
        return off_marks(own, marks, "first") if name == "rationales" else TERMS[name](own)

    scores = torch.randn(2, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(term, (scores,))


def test_terms_read_a_real_model(shared: Any) -> None:
    model = shared("bert").model
    data = rows(model, ["the cat sat on the mat.", "hello world"], [0, 1])
    (own,) = maps(model, data)
    for row, text in enumerate(("the cat sat on the mat.", "hello world")):
        x = model.encode(text)
        trace = model.trace(x, model.target(x, 0))
        weights = torch.stack(trace.attentions).double().numpy()  # (L, H, T, T)
        expected = -(weights * np.log(weights)).sum(-1).mean()
        assert float(entropy(own)[row]) == pytest.approx(expected, rel=1e-4)
