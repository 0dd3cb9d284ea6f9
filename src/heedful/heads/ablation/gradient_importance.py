"""The worth of heads by gradients: one forward and backward a text, instead of a forward a head.

    estimate_h = sum over queries q of  (o_q - o'_q) . d metric / d o_q      first order in the change o -> o'

o is what the head gives, o' what would stand in its place (0; its mean; its values under uniform attention).
The mean over texts of |estimate| with o' = 0 is the importance of Michel et al. 2019. It is exact where the
metric is linear in the head's output, and blind to saturation: a head whose work others would take over, or
one that holds the softmax at its end, is misjudged.

Cost: 1 forward, 1 backward a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from heedful.core.arrays import Floats
from heedful.heads.ablation.ablate import Anatomy, Head, Means, masks, replacing
from heedful.heads.ablation.task_metrics import Heads, LabelledText, Task, row_of, score

if TYPE_CHECKING:
    from torch import Tensor

    from heedful.models.adapter import TokenModel
    from heedful.models.attention_hooks import AttentionState, Edit, Site


def has_slope(task: Task) -> bool:
    """A regression's distance from its own answer has none."""
    return not (task.own and task.model.kind == "regression")


def estimates(task: Task, sets: Sequence[Heads], shape: Anatomy, how: str, means: Means | None) -> Floats:
    """(texts, sets): first-order drop of the first metric without each set of heads."""
    together: Heads = frozenset().union(*sets)
    every = replacing(masks([together], shape), how, means)
    results = []
    for case in task.cases:
        number = partial(_first_metric, task.model.kind, case)
        one = first_order(task.model, case, every, number)
        results.append([sum(one[head] for head in heads) for heads in sets])
    return np.array(results)


def _first_metric(kind: str, case: LabelledText, logits: Tensor) -> Tensor:
    return score(kind, logits, [case])[0, 0]


def first_order(
    model: TokenModel, case: LabelledText, instead: Edit, number: Callable[[Tensor], Tensor]
) -> Mapping[Head, float]:
    """How far `number` (a scalar of the logits) would fall, by its slope, if `instead` were done to heads."""
    import torch

    before: dict[Site, Tensor] = {}  # (1, H, Q, d)
    change: dict[Site, Tensor] = {}

    def watch(state: AttentionState) -> AttentionState:
        free = state.heads if state.heads.requires_grad else state.heads.detach().requires_grad_(True)
        before[state.site] = free
        with torch.no_grad():
            change[state.site] = (free - instead(state).heads).detach()
        return replace(state, heads=free)

    with model.attending(watch), torch.inference_mode(False), torch.enable_grad():
        logits = model.run_pass([row_of(model, case)], [0]).logits
        assert logits is not None
        value = number(logits)
        sites = list(before)
        slopes = torch.autograd.grad(value, [before[site] for site in sites], allow_unused=True)
    values: dict[Head, float] = {}
    for site, slope in zip(sites, slopes, strict=True):
        each = torch.zeros(change[site].shape[1]) if slope is None else (slope * change[site]).sum((0, 2, 3))
        values |= {Head(site.stack, site.layer, h): float(one) for h, one in enumerate(each)}
    return values
