"""Integrated gradients to a completeness gap of 1e-3 against captum's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bench.models import classifier, question
from bench.timing import Ratio, Rivals, compare_all
from heedful.core.target import Target
from heedful.engine.question import Question, run_explainer
from heedful.engine.session import Session
from heedful.explainers.integrated_gradients import baseline_embeds
from heedful.modalities.text import TextInput

TITLE = "Integrated gradients to a 1e-3 completeness gap, 128 tokens"
GAP = 1e-3
TRIED = (8, 16, 32, 50, 64, 128, 256, 512)  # how a user would look for enough steps
BATCH = 64  # captum's internal_batch_size where steps exceed it


def run() -> list[Ratio]:
    model, x, target = question()
    captum = _Captum(model, x, target)
    before = model.spent.backwards
    ours = run_explainer("integrated-gradients", model, x, target, baseline="mask", tolerance=GAP)
    passes = model.spent.backwards - before
    gap_at_50 = captum.gap(50)
    steps = next((tried for tried in TRIED if captum.gap(tried) <= GAP), TRIED[-1])

    def work() -> None:
        run_explainer("integrated-gradients", model, x, target, baseline="mask", tolerance=GAP)

    gap = abs(ours.total / (ours.output - ours.base) - 1) if ours.base is not None else float("nan")
    note = f"heedful {gap:.1e} at {passes} points; on {classifier()[1]}"
    needed = f"captum at {steps} steps: enough for this gap, but a user does not know this number beforehand"
    rivals: Rivals = {"captum at 50 steps": (lambda: captum(50), 0.6), needed: (lambda: captum(steps), 0.6)}
    found = compare_all("integrated gradients", work, rivals, pairs=3)
    what = "completeness gap, relative to the change of the output"
    told = (
        f"{what}: captum {gap_at_50:.1e} at 50 steps",
        f"captum uses Gauss-Legendre steps; {what}: captum at most {GAP:.0e}",
    )
    return [
        ratio.told(f"{first}, {note}", (passes, count))
        for ratio, first, count in zip(found, told, (50, steps), strict=True)
    ]


class _Captum:
    """captum's IntegratedGradients on the embeddings, from the same baseline."""

    def __init__(self, model: Any, x: TextInput, target: Target) -> None:
        from captum.attr import IntegratedGradients

        self.index, self.module = target.index, model.module
        self.text = model.lookup(x, target)[None]
        self.base = baseline_embeds(Question(Session(model), x, target), "mask")[None]
        self.method = IntegratedGradients(self._forward)

    def _forward(self, embeds: Tensor) -> Tensor:
        return self.module(inputs_embeds=embeds).logits

    def __call__(self, steps: int) -> Tensor:
        found = self.method.attribute(
            self.text,
            self.base,
            target=self.index,
            n_steps=steps,
            internal_batch_size=BATCH if steps > BATCH else None,
        )
        return found.detach()

    def gap(self, steps: int) -> float:
        """|sum of scores - change| / |change|."""
        with torch.inference_mode():
            ends = self._forward(torch.cat([self.text, self.base]))[:, self.index].double()
        change = float(ends[0] - ends[1])
        return abs(float(self(steps).double().sum()) - change) / abs(change)
