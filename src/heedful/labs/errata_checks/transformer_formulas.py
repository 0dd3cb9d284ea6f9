"""Misprints about the architecture: GELU, masks, the scale, GPT-2, SoLU (E4, E5, E6, E10)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.integrate import quad
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.labs.errata_checks.formula import Misprint, distance
from heedful.nn import GPT2, GPT2Config, attention, causal, causal_mask, gelu, solu

T, D = 8, 64


def bell(x: float) -> float:
    """int_{-inf}^x exp(-t^2/2) dt, by quadrature: no constant in front."""
    return float(quad(lambda t: math.exp(-t * t / 2), -math.inf, x)[0])


def e4_gelu(seed: int, n: int) -> Misprint:
    x = np.random.default_rng(seed).uniform(-2, 2, n)
    truth = np.array([bell(value) / bell(math.inf) for value in x])  # a distribution function ends at one
    printed = np.array([bell(value) / (2 * math.pi) for value in x])
    ours = (gelu(torch.tensor(x)) / torch.tensor(x)).numpy()
    return Misprint(
        number="E4",
        sentence="E4: with 1/(2 pi) before the integral, the Φ in GELU is not a distribution function.",
        printed="Φ(x) = 1/(2π) ∫ exp(−t²/2) dt",
        correct="Φ(x) = 1/√(2π) ∫ exp(−t²/2) dt",
        judge="numerical integration, divided by the value at infinity",
        wrong=np.abs(printed / truth - 1),
        right=np.abs(ours / truth - 1),
        most=1e-7,  # the quadrature's own error
    )


def drawn_qkv(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, T, D, generator=rng, dtype=torch.float64)
    return q, k, v


def prefixes(q: Tensor, k: Tensor) -> Tensor:
    """The truth of masked attention: token s reads the text up to s, and there is no mask at all (T, T)."""
    whole = torch.zeros(T, T, dtype=torch.float64)
    for s in range(T):
        whole[s, : s + 1] = attention(q[s : s + 1], k[: s + 1], k[: s + 1]).weights[0]
    return whole


def far(weights: Tensor, truth: Tensor) -> float:
    """Total variation, mean over rows; a row that is no distribution counts as one."""
    rows = (weights - truth).abs().sum(-1) / 2
    return float(torch.where(weights.isfinite().all(-1), rows, 1.0).nan_to_num(1.0).mean())


def masked(seed: int, n: int) -> dict[str, Floats]:
    """Distance of each form of the mask to attention over prefixes, (n,) each."""
    s, t = torch.arange(T)[:, None], torch.arange(T)[None, :]
    results: dict[str, list[float]] = {"times": [], "s <= t": [], "no scale": [], "ours": []}
    for i in range(n):
        q, k, v = drawn_qkv(1000 * seed + i)
        truth, scores = prefixes(q, k), q @ k.T / math.sqrt(D)
        times = scores * torch.where(causal(T), 1.0, -math.inf)
        strict = torch.zeros(T, T, dtype=torch.float64).masked_fill(s <= t, -math.inf)
        bare = q @ k.T + causal_mask(T, torch.float64)
        results["times"].append(far(times.softmax(-1), truth))
        results["s <= t"].append(far(attention(q, k, v, strict).weights, truth))
        results["no scale"].append(far(bare.softmax(-1), truth))
        results["ours"].append(far(attention(q, k, v, causal_mask(T, torch.float64)).weights, truth))
    return {name: np.array(values) for name, values in results.items()}


ADDED = "divide the scores by √d, then add M, with M[s, t] = 0 if t ≤ s and −∞ otherwise"
PREFIX = "attention of each token to the tokens up to it, computed without a mask"


def e5_multiplied(seed: int, n: int) -> Misprint:
    masked_rows = masked(seed, n)
    sentence = (
        "E5: if a mask multiplies scores by minus infinity, forbidden tokens get all the weight, or the "
        "result is NaN."
    )
    return Misprint(
        number="E5",
        sentence=sentence,
        printed="multiply the scores by 1 or −∞",
        correct=ADDED,
        judge=PREFIX,
        wrong=masked_rows["times"],
        right=masked_rows["ours"],
    )


def e5_diagonal(seed: int, n: int) -> Misprint:
    masked_rows = masked(seed, n)
    sentence = (
        "E5: a mask with −∞ for s ≤ t also hides the token itself, so the first token has no key to attend "
        "to."
    )
    return Misprint(
        number="E5",
        sentence=sentence,
        printed="M = −∞ if s ≤ t",
        correct=ADDED,
        judge=PREFIX,
        wrong=masked_rows["s <= t"],
        right=masked_rows["ours"],
    )


def e5_scale(seed: int, n: int) -> Misprint:
    masked_rows = masked(seed, n)
    sentence = "E5: the last line of the masked formula omits the scale and gives different weights."
    return Misprint(
        number="E5",
        sentence=sentence,
        printed="exp(q·k) in the last line",
        correct=ADDED,
        judge=PREFIX,
        wrong=masked_rows["no scale"],
        right=masked_rows["ours"],
    )


def e6_scale(seed: int, n: int) -> Misprint:
    wrong, right = [], []
    for i in range(n):
        q, k, v = drawn_qkv(1000 * seed + i)
        truth = F.scaled_dot_product_attention(q[None], k[None], torch.eye(T, dtype=torch.float64)[None])[0]
        wrong.append(far((q @ k.T).softmax(-1), truth))
        right.append(far(attention(q, k, v).weights, truth))
    return Misprint(
        number="E6",
        sentence="E6: without division by the square root of the dimension, attention weights are different.",
        printed="α = softmax(q·k)",
        correct="α_t = softmax_u(q·k_u / √d)_t",
        judge="torch's scaled_dot_product_attention with the identity matrix as values",
        wrong=np.array(wrong),
        right=np.array(right),
    )


def e10_parameters(seed: int, n: int) -> Misprint:
    from transformers import GPT2Config as TheirConfig
    from transformers import GPT2LMHeadModel

    with torch.device("meta"):  # shapes only
        truth = sum(p.numel() for p in GPT2LMHeadModel(TheirConfig()).parameters())
        ours = sum(p.numel() for p in GPT2(GPT2Config()).parameters())
    return Misprint(
        number="E10",
        sentence="E10: the small GPT-2 does not have 117 million parameters.",
        printed="117M parameters",
        correct="124,439,808 parameters",
        judge=(
            "the number of parameters of GPT-2 in the transformers library, with its default sizes; the "
            "error is relative"
        ),
        wrong=np.array([abs(117e6 / truth - 1)]),
        right=np.array([abs(ours / truth - 1)]),
    )


def e10_vocabulary(seed: int, n: int) -> Misprint:
    """50,304 is 50,257 rounded up to a multiple of 128, as a re-implementation pads its table."""
    from transformers import GPT2Config as TheirConfig

    truth = TheirConfig().vocab_size
    with torch.device("meta"):
        ours = GPT2(GPT2Config()).token.weight.shape[0]
    return Misprint(
        number="E10",
        sentence="E10: the vocabulary of the small GPT-2 does not have 50,304 tokens.",
        printed="50,304 tokens",
        correct="50,257 tokens",
        judge="the default vocabulary size in the transformers library; the error is relative",
        wrong=np.array([50_304 / truth - 1]),
        right=np.array([abs(ours / truth - 1)]),
        least=5e-4,  # 47 rows of padding
    )


def small(seed: int) -> tuple[GPT2, Tensor]:
    """A two-layer GPT-2, its biases and gains shaken so that the place of a norm matters, and three texts."""
    model = GPT2(GPT2Config(vocab_size=40, context=16, layers=2, heads=2, width=16), seed).double().eval()
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=rng, dtype=torch.float64))
    return model, torch.randint(40, (3, 12), generator=rng)


def norm_after_attention(model: GPT2, ids: Tensor) -> Tensor:
    """GPT-2 with one norm before and one after attention, none before the MLP: as printed."""
    x, mask = model.embed(ids), causal_mask(ids.shape[1], torch.float64)
    blocks: Any = model.blocks
    for block in blocks:
        x = x + block.norm2(block.attn(block.norm1(x), mask=mask).out)
        x = x + block.mlp(x)
    return F.linear(model.norm(x), model.token.weight)


@torch.no_grad()
def e10_norms(seed: int, n: int) -> Misprint:
    wrong, right = [], []
    for i in range(n):
        model, ids = small(1000 * seed + i)
        truth = model.to_transformers()(ids).logits
        wrong.append(distance(norm_after_attention(model, ids), truth))
        right.append(distance(model(ids), truth))
    return Misprint(
        number="E10",
        sentence="E10: GPT-2 has no layer norm after attention, but it has one before the MLP.",
        printed="layer norm before and after self-attention",
        correct="one layer norm before attention, one before the MLP, and one at the end",
        judge="logits of GPT-2 in the transformers library, with the same weights",
        wrong=np.array(wrong),
        right=np.array(right),
    )


@torch.no_grad()
def e10_loss(seed: int, n: int) -> Misprint:
    wrong, right = [], []
    for i in range(n):
        model, ids = small(1000 * seed + i)
        theirs = model.to_transformers()
        theirs.config.loss_type = "ForCausalLM"  # what it falls back to, with a warning
        truth = float(theirs(ids, labels=ids).loss)
        onehot = F.one_hot(ids[:, 1:], model.config.vocab_size).double()
        wrong.append(distance(F.binary_cross_entropy_with_logits(model(ids)[:, :-1], onehot), truth))
        right.append(distance(model.loss(ids), truth))
    return Misprint(
        number="E10",
        sentence="E10: the loss of a language model is categorical cross entropy, not binary cross entropy.",
        printed="binary cross entropy",
        correct="−log softmax(logits_t)[x_{t+1}], mean over t",
        judge="the loss of GPT-2 in the transformers library, with the same weights",
        wrong=np.array(wrong),
        right=np.array(right),
        most=1e-5,  # transformers takes the loss in float32
    )


def ok_solu(seed: int, n: int) -> Misprint:
    """The examples of the SoLU paper; softmax without the x in front stands for a misreading."""
    x = torch.tensor([[4.0, 1, 4, 1], [4, 0, 0, 0], [1, 1, 1, 1]], dtype=torch.float64)
    shown = np.array([[1.905, 0.024, 1.905, 0.024], [3.79, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    return Misprint(
        number="OK",
        sentence="Correct as printed: the examples of SoLU are x times softmax(x), up to the printed digits "
        "(number: error of the wrong form).",
        printed="softmax(x) alone",
        correct="x · softmax(x) = (1.905, .024, 1.905, .024), (3.79, 0, 0, 0), 1/4",
        judge="the printed digits",
        wrong=np.array([distance(x.softmax(-1), shown)]),
        right=np.array([distance(solu(x), shown)]),
        most=1e-3,  # three digits
    )


CHECKS = (
    e4_gelu,
    e5_multiplied,
    e5_diagonal,
    e5_scale,
    e6_scale,
    e10_parameters,
    e10_vocabulary,
    e10_norms,
    e10_loss,
    ok_solu,
)
