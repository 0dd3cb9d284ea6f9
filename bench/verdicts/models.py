"""Models whose reasons are known by construction: functions of at most twelve words.

Each has `truth(words)`: how much each word of a text is worth to the output, by the rule that made the model;
None where nothing in the text is a reason. Texts are drawn from the model's own words.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from heedful.core.arrays import Floats

WORDS = tuple(f"{a}{b}" for a in "bdfgklmnprstvz" for b in ("an", "el", "im"))  # 42
LENGTH = 12
Words = Sequence[str]


@dataclass(frozen=True)
class Known:
    """A model, and what its words are worth."""

    name: str
    value: Callable[[Words], float]
    truth: Callable[[Words], Floats] | None = None

    def __call__(self, texts: list[str]) -> list[float]:
        return [float(self.value(text.split())) for text in texts]

    def texts(self, count: int, seed: int) -> list[str]:
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        lengths = rng.integers(8, LENGTH + 1, size=count)
        return [" ".join(rng.choice(WORDS, size, replace=False)) for size in lengths]


def _weights(seed: int, large: int = 8) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    found = dict(zip(WORDS, 0.05 * rng.normal(size=len(WORDS)), strict=True))
    return found | dict(
        zip(rng.choice(WORDS, large, replace=False), rng.choice([-1.0, 1.0, 2.0], large), strict=True)
    )


def _sum(weights: dict[str, float], words: Words) -> float:
    return sum(weights.get(word, 0.0) for word in words)


def _each(weights: dict[str, float], words: Words) -> Floats:
    return np.array([weights.get(word, 0.0) for word in words])


def planted(seed: int) -> Known:
    weights = _weights(seed)
    return Known(f"planted words {seed}", partial(_sum, weights), partial(_each, weights))


def squashed(seed: int) -> Known:
    """The same behind a curve that grows: probabilities, or losses with a long tail."""
    weights = _weights(seed + 50)
    curve = (lambda s: 1 / (1 + np.exp(-s))) if seed % 2 else (lambda s: np.exp(0.7 * s))
    return Known(
        f"squashed sum {seed}", lambda words: float(curve(_sum(weights, words))), partial(_each, weights)
    )


def pairs(seed: int) -> Known:
    """Words that count only beside a word of another group: each half of a pair is worth half of it."""
    rng = np.random.default_rng(seed + 100)
    shuffled = rng.permutation(WORDS)
    first, second, weights = set(shuffled[:10]), set(shuffled[10:20]), _weights(seed + 101, 4)

    def value(words: Words) -> float:
        return min(_count(words, first), _count(words, second)) + 0.5 * _sum(weights, words)

    def truth(words: Words) -> Floats:
        one, two = _count(words, first), _count(words, second)
        both = min(one, two)
        worth = [both / 2 / one if w in first else both / 2 / two if w in second else 0.0 for w in words]
        return np.array(worth) + 0.5 * _each(weights, words)

    return Known(f"pairs of words {seed}", value, truth)


def _count(words: Words, group: set[str]) -> int:
    return sum(word in group for word in words)


def positions(seed: int) -> Known:
    """A word counts more the nearer it is to the beginning."""
    weights = {word: abs(weight) + 0.1 for word, weight in _weights(seed + 200).items()}

    def truth(words: Words) -> Floats:
        return np.array([weights.get(word, 0.0) * 0.7**place for place, word in enumerate(words)])

    return Known(f"positions {seed}", lambda words: float(truth(words).sum()), truth)


def attention(seed: int) -> Known:
    """One layer of attention with a linear read-out: softmax(k) @ v, with the value it is a mean about."""
    rng = np.random.default_rng(seed + 300)
    keys = dict(zip(WORDS, 1.5 * rng.normal(size=len(WORDS)), strict=True))
    values = dict(zip(WORDS, rng.normal(size=len(WORDS)), strict=True))

    def share(words: Words) -> Floats:
        weights = np.exp([keys.get(word, 0.0) for word in words])
        return weights / weights.sum() if len(words) else weights

    def value(words: Words) -> float:
        return float(share(words) @ [values.get(word, 0.0) for word in words]) if words else 0.0

    def truth(words: Words) -> Floats:
        """To first order, what leaving a word out changes."""
        a, v = share(words), np.array([values.get(word, 0.0) for word in words])
        return a * (v - a @ v)

    return Known(f"one layer of attention {seed}", value, truth)


def shortcut(seed: int) -> Known:
    """One of a few words decides; the rest is hardly read."""
    rng = np.random.default_rng(seed + 400)
    weights = dict.fromkeys(WORDS, 0.0) | dict.fromkeys(rng.choice(WORDS, 14, replace=False), 5.0)

    def value(words: Words) -> float:
        return max((weights.get(word, 0.0) for word in words), default=0.0) + 0.2 * _sum(weights, words)

    return Known(f"shortcut {seed}", value, partial(_each, weights))


def strongest(seed: int) -> Known:
    """The two strongest words count."""
    weights = {word: abs(weight) for word, weight in _weights(seed + 500, 24).items()}

    def value(words: Words) -> float:
        return float(sum(sorted((weights.get(word, 0.0) for word in words), reverse=True)[:4]))

    def truth(words: Words) -> Floats:
        each = _each(weights, words)
        return np.where(each >= np.sort(each)[-4:].min(), each, 0.0)

    return Known(f"strongest words {seed}", value, truth)


def noise(seed: int) -> Known:
    """A number drawn anew for every text: no word is a reason."""

    def value(words: Words) -> float:
        key = zlib.crc32(" ".join([str(seed), *words]).encode())
        drawn = np.random.default_rng(key).normal(size=2)
        return float(
            [drawn[0], np.exp(1.5 * drawn[0]), float(drawn[0] > 1.6), drawn[0] / abs(drawn[1])][seed % 4]
        )

    return Known(f"noise {seed}", value)


def ignoring(seed: int) -> Known:
    """Constants, numbers that differ by rounding alone, and the number of words."""

    def value(words: Words) -> float:
        step = zlib.crc32(" ".join(words).encode()) % 3
        return [3.25, float(np.float32(7.1)) + step * 2.0**-21, float(len(words)), 0.0][seed % 4]

    return Known(f"ignores its words {seed}", value)


def every() -> list[Known]:
    """Forty-four of them."""
    kinds = (
        (planted, 8),
        (squashed, 4),
        (pairs, 6),
        (positions, 4),
        (attention, 6),
        (shortcut, 3),
        (strongest, 3),
        (noise, 6),
        (ignoring, 4),
    )
    return [kind(seed) for kind, count in kinds for seed in range(count)]
