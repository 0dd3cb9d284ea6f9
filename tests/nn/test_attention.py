"""Attention against loops by hand, torch.nn.MultiheadAttention and its own algebra."""

import math

import pytest
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.nn import (
    Block,
    Embeddings,
    MultiHeadAttention,
    additive_mask,
    attention,
    causal_mask,
    single_query,
    visible,
)

B, S, T, D, H = 2, 5, 7, 24, 4
EXACT = 1e-12  # float64 against float64: rounding only
SINGLE = 2e-6  # float32 kernels that add in another order, values of order 1


def normal(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def by_hand(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """alpha_st = exp(q_s.k_t/sqrt d) / sum over allowed u, one number at a time."""
    weights = torch.zeros(len(q), len(k), dtype=torch.float64)
    for s in range(len(q)):
        over = [t for t in range(len(k)) if allowed[s, t]]
        exps = {
            t: math.exp(sum(float(a * b) for a, b in zip(q[s], k[t], strict=True)) / math.sqrt(q.shape[1]))
            for t in over
        }
        for t in over:
            weights[s, t] = exps[t] / sum(exps.values())
    out = torch.stack(
        [sum((weights[s, t] * v[t] for t in range(len(k))), torch.zeros(v.shape[1])) for s in range(len(q))]
    )
    return out, weights


def test_formula_against_a_loop_by_hand() -> None:
    q, k, v = normal(S, 8, seed=1), normal(T, 8, seed=2), normal(T, 3, seed=3)
    allowed = torch.rand(S, T, generator=torch.Generator().manual_seed(4)) > 0.4
    allowed[:, 0] = True
    out, weights = attention(q, k, v, additive_mask(allowed, torch.float64))
    want_out, want_weights = by_hand(q, k, v, allowed)
    torch.testing.assert_close(weights, want_weights, atol=EXACT, rtol=0)
    torch.testing.assert_close(out, want_out, atol=EXACT, rtol=0)
    assert (weights[~allowed] == 0).all()


def test_causal_is_by_hand_t_up_to_s() -> None:
    q, k, v = normal(T, 8, seed=1), normal(T, 8, seed=2), normal(T, 3, seed=3)
    allowed = torch.tensor([[t <= s for t in range(T)] for s in range(T)])
    out, weights = attention(q, k, v, causal_mask(T, torch.float64))
    want_out, want_weights = by_hand(q, k, v, allowed)
    torch.testing.assert_close(weights, want_weights, atol=EXACT, rtol=0)
    torch.testing.assert_close(out, want_out, atol=EXACT, rtol=0)


def test_masked_rows_sum_to_one_and_masked_entries_are_zero() -> None:
    q, k, v = normal(B, H, T, 6, seed=1), normal(B, H, T, 6, seed=2), normal(B, H, T, 6, seed=3)
    keep = torch.tensor([[1] * T, [0, 0, 1, 1, 1, 1, 0]])  # left and right padding
    weights = attention(q, k, v, additive_mask(visible(keep), torch.float64)).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64), atol=EXACT, rtol=0)
    assert (weights.triu(1) == 0).all()
    real = keep[1].bool()
    assert (weights[1][:, real][..., ~real] == 0).all(), "a real token looks at padding"
    assert (weights[0].tril().diagonal(dim1=-2, dim2=-1) > 0).all(), "every token sees itself"


def test_the_first_token_sees_itself_only() -> None:
    q, k, v = normal(T, 6, seed=1), normal(T, 6, seed=2), normal(T, 3, seed=3)
    out, weights = attention(q, k, v, causal_mask(T, torch.float64))
    assert weights[0].tolist() == [1.0] + [0.0] * (T - 1)
    torch.testing.assert_close(out[0], v[0], atol=0, rtol=0)


def test_single_query_is_one_row_of_attention() -> None:
    q, k, v = normal(B, S, 8, seed=1), normal(B, T, 8, seed=2), normal(B, T, 3, seed=3)
    mask = additive_mask(torch.tensor([[True] * T, [True] * 4 + [False] * (T - 4)]), torch.float64)
    full_out, full_weights = attention(q, k, v, mask[:, None])
    for s in range(S):
        out, weights = single_query(q[:, s], k, v, mask)
        torch.testing.assert_close(out, full_out[:, s], atol=EXACT, rtol=0)
        torch.testing.assert_close(weights, full_weights[:, s], atol=EXACT, rtol=0)


def test_additive_scores_against_a_loop_by_hand() -> None:
    """u . tanh(W q + V k), one number at a time; Bahdanau's W and V are the projections before."""
    x, c, v = normal(S, 6, seed=1), normal(T, 5, seed=2), normal(T, 3, seed=3)
    w_q, w_k, u = normal(8, 6, seed=4), normal(8, 5, seed=5), normal(8, seed=6)
    allowed = torch.rand(S, T, generator=torch.Generator().manual_seed(4)) > 0.4
    allowed[:, 0] = True
    mask = additive_mask(allowed, torch.float64)
    out, weights = attention(x @ w_q.T, c @ w_k.T, v, mask, score="additive", u=u)
    for s in range(S):
        exps = [0.0] * T
        for t in range(T):
            if allowed[s, t]:
                inner = [float(w_q[i] @ x[s] + w_k[i] @ c[t]) for i in range(8)]
                exps[t] = math.exp(sum(float(u[i]) * math.tanh(inner[i]) for i in range(8)))
        want = torch.tensor(exps, dtype=torch.float64) / sum(exps)
        torch.testing.assert_close(weights[s], want, atol=EXACT, rtol=0)
        torch.testing.assert_close(out[s], want @ v, atol=EXACT, rtol=0)
    one_out, one = single_query(x[2] @ w_q.T, c @ w_k.T, v, mask[2], "additive", u)
    torch.testing.assert_close(one, weights[2], atol=EXACT, rtol=0)
    torch.testing.assert_close(one_out, out[2], atol=EXACT, rtol=0)


def test_each_head_has_an_additive_score_of_its_own() -> None:
    ours = MultiHeadAttention(D, H, score="additive").double()
    x, context = normal(B, S, D, seed=5), normal(B, T, D, seed=6)
    out, weights = ours(x, context, causal_mask(T, torch.float64)[:S])
    heads, d = [], D // H
    assert ours.u is not None
    for h in range(H):
        part = slice(h * d, (h + 1) * d)
        q, k, v = ours.query(x)[..., part], ours.key(context)[..., part], ours.value(context)[..., part]
        mixed, own = attention(q, k, v, causal_mask(T, torch.float64)[:S], "additive", ours.u[h])
        torch.testing.assert_close(weights[:, h], own, atol=EXACT, rtol=0)
        heads.append(mixed)
    torch.testing.assert_close(out, ours.out(torch.cat(heads, -1)), atol=EXACT, rtol=0)
    torch.testing.assert_close(
        ours.fused(x, context, causal_mask(T, torch.float64)[:S]), out, atol=EXACT, rtol=0
    )
    torch.testing.assert_close(
        ours.fused(x, is_causal=True), ours(x, mask=causal_mask(S, torch.float64)).out, atol=EXACT, rtol=0
    )


def test_scores_are_dot_or_additive_and_only_the_second_has_a_vector() -> None:
    q, k, v = normal(S, 8, seed=1), normal(T, 8, seed=2), normal(T, 3, seed=3)
    for score, u in (("additive", None), ("dot", q[0])):
        with pytest.raises(HeedfulError, match="vector u"):
            attention(q, k, v, None, score, u)
    for use in (lambda: attention(q, k, v, None, "cosine"), lambda: MultiHeadAttention(D, H, score="cosine")):
        with pytest.raises(HeedfulError, match="no score 'cosine'"):
            use()


def torch_twin(ours: MultiHeadAttention) -> torch.nn.MultiheadAttention:
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=True)
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())
    return theirs


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_against_torch(cross: bool, masked: bool) -> None:
    ours = MultiHeadAttention(D, H)
    theirs = torch_twin(ours)
    x, context = normal(B, S, D, seed=5).float(), normal(B, T, D, seed=6).float()
    source = context if cross else x
    allowed = torch.rand(S, source.shape[1], generator=torch.Generator().manual_seed(7)) > 0.5
    allowed[:, 0] = True
    mask = additive_mask(allowed) if masked else None
    want, want_weights = theirs(x, source, source, attn_mask=mask, average_attn_weights=False)
    out, weights = ours(x, context if cross else None, mask)
    torch.testing.assert_close(weights, want_weights, atol=SINGLE, rtol=0)
    torch.testing.assert_close(out, want, atol=SINGLE, rtol=0)
    torch.testing.assert_close(ours.fused(x, source, mask), want, atol=SINGLE, rtol=0)


def test_fused_causal_is_the_masked_formula() -> None:
    ours = MultiHeadAttention(D, H)
    x = normal(B, T, D, seed=5).float()
    want = ours(x, mask=causal_mask(T)).out
    torch.testing.assert_close(ours.fused(x, is_causal=True), want, atol=SINGLE, rtol=0)


@pytest.mark.parametrize(
    ("positions", "equivariant"), [("none", True), ("sinusoidal", False), ("learned", False)]
)
def test_permutation_equivariance_without_positions_only(positions: str, equivariant: bool) -> None:
    embed, block = Embeddings(50, D, T, positions).double(), Block(D, H).double()
    ids = torch.tensor([[3, 9, 4, 1, 5, 9, 2]])
    order = torch.tensor([4, 0, 6, 1, 5, 3, 2])
    everywhere = torch.zeros(1, 1, T, T, dtype=torch.float64)
    gap = (block(embed(ids[:, order]), everywhere) - block(embed(ids), everywhere)[:, order]).abs().max()
    assert (gap < EXACT) if equivariant else (gap > 1e-3)


def test_the_causal_mask_breaks_equivariance() -> None:
    """Order reaches a decoder through the mask, even without positions."""
    attn = MultiHeadAttention(D, H).double()
    x, order = normal(1, T, D, seed=8), torch.tensor([4, 0, 6, 1, 5, 3, 2])
    mask = causal_mask(T, torch.float64)
    assert (attn(x[:, order], mask=mask).out - attn(x, mask=mask).out[:, order]).abs().max() > 1e-3


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(HeedfulError, match="5 heads"):
        MultiHeadAttention(24, 5)
