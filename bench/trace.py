"""All trace methods together against what they cost apart, and against one plain eager forward + backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bench.models import classifier, question
from bench.rivals import by_hand
from bench.timing import Ratio, Work, compare
from heedful.engine.question import run_explainer
from heedful.engine.session import Session

TITLE = "All trace methods together, 128 tokens"

# Methods that read the trace and nothing else. attention-flow does, too, but its cost is the flow solver's;
# chefer-lrp and guided-backprop run a pass of their own, value-zeroing and attention-optimus run rows.
PURE = (
    "grad-avg",
    "grad-l1",
    "grad-l2",
    "grad-x-input",
    "attention-avg",
    "attention-max",
    "attention-rollout",
    "chefer",
)


def run() -> list[Ratio]:
    model, x, target = question()
    ids, eager = torch.tensor([x.ids]), by_hand.eager(model.module)

    def ours() -> None:
        shared = Session(model)
        for name in PURE:
            run_explainer(name, shared, x, target)

    apart = [
        *_captum(model.module, ids, target.index),
        by_hand.chefer(eager, ids, target.index),
        by_hand.rollout(eager, ids),
    ]

    def rivals() -> None:
        for work in apart:
            work()

    work, note = f"{len(PURE)} trace methods", f"{', '.join(PURE)}; on {classifier()[1]}"
    plain = by_hand.forward_backward(eager, ids, target.index)
    four = "captum Saliency + InputXGradient, hand-written Chefer and rollout"
    return [
        compare(work, four, ours, rivals, at_most=0.45, pairs=15).told(note, (1, 4)),
        compare(
            work, "one forward + backward pass with eager attention", ours, plain, at_most=1.2, pairs=25
        ).told(note, (1, 1)),
    ]


def _captum(module: Any, ids: Tensor, index: int) -> list[Work]:
    """Two methods, a pass each; the user's own fast attention."""
    from captum.attr import InputXGradient, Saliency

    embeds = module.get_input_embeddings()(ids).detach().requires_grad_(True)

    def forward(values: Tensor) -> Tensor:
        return module(inputs_embeds=values).logits

    saliency, product = Saliency(forward), InputXGradient(forward)
    return [
        lambda: saliency.attribute(embeds, target=index),
        lambda: product.attribute(embeds, target=index),
    ]
