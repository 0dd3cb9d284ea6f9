"""Trains zoo:digits-vit, a vision transformer that reads one handwritten digit on a photograph.

Three of four scenes have one digit; the others have two, and both classes get probability 1/2, so that the
model can be asked about either. On a part of the scenes patches take the mean colour, so that removing them
stays inside the training distribution. Position embeddings start as waves in both directions, because 4,000
digits are too few to learn the grid from. Dosovitskiy et al. 2021.
Run: OMP_NUM_THREADS=1 python zoo/train_digits_vit.py
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

import export
import resume
from heedful.labs.data.digit_scenes import digit_scene, digit_scenes
from heedful.labs.data.scenes import Scene
from picture_batches import (
    HALF,
    PATCH,
    SIZE,
    hide_patches,
    optimizers,
    pixel_values,
    set_rates,
    update,
    waves,
)

SINGLE = 0.75  # share of scenes with one digit


def build(width: int, layers: int) -> ViTForImageClassification:
    names = {i: str(i) for i in range(10)}
    config = ViTConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        image_size=SIZE,
        patch_size=PATCH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=names,
        label2id={name: i for i, name in names.items()},
    )
    model = ViTForImageClassification(config)
    with torch.no_grad():
        model.vit.embeddings.position_embeddings[0, 1:] = 0.3 * waves(SIZE // PATCH, width)
    return model


def truth(scenes: list[Scene]) -> Tensor:
    """(B, 10) probabilities: 1 for a digit alone, 1/2 for each of two."""
    wanted = torch.zeros(len(scenes), 10)
    for row, scene in enumerate(scenes):
        wanted[row, [int(label) for label in scene.labels]] = 1 / len(scene.labels)
    return wanted


def train(model: ViTForImageClassification, args: argparse.Namespace) -> None:
    """Batches are drawn anew from seed and step, so a run that was stopped goes on with the same ones."""
    generator = torch.Generator().manual_seed(args.seed)
    both = optimizers(model, "layer", lr=args.lr, muon=args.muon, decay=args.decay)
    set_rates(both, 1.0)
    file = args.work / "checkpoint.pt"
    losses: list[float] = []
    started = time.process_time()
    for step in range(resume.load(file, model, both, generator), args.steps):
        rng = np.random.default_rng([args.seed, step])
        set_rates(both, min(1.0, (step + 1) / 100, (args.steps - step) / (0.7 * args.steps)))
        scenes = [digit_scene(rng, "train", 1 if rng.random() < SINGLE else 2) for _ in range(args.batch)]
        pixels = hide_patches(pixel_values([scene.picture for scene in scenes]), generator)
        loss = F.cross_entropy(model(pixel_values=pixels).logits, truth(scenes), label_smoothing=0.02)
        losses.append(update(model, both, loss))
        if (step + 1) % 100 == 0:
            speed = 100 * args.batch / (time.process_time() - started)
            started = time.process_time()
            print(f"step {step + 1} loss {np.mean(losses[-100:]):.4f} {speed:.0f} scenes/s", flush=True)
        if (step + 1) % 300 == 0:
            resume.save(file, step + 1, model, both, generator)
            print(f"step {step + 1} {json.dumps(evaluate(model, 500, seed=99))}", flush=True)


@torch.inference_mode()
def evaluate(model: ViTForImageClassification, n: int, seed: int) -> dict[str, Any]:
    """Scenes of test digits: the digit is first, or both digits are the first two."""
    model.eval()
    right = {}
    for count, name in ((1, "one_digit"), (2, "two_digits")):
        scenes = digit_scenes(n, split="test", count=count, seed=seed)
        logits = torch.cat(
            [
                model(pixel_values=pixel_values([scene.picture for scene in scenes[i : i + 100]])).logits
                for i in range(0, n, 100)
            ]
        )
        top = logits.topk(count).indices.tolist()
        right[name] = sum(set(map(str, found)) == set(s.labels) for found, s in zip(top, scenes, strict=True))
    model.train()
    return right


def measure(folder: Path, args: argparse.Namespace, seconds: float) -> None:
    """Of the stored fp16 file, loaded as a user would load it."""
    model = ViTForImageClassification.from_pretrained(folder)
    n = 2_000
    metrics = {
        **{name: export.accuracy(right, n) for name, right in evaluate(model, n, seed=7).items()},
        "parameters": model.num_parameters(),
        "seed": args.seed,
        "settings": {k: v for k, v in vars(args).items() if k not in ("work", "out", "seed")},
        "training_seconds": round(seconds),
        "versions": export.versions(),
    }
    export.write_metrics(folder, metrics)
    print(json.dumps(metrics, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_500)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3, help="of AdamW")
    parser.add_argument("--muon", type=float, default=0.015)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("out/zoo/digits-vit"))
    parser.add_argument("--out", type=Path, default=export.ZOO / "digits-vit")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    start = time.process_time()
    for folder in (args.work, args.out):
        folder.mkdir(parents=True, exist_ok=True)
    model = build(args.width, args.layers)
    print(f"{model.num_parameters()} parameters", flush=True)
    train(model, args)
    export.save_transformers(model.eval(), args.out)
    side = {"height": SIZE, "width": SIZE}
    ViTImageProcessorPil(size=side, image_mean=HALF, image_std=HALF).save_pretrained(args.out)
    measure(args.out, args, time.process_time() - start)


if __name__ == "__main__":
    main()
