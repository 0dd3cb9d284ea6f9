"""Exact explanations of a one-layer softmax attention classifier, without sampling.

With u_t = W_l v_t (a scalar: the target's read-out of value t) and ubar = sum_s alpha_s u_s, mean over heads:

    gradient-exact  d f/d e_t = alpha_t W_v^T W_l^T + alpha_t (u_t - ubar) W_k^T q / sqrt(d_att)
                              + 1[t = CLS] W_q^T sum_s alpha_s (u_s - ubar) k_s / sqrt(d_att)
    lime-exact      LIME's coefficients for infinitely many samples, for any bandwidth
    shapley-exact   Shapley values; they sum to f(text) - f(every word unknown)

The last two remove words (or tokens, sentences): a removed word is replaced by the unknown-word token
(operator "unk"). They explain the logit, which is a sum over heads; a contrast is treated as one more
read-out. Cost: no model inputs; O(K d n_x n_p) arithmetic in float64. Needs: one-layer.

`games` gives the heads of a text as games N(z) / D(z) (heedful.stats.ratio_game), if you need other values of
these games; `gradient` is the closed form at any embeddings.

Lopardo, Precioso & Garreau 2024 (model and gradient; heedful adds the query path of CLS); Mardaoui &
Garreau 2021 (LIME's limit); Owen 1972 (Shapley values by coin tosses).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.registry import explainer
from heedful.core.removal_record import record
from heedful.core.target import Target
from heedful.engine.question import Question
from heedful.modalities.text import text_of
from heedful.nn.one_layer import OneLayerClassifier
from heedful.stats import lime_limit, ratio_game
from heedful.stats.lime_limit import Floats
from heedful.stats.ratio_game import RatioGame


def _module(model: Model) -> OneLayerClassifier:
    assert isinstance(model.module, OneLayerClassifier)  # capability "one-layer"
    return model.module


def _readout(module: OneLayerClassifier, target: Target) -> Tensor:
    """W_l of the target, per head (K, d_out)."""
    rows = module.readout.detach().double()
    return rows[:, target.index] - (0 if target.contrast is None else rows[:, target.contrast])


def _embeds(module: OneLayerClassifier, ids: list[int]) -> Tensor:
    """(T, d_e), as the model has them, in float64."""
    return module.embed(torch.tensor([ids], device=module.query.device))[0].detach().double()


def _heads(module: OneLayerClassifier, target: Target, e: Tensor) -> tuple[Tensor, Tensor]:
    """Attention scores of the CLS query and read-outs u_t, each (K, T)."""
    query = module.query.detach().double() @ e[0]  # (K, d_att)
    towards = torch.einsum("kad,ka->kd", module.key.detach().double(), query)  # W_k^T q
    out = torch.einsum("ko,kod->kd", _readout(module, target), module.value.detach().double())
    return towards @ e.T / math.sqrt(module.config.d_att), out @ e.T


def gradient(module: OneLayerClassifier, target: Target, e: Tensor) -> tuple[Tensor, float]:
    """The gradient d f/d e_t of every token, (T, d_e), and the output f. Both come from the closed form."""
    scores, u = _heads(module, target, e)
    alpha = scores.softmax(-1)  # (K, T)
    gap = alpha * (u - (alpha * u).sum(-1, keepdim=True)) / math.sqrt(module.config.d_att)
    q_weight, k_weight = module.query.detach().double(), module.key.detach().double()
    out = torch.einsum("ko,kod->kd", _readout(module, target), module.value.detach().double())
    towards = torch.einsum("kad,ka->kd", k_weight, q_weight @ e[0])
    grad = torch.einsum("kt,kd->td", alpha, out) + torch.einsum("kt,kd->td", gap, towards)
    pulled = torch.einsum("kt,td,kad->ka", gap, e, k_weight)  # sum_s alpha_s (u_s - ubar) k_s / sqrt(d_att)
    grad[0] += torch.einsum("kad,ka->d", q_weight, pulled)  # CLS asks the question, too
    return grad / len(alpha), float((alpha * u).sum(-1).mean())


@explainer(
    "gradient-exact",
    needs={"one-layer"},
    cite="Lopardo, Precioso & Garreau 2024",
    properties=("gradient-x-input", "unused", "symmetric"),
)
def gradient_exact(q: Question, *, reduce: str = "x-input") -> Attribution:
    """The gradient in closed form, times the input ("x-input") or as the mean over dimensions ("avg").

    Limitations: It is exact for the gradient, and it has the same limits as the gradient: saturation, and
    words that act together.
    """
    if reduce not in ("x-input", "avg"):
        raise HeedfulError(f"unknown reduction {reduce!r}", fix='Use "x-input" or "avg"')
    module = _module(q.model)
    e = _embeds(module, list(text_of(q.x).ids))
    grad, output = gradient(module, q.target, e)
    scores = (grad * e).sum(-1) if reduce == "x-input" else grad.mean(-1)
    return q.answer(scores.cpu().numpy(), over=q.x.atom, output=output)


def games(model: Model, x: Input, target: Target, unit: str) -> list[RatioGame]:
    """One game (of game theory, with words as players) per attention head. The output of the model is the
    mean over the games."""
    groups, ids = x.units(unit), text_of(x).ids
    unknown = model.special_id("unk")
    if unknown is None or "unk" not in model.operators:
        raise HeedfulError(f"{model.name} has no unknown-word token", "an absent word is replaced by it")
    if any(0 in group for group in groups):
        raise HeedfulError(
            "the model reads its answer at the first token",
            "it is a word here, and the exact formulas need a special token there",
            "Use a tokenizer that puts [CLS] in front",
        )
    removable = {t for group in groups for t in group}
    module = _module(model)
    present, absent = (
        _heads(module, target, _embeds(module, each))
        for each in (list(ids), [unknown if t in removable else i for t, i in enumerate(ids)])
    )
    heads = zip(*(tensor.cpu().numpy() for pair in (present, absent) for tensor in pair), strict=True)
    return [ratio_game.from_scores((s1, s0), (u1, u0), list(groups)) for s1, u1, s0, u0 in heads]


def _solved(q: Question, solve: Callable[[RatioGame], Floats]) -> Attribution:
    """Mean over heads of each head's solution, and of its value with all words and with none."""
    heads, count = games(q.model, q.x, q.target, q.unit), len(q.x.units(q.unit))
    record("unk")  # the formulas say what rows would: the method is fitted by the operator all the same
    ends = np.repeat([[True], [False]], count, axis=1)
    output, base = np.mean([game(ends) for game in heads], axis=0)
    values = np.mean([solve(game) for game in heads], axis=0) if count else np.zeros(0)
    return q.answer(values, params={"operator": "unk"}, output=float(output), base=float(base))


@explainer(
    "lime-exact",
    needs={"one-layer"},
    takes=("unit",),
    cite="Mardaoui & Garreau 2021",
    properties=("symmetric",),
)
def lime_exact(q: Question, *, bandwidth: float = lime_limit.PUBLISHED) -> Attribution:
    """The limit of LIME for infinitely many samples. `bandwidth` is LIME's kernel width / 100, and may be
    inf.

    Limitations: It has no sampling error, but it is a linear approximation, like LIME: it cannot show words
    that act together. The bandwidth decides how far from the text it looks.
    """
    return _solved(q, lambda game: ratio_game.lime(game, bandwidth))


@explainer(
    "shapley-exact",
    needs={"one-layer"},
    takes=("unit",),
    cite="Shapley 1953; Owen 1972",
    properties=("complete", "unused", "symmetric"),
)
def shapley_exact(q: Question) -> Attribution:
    """Shapley values without sampling; they sum to f(text) - f(every word unknown).

    Limitations: It is exact if removed words are replaced by the unknown-word token. Another removal
    operator gives other values. Redundant words share the credit.
    """
    return _solved(q, ratio_game.shapley)
