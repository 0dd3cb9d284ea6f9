"""Attention by hand: six tokens, every number written out.

    x = (5, 0, 3, 3, 7, 9)                      token ids, from a vocabulary of ten
    e_t = E[x_t]                                embeddings, one row a token              (6, 4)
    q_s = W_q e_s,  k_t = W_k e_t,  v_t = W_v e_t                                        (6, 2) each
    A[s, t] = exp(q_s.k_t / sqrt 2) / sum_u exp(q_s.k_u / sqrt 2)                        (6, 6)
    masked:  the sum runs over u <= s, and A[s, t] = 0 for t > s
    out_s = sum_t A[s, t] v_t

With weights as they are first drawn, scores are small and every token looks at all alike: A is about 1/6
everywhere, masked about 1/s in row s. Attention does not know order: tokens in another order give the same
rows in that order, and the two 3s are one and the same; positions, or the mask, change that.

Drawn: both maps, with first weights and with weights ten times as large.

Vaswani et al., Attention Is All You Need, NeurIPS 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.core.charts import Heat, Panel
from heedful.labs.base.registry import LabRun, lab
from heedful.nn import GPT2, GPT2Config, attention, causal_mask, sinusoids
from heedful.stats.intervals import mean_of

X = (5, 0, 3, 3, 7, 9)
T, VOCABULARY, WIDTH, D = len(X), 10, 4, 2
WEIGHT_FACTOR = 10.0  # times the first weights of queries and keys

Rows = list[list[float]]


@dataclass(frozen=True)
class Weights:
    """E (10, 4), and W_q, W_k, W_v (2, 4)."""

    table: Tensor
    w_q: Tensor
    w_k: Tensor
    w_v: Tensor


def drawn(seed: int, scale: float = 1.0) -> Weights:
    """As first drawn: embeddings N(0, 1), the others U(-0.1, 0.1); `scale` multiplies W_q and W_k."""
    rng = torch.Generator().manual_seed(seed)
    table = torch.randn(VOCABULARY, WIDTH, generator=rng, dtype=torch.float64)
    w_q, w_k, w_v = torch.rand(3, D, WIDTH, generator=rng, dtype=torch.float64) * 0.2 - 0.1
    return Weights(table, scale * w_q, scale * w_k, w_v)


def by_hand(q: Rows, k: Rows, v: Rows, masked: bool) -> tuple[Rows, Rows]:
    """(A, out) with nothing but sums, products and exp."""
    weights, out = [], []
    for s, query in enumerate(q):
        observed = range(s + 1) if masked else range(len(k))
        lifted = [
            math.exp(sum(a * b for a, b in zip(query, k[t], strict=True)) / math.sqrt(len(query)))
            for t in observed
        ]
        row = [value / sum(lifted) for value in lifted]
        out.append([sum(row[t] * v[t][i] for t in observed) for i in range(len(v[0]))])
        weights.append(row + [0.0] * (len(k) - len(row)))
    return weights, out


def projected(w: Weights, e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return e @ w.w_q.T, e @ w.w_k.T, e @ w.w_v.T


def uniform(masked: bool) -> Tensor:
    """1/T everywhere; masked, 1/s in row s."""
    rows = torch.ones(T, T, dtype=torch.float64)
    rows = rows.tril() if masked else rows
    return rows / rows.sum(-1, keepdim=True)


@lab(
    "attention-by-hand",
    title="Attention by hand: six tokens, every number",
    minutes=0.1,
    cite="Vaswani et al. 2017",
)
def attention_by_hand(run: LabRun) -> None:
    draws = 20 if run.fast else 400
    worked_example(run)
    same_as_torch(run, draws)
    at_first(run, draws)
    order(run, draws)


def worked_example(run: LabRun) -> None:
    """Every table of the computation, and both maps as pictures."""
    w = drawn(run.seed)
    e = w.table[list(X)]
    q, k, v = projected(w, e)
    names = [f"{token} (position {place})" for place, token in enumerate(X)]

    def shown(title: str, rows: Tensor, columns: list[str]) -> None:
        run.table(
            title, ["token", *columns], [[name, *row] for name, row in zip(names, rows.tolist(), strict=True)]
        )

    run.say(
        f"The sequence is x = {X}. Its third and fourth tokens are the same. The tables show every step of "
        "the computation with the initial weights of this seed."
    )
    shown("Embeddings e = E[x]", e, [f"e{i}" for i in range(WIDTH)])
    both = torch.cat([q, k, v], dim=1)
    shown("Queries, keys and values", both, [f"{letter}{i}" for letter in "qkv" for i in range(D)])
    shown(
        "Scores q·k / √2 (queries in rows, keys in columns)",
        q @ k.T / math.sqrt(D),
        [str(token) for token in X],
    )
    panels = []
    for title, scale in (("initial", 1.0), (f"× {WEIGHT_FACTOR:g}", WEIGHT_FACTOR)):
        q, k, v = projected(drawn(run.seed, scale), e)
        for masked in (False, True):
            a, out = by_hand(q.tolist(), k.tolist(), v.tolist(), masked)
            panels.append(Panel(f"{title}, masked" if masked else title, a))
            if scale == 1.0:
                name = "attention A(x) with a mask" if masked else "attention A(x)"
                shown(f"Weights of {name}", torch.tensor(a), [str(token) for token in X])
                shown(f"Output of {name}", torch.tensor(out), [f"out{i}" for i in range(D)])
    run.figure(
        "maps",
        Heat(panels, "Attention maps of the sequence", columns=4),
        "Rows are queries, columns are keys, both in the order 5 0 3 3 7 9. Two maps use the initial "
        "weights. The other two use query and key weights that are ten times as large. Stronger colours "
        "mean larger attention weights.",
    )


def same_as_torch(run: LabRun, draws: int) -> None:
    """Sums and exponentials, written out, against torch's kernel and ours."""
    errors = []
    for i in range(draws):
        w = drawn(1000 * run.seed + i, WEIGHT_FACTOR)
        q, k, v = projected(w, w.table[list(X)])
        for masked in (False, True):
            a, out = by_hand(q.tolist(), k.tolist(), v.tolist(), masked)
            theirs = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=masked)[0]
            ours = attention(q, k, v, causal_mask(T, torch.float64) if masked else None)
            gaps = (
                theirs - torch.tensor(out, dtype=torch.float64),
                ours.out - theirs,
                ours.weights - torch.tensor(a, dtype=torch.float64),
            )
            errors.append(max(float(gap.abs().max()) for gap in gaps))
    value, span = mean_of(errors)
    run.claim(
        "Attention computed by hand, by heedful.nn and by torch's kernel is the same, with and without a "
        "mask (number: largest difference, mean over samples).",
        value=value,
        interval=span,
        holds=max(errors) < 1e-12,
    )


def farthest(w: Weights, masked: bool) -> float:
    """Of a weight from 1/T, or from 1/s in row s."""
    q, k, v = projected(w, w.table[list(X)])
    result = attention(q, k, v, causal_mask(T, torch.float64) if masked else None).weights
    return float((result - uniform(masked)).abs().max())


def at_first(run: LabRun, draws: int) -> None:
    """How far from looking at all alike?"""
    for masked, words in (
        (False, ", all attention values are about 1/6"),
        (True, " and a mask, the attention values in row s are about 1/s"),
    ):
        first = [farthest(drawn(1000 * run.seed + i), masked) for i in range(draws)]
        later = [farthest(drawn(1000 * run.seed + i, WEIGHT_FACTOR), masked) for i in range(draws)]
        value, span = mean_of(first)
        run.claim(
            f"With initial weights{words} (number: largest deviation, mean over samples).",
            value=value,
            interval=span,
            against=sum(later) / draws,
            control="largest deviation with weights ten times as large",
            holds=span[1] < 0.05 and sum(later) / draws > 5 * value,
        )
    gaps = []
    for i in range(max(draws // 4, 5)):
        model = GPT2(
            GPT2Config(VOCABULARY, 16, layers=2, heads=2, width=16), seed=1000 * run.seed + i
        ).double()
        maps = torch.stack(model.attentions(torch.tensor([X]))).detach()  # (layers, 1, heads, T, T)
        gaps.append(float((maps - uniform(masked=True)).abs().max()))
    value, span = mean_of(gaps)
    run.claim(
        "Before training, every head of a GPT-2 also has attention values of about 1/s in row s, in all "
        "layers (number: largest deviation, mean over models).",
        value=value,
        interval=span,
        holds=max(gaps) < 0.05,
    )


def order(run: LabRun, draws: int) -> None:
    """The tokens in another order: do the outputs follow?"""
    moved: dict[str, list[float]] = {"plain": [], "positions": [], "mask": []}
    twins: dict[str, list[float]] = {"plain": [], "positions": []}
    places = sinusoids(T, WIDTH).double()
    for i in range(draws):
        w = drawn(1000 * run.seed + i, WEIGHT_FACTOR)
        mix = torch.randperm(T, generator=torch.Generator().manual_seed(1000 * run.seed + i))
        mix = mix if (mix != torch.arange(T)).any() else mix.flip(0)
        e = w.table[list(X)]
        none, hidden = 0 * places, causal_mask(T, e.dtype)
        settings = {"plain": (none, None), "positions": (places, None), "mask": (none, hidden)}
        for name, (code, mask) in settings.items():
            straight = attention(*projected(w, e + code), mask)
            mixed = attention(*projected(w, e[mix] + code), mask)
            gap = (mixed.weights - straight.weights[mix][:, mix]).abs().max()
            moved[name].append(max(float(gap), float((mixed.out - straight.out[mix]).abs().max())))
            if name in twins:
                twins[name].append(float((straight.out[2] - straight.out[3]).abs().max()))
    run.table(
        "Permuted tokens: largest change of weights and outputs apart from their order, mean over samples",
        ["attention", "largest change"],
        [
            ["without positions and mask", mean_of(moved["plain"])[0]],
            ["with positions", mean_of(moved["positions"])[0]],
            ["with a mask", mean_of(moved["mask"])[0]],
        ],
    )
    value, span = mean_of(moved["plain"])
    run.claim(
        "Attention without positions and mask ignores the order: if the tokens are permuted, weights and "
        "outputs are permuted in the same way, and nothing else changes (number: largest other change).",
        value=value,
        interval=span,
        against=mean_of(moved["positions"])[0],
        control="largest other change with positions",
        holds=max(moved["plain"]) < 1e-12,
    )
    for name, words in (
        ("positions", "With positions, the outputs depend on the order of the tokens"),
        ("mask", "With a mask, the outputs depend on the order even without positions"),
    ):
        value, span = mean_of(moved[name])
        sentence = f"{words} (number: largest change apart from the order)."
        run.claim(sentence, value=value, interval=span, holds=span[0] > 1e-3)
    value, span = mean_of(twins["positions"])
    run.claim(
        "Without positions, the two equal tokens (both 3) have the same output. With positions, their "
        "outputs differ (number: largest difference).",
        value=value,
        interval=span,
        against=max(twins["plain"]),
        control="largest difference without positions",
        holds=span[0] > 1e-4 and max(twins["plain"]) < 1e-12,
    )
