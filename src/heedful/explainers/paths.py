"""Gradients gathered along a path or in a cloud around the text, in embedding space.

    integrated-gradients   IG_t = sum_i (e_ti - b_ti) * int_0^1 d f / d e_ti (b + a (e - b)) da
    smoothgrad             SG_t = sum_i e_ti * E[ d f / d e_ti (e + s n) ],  n ~ N(0, I)

The integral is Gauss-Legendre quadrature. By the fundamental theorem of calculus the scores sum to
f(e) - f(b); the nodes are doubled until the gap to that is under `tolerance` of |f(e) - f(b)|. A fixed number
of steps is wrong for some model: the gap is always shown, and "not converged" is said.

SmoothGrad draws antithetic pairs (e + s n, e - s n); its standard errors come from the spread of the pairs.

Cost: one forward + backward a node or a sample. Needs: gradients.
Sundararajan, Taly & Yan 2017; Smilkov et al. 2017.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.errors import HeedfulError
from heedful.models.base import Model
from heedful.registry import explainer
from heedful.types import Attribution, Encoded, Target

BASELINES = ("mask", "pad", "zero", "mean")
FIRST_NODES = 8


@explainer(
    "integrated-gradients",
    needs={"gradients"},
    cite="Sundararajan, Taly & Yan 2017",
    promises=("linear", "complete", "unused", "symmetric"),
    rows=lambda x, target, p: (FIRST_NODES + 2, 2 + max(FIRST_NODES, 2 * p["most"] - FIRST_NODES)),
)
def integrated_gradients(
    model: Model,
    x: Encoded,
    target: Target,
    *,
    baseline: str | None = None,
    tolerance: float = 1e-3,
    most: int = 512,
) -> Attribution:
    """Gradients integrated from a baseline to the text: the scores sum to the change of the output."""
    baseline = baseline or default_baseline(model)
    text = model.lookup(x, target)  # (T, d)
    base = baseline_embeds(model, x, target, baseline)
    ends, _ = model.gradients(x, target, torch.stack([text, base]))
    rise = float(ends[0] - ends[1])
    nodes, gap, scores = FIRST_NODES, np.inf, np.zeros(len(x))
    while True:
        scores = _quadrature(model, x, target, text, base, nodes)
        gap = abs(scores.sum() - rise)
        if gap <= tolerance * abs(rise) or 2 * nodes > most:
            break
        nodes *= 2
    return Attribution(
        x,
        target,
        scores,
        params={"baseline": baseline},
        output=float(ends[0]),
        base=float(ends[1]),
        notes=_notes(gap, rise, tolerance, nodes, bool(torch.equal(text, base))),
    )


def _quadrature(
    model: Model, x: Encoded, target: Target, text: Tensor, base: Tensor, nodes: int
) -> np.ndarray:
    """Scores with so many Gauss-Legendre nodes on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    shares = torch.tensor((points + 1) / 2, dtype=text.dtype, device=text.device)[:, None, None]
    _, grads = model.gradients(x, target, base + shares * (text - base))  # (nodes, T, d)
    mean = torch.einsum("n,ntd->td", torch.tensor(weights / 2, device=grads.device), grads.double())
    return ((text - base).double() * mean).sum(-1).cpu().numpy()


def _notes(gap: float, rise: float, tolerance: float, nodes: int, same: bool) -> tuple[str, ...]:
    if same:
        return ("the baseline equals the text: every score is zero",)
    share = gap / abs(rise) if rise else np.inf
    told = f"completeness gap {gap:.2g} ({share:.1e} of the change) at {nodes} nodes"
    return (told if gap <= tolerance * abs(rise) else f"not converged: {told}",)


def default_baseline(model: Model) -> str:
    """The mask token where the tokenizer has one, the mean embedding elsewhere."""
    return "mask" if "mask" in model.operators else "mean"


def baseline_embeds(model: Model, x: Encoded, target: Target, baseline: str) -> Float[Tensor, "T d"]:
    """The text with every token replaced, special ones left: the point the path starts from."""
    if baseline not in BASELINES:
        raise HeedfulError(f"unknown baseline {baseline!r}", fix=f"Use one of: {', '.join(BASELINES)}")
    content = [t for t, special in enumerate(x.special) if not special]
    if baseline == "zero":
        embeds = model.lookup(x, target).clone()
        embeds[content] = 0
        return embeds
    return model.lookup(x, target, replaced=content, by=baseline)


@explainer(
    "smoothgrad",
    needs={"gradients"},
    cite="Smilkov et al. 2017",
    promises=("linear", "unused", "symmetric"),
    rows=lambda x, target, p: p["samples"] // 2 * 2,
)
def smoothgrad(
    model: Model, x: Encoded, target: Target, *, samples: int = 32, noise: float = 0.1, seed: int = 0
) -> Attribution:
    """Gradient times embedding, the gradient averaged over noisy copies of the text."""
    if samples < 4:
        raise HeedfulError(
            "smoothgrad needs at least 4 samples", "its standard errors come from pairs of them"
        )
    text = model.lookup(x, target)  # (T, d)
    scale = noise * float(text.max() - text.min())  # as the paper: a share of the range of the input
    draw = torch.Generator().manual_seed(seed)
    half = torch.randn(samples // 2, *text.shape, generator=draw).to(text) * scale
    _, grads = model.gradients(x, target, torch.cat([text + half, text - half]))  # (2 * pairs, T, d)
    each = (grads.double() * text.double()).sum(-1).reshape(2, -1, len(x)).mean(0)  # (pairs, T)
    error = each.std(0) / len(each) ** 0.5
    return Attribution(x, target, each.mean(0).cpu().numpy(), stderr=error.cpu().numpy())
