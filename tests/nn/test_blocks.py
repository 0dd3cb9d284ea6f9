"""LayerNorm, GELU, SoLU and the MLP against torch and against numbers worked by hand."""

import math

import pytest
import torch
import torch.nn.functional as F

from heedful.core.errors import HeedfulError
from heedful.nn import MLP, SoLU, gelu, gelu_tanh, layer_norm, solu, solu_layer_norm

EXACT = 1e-12  # float64 against float64: rounding only
X = torch.linspace(-6, 6, 241, dtype=torch.float64)


def test_layer_norm_is_torchs() -> None:
    rng = torch.Generator().manual_seed(0)
    x, gain, bias = (torch.randn(*s, generator=rng, dtype=torch.float64) for s in ((3, 5, 16), (16,), (16,)))
    torch.testing.assert_close(
        layer_norm(x, gain, bias), F.layer_norm(x, (16,), gain, bias), atol=EXACT, rtol=0
    )
    torch.testing.assert_close(layer_norm(x), F.layer_norm(x, (16,)), atol=EXACT, rtol=0)
    assert layer_norm(x).mean(-1).abs().max() < EXACT


def test_layer_norm_divides_by_n_not_n_minus_1() -> None:
    got = layer_norm(torch.tensor([1.0, 3.0], dtype=torch.float64), eps=0.0)
    assert got.tolist() == [-1.0, 1.0]  # n - 1 would give -+ 1/sqrt 2


def test_gelu_is_torchs_in_both_forms() -> None:
    torch.testing.assert_close(gelu(X), F.gelu(X), atol=EXACT, rtol=0)
    torch.testing.assert_close(gelu_tanh(X), F.gelu(X, approximate="tanh"), atol=EXACT, rtol=0)


def test_the_two_gelus_are_close_but_not_the_same() -> None:
    gap = (gelu(X) - gelu_tanh(X)).abs().max()
    assert 1e-4 < gap < 5e-4  # as the docstring says


@pytest.mark.parametrize(
    ("x", "want", "digit"),  # digit: half a unit of the last one printed
    [
        ((4.0, 1.0, 4.0, 1.0), (1.905, 0.024, 1.905, 0.024), 5e-4),
        ((4.0, 0.0, 0.0, 0.0), (3.79, 0.0, 0.0, 0.0), 5e-3),
        ((1.0, 1.0, 1.0, 1.0), (0.25, 0.25, 0.25, 0.25), 1e-12),
    ],
)
def test_solu_on_the_examples_of_the_course(
    x: tuple[float, ...], want: tuple[float, ...], digit: float
) -> None:
    assert solu(torch.tensor(x, dtype=torch.float64)).tolist() == pytest.approx(want, abs=digit)


def test_solu_by_hand() -> None:
    total = 2 * math.exp(4) + 2 * math.exp(1)
    got = solu(torch.tensor([4.0, 1.0, 4.0, 1.0], dtype=torch.float64))
    assert got[0].item() == pytest.approx(4 * math.exp(4) / total, abs=EXACT)
    assert got[1].item() == pytest.approx(math.exp(1) / total, abs=EXACT)


def test_solu_layer_norm_undoes_the_scale_but_keeps_the_order() -> None:
    x = torch.tensor([[4.0, 1.0, 3.5, 2.0], [1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    got = solu_layer_norm(x)
    torch.testing.assert_close(got, F.layer_norm(x * x.softmax(-1), (4,)), atol=EXACT, rtol=0)
    torch.testing.assert_close(SoLU(4).double()(x), got, atol=EXACT, rtol=0)
    assert torch.equal(solu(x).argsort(-1), got.argsort(-1))
    assert not torch.allclose(got, solu(layer_norm(x)), atol=1e-2), "LN comes after SoLU, not before"


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gelu", gelu_tanh),
        ("gelu-exact", gelu),
        ("relu", torch.relu),
        ("solu", solu),
        ("solu-ln", solu_layer_norm),
    ],
)
def test_mlp_is_down_act_up(name: str, formula: object) -> None:
    mlp = MLP(6, activation=name).double()
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert callable(formula)
    want = formula(x @ mlp.up.weight.T + mlp.up.bias) @ mlp.down.weight.T + mlp.down.bias
    assert mlp.up.weight.shape == (24, 6)
    torch.testing.assert_close(mlp(x), want, atol=EXACT, rtol=0)


def test_unknown_activation_names_the_known_ones() -> None:
    with pytest.raises(HeedfulError, match="solu-ln"):
        MLP(6, activation="swish")
