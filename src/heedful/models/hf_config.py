"""What a transformers model is: what it predicts, its labels, how much it reads, a hash of its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from heedful.core.errors import HeedfulError
from heedful.models.head_outputs import head_kind

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MAX_LABEL = 200  # characters of a label's name
UNLIMITED = 8192  # tokens read at most by models that declare no window: attention is quadratic


def kind_of(model: PreTrainedModel) -> str:
    """What the model predicts, from its config and from what it can do, not from its class name."""
    config = model.config
    if model.get_output_embeddings() is not None and model.can_generate():
        return "encoder-decoder" if config.is_encoder_decoder else "causal-lm"
    if model.get_output_embeddings() is not None:
        raise HeedfulError(
            f"{type(model).__name__} is a masked language model",
            "heedful explains classifiers and generators",
            "Load a fine-tuned classifier, or a causal language model",
        )
    if model.base_model is model:
        return "encoder"
    return head_kind(config, config.num_labels)


def labels_of(config: Any) -> tuple[str, ...]:
    """The names of the labels, short enough to be shown, and no two the same: a repeated one has a number."""
    return different(str(config.id2label.get(i, f"label {i}")) for i in range(config.num_labels))


def different(names: Iterable[str]) -> tuple[str, ...]:
    """("same", "same") as ("same", "same (2)"), each cut to MAX_LABEL characters."""
    cut = [name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 1]}…" for name in names]
    taken, last = set(cut), dict[str, int]()  # how far a repeated name is counted
    for i, name in enumerate(cut):
        if name not in last:
            last[name] = 1
            continue
        while (new := f"{name} ({last[name] + 1})") in taken:
            last[name] += 1
        last[name] += 1
        taken.add(new)
        cut[i] = new
    return tuple(cut)


def window_of(model: PreTrainedModel, tokenizer: Any) -> int | None:
    """Most tokens the model reads: learned positions (less those a padding index shifts away) and the
    tokenizer's own limit."""
    config = model.config.get_text_config()
    limits = [UNLIMITED]
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        tokens = model.get_input_embeddings()
        tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and m is not tokens]
        shifted = [
            m.padding_idx + 1 for m in tables if m.num_embeddings == positions and m.padding_idx is not None
        ]  # RoBERTa: position ids start after the padding index
        limits = [positions - max(shifted, default=0)]
    stated = getattr(tokenizer, "model_max_length", None)
    if isinstance(stated, int) and 0 < stated < 10**9:
        limits.append(stated)
    return min(limits)


def fingerprint(module: nn.Module) -> str:
    """A short hash of names, shapes and values: changes when any weight does. A tensor that has two names
    (tied embeddings) is read once."""
    digest, observed = hashlib.sha256(), dict[tuple[int, tuple[int, ...]], str]()
    for name, tensor in sorted(module.state_dict().items()):
        first = observed.setdefault((tensor.data_ptr(), tuple(tensor.shape)), name)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {first}".encode())
        if first == name:
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]
