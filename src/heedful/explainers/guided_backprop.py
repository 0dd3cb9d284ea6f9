"""Guided backpropagation: the gradient, with negative gradients set to zero at every ReLU.

    backward through h = ReLU(z):   dz = dh * 1[z > 0] * 1[dh > 0]        (plain: dz = dh * 1[z > 0])
    product   sum_i g_ti x_ti                    signed: times the embedding or the colours
    size      sum_i |g_ti|                       unsigned: as pictures are shown in the paper

It is defined for ReLU networks only. It fails sanity checks: random weights in the upper layers hardly change
it (Adebayo et al. 2018), because without negative gradients it mostly reconstructs the input. It is here for
comparison. Every ReLU counts, as a module or a function (torch.relu, clamp(min=0)), in place or not. A ReLU
that is written in another way (torch.where, x * (x > 0), maximum) or scripted keeps its plain gradient.
Cost: one forward + backward. Needs: gradients and ReLUs. Springenberg et al. 2015.
"""

from __future__ import annotations

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import explainer
from heedful.engine.question import Question
from heedful.models.guided_relu import GuidedRelu

VARIANTS = ("product", "size")


@explainer(
    "guided-backprop",
    needs={"gradients", "relu"},
    cite="Springenberg et al. 2015",
    properties=("unused", "symmetric"),
)
def guided_backprop(q: Question, *, variant: str = "product") -> Attribution:
    """Gradient times input; negative gradients are set to zero at every ReLU. It is known to fail sanity
    checks. The variant "size" does not multiply by the input.

    Limitations: It depends little on the last layers. If they are random, it changes less than the gradient
    does.
    """
    if variant not in VARIANTS:
        raise HeedfulError(
            f"guided-backprop has no variant {variant!r}", fix=f"Use one of: {', '.join(VARIANTS)}"
        )
    read = q.embeds()  # (T + W, d)
    with GuidedRelu():
        values, grads = q.gradients(read[None])
    parts = grads[0].double() * read.double() if variant == "product" else grads[0].double().abs()
    scores = q.by_atom(lambda part: part.sum(-1), parts)
    signed = variant == "product"
    return q.answer(scores.cpu().numpy(), over=q.x.atom, output=float(values[0]), signed=signed)
