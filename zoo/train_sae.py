"""The dictionary of zoo:lm: sparse features of its residual stream, measured on held-out speeches.

Recipe: activations of one site over the training speeches (`heedful.harvest`); one dictionary a seed
(`heedful.train_sae`); the first seed is stored in half precision, with the greatest activation of every
feature over all training tokens, so that "2x" needs no texts. What is measured is the stored file, read
again. Other widths (`--widths`) are for feature splitting and are kept in the work folder only.

Test speeches are looked at by the final measurement alone.

Bussmann et al. 2024 (BatchTopK), Bricken et al. 2023.
Run: python zoo/train_sae.py       (about half an hour on one core: three seeds and one more width)
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import data
import export
import heedful
from heedful.features.activations.eval_windows import corpus
from heedful.features.activations.stream import rows_of
from heedful.features.measures.quality import measure, noise
from heedful.features.sae.maxima import row_maxima, with_maxima
from heedful.models.zoo import resolve

SLICE = 12_000  # about so many tokens of the test part are measured again by the tests
SETTINGS = ("kind", "k", "sparsity", "steps", "batch", "lr")


def training(work: Path) -> Path:
    """The training speeches as a file, so that a finished harvest is known again."""
    path = work / "train.jsonl"
    rows = [{"name": name, "text": text} for name, text in data.speeches()["train"]]
    work.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def train(acts: heedful.ActivationStore, width: int, seed: int, args: argparse.Namespace) -> heedful.SAE:
    """One dictionary; a killed run goes on, a finished one is read."""
    folder = args.work / f"{args.kind}-{width}-{seed}"
    if (folder / "manifest.json").is_file():
        return heedful.SAE.load(folder)
    chosen = {name: getattr(args, name) for name in SETTINGS if name != "kind"}
    return heedful.train_sae(
        acts,
        width,
        args.kind,
        seed=seed,
        out=folder,
        resume=True,
        every=100,
        keep=500,
        progress=print,
        **chosen,
    )


def store(sae: heedful.SAE, acts: heedful.ActivationStore, folder: Path) -> heedful.SAE:
    """Half precision, and maxima over all training rows of what the file then holds."""
    weights = {name: getattr(sae, name).half() for name in ("W_enc", "b_enc", "W_dec", "b_dec")}
    threshold = None if sae.threshold is None else sae.threshold.clone()  # one number: kept whole
    replace(sae, **weights, threshold=threshold).save(folder)
    stored = heedful.SAE.load(folder)
    rows = rows_of(acts)
    maxima, seen = row_maxima(stored, rows, rows.rows, batch=4096)
    replace(with_maxima(stored, maxima, seen), **weights, threshold=threshold).save(folder)
    return heedful.SAE.load(folder)


def figures(saes: list[heedful.SAE], texts: Path) -> dict[str, Any]:
    """The first dictionary on the whole test part and on its beginning, and the noise of the seed."""
    model = heedful.load("zoo:lm")
    whole = corpus(model, texts)
    every = [measure(sae, model, whole) for sae in saes]
    spread = {name: noise([one[name] for one in every]).to_dict() for name in every[0].figures}
    part = measure(saes[0], model, corpus(model, texts, rows=SLICE))
    return {"test": every[0].to_dict(), "test_slice": part.to_dict() | {"rows": SLICE}, "seeds": spread}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--site", default="blocks.2.resid")
    parser.add_argument("--kind", default="batchtopk")
    parser.add_argument("--width", type=int, default=1_536)
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--sparsity", type=float, default=None, help="lambda, of the kinds that have one")
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--batch", type=int, default=2_048)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--widths", type=int, nargs="*", default=[384], help="also trained")
    parser.add_argument("--work", type=Path, default=Path("out/zoo/sae"))
    parser.add_argument("--out", type=Path, default=export.ZOO / "lm" / resolve.FEATURES)
    args = parser.parse_args()
    torch.set_num_threads(1)  # bit for bit the same on every machine of one kind
    acts = heedful.harvest("zoo:lm", training(args.work), args.site, args.work / "acts", dtype="float16")
    saes = [train(acts, args.width, seed, args) for seed in range(args.seeds)]
    for width in args.widths:
        train(acts, width, 0, args)
    saes[0] = store(saes[0], acts, args.out)
    metrics = figures(saes, export.ZOO / "lm" / resolve.HELD_OUT)
    metrics |= {"seed": 0, "training_rows": acts.rows, "versions": export.versions()}
    metrics["settings"] = {k: v for k, v in vars(args).items() if k not in ("work", "out")}
    export.write_metrics(args.out, metrics)
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
