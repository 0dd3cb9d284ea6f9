"""SmoothGrad: the gradient averaged over noisy copies of the text, times the embedding.

    SG_t = sum_i e_ti * E[ d f / d e_ti (e + s n) ],  n ~ N(0, I)

It samples antithetic pairs (e + s n, e - s n). The standard errors come from the spread of the pairs, scaled
by Student's quantile, so that +-1.96 of them is a 95 % interval also with few pairs.

Cost: one forward + backward per sample. Needs: gradients. Smilkov et al. 2017.
"""

from __future__ import annotations

import torch

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import explainer
from heedful.engine.question import Question
from heedful.stats.mask_sampling import student


@explainer(
    "smoothgrad",
    needs={"gradients"},
    takes=("seed",),
    cite="Smilkov et al. 2017",
    properties=("linear", "unused", "symmetric"),
    rows=lambda x, target, p: p["samples"] // 2 * 2,
)
def smoothgrad(q: Question, *, samples: int = 16, noise: float = 0.1) -> Attribution:
    """Gradient times embedding, with the gradient averaged over noisy copies of the text.

    Limitations: The mean over noise makes the gradient smoother and less precise. The amount of noise
    changes the ranking. Saturation becomes weaker but does not disappear.
    """
    if samples < 4:
        raise HeedfulError(
            "smoothgrad needs at least 4 samples", "its standard errors come from pairs of them"
        )
    text = q.embeds()  # (T + W, d)
    draw = torch.Generator().manual_seed(q.seed)
    half = torch.randn(samples // 2, *text.shape, generator=draw).to(text)
    for drawn, part in zip(q.model.embed_parts(q.x, half), q.model.embed_parts(q.x, text), strict=True):
        drawn *= noise * float(part.max() - part.min())  # as the paper: a share of the range of the input
    _, grads = q.gradients(torch.cat([text + half, text - half]))  # (2 * pairs, T + W, d)
    products = q.by_atom(lambda part: part.sum(-1), grads.double() * text.double())  # (2 * pairs, T + W)
    each = products.reshape(2, len(half), -1).mean(0)  # (pairs, T + W)
    error = each.std(0) / len(each) ** 0.5 * float(student(float(len(each) - 1)))
    return q.answer(each.mean(0).cpu().numpy(), error.cpu().numpy(), over=q.x.atom)
