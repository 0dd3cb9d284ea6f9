"""Small language models of the speeches, trained by the labs themselves within seconds to a minute.

Tokens are those of zoo:lm, of which only the first merges are kept: with a vocabulary of about a thousand the
output layer no longer costs more than the rest of a small model.
"""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.labs.data.speeches import speeches
from heedful.models.zoo import resolve
from heedful.nn import GPT2

BYTES = 257  # the end-of-text token and the bytes, before any merge
BATCH = 64  # windows whose loss is computed at once


def tokenizer(size: int, window: int) -> Any:
    """Byte-level BPE with the first merges of zoo:lm, `size` tokens in all."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    state = json.loads((resolve.path("lm") / "tokenizer.json").read_text(encoding="utf-8"))
    model = state["model"]
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < size}
    model["merges"] = model["merges"][: size - BYTES]
    end = next(iter(state["added_tokens"]))["content"]
    made = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=end, eos_token=end, model_max_length=window
    )


def tokens(reader: Any, part: str, every: int = 1) -> Tensor:
    """(N,) speeches of a part, all or every so many, each opened by the end-of-text token."""
    read = reader(list(speeches(part).values())[::every], verbose=False)["input_ids"]
    return torch.tensor([token for ids in read for token in (reader.eos_token_id, *ids)])


def in_windows(ids: Tensor, length: int) -> Tensor:
    """(N,) -> (n, length); the rest is left out."""
    return ids[: len(ids) // length * length].view(-1, length)


@torch.no_grad()
def losses(model: GPT2, rows: Tensor) -> Floats:
    """(n, T) windows -> (n,) mean cross entropy of each, in nats a token."""
    model.eval()
    parts = []
    for part in torch.split(rows, BATCH):
        logits = model(part[:, :-1]).transpose(1, 2)  # (B, vocab, T - 1)
        parts.append(F.cross_entropy(logits, part[:, 1:], reduction="none").mean(1))
    return torch.cat(parts).double().numpy()
