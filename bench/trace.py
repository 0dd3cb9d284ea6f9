"""All trace methods together against one plain eager forward + backward, and against captum."""

from __future__ import annotations

import torch

from bench.models import loaded, minilm_size, text_of
from bench.timing import Ratio, compare
from heedful import registry
from heedful.models.scoped import eager_attention, untouched
from heedful.run import Run

# methods that read the trace and nothing else
PURE = (
    "grad-avg", "grad-l1", "grad-l2", "grad-x-input",
    "attention-avg", "attention-max", "attention-rollout", "chefer",
)  # fmt: skip


def run() -> list[Ratio]:
    model, (module, _) = loaded(), minilm_size()
    x = model.encode(text_of(128))
    target = model.target(x)
    ids = torch.tensor([x.ids])
    methods = [registry.get(name) for name in PURE]

    def ours() -> None:
        shared = Run(model)
        for method in methods:
            method(shared, x, target)

    def plain() -> None:
        with untouched(module), eager_attention(module):
            embeds = module.get_input_embeddings()(ids).detach().requires_grad_(True)
            module(inputs_embeds=embeds).logits[0, target.index].backward(inputs=[embeds])

    return [
        compare(
            f"{len(methods)} trace methods",
            "one eager forward + backward",
            ours,
            plain,
            at_most=1.2,
            pairs=15,
        ),
        compare(
            f"{len(methods)} trace methods", "captum Saliency + InputXGradient", ours, _captum(module, ids)
        ),
    ]


def _captum(module: torch.nn.Module, ids: torch.Tensor):  # type: ignore[no-untyped-def]
    from captum.attr import InputXGradient, Saliency

    embeds = module.get_input_embeddings()(ids).detach().requires_grad_(True)  # type: ignore[operator]

    def forward(values: torch.Tensor) -> torch.Tensor:
        return module(inputs_embeds=values).logits

    saliency, product = Saliency(forward), InputXGradient(forward)

    def both() -> None:
        saliency.attribute(embeds, target=1)
        product.attribute(embeds, target=1)

    return both
