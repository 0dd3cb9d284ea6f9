"""Positional codes against the formula, one number at a time."""

import math

import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.nn import Embeddings, sinusoids


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoids_are_the_formula(width: int) -> None:
    table = sinusoids(50, width)
    for t in (0, 1, 17, 49):
        for i in range(width):
            angle = t / 10000 ** ((i - i % 2) / width)
            want = math.cos(angle) if i % 2 else math.sin(angle)
            assert table[t, i].item() == pytest.approx(want, abs=1e-6)  # float32 table


def test_a_shift_is_a_rotation() -> None:
    """The reason for sinusoids: <P_s, P_t> depends on s - t only."""
    table = sinusoids(64, 16).double()
    gram = table @ table.T
    for shift in (1, 5):
        along = gram.diagonal(shift)
        assert (along - along[0]).abs().max() < 1e-5  # float32 table, 8 pairs


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_token_plus_position(positions: str) -> None:
    embed = Embeddings(20, 8, 10, positions)
    ids = torch.tensor([[3, 3, 5]])
    torch.testing.assert_close(embed(ids), embed.token.weight[ids] + embed.position[:3], atol=0, rtol=0)
    same = torch.equal(embed(ids)[0, 0], embed(ids)[0, 1])
    assert same == (positions == "none")
    assert isinstance(embed.position, torch.nn.Parameter) == (positions == "learned")


def test_too_long_says_both_lengths() -> None:
    with pytest.raises(HeedfulError, match=r"11 tokens.* at most 10"):
        Embeddings(20, 8, 10)(torch.zeros(1, 11, dtype=torch.long))
    with pytest.raises(HeedfulError, match="sinusoidal"):
        Embeddings(20, 8, 10, "rotary")
