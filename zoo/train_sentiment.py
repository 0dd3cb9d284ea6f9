"""zoo:sentiment: a four-layer BERT classifier of film reviews, trained from scratch on a CPU.

Recipe: lower-cased WordPiece of the training split; co-occurrence vectors as first embeddings; stages of
growing length (128, 256, 512 word pieces, so that every position is trained) with random windows of longer
reviews; AdamW, warm-up, plateau, linear decay; on half of the rows a uniformly drawn share of the tokens
becomes [MASK], so that erasing tokens, which explanations do, stays inside the training distribution.

Devlin et al. 2019 (BERT); Madsen et al. 2024, "Faithfulness measurable masked language models" (the masking).
Run: python zoo/train_sentiment.py        (about an hour on one core)
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

import data
import export
import resume
from word_vectors import word_vectors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
Row = tuple[np.ndarray, int]  # word pieces without [CLS] and [SEP]; label


def train_tokenizer(texts: list[str], vocab: int, folder: Path) -> BertTokenizerFast:
    """WordPiece vocabulary of the training texts, saved so that AutoTokenizer loads it."""
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(texts, vocab_size=vocab, min_frequency=5, special_tokens=SPECIAL)
    pieces.save_model(str(folder))
    words = {w: i for i, w in enumerate((folder / "vocab.txt").read_text().splitlines())}
    tokenizer = BertTokenizerFast(vocab=words, do_lower_case=True, model_max_length=512)
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    return tokenizer


def encode(tokenizer: BertTokenizerFast, examples: list[data.Example]) -> list[Row]:
    """Word pieces of every text, no special tokens, no cut."""
    tokenizer.model_max_length = 10**9  # windows are cut later: no warning
    ids = tokenizer([text for text, _ in examples], add_special_tokens=False)["input_ids"]
    tokenizer.model_max_length = 512
    return [(np.array(row, dtype=np.int64), label) for row, (_, label) in zip(ids, examples, strict=True)]


def prepare(args: argparse.Namespace) -> tuple[list[Row], list[Row], np.ndarray]:
    """Training rows, validation rows and first embeddings; kept in the work folder for a resumed run."""
    kept = args.work / "prepared.npz"
    if not kept.exists():
        reviews = data.imdb()
        examples = reviews["train"] + data.sentences()["train"]
        tokenizer = train_tokenizer([text for text, _ in examples], args.vocab, args.out)
        rows, validation = encode(tokenizer, examples), encode(tokenizer, reviews["validation"])
        vectors = word_vectors([ids for ids, _ in rows], len(tokenizer), 128, 0.05, args.seed)
        everything = rows + validation
        np.savez(
            kept,
            pieces=np.concatenate([ids for ids, _ in everything]),
            ends=np.cumsum([len(ids) for ids, _ in everything]),
            labels=np.array([label for _, label in everything]),
            training=len(rows),
            vectors=vectors,
        )
    z = np.load(kept)
    everything = list(zip(np.split(z["pieces"], z["ends"][:-1]), z["labels"].tolist(), strict=True))
    return everything[: int(z["training"])], everything[int(z["training"]) :], z["vectors"]


def window(ids: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
    """At most length - 2 pieces: the head (a third), the tail (a third) or anywhere."""
    spare = len(ids) - (length - 2)
    if spare <= 0:
        return ids
    start = [0, spare, int(rng.integers(0, spare + 1))][int(rng.integers(3))]
    return ids[start : start + length - 2]


def collate(rows: list[Row]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ids (B, T), attention mask (B, T), labels (B,)."""
    width = max(len(ids) for ids, _ in rows) + 2
    batch = np.full((len(rows), width), PAD)
    for i, (ids, _) in enumerate(rows):
        batch[i, : len(ids) + 2] = [CLS, *ids, SEP]
    tokens = torch.from_numpy(batch)
    return tokens, (tokens != PAD).long(), torch.tensor([label for _, label in rows])


def batches(rows: list[Row], length: int, tokens: int, rng: np.random.Generator) -> Iterator[list[Row]]:
    """One epoch: windows, grouped by length, at most `tokens` padded tokens (and 96 rows) a batch."""
    cut = [(window(ids, length, rng), label) for ids, label in rows]
    order = rng.permutation(len(cut))
    out: list[list[Row]] = []
    for block in np.array_split(order, max(1, len(cut) // 4096)):
        group: list[Row] = []
        for i in sorted(block, key=lambda j: len(cut[j][0])):
            if group and (len(group) >= 96 or (len(group) + 1) * (len(cut[i][0]) + 2) > tokens):
                out.append(group)
                group = []
            group.append(cut[i])
        out.append(group)
    for i in rng.permutation(len(out)):
        yield out[i]


def mask_half(ids: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """On half of the rows, each ordinary token becomes [MASK] at a rate drawn uniformly for the row."""
    rate = torch.rand(len(ids), 1, generator=generator) * (torch.rand(len(ids), 1, generator=generator) < 0.5)
    hit = torch.rand(ids.shape, generator=generator) < rate
    return torch.where(hit & (ids > MASK), MASK, ids)


@torch.inference_mode()
def count_right(model: BertForSequenceClassification, rows: list[Row]) -> int:
    """Rows predicted right, each cut at 512 positions as any user's call would cut it."""
    model.eval()
    right = 0
    cut = sorted(((ids[:510], label) for ids, label in rows), key=lambda row: len(row[0]))
    for i in range(0, len(cut), 32):
        ids, mask, labels = collate(cut[i : i + 32])
        right += int((model(input_ids=ids, attention_mask=mask).logits.argmax(-1) == labels).sum())
    model.train()
    return right


def build(vectors: np.ndarray, dropout: float) -> BertForSequenceClassification:
    """4 layers, 4 heads, d 128; no dropout on attention, so that the fused kernel applies."""
    config = BertConfig(
        vocab_size=len(vectors),
        hidden_size=vectors.shape[1],
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=4 * vectors.shape[1],
        max_position_embeddings=512,
        hidden_act="gelu",
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    model = BertForSequenceClassification(config)
    model.bert.embeddings.word_embeddings.weight.data.copy_(torch.from_numpy(vectors))
    return model


def plan_batches(rows: list[Row], stages: str, tokens: int, seed: int) -> list[list[Row]]:
    """Every batch of the run, in order; a stage is "length:epochs", where epochs may be a fraction."""
    rng = np.random.default_rng(seed)
    plan: list[list[Row]] = []
    for length, epochs in ((int(a), float(b)) for a, b in (part.split(":") for part in stages.split(","))):
        for epoch in range(math.ceil(epochs)):
            whole = list(batches(rows, length, tokens, rng))
            plan += whole[: round(len(whole) * min(1.0, epochs - epoch))]
    return plan


def train(
    model: BertForSequenceClassification, rows: list[Row], validation: list[Row], args: argparse.Namespace
) -> None:
    """All stages; validation accuracy is printed, never used to choose (the last weights are kept)."""
    generator = torch.Generator().manual_seed(args.seed)
    plan = plan_batches(rows, args.stages, args.tokens, args.seed)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": args.decay}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98), fused=True)
    first = resume.load(args.work / "checkpoint.pt", model, [optimizer], generator)
    print(f"steps {first}..{len(plan)}", flush=True)
    start, seen, losses = time.time(), 0, []
    for step in range(first, len(plan)):
        for g in optimizer.param_groups:
            g["lr"] = args.lr * min((step + 1) / args.warmup, (len(plan) - step) / args.cool, 1.0)
        ids, mask, labels = collate(plan[step])
        logits = model(input_ids=mask_half(ids, generator), attention_mask=mask).logits
        loss = F.cross_entropy(logits, labels, label_smoothing=args.smoothing)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        seen += ids.numel()
        if (step + 1) % 50 == 0:
            speed = seen / (time.time() - start)
            print(f"step {step + 1} loss {np.mean(losses[-50:]):.4f} {speed:.0f} tokens/s", flush=True)
        if (step + 1) % 250 == 0:
            resume.save(args.work / "checkpoint.pt", step + 1, model, [optimizer], generator)
        if (step + 1) % 1000 == 0:
            right = count_right(model, validation)
            print(f"step {step + 1} validation {right / len(validation):.4f}", flush=True)


def measure(folder: Path, args: argparse.Namespace, seconds: float) -> None:
    """Accuracy of the stored fp16 file, loaded as a user would load it."""
    model = BertForSequenceClassification.from_pretrained(folder)
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    reviews, short = encode(tokenizer, data.imdb()["test"]), encode(tokenizer, data.sentences()["test"])
    metrics = {
        "imdb_test": export.accuracy(count_right(model, reviews), len(reviews)),
        "rotten_tomatoes_test": export.accuracy(count_right(model, short), len(short)),
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
    parser.add_argument("--stages", default="128:1.5,256:0.5,512:0.4", help="length:epochs, in order")
    parser.add_argument("--vocab", type=int, default=16_000)
    parser.add_argument("--tokens", type=int, default=6_144, help="padded tokens a batch")
    parser.add_argument("--lr", type=float, default=7e-4)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--dropout", type=float, default=0.15)
    parser.add_argument("--smoothing", type=float, default=0.05)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--cool", type=int, default=1_500, help="last steps, over which the rate falls to 0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("out/zoo/sentiment"))
    parser.add_argument("--out", type=Path, default=export.ZOO / "sentiment")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    start = time.time()
    for folder in (args.work, args.out):
        folder.mkdir(parents=True, exist_ok=True)
    rows, validation, vectors = prepare(args)
    print(f"prepared in {time.time() - start:.0f} s, {sum(len(r[0]) for r in rows)} pieces", flush=True)
    model = build(vectors, args.dropout)
    train(model, rows, validation, args)
    export.save_transformers(model, args.out)
    measure(args.out, args, time.time() - start)


if __name__ == "__main__":
    main()
