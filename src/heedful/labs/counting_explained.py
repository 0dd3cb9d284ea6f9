"""Counting models explained: methods are asked why the first letter counts n times rather than n - 1.

    found    chance that a copy scores above a letter that is no copy; 1/2 knows nothing
    moves    share of the variance of the scores that comes from the sequence and not from the place:
             mean_j Var_x s_j(x) / (mean_j Var_x s_j(x) + Var_j mean_x s_j(x)); 0: always the same scores

A letter that is removed becomes the last of the alphabet, which no explained sequence holds: what is left is
an ordinary sequence with a copy less.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import heedful
from heedful.labs.counting import CountConfig, Counter
from heedful.types import Floats


def asked(model: Counter) -> Any:
    """The model behind heedful's door: letters with blanks between, the answer for the first place."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    config = model.config
    letters = string.ascii_lowercase[: config.letters]
    tokenizer = Tokenizer(
        models.WordLevel({letter: i for i, letter in enumerate(letters)}, unk_token=letters[-1])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        mask_token=letters[-1],
        pad_token=letters[-1],
        model_max_length=config.length,
    )

    def first(letters: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        logits, weights = model(letters, mask, slice(0, 1))
        return logits[:, 0], weights  # (B, L + 1), one head's row (B, 1, L)

    labels = [f"{count} times" for count in range(config.length + 1)]
    return heedful.load((model, fast), embed=model.embed, forward=first, labels=labels)


def questions(config: CountConfig, n: int, seed: int) -> Tensor:
    """(n, L) sequences whose first letter occurs 2, 3 or 4 times; the last of the alphabet is unused."""
    rng, length = np.random.default_rng(seed), config.length
    rows = np.empty((n, length), dtype=np.int64)
    for i, row in enumerate(rows):
        first = rng.integers(config.letters - 1)
        others = [letter for letter in range(config.letters - 1) if letter != first]
        row[:] = rng.choice(others, length)
        row[[0, *(1 + rng.permutation(length - 1)[: 1 + i % 3])]] = first
    return torch.from_numpy(rows)


def found(scores: Floats, copy: npt.NDArray[np.bool_]) -> float:
    """P(a copy scores above another letter), ties one half."""
    gap = scores[copy][:, None] - scores[~copy][None]
    return float(((gap > 0) + 0.5 * (gap == 0)).mean())


def moves(scores: Floats) -> float:
    """Scores (n, places): share of their variance that comes from the sequence."""
    own = (
        (scores - scores[0]).var(0).mean()
    )  # less the first: scores that never change have no rounding, either
    return float(own / (own + scores.mean(0).var()))


def explained(
    model: Counter, x: Tensor, methods: Sequence[str], seed: int, told: Callable[[int], None]
) -> dict[str, Floats]:
    """Method -> scores (n, L - 1) of the places after the first, on sequences the model counts right."""
    door = asked(model)
    rows: dict[str, list[Floats]] = {method: [] for method in (*methods, "random")}
    for i, row in enumerate(x.tolist()):
        text = " ".join(string.ascii_lowercase[letter] for letter in row)
        count = row.count(row[0])
        target = {"label": count, "contrast": count - 1}
        found = heedful.explain(door, text, methods, target, seed=seed + i, evidence=False)
        for method, kept in rows.items():
            kept.append(found[method].scores[1:])
        told(i + 1)
    return {method: np.array(kept) for method, kept in rows.items()}
