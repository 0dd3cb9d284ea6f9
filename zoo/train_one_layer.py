"""zoo:one-layer: the attention classifier whose LIME limit, Shapley values and gradients have closed forms.

Architecture of Lopardo, Precioso & Garreau (ICML 2024), `heedful.nn.OneLayerClassifier`: 6 heads, d_e 128,
d_att and d_out 64, 256 positions, a CLS query, head logits averaged. Two things differ from the authors'
training: padding is hidden from attention (they pad with UNK and attend to it), and on half of the rows a
uniformly drawn share of the words becomes UNK, so that the removal which the theory studies is inside the
training distribution (Madsen 2024). First embeddings are co-occurrence vectors of the training text.

Run: python zoo/train_one_layer.py        (a few minutes on one core)
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

import data
import export
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig
from word_vectors import word_vectors

SPECIAL = ["[pad]", "[cls]", "UNK"]
PAD, CLS, UNK = range(3)
Rows = tuple[torch.Tensor, torch.Tensor]  # ids (N, 256), labels (N,)


def train_tokenizer(texts: list[str], vocab: int, folder: Path) -> PreTrainedTokenizerFast:
    """Lower-cased words and single punctuation marks, most frequent first; [cls] is put in front."""
    words = Tokenizer(models.WordLevel(unk_token="UNK"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab, min_frequency=3, special_tokens=SPECIAL, show_progress=False
    )
    words.train_from_iterator(texts, trainer)
    words.post_processor = processors.TemplateProcessing(
        single="[cls] $A", pair="[cls] $A $B", special_tokens=[("[cls]", CLS)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[pad]",
        cls_token="[cls]",
        unk_token="UNK",
        mask_token="UNK",  # erasing a word means UNK, as in the paper
        model_max_length=256,
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def encode(tokenizer: PreTrainedTokenizerFast, examples: list[data.Example]) -> list[tuple[np.ndarray, int]]:
    """Words of every text without [cls], not cut."""
    batch = tokenizer.backend_tokenizer.encode_batch([text for text, _ in examples], add_special_tokens=False)
    return [(np.array(e.ids, dtype=np.int64), label) for e, (_, label) in zip(batch, examples, strict=True)]


def rows_of(words: list[tuple[np.ndarray, int]], rng: np.random.Generator | None) -> Rows:
    """[cls] and 255 words: the head of each text; with `rng`, half of the time any window."""
    ids = np.full((len(words), 256), PAD)
    ids[:, 0] = CLS
    for i, (text, _) in enumerate(words):
        spare = len(text) - 255
        start = int(rng.integers(0, spare + 1)) if rng is not None and spare > 0 and rng.random() < 0.5 else 0
        part = text[start : start + 255]
        ids[i, 1 : 1 + len(part)] = part
    return torch.from_numpy(ids), torch.tensor([label for _, label in words])


def erase_half(ids: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """On half of the rows, each word becomes UNK at a rate drawn uniformly for the row."""
    rate = torch.rand(len(ids), 1, generator=generator) * (torch.rand(len(ids), 1, generator=generator) < 0.5)
    hit = torch.rand(ids.shape, generator=generator) < rate
    return torch.where(hit & (ids > CLS), UNK, ids)


@torch.inference_mode()
def count_right(model: OneLayerClassifier, rows: Rows) -> int:
    """Rows predicted right."""
    ids, labels = rows
    logits = torch.cat([model(part) for part in ids.split(256)])
    return int((logits.argmax(-1) == labels).sum())


def train(
    model: OneLayerClassifier,
    words: list[tuple[np.ndarray, int]],
    validation: Rows,
    args: argparse.Namespace,
) -> None:
    """AdamW, warm-up and linear decay; the last weights are kept, validation is only printed."""
    rng, generator = np.random.default_rng(args.seed), torch.Generator().manual_seed(args.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.decay, fused=True)
    each = len(words) // args.batch
    total, step = args.epochs * each, 0
    for epoch in range(args.epochs):
        start, losses = time.time(), []
        ids, labels = rows_of(words, rng)
        for pick in torch.randperm(len(ids), generator=generator)[: each * args.batch].split(args.batch):
            optimizer.param_groups[0]["lr"] = args.lr * min((step + 1) / 200, (total - step) / total)
            batch = erase_half(ids[pick], generator)
            embedded = F.dropout(model.embed(batch), args.dropout)
            logits = model(inputs_embeds=embedded, attention_mask=batch != PAD)
            loss = F.cross_entropy(logits, labels[pick], label_smoothing=args.smoothing)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
        right = count_right(model, validation) / len(validation[1])
        seconds = time.time() - start
        print(f"epoch {epoch} loss {np.mean(losses):.4f} validation {right:.4f} {seconds:.0f} s", flush=True)


def save(model: OneLayerClassifier, folder: Path) -> None:
    """config.json with label names, weights in fp16."""
    model.save(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["OneLayerClassifier"], "id2label": {"0": "negative", "1": "positive"}}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    export.save_half(model.state_dict(), folder / "model.safetensors")


def measure(folder: Path) -> dict[str, object]:
    """Accuracy of the stored fp16 file, loaded as a user would load it."""
    model = OneLayerClassifier.load(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    reviews = rows_of(encode(tokenizer, data.imdb()["test"]), None)
    short = rows_of(encode(tokenizer, data.sentences()["test"]), None)
    return {
        "imdb_test": export.accuracy(count_right(model, reviews), len(reviews[1])),
        "rotten_tomatoes_test": export.accuracy(count_right(model, short), len(short[1])),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--vocab", type=int, default=20_000)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--smoothing", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=None, help="not used: the run is short")
    parser.add_argument("--out", type=Path, default=export.ZOO / "one-layer")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    start, reviews = time.time(), data.imdb()
    examples = reviews["train"] + data.sentences()["train"]
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer([text for text, _ in examples], args.vocab, args.out)
    words = encode(tokenizer, examples)
    model = OneLayerClassifier(OneLayerConfig(vocab_size=len(tokenizer), pad_id=PAD), seed=args.seed)
    vectors = word_vectors([ids for ids, _ in words], len(tokenizer), 128, 0.3, args.seed)
    model.token.weight.data.copy_(torch.from_numpy(vectors))
    print(f"prepared in {time.time() - start:.0f} s, {len(tokenizer)} words", flush=True)
    train(model, words, rows_of(encode(tokenizer, reviews["validation"]), None), args)
    save(model, args.out)
    metrics = measure(args.out)
    metrics |= {"seed": args.seed, "versions": export.versions()}
    metrics["training_seconds"] = round(time.time() - start)
    metrics["settings"] = {k: v for k, v in vars(args).items() if k not in ("work", "out", "seed")}
    export.write_metrics(args.out, metrics)
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
