"""Errata of the course on the architecture (docs/errata.md): the slide's formula fails, ours holds."""

import math

import pytest
import torch
import torch.nn.functional as F
from scipy.integrate import quad
from torch import Tensor

from heedful.nn import (
    GPT2,
    GPT2Config,
    additive_mask,
    attention,
    causal,
    causal_mask,
    gelu,
    layer_norm,
    single_query,
)

T, D = 6, 16
EXACT = 1e-12  # float64 against float64: rounding only


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, T, D, generator=rng, dtype=torch.float64)
    return q, k, v


# E4: GELU = x Phi(x); the slide has Phi(x) = 1/(2 pi) int exp(-t^2/2), without the root.


def phi(x: float, constant: float) -> float:
    return constant * float(quad(lambda t: math.exp(-t * t / 2), -math.inf, x)[0])


def test_e4_phi_needs_the_root_of_two_pi() -> None:
    slide, right = 1 / (2 * math.pi), 1 / math.sqrt(2 * math.pi)
    assert phi(math.inf, right) == pytest.approx(1), "a distribution function ends at 1"
    assert phi(math.inf, slide) == pytest.approx(0.3989, abs=1e-4)
    assert phi(0, slide) == pytest.approx(0.199, abs=1e-3)
    assert phi(0, right) == pytest.approx(0.5)
    for x in (-2.0, -0.3, 0.0, 1.0, 2.5):
        ours = gelu(torch.tensor(x, dtype=torch.float64)).item()
        assert ours == pytest.approx(x * phi(x, right), abs=1e-9)  # the quadrature's own error
        if x != 0:
            assert abs(ours - x * phi(x, slide)) > 0.01
    assert gelu(torch.tensor(1.0)).item() == pytest.approx(0.8413, abs=1e-4)  # the slide's gives 0.3357


# E5: the mask is added, 0 for t <= s and -inf for t > s.


def test_e5_multiplying_by_minus_infinity_gives_no_numbers() -> None:
    q, k, _ = qkv()
    scores = q @ k.T / math.sqrt(D)
    times = torch.where(causal(T), 1.0, -math.inf)
    assert (scores[~causal(T)] < 0).any()
    multiplied = scores * times  # a negative score times -inf is +inf: the forbidden entry wins
    assert (multiplied == math.inf).any()
    assert multiplied.softmax(-1).isnan().any()


def test_e5_minus_infinity_for_s_up_to_t_kills_the_diagonal_and_a_row() -> None:
    q, k, v = qkv()
    s, t = torch.arange(T)[:, None], torch.arange(T)[None, :]
    slide = torch.zeros(T, T, dtype=torch.float64).masked_fill(s <= t, -math.inf)
    weights = attention(q, k, v, slide).weights
    assert weights[0].isnan().all(), "the first token may look nowhere"
    assert (weights[1:].diagonal(1) == 0).all(), "no token may look at itself"
    assert weights[1, 0] == 1


def test_e5_ours_is_the_stated_formula() -> None:
    q, k, v = qkv()
    weights = attention(q, k, v, causal_mask(T, torch.float64)).weights
    for s in range(T):
        exps = [math.exp(float(q[s] @ k[u]) / math.sqrt(D)) for u in range(s + 1)]  # sum over u <= s
        want = [x / sum(exps) for x in exps] + [0.0] * (T - s - 1)
        assert weights[s].tolist() == pytest.approx(want, abs=EXACT)
    assert weights.sum(-1).tolist() == pytest.approx([1.0] * T, abs=EXACT)


def test_e5_a_constant_on_the_allowed_entries_is_harmless() -> None:
    q, k, v = qkv()
    zero, one = causal_mask(T, torch.float64), torch.where(causal(T), 1.0, -math.inf).double()
    torch.testing.assert_close(attention(q, k, v, one).out, attention(q, k, v, zero).out, atol=EXACT, rtol=0)


def test_e5_the_last_line_of_the_slide_drops_the_scale() -> None:
    q, k, v = qkv()
    dropped = (q @ k.T + additive_mask(causal(T), torch.float64)).softmax(-1)
    assert (dropped - attention(q, k, v, causal_mask(T, torch.float64)).weights).abs().max() > 0.1


# E6: alpha_t = softmax((q . k_u / sqrt(d_att))_u)_t, with the scale and with the index t.


def test_e6_the_scale_keeps_attention_from_collapsing() -> None:
    """q . k of d independent standard normals has variance d; over sqrt(d) it is 1 whatever d."""
    rng = torch.Generator().manual_seed(0)
    d, n = 256, 2000
    q, k = torch.randn(n, d, generator=rng), torch.randn(n, 10, d, generator=rng)
    raw = (k @ q[:, :, None]).squeeze(-1)  # (n, 10)
    assert raw.var().item() == pytest.approx(d, rel=0.05)  # 20,000 products: sd of the estimate 1 %
    slide = raw.softmax(-1).max(-1).values.mean()
    ours = single_query(q, k, k)[1]
    assert slide > 0.9, "without the scale one token takes nearly everything"
    assert ours.max(-1).values.mean() < 0.4
    torch.testing.assert_close(ours, (raw / math.sqrt(d)).softmax(-1), atol=1e-6, rtol=0)  # float32


def test_e6_by_hand() -> None:
    """d_att = 4, q . k = (4, 0): scores 2 and 0, so alpha = 0.881; the slide's gives 0.982."""
    q, k = torch.tensor([2.0, 0.0, 0.0, 0.0]), torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    alpha = single_query(q, k, k)[1]
    assert alpha.tolist() == pytest.approx([0.8808, 0.1192], abs=1e-4)
    assert (k @ q).softmax(-1).tolist() == pytest.approx([0.9820, 0.0180], abs=1e-4)


# E10: GPT-2's vocabulary, size, place of the norms, and loss.


def test_e10_vocabulary_and_size() -> None:
    with torch.device("meta"):  # shapes only
        sizes = {
            v: sum(p.numel() for p in GPT2(GPT2Config(vocab_size=v)).parameters()) for v in (50257, 50304)
        }
    assert GPT2Config().vocab_size == 50257
    assert sizes[50257] == 124_439_808  # "124M"; the slide's 117M is below it
    assert sizes[50304] - sizes[50257] == 47 * 768, "50,304 is padding of the table"


def small() -> tuple[GPT2, Tensor]:
    model = GPT2(GPT2Config(vocab_size=40, context=16, layers=2, heads=2, width=16), seed=1).double().eval()
    rng = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=rng, dtype=torch.float64))
    return model, torch.randint(40, (3, 12), generator=rng)


def forward(model: GPT2, ids: Tensor, norm_after_attention: bool) -> Tensor:
    """GPT-2 written out; the slide's has a norm before *and after* attention and none before the MLP."""
    x, mask = model.embed(ids), causal_mask(ids.shape[1], torch.float64)

    def norm(module: torch.nn.Module, y: Tensor) -> Tensor:
        return layer_norm(y, module.weight, module.bias)  # type: ignore[arg-type]

    for b in model.blocks:
        mixed = b.attn(norm(b.norm1, x), mask=mask).out  # type: ignore[operator, arg-type]
        if norm_after_attention:
            x = x + norm(b.norm2, mixed)  # type: ignore[arg-type]
            x = x + b.mlp(x)  # type: ignore[operator]
        else:
            x = x + mixed
            x = x + b.mlp(norm(b.norm2, x))  # type: ignore[operator, arg-type]
    return norm(model.norm, x) @ model.token.weight.T


def test_e10_the_norms_stand_before_attention_before_the_mlp_and_at_the_end() -> None:
    model, ids = small()
    transformers = model.to_transformers()(ids).logits
    right, slide = forward(model, ids, False), forward(model, ids, True)
    torch.testing.assert_close(model(ids), right, atol=1e-10, rtol=0)  # float64, two layers
    torch.testing.assert_close(model(ids), transformers, atol=1e-10, rtol=0)
    assert (slide - transformers).abs().max() > 0.1
    norms = [m for m in model.modules() if isinstance(m, torch.nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 1


def test_e10_the_loss_is_categorical_and_looks_one_ahead() -> None:
    """-log softmax(logits_t)[x_{t+1}], the mean over t; binary cross entropy and x_t are other numbers."""
    model, ids = small()
    probs = model(ids).softmax(-1)
    terms = [-math.log(probs[b, t, ids[b, t + 1]].item()) for b in range(3) for t in range(11)]
    ours = model.loss(ids).item()
    assert ours == pytest.approx(sum(terms) / len(terms), abs=EXACT)
    theirs = model.to_transformers().double()(ids, labels=ids).loss.item()
    assert ours == pytest.approx(theirs, abs=1e-5)  # transformers takes the loss in float32
    onehot = F.one_hot(ids[:, 1:], 40).double()
    binary = F.binary_cross_entropy_with_logits(model(ids)[:, :-1], onehot).item()
    same = -probs.gather(-1, ids[..., None]).log().mean().item()
    assert abs(binary - ours) > 0.1
    assert abs(same - ours) > 0.1


def test_e10_an_ignorant_model_loses_log_of_the_vocabulary() -> None:
    model = GPT2(GPT2Config(vocab_size=40, context=16, layers=1, heads=1, width=8))
    with torch.no_grad():
        model.token.weight.zero_()
    ids = torch.arange(16)[None]
    assert model.loss(ids).item() == pytest.approx(math.log(40), abs=1e-6)
    onehot = F.one_hot(ids[:, 1:], 40).float()
    binary = F.binary_cross_entropy_with_logits(model(ids)[:, :-1], onehot).item()
    assert binary == pytest.approx(math.log(2), abs=1e-6), "binary cross entropy does not know the vocabulary"
