"""Trains zoo:tiny-clip, a CLIP of 1.1 million parameters, on scenes of shapes and digits with captions.

    L = (CE over captions per picture + CE over pictures per caption) / 2,  logits = s · cos(picture, caption)

Every picture also meets a hard negative caption: the same things with colours exchanged, another relation, or
one word changed. Captions that are true of a picture by chance are left out of its sum. On a part of the
captions words become <mask>, so that removing words stays inside the training distribution; on a part of the
pictures patches become grey, for the same reason. Radford et al. 2021; hard negatives after
Yuksekgonul et al. 2023. Run: OMP_NUM_THREADS=1 python zoo/train_tiny_clip.py
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
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, PreTrainedTokenizerFast

import export
import resume
from heedful.labs.data.scenes import Scene
from heedful.labs.data.shape_scenes import (
    COLOURS,
    INVERSE,
    SIZE,
    THINGS,
    Thing,
    Wording,
    holds,
    shape_scene,
)
from picture_batches import HALF, PATCH, hide_patches, optimizers, pixel_values, set_rates, update, waves

PAD, UNK, BOS, EOS, MASK = range(5)
SPECIAL = ("<pad>", "<unk>", "<|startoftext|>", "<|endoftext|>", "<mask>")
WORDS = ("a", "an", "and", "thing", "left", "right", "of", "above", "below")
POSITIONS = 16  # of a caption with both ends; the longest has 11
SINGLE = 0.4  # share of scenes with one thing


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word; the ends are those of CLIP."""
    vocabulary = (*SPECIAL, *WORDS, *COLOURS, *THINGS)
    inner = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=SPECIAL[UNK])
    )
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(SPECIAL[BOS], BOS), (SPECIAL[EOS], EOS)]
    inner.post_processor = processors.TemplateProcessing(
        single=f"{SPECIAL[BOS]} $A {SPECIAL[EOS]}", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=SPECIAL[PAD],
        unk_token=SPECIAL[UNK],
        bos_token=SPECIAL[BOS],
        eos_token=SPECIAL[EOS],
        mask_token=SPECIAL[MASK],
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
    )


def build(widths: tuple[int, int], layers: tuple[int, int], vocabulary: int) -> CLIPModel:
    """Vision over 8 × 8 patches and text over words, as wide and deep as told."""

    def tower(width: int, depth: int) -> dict[str, Any]:
        sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": depth}
        return sizes | {"num_attention_heads": 4, "hidden_act": "gelu", "projection_dim": widths[1]}

    ends = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
    text = tower(widths[1], layers[1]) | {"vocab_size": vocabulary, "max_position_embeddings": POSITIONS}
    vision = tower(widths[0], layers[0]) | {"image_size": SIZE, "patch_size": PATCH}
    config = CLIPConfig(text_config=text | ends, vision_config=vision, projection_dim=widths[1])
    model = CLIPModel(config)
    with torch.no_grad():
        places = model.vision_model.embeddings.position_embedding.weight
        places[1:] = 0.3 * waves(SIZE // PATCH, widths[0])
    return model


# --- captions ----------------------------------------------------------------------------------------------


def say(there: Wording, rng: np.random.Generator) -> Wording:
    """One of the true captions of a scene: from either side, with or without colours and relation."""
    if len(there.things) == 2:
        draw = rng.random()
        if draw < 0.1:
            return Wording((there.things[rng.integers(2)],))
        there = there.turned() if rng.random() < 0.5 else there
        if draw < 0.25:
            there = Wording(there.things, "and")
    draw = rng.random()
    if draw < 0.08:
        return Wording(tuple(Thing(shape=t.shape) for t in there.things), there.relation)
    if draw < 0.12:
        return Wording(tuple(Thing(colour=t.colour) for t in there.things), there.relation)
    return there


def spoil(said: Wording, rng: np.random.Generator) -> Wording:
    """A hard negative: near in words, another claim."""
    things = list(said.things)
    if len(things) == 2:
        draw = rng.integers(4)
        a, b = things
        if draw == 0:
            return Wording((Thing(b.colour, a.shape), Thing(a.colour, b.shape)), said.relation)
        if draw == 1:
            other = ("left of", "right of", "above", "below")
            return Wording(said.things, INVERSE[said.relation] if rng.random() < 0.7 else rng.choice(other))
    at = int(rng.integers(len(things)))
    colour, shape = things[at].colour, things[at].shape
    if colour and (rng.random() < 0.4 or not shape):
        colour = str(rng.choice(list(COLOURS)))
    else:
        shape = str(rng.choice(THINGS))
    things[at] = Thing(colour, shape)
    return Wording(tuple(things), said.relation)


def hide(said: Wording, rng: np.random.Generator) -> tuple[str, Wording]:
    """A caption with words masked, and what it still claims."""
    if rng.random() < 0.8:
        return said.caption(), said
    rate = rng.random()
    parts, things = [], []
    for thing in said.things:
        gone = rng.random(3) < rate
        colour, shape = thing.colour, thing.shape
        words = thing.words().split()
        words[0] = SPECIAL[MASK] if gone[0] else words[0]
        if colour and gone[1]:
            words[1], colour = SPECIAL[MASK], ""
        if shape and gone[2]:
            words[-1], shape = SPECIAL[MASK], ""
        parts.append(" ".join(words))
        things.append(Thing(colour, shape))
    relation = said.relation
    if relation and rng.random() < rate:
        masked = " ".join([SPECIAL[MASK]] * len(relation.split()))
        return f" {masked} ".join(parts), Wording(tuple(things), "and")
    return f" {relation} ".join(parts), Wording(tuple(things), relation)


# --- training ----------------------------------------------------------------------------------------------


def draw_batch(n: int, rng: np.random.Generator) -> tuple[list[Scene], list[str], Tensor]:
    """Scenes, 2n captions (right ones, then hard negatives), and which captions are true (n, 2n)."""
    scenes, truths = zip(
        *(shape_scene(rng, "train", 1 if rng.random() < SINGLE else 2) for _ in range(n)), strict=True
    )
    said = [say(there, rng) for there in truths]
    worded = [hide(one, rng) for one in [*said, *(spoil(one, rng) for one in said)]]
    true = torch.tensor([[holds(claim, there) for _, claim in worded] for there in truths])
    return list(scenes), [text for text, _ in worded], true


def contrastive(logits: Tensor, true: Tensor) -> Tensor:
    """logits, true (n, 2n); the caption of picture i is i."""
    n = len(logits)
    own = torch.arange(n)
    chance = true.clone()
    chance[own, own] = False
    logits = logits.masked_fill(chance, -1e4)
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits[:, :n].T, own)) / 2


def scores(model: CLIPModel, tokenizer: Any, pixels: Tensor, captions: list[str]) -> Tensor:
    """(pictures, captions)"""
    words = tokenizer(captions, padding=True, return_tensors="pt")
    return model(pixel_values=pixels, **words).logits_per_image


def teach_things(model: CLIPModel, args: argparse.Namespace) -> None:
    """Before the captions, the vision tower learns to name the thing and the colour of scenes with one thing.

    Without it, colours are learnt at once and shapes not in the whole of the time. The two heads are dropped.
    """
    torch.manual_seed(args.seed)
    heads = nn.Linear(model.config.vision_config.hidden_size, len(THINGS) + len(COLOURS))
    both = nn.ModuleDict({"vision": model.vision_model, "heads": heads})
    generator = torch.Generator().manual_seed(args.seed)
    chosen = optimizers(both, "encoder.layers", lr=args.lr, muon=args.muon, decay=args.decay)
    set_rates(chosen, 1.0)
    file = args.work / "things.pt"
    losses: list[float] = []
    for step in range(resume.load(file, both, chosen, generator), args.things):
        rng = np.random.default_rng([args.seed, 1, step])
        set_rates(chosen, min(1.0, (step + 1) / 100, (args.things - step) / (0.3 * args.things)))
        drawn = [shape_scene(rng, "train", 1) for _ in range(args.batch)]
        pixels = hide_patches(pixel_values([scene.picture for scene, _ in drawn]), generator)
        logits = heads(model.vision_model(pixel_values=pixels).pooler_output)
        things = torch.tensor([THINGS.index(there.things[0].shape) for _, there in drawn])
        colours = torch.tensor([list(COLOURS).index(there.things[0].colour) for _, there in drawn])
        first, second = logits[:, : len(THINGS)], logits[:, len(THINGS) :]
        losses.append(update(both, chosen, F.cross_entropy(first, things) + F.cross_entropy(second, colours)))
        if (step + 1) % 50 == 0:
            right = (first.argmax(1) == things).float().mean()
            print(f"things {step + 1} loss {np.mean(losses[-50:]):.4f} last right {right:.2f}", flush=True)
            resume.save(file, step + 1, both, chosen, generator)


def train(model: CLIPModel, tokenizer: Any, args: argparse.Namespace) -> None:
    """Batches are drawn anew from seed and step, so a run that was stopped goes on with the same ones."""
    generator = torch.Generator().manual_seed(args.seed)
    both = optimizers(model, "encoder.layers", lr=args.lr, muon=args.muon, decay=args.decay)
    set_rates(both, 1.0)
    file = args.work / "checkpoint.pt"
    losses: list[float] = []
    for step in range(resume.load(file, model, both, generator), args.steps):
        rng = np.random.default_rng([args.seed, 2, step])
        set_rates(both, min(1.0, (step + 1) / 100, (args.steps - step) / (0.7 * args.steps)))
        scenes, captions, true = draw_batch(args.batch, rng)
        pixels = hide_patches(pixel_values([s.picture for s in scenes]), generator)
        losses.append(update(model, both, contrastive(scores(model, tokenizer, pixels, captions), true)))
        with torch.no_grad():
            model.logit_scale.clamp_(max=np.log(100.0))
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {np.mean(losses[-50:]):.4f}", flush=True)
            resume.save(file, step + 1, model, both, generator)
        if (step + 1) % 200 == 0:
            print(f"step {step + 1} {json.dumps(evaluate(model, tokenizer, 200, seed=99))}", flush=True)


# --- measures ----------------------------------------------------------------------------------------------


@torch.inference_mode()
def evaluate(model: CLIPModel, tokenizer: Any, n: int, seed: int, split: str = "test") -> dict[str, Any]:
    """Zero-shot: 160 captions per scene with one thing. Scenes with two: retrieval among n, near misses."""
    model.eval()
    rng = np.random.default_rng(seed)
    ones = [shape_scene(rng, split, 1) for _ in range(n)]
    classes = [Thing(colour, shape) for colour in COLOURS for shape in THINGS]
    found = scores(model, tokenizer, pixel_values([s.picture for s, _ in ones]), [c.words() for c in classes])
    best = [classes[i] for i in found.argmax(1).tolist()]
    truth = [there.things[0] for _, there in ones]
    twos = [shape_scene(rng, split, 2) for _ in range(n)]
    pixels, told = pixel_values([s.picture for s, _ in twos]), [there for _, there in twos]
    every = scores(model, tokenizer, pixels, [there.caption() for there in told])
    swapped = [
        Wording((Thing(b.colour, a.shape), Thing(a.colour, b.shape)), t.relation)
        for t in told for a, b in [t.things]
    ]  # fmt: skip
    turned = [Wording(t.things, INVERSE[t.relation]) for t in told]
    model.train()
    own = every.diagonal()
    result = {
        "zero_shot": sum(a == b for a, b in zip(best, truth, strict=True)),
        "zero_shot_colour": sum(a.colour == b.colour for a, b in zip(best, truth, strict=True)),
        "zero_shot_thing": sum(a.shape == b.shape for a, b in zip(best, truth, strict=True)),
        "retrieval_of_captions": int((every.argmax(1) == torch.arange(n)).sum()),
        "retrieval_of_pictures": int((every.argmax(0) == torch.arange(n)).sum()),
    }
    for name, wrong in (("colours_exchanged", swapped), ("relation_turned", turned)):
        use = [i for i in range(n) if not holds(wrong[i], told[i])]
        against = scores(model, tokenizer, pixels, [w.caption() for w in wrong]).diagonal()
        result[name] = [int((own > against)[use].sum()), len(use)]
    return result


def measure(folder: Path, args: argparse.Namespace, seconds: float) -> None:
    """Of the stored fp16 file, loaded as a user would load it."""
    model = CLIPModel.from_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    n = 1_000
    found = evaluate(model, tokenizer, n, seed=7)
    accuracies = {
        name: export.accuracy(*value) if isinstance(value, list) else export.accuracy(value, n)
        for name, value in found.items()
    }
    metrics = {
        **accuracies,
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
    parser.add_argument("--steps", type=int, default=1_000, help="with captions")
    parser.add_argument("--things", type=int, default=700, help="steps before, on names of things")
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--widths", type=int, nargs=2, default=(96, 128), help="of vision and of text")
    parser.add_argument("--layers", type=int, nargs=2, default=(4, 3), help="of vision and of text")
    parser.add_argument("--lr", type=float, default=1e-3, help="of AdamW")
    parser.add_argument("--muon", type=float, default=0.01)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("out/zoo/tiny-clip"))
    parser.add_argument("--out", type=Path, default=export.ZOO / "tiny-clip")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    start = time.process_time()
    for folder in (args.work, args.out):
        folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    model = build(args.widths, args.layers, len(tokenizer))
    print(f"{model.num_parameters()} parameters", flush=True)
    if not (args.work / "checkpoint.pt").exists():
        teach_things(model, args)
    train(model, tokenizer, args)
    export.save_transformers(model.eval(), args.out)
    tokenizer.save_pretrained(args.out)
    side = {"height": SIZE, "width": SIZE}
    CLIPImageProcessorPil(
        size=side, do_center_crop=False, image_mean=HALF, image_std=HALF, resample=2
    ).save_pretrained(args.out)
    measure(args.out, args, time.process_time() - start)


if __name__ == "__main__":
    main()
