"""SmoothGrad: the gradient averaged over noisy copies of the input, times the input.

    mean      SG_t = sum_i e_ti * E[ g_ti ]      g = d f / d e at e + s n,  n ~ N(0, I)
    gradient  sum_i E[ g_ti ]                    as the paper defines it: no product with the input
    squared   sum_i E[ g_ti^2 ]                  unsigned: no product with the input
    variance  sum_i Var[ g_ti ]                  VarGrad: unsigned; zero where the gradient is constant

e are the embeddings of a text, or the colours of a picture as the network reads them. The noise s is a share
(`noise`) of the range of e, as in the paper. The default differs from the paper by the product with the
input, so that a score is in the unit of the output, as those of other methods are. It samples antithetic
pairs (e + s n, e - s n). The standard errors of the means and of the squares come from the spread of the
pairs, scaled by Student's quantile, so that +-1.96 of them is a 95 % interval also with few pairs. The
variance has none.

On a quadratic f = e'Ae/2 + b'e all are exact in expectation: with g = Ae + b,
    squared  sum_i (g_i^2 + s^2 |A_i|^2),   variance  sum_i s^2 |A_i|^2.

Cost: one forward + backward per sample. Needs: gradients.
Smilkov et al. 2017; Adebayo et al. 2018 (VarGrad); Hooker et al. 2019 (squared).
"""

from __future__ import annotations

import torch

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import explainer
from heedful.engine.question import Question
from heedful.stats.mask_sampling import student

VARIANTS = ("mean", "gradient", "squared", "variance")


@explainer(
    "smoothgrad",
    needs={"gradients"},
    takes=("seed",),
    cite="Smilkov et al. 2017",
    properties=("linear", "unused", "symmetric"),
    rows=lambda x, target, p: p["samples"] // 2 * 2,
)
def smoothgrad(q: Question, *, samples: int = 16, noise: float = 0.1, variant: str = "mean") -> Attribution:
    """Gradient times input, with the gradient averaged over noisy copies of the input. Variants: the mean
    gradient without the product, the mean squared gradient, or its variance (VarGrad).

    Limitations: The mean over noise makes the gradient smoother and less precise. The amount of noise
    changes the ranking. Saturation becomes weaker but does not disappear.
    """
    if samples < 4:
        raise HeedfulError(
            "smoothgrad needs at least 4 samples", "its standard errors come from pairs of them"
        )
    if variant not in VARIANTS:
        raise HeedfulError(f"smoothgrad has no variant {variant!r}", fix=f"Use one of: {', '.join(VARIANTS)}")
    text = q.embeds()  # (T + W, d)
    draw = torch.Generator().manual_seed(q.seed)
    half = torch.randn(samples // 2, *text.shape, generator=draw).to(text)
    for drawn, part in zip(q.model.embed_parts(q.x, half), q.model.embed_parts(q.x, text), strict=True):
        drawn *= noise * float(part.max() - part.min())  # as the paper: a share of the range of the input
    _, grads = q.gradients(torch.cat([text + half, text - half]))  # (2 * pairs, T + W, d)
    grads = grads.double()
    if variant == "variance":
        # not the unbiased estimate: the mean of a pair is exact on a quadratic, so nothing is lost to it
        spread = q.by_atom(lambda part: part.sum(-1), grads.var(0, correction=0)[None])[0]
        return q.answer(spread.cpu().numpy(), over=q.x.atom, signed=False)
    factors = {"mean": text.double(), "gradient": torch.ones_like(text.double()), "squared": grads}
    sizes = grads * factors[variant]
    sums = q.by_atom(lambda part: part.sum(-1), sizes)  # (2 * pairs, T + W)
    each = sums.reshape(2, len(half), -1).mean(0)  # (pairs, T + W)
    error = each.std(0) / len(each) ** 0.5 * float(student(float(len(each) - 1)))
    scores, errors = each.mean(0).cpu().numpy(), error.cpu().numpy()
    return q.answer(scores, errors, over=q.x.atom, signed=variant != "squared")
