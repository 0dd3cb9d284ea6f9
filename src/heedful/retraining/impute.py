"""What stands where a word was removed, for models that are trained again on such texts.

    masked           a token of its own ("[MASK]")                       tokens in, tokens out
    masked_text      the same, joined to a text                          words in, a string out
    mean_embedding   e_t = m, the mean embedding of the training text    ids in, vectors (T, d) out
    noisy_linear     e_t = (e_{t-1} + e_{t+1}) / 2 + noise               ids in, vectors (T, d) out

noisy_linear is ROAD's idea in one dimension (heedful.stats.linear_imputation). Noise is normal, `noise` times
the spread of each coordinate of the table.

What it is not: neighbouring pixels are alike, neighbouring words are not. A point between two words is no
word, and a model can learn to see it. In images this imputation hides what was removed; in text it only makes
it harder to see. So the pattern of removal is always put on trial (heedful.retraining.roar).

An imputer also shows the bare pattern: the same kind of input, with one thing at every kept place and another
at every removed one. Cost O(T d) a text.

Hooker et al. 2019 (mean); Rong et al. 2022, "A consistent and efficient evaluation strategy for attribution
methods" (noisy linear).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.stats.linear_imputation import NOISE, Gone, imputed_row


@dataclass(frozen=True)
class Imputer:
    """fill: the input with something else where it was removed; pattern: where it was removed, no more."""

    name: str
    fill: Callable[[Sequence[Any], Gone, np.random.Generator], Any]
    pattern: Callable[[Gone], Any]


def masked(mask: Any, filler: Any) -> Imputer:
    """An imputer that puts the token `mask` where a token was removed. To show only the pattern of removal,
    `filler` replaces all kept tokens."""
    if mask == filler:
        raise HeedfulError("the bare pattern needs two tokens", f"mask and filler are both {mask!r}")

    def fill(tokens: Sequence[Any], gone: Gone, rng: np.random.Generator) -> tuple[Any, ...]:
        return tuple(mask if out else token for token, out in zip(tokens, gone, strict=True))

    return Imputer("mask", fill, lambda gone: tuple(mask if out else filler for out in gone))


def masked_text(mask: str = "[MASK]", filler: str = "word") -> Imputer:
    """As `masked`, for models that read strings."""
    plain = masked(mask, filler)
    return Imputer(
        "mask",
        lambda tokens, gone, rng: " ".join(plain.fill(tokens, gone, rng)),
        lambda gone: " ".join(plain.pattern(gone)),
    )


def mean_vector(table: Floats, texts: Iterable[Sequence[int]]) -> Floats:
    """(d,) mean embedding over all tokens of the texts, so that frequent words count often."""
    counts = np.zeros(len(table))
    for ids in texts:
        np.add.at(counts, np.asarray(ids, dtype=np.int64), 1.0)
    return np.asarray(counts @ table / counts.sum())


def mean_embedding(table: Floats, mean: Floats) -> Imputer:
    """The mean vector for what is gone. Always the same: the pattern is as plain as with a mask."""

    def fill(ids: Sequence[int], gone: Gone, rng: np.random.Generator) -> Floats:
        return np.where(gone[:, None], mean, table[list(ids)])

    return Imputer("mean", fill, _two_vectors(table))


def noisy_linear(table: Floats, mean: Floats, noise: float = NOISE) -> Imputer:
    """The line between the nearest kept vectors, with noise; the mean where nothing is kept."""
    spread = noise * table.std(0)  # (d,)

    def fill(ids: Sequence[int], gone: Gone, rng: np.random.Generator) -> Floats:
        return imputed_row(table[list(ids)], gone, mean, spread, rng)

    return Imputer("noisy linear", fill, _two_vectors(table))


def _two_vectors(table: Floats) -> Callable[[Gone], Floats]:
    """One vector for kept places and its negative for removed ones, as large as the table's own."""
    size = np.sqrt(np.mean(np.square(table), axis=0))  # (d,)
    return lambda gone: np.where(gone[:, None], -size, size)
