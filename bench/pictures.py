"""Ten methods on one picture of 224 pixels with MobileNetV2 against captum, and masked pictures against raw
forward passes of the same batch size.

Both explain the logit of the same class, remove the same cells by the same colours, and take the same numbers
of samples. captum runs its methods one after the other; heedful shares passes among them.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
import torch

import heedful
from bench.rivals.captum_pictures import CaptumPicture
from bench.timing import Ratio, Work, compare
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.models.image_rows import Composer
from heedful.models.zoo import resolve

TITLE = "One picture of 224 x 224 pixels, MobileNetV2"
UNIT, SAMPLES, NOISY, STEPS = "grid:8", 256, 16, 50  # captum's default number of steps
NOISE = 0.1
METHODS: dict[str, dict[str, Any]] = {
    "grad-avg": {},
    "grad-l1": {},
    "grad-l2": {},
    "grad-x-input": {},
    "integrated-gradients": {},
    "smoothgrad": {"samples": NOISY, "noise": NOISE},
    "gradcam": {},
    "occlusion": {"unit": UNIT},
    "lime": {"unit": UNIT, "samples": SAMPLES, "precision": 0.0},
    "kernel-shap": {"unit": UNIT, "samples": SAMPLES, "precision": 0.0},
}
PAIRS, ROWS = 5, 80


@cache
def mobilenet() -> tuple[Any, str]:
    """(MobileNetV2, what it is); pulled when it is not there, else its architecture with random weights."""
    try:
        if not resolve.pulled("mobilenet"):
            resolve.pull("mobilenet")
        return heedful.load("zoo:mobilenet"), "zoo:mobilenet"
    except heedful.HeedfulError as error:
        print(f"zoo:mobilenet cannot be had ({error}): random weights instead", file=sys.stderr)
        from transformers import (
            MobileNetV2Config,
            MobileNetV2ForImageClassification,
            MobileNetV2ImageProcessorPil,
        )

        torch.manual_seed(0)
        module = MobileNetV2ForImageClassification(
            MobileNetV2Config(num_labels=1000, tf_padding=False)
        ).eval()
        model = heedful.load((module, MobileNetV2ImageProcessorPil()))
        return model, "RANDOM WEIGHTS of MobileNetV2: no weights were there"


@cache
def question() -> tuple[Any, Any, Any]:
    """(model, picture, target)"""
    from skimage.data import chelsea

    model = mobilenet()[0]
    x = model.encode(chelsea())
    return model, x, model.target(x)


def run() -> list[Ratio]:
    return [_methods(), *_rows()]


def _methods() -> Ratio:
    model, x, target = question()
    captum, layer = _rival()

    def ours() -> None:
        shared = Session(model)
        for name, options in METHODS.items():
            run_explainer(name, shared, x, target, **options)

    def theirs() -> None:
        for kind in ("avg", "l1", "l2"):
            captum.gradient(kind)
        captum.gradient_x_input()
        captum.integrated(STEPS)
        captum.smoothed(NOISY, NOISE)
        captum.gradcam(layer)
        captum.occlusion()
        captum.lime(SAMPLES)
        captum.kernel_shap(SAMPLES)

    before, captum.rows = model.spent.unique, 0
    found = compare(f"{len(METHODS)} methods", "captum", ours, theirs, at_most=0.8, pairs=PAIRS)
    rounds = PAIRS + 1
    note = (
        f"{', '.join(METHODS)}; lime and kernel-shap with {SAMPLES} samples each, which heedful shares; "
        f"captum integrates with {STEPS} steps, heedful until the gap is below 0.1 %; batches of "
        f"{model.rows_at_once}; on {mobilenet()[1]}"
    )
    return found.told(note, ((model.spent.unique - before) // rounds, captum.rows // rounds))


def _rival() -> tuple[CaptumPicture, Any]:
    """captum on the same picture, and the last layer with places, which a user must name."""
    model, x, target = question()
    atoms = list(range(len(x)))

    def read(embeds: Any) -> Any:
        return embeds.reshape(1, x.height, x.width, 3).permute(0, 3, 1, 2).contiguous()

    pixels, removed = read(model.lookup(x, target)), read(model.lookup(x, target, atoms, "mean"))
    cells = torch.from_numpy(x.units(UNIT).owner.reshape(1, 1, x.height, x.width))
    captum = CaptumPicture(model.module, pixels, removed, cells, target.index, model.rows_at_once)
    return captum, model.module.mobilenet_v2.conv_1x1


def _rows() -> list[Ratio]:
    """RISE's and LIME's masked pictures, made and run, against the same module on the same pictures, already
    made. The same, because a network takes longer for photographs than for noise (0.85 was seen)."""
    model, x, target = question()
    batch, rng = model.rows_at_once, np.random.default_rng(0)
    half = rng.random((ROWS, len(x.units(UNIT)))) < 0.5

    def raw(operator: str) -> Work:
        compose, rows = Composer(x), model.rows(x, target, half, operator, UNIT)
        parts = [rows[at : at + batch] for at in range(0, ROWS, batch)]
        ready = [model._ready(torch.from_numpy(np.stack([compose(row) for row in part]))) for part in parts]

        def run() -> None:
            with torch.inference_mode():
                for part in ready:
                    model.module(part)

        return run

    def masked(operator: str) -> Work:
        return lambda: model.values(x, target, half, operator, UNIT)

    note = f"batches of {batch}; 0.9 of the raw throughput is a ratio of 1.11; on {mobilenet()[1]}"
    return [
        compare(
            f"{ROWS} masked pictures ({operator})",
            "raw forward passes of the same batch size",
            masked(operator),
            raw(operator),
            at_most=1 / 0.9,
            pairs=2 * PAIRS + 1,
        ).told(note, (ROWS, ROWS))
        for operator in ("mean", "blur")
    ]
