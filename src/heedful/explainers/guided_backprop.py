"""Guided backpropagation: gradient times embedding; negative gradients are set to zero at every ReLU.

    backward through h = ReLU(z):   dz = dh * 1[z > 0] * 1[dh > 0]        (plain: dz = dh * 1[z > 0])

It is defined for ReLU networks only. It fails sanity checks: random weights in the upper layers hardly change
it (Adebayo et al. 2018), because without negative gradients it mostly reconstructs the input. It is here for
comparison. Every ReLU counts, as a module or a function (torch.relu, clamp(min=0)), in place or not. A ReLU
that is written in another way (torch.where, x * (x > 0), maximum) or scripted keeps its plain gradient.
Cost: one forward + backward. Needs: gradients and ReLUs. Springenberg et al. 2015.
"""

from __future__ import annotations

from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.engine.question import Question
from heedful.models.guided_relu import GuidedRelu


@explainer(
    "guided-backprop",
    needs={"gradients", "relu"},
    cite="Springenberg et al. 2015",
    properties=("unused", "symmetric"),
)
def guided_backprop(q: Question) -> Attribution:
    """Gradient times embedding; negative gradients are set to zero at every ReLU. It is known to fail sanity
    checks.

    Limitations: It depends little on the weights of the last layers: explanations of random networks look
    the same.
    """
    read = q.embeds()  # (T + W, d)
    with GuidedRelu():
        values, grads = q.gradients(read[None])
    scores = q.by_atom(lambda part: part.sum(-1), grads[0].double() * read.double())
    return q.answer(scores.cpu().numpy(), over=q.x.atom, output=float(values[0]))
