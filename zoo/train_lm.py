"""zoo:lm: a small GPT-2 of State of the Union speeches, measured against Kneser-Ney on the same tokens.

Recipe: byte-level BPE of the training speeches; `heedful.nn.GPT2`; random windows of 256 tokens; Muon for
the hidden matrices, AdamW for the rest; warm-up, plateau, linear decay; dropout on embeddings and residual
branches (none on the attention weights, so that the fused kernel applies). Held-out speeches are whole
(rule in data.py).

Perplexity: every held-out speech is opened by <|endoftext|>; windows of 256 move by 128, so a token is
scored with 128 to 255 tokens before it (fewer only at the opening). The 5-gram sees the same tokens and
training text.

Radford et al. 2019 (GPT-2); Chen & Goodman 1999 (the yardstick).
Run: python zoo/train_lm.py        (about an hour on one core)
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2LMHeadModel, GPT2TokenizerFast

import data
import export
import kneser_ney
import resume
from heedful.nn.gpt2 import GPT2, GPT2Config
from heedful.nn.train import windows
from muon import Muon
from word_vectors import word_vectors

END = "<|endoftext|>"  # id 0; opens every speech
CONTEXT = 256
SLICE = "1920_woodrow_wilson_d", "1941_franklin_d_roosevelt_d", "1979_jimmy_carter_d", "2019_donald_j_trump_r"
Documents = list[np.ndarray]


def train_tokenizer(texts: list[str], vocab: int, folder: Path) -> GPT2TokenizerFast:
    """Byte-level BPE, saved so that AutoTokenizer loads it."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = GPT2TokenizerFast(
        tokenizer_object=bpe, unk_token=END, bos_token=END, eos_token=END, model_max_length=CONTEXT
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def encode(tokenizer: GPT2TokenizerFast, texts: list[str]) -> Documents:
    """Each text as END + tokens."""
    batch = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    return [np.array([0, *e.ids], dtype=np.int64) for e in batch]


@torch.inference_mode()
def log_probabilities(model: GPT2LMHeadModel | GPT2, document: np.ndarray, stride: int = 128) -> np.ndarray:
    """(T,) tokens -> (T - 1,) natural log probability of every token but the first."""
    ids, out, done, start = torch.from_numpy(document), [], 1, 0
    while done < len(ids):
        end = min(start + CONTEXT, len(ids))
        logits = model(ids[None, start:end])
        logits = getattr(logits, "logits", logits)[0, done - 1 - start : end - 1 - start]  # (scored, vocab)
        out.append(logits.log_softmax(-1).gather(1, ids[done:end, None])[:, 0].numpy())
        done, start = end, start + stride
    return np.concatenate(out).astype(np.float64)


def perplexity(parts: list[np.ndarray]) -> float:
    """exp of the mean negative log probability."""
    return float(np.exp(-np.concatenate(parts).mean()))


def interval(ours: list[np.ndarray], theirs: list[np.ndarray], seed: int) -> tuple[float, float]:
    """95 % interval of the perplexity ratio ours/theirs: bootstrap over stretches of 200 tokens, paired."""
    gap = np.concatenate(theirs) - np.concatenate(ours)
    blocks = np.array([b.mean() for b in np.array_split(gap, len(gap) // 200)])
    rng = np.random.default_rng(seed)
    draws = blocks[rng.integers(0, len(blocks), (2000, len(blocks)))].mean(1)
    low, high = np.quantile(np.exp(draws), [0.025, 0.975])
    return float(low), float(high)


def optimizers(model: GPT2, args: argparse.Namespace) -> list[torch.optim.Optimizer]:
    """Muon on the matrices inside the blocks, AdamW on embeddings, gains and biases."""
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    inside = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in inside]
    adam = torch.optim.AdamW(rest, lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    return [Muon(matrices, lr=args.muon_lr, weight_decay=args.decay), adam]


def train(model: GPT2, documents: Documents, validation: Documents, args: argparse.Namespace) -> None:
    """Random windows of the joined speeches; the last weights are kept, validation is only printed."""
    ids = torch.from_numpy(np.concatenate(documents))
    rng = torch.Generator().manual_seed(args.seed)
    steps = optimizers(model, args)
    peaks = [opt.param_groups[0]["lr"] for opt in steps]
    first = resume.load(args.work / "checkpoint.pt", model, steps, rng)
    start, losses = time.time(), []
    for step in range(first, args.steps):
        share = min((step + 1) / 100, (args.steps - step) / args.cool, 1.0)
        for opt, peak in zip(steps, peaks, strict=True):
            opt.param_groups[0]["lr"] = peak * share
        loss = model.loss(windows(ids, args.batch, CONTEXT + 1, rng))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in steps:
            opt.step()
            opt.zero_grad()
        losses.append(loss.item())
        if (step + 1) % 50 == 0:
            speed = (step + 1 - first) * args.batch * CONTEXT / (time.time() - start)
            print(f"step {step + 1} loss {np.mean(losses[-50:]):.4f} {speed:.0f} tokens/s", flush=True)
        if (step + 1) % 250 == 0:
            resume.save(args.work / "checkpoint.pt", step + 1, model, steps, rng)
        if (step + 1) % 500 == 0:
            model.eval()
            value = perplexity([log_probabilities(model, d[:2000], CONTEXT - 1) for d in validation])
            model.train()
            print(f"step {step + 1} validation perplexity {value:.2f}", flush=True)
    model.eval()


def save(model: GPT2, folder: Path) -> None:
    """As transformers' GPT-2, weights in fp16."""
    exported = model.to_transformers()
    exported.config.bos_token_id = exported.config.eos_token_id = 0
    exported.config.attn_pdrop = 0.0
    export.save_transformers(exported, folder)


def measure(
    folder: Path, training: Documents, held_out: list[tuple[str, np.ndarray]], seed: int
) -> dict[str, Any]:
    """The stored fp16 file and Kneser-Ney, on all held-out speeches and on the committed slice."""
    model = GPT2LMHeadModel.from_pretrained(folder)
    yardstick = kneser_ney.fit(training, model.config.vocab_size, order=5)
    ours = {name: log_probabilities(model, d) for name, d in held_out}
    theirs = {name: kneser_ney.log_probabilities(yardstick, d) for name, d in held_out}
    result: dict[str, Any] = {"parameters": model.num_parameters()}
    result["training_tokens"] = sum(map(len, training))
    for key, names in {"test": [n for n, _ in held_out], "test_slice": list(SLICE)}.items():
        a, b = [ours[n] for n in names], [theirs[n] for n in names]
        low, high = interval(a, b, seed)
        result[key] = {
            "perplexity": round(perplexity(a), 4),
            "kneser_ney_perplexity": round(perplexity(b), 4),
            "ratio": round(perplexity(a) / perplexity(b), 4),
            "ratio_interval_95": [round(low, 4), round(high, 4)],
            "tokens": sum(map(len, a)),
            "speeches": names,
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=4_096)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=4e-3, help="AdamW")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--cool", type=int, default=2_000, help="last steps, the rate falls to 0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("out/zoo/lm"))
    parser.add_argument("--out", type=Path, default=export.ZOO / "lm")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    start, split = time.time(), data.speeches()
    for folder in (args.work, args.out):
        folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer([text for _, text in split["train"]], args.vocab, args.out)
    rows = {part: encode(tokenizer, [text for _, text in speeches]) for part, speeches in split.items()}
    sizes = GPT2Config(args.vocab, CONTEXT, args.layers, args.heads, args.width, args.dropout)
    model = GPT2(sizes, args.seed)
    vectors = word_vectors(rows["train"], args.vocab, args.width, 0.05, args.seed)
    model.token.weight.data.copy_(torch.from_numpy(vectors))
    for block in model.blocks:
        block.attn.dropout = 0.0
    model.train()
    train(model, rows["train"], rows["validation"], args)
    seconds = time.time() - start
    save(model, args.out)
    held_out = [(name, ids) for (name, _), ids in zip(split["test"], rows["test"], strict=True)]
    metrics = measure(args.out, rows["train"], held_out, args.seed)
    metrics |= {"seed": args.seed, "training_seconds": round(seconds), "versions": export.versions()}
    metrics["settings"] = {k: v for k, v in vars(args).items() if k not in ("work", "out", "seed")}
    export.write_metrics(args.out, metrics)
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
