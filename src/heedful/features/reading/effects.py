"""What a feature does to the model's answer, measured on the windows in which it is strongest.

    promoted, suppressed   a (logits(x + e d) - logits(x - e d)) / 2e at the strongest token of each window:
                           d the decoder row, a the activation there, e a hundredth of ||x|| / ||d||. The
                           change of each logit, to first order, that the activation stands for. All that
                           follows the site is in it: attention, MLPs, the last norm. No class of models is
                           assumed. Logits are centred: only differences between them matter.
    ablation               the loss of what comes next, predicted from tokens on which the feature fires, with
                           x - a d in place of x at these tokens, minus the loss as it is. The error of the
                           dictionary stays in x: only this feature is taken out.
    control                the same tokens, and at each a feature drawn from the others that fire there

Language models: logits of tokens, loss of the token that follows in the text. Classifiers: logits of labels,
loss of the model's own answer. Cost: five passes a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.features.reading.examples import Snippet
from heedful.features.reading.results import Effects, FeatureMean, LogitEffect, Reading
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import changing, reading
from heedful.stats.intervals import student

STEP = 0.01
KINDS = {"causal-lm": "token", "classifier": "label"}


def effects(model: TokenModel, sae: Any, site: str, found: Reading, k: int = 8, seed: int = 0) -> Effects:
    """Of one feature, on the windows of its strongest examples."""
    outputs = KINDS.get(model.kind, "")
    if not outputs or not found.top:
        why = (
            "it never fired" if not found.top else f"a {model.kind} has no logits of tokens or labels to move"
        )
        return Effects(outputs, notes=(why,))
    tops = [top for top in found.top if top.whole]
    moved = torch.stack([_moved(model, sae, site, found.feature, top) for top in tops])  # (n, V)
    promoted, suppressed = _extremes(model, moved, min(k, moved.shape[1] // 2))
    rng = np.random.default_rng((seed, found.feature))
    pairs = [_without(model, sae, site, found.feature, top, rng) for top in tops]
    changes = np.array([p for p in pairs if p is not None])  # (n, 2)
    if not len(changes):
        return Effects(outputs, promoted, suppressed, notes=("no token follows where it fires",))
    band = student(changes, claims=1)
    spans = [(float(low), float(high)) for low, high in zip(band.low, band.high, strict=True)]
    effect = FeatureMean(float(band.mean[0]), spans[0], float(band.mean[1]), spans[1], len(changes))
    return Effects(outputs, promoted, suppressed, effect)


def _logits(model: TokenModel, ids: Sequence[int]) -> Tensor:
    """(T, V) of a language model, (1, C) of a classifier."""
    logits = model.forward(model.padded(torch.tensor([list(ids)]))).float().cpu()
    return logits[0] if model.kind == "causal-lm" else logits


def _moved(model: TokenModel, sae: Any, site: str, feature: int, top: Snippet) -> Tensor:
    """(V,) centred change of logits at the marked token, to first order in the feature's activation."""
    at, d = top.position, sae.W_dec[feature].detach()
    where = at if model.kind == "causal-lm" else 0
    sides = []
    with torch.inference_mode():
        with reading(model, [site]) as observed:
            _logits(model, top.whole)
        here = observed[site][0, at]
        e = STEP * float(here.float().norm() / d.norm())
        for sign in (1.0, -1.0):

            def shift(x: Tensor, step: float = sign * e) -> Tensor:
                x = x.clone()
                x[:, at] += step * d.to(x.device, x.dtype)
                return x

            with changing(model, site, shift):
                sides.append(_logits(model, top.whole)[where].double())
    slope: Tensor = (sides[0] - sides[1]) / (2 * e) * top.value
    return slope - slope.mean()


def _extremes(
    model: TokenModel, moved: Tensor, k: int
) -> tuple[tuple[LogitEffect, ...], tuple[LogitEffect, ...]]:
    mean = moved.mean(0)
    error = moved.std(0) / len(moved) ** 0.5 if len(moved) > 1 else torch.full_like(mean, torch.nan)

    def named(index: int) -> LogitEffect:
        name = model.spelled(index) if model.kind == "causal-lm" else model.labels[index]
        return LogitEffect(str(name), float(mean[index]), float(error[index]))

    most, least = mean.topk(k).indices.tolist(), (-mean).topk(k).indices.tolist()
    return tuple(named(i) for i in most if mean[i] > 0), tuple(named(i) for i in least if mean[i] < 0)


def _without(
    model: TokenModel, sae: Any, site: str, feature: int, top: Snippet, rng: np.random.Generator
) -> tuple[float, float] | None:
    """Change of loss without the feature, and without another that fires at the same tokens."""
    special = {model.special_id(name) for name in ("bos", "eos", "cls", "sep")}
    with torch.inference_mode():
        with reading(model, [site]) as observed:
            logits = _logits(model, top.whole)
        codes = sae.encode(observed[site][0].float())  # (T, F)
        allowed = torch.tensor([i not in special for i in top.whole])
        fires = (codes[:, feature].cpu() > 0) & allowed
        if model.kind == "causal-lm":
            fires[-1] = False  # nothing follows the last token
        where = fires.nonzero()[:, 0].tolist()
        if not where:
            return None
        others = _drawn(codes, feature, where, rng)
        before = _loss(model, logits, logits, top.whole, where)
        changes = []
        for removed in ([feature] * len(where), others):
            take = torch.zeros_like(observed[site][0])
            for place, other in zip(where, removed, strict=True):
                if other >= 0:
                    take[place] = (codes[place, other] * sae.W_dec[other]).to(take.dtype)
            with changing(model, site, partial(_less, take)):
                after = _logits(model, top.whole)
            changes.append(_loss(model, after, logits, top.whole, where) - before)
    return changes[0], changes[1]


def _less(take: Tensor, x: Tensor) -> Tensor:
    return x - take


def _drawn(codes: Tensor, feature: int, where: list[int], rng: np.random.Generator) -> list[int]:
    """At each place one of the other features that fire there; -1 where none does."""
    chosen = []
    for place in where:
        active = [f for f in codes[place].nonzero()[:, 0].tolist() if f != feature]
        chosen.append(int(rng.choice(active)) if active else -1)
    return chosen


def _loss(model: TokenModel, logits: Tensor, as_is: Tensor, ids: Sequence[int], where: list[int]) -> float:
    """Of the tokens that follow the places, or of the label that the model gives as it is."""
    scores = torch.log_softmax(logits.double(), -1)
    if model.kind == "causal-lm":
        return -float(scores[where, [ids[place + 1] for place in where]].mean())
    return -float(scores[0, int(as_is[0].argmax())])
