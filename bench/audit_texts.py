"""Sentences for the audits that are timed: drawn from a few words, the same everywhere."""

from __future__ import annotations

import numpy as np

SUBJECTS = ("the film", "the acting", "this story", "the plot", "her performance", "the ending", "the music")
VERBS = ("is", "was", "felt", "seemed", "looked")
WORDS = (
    "great",
    "dull",
    "awful",
    "moving",
    "not bad",
    "too long",
    "quite good",
    "never boring",
    "a waste of time",
)
JOINS = ("and", "but", "while", "although", "because")


def sentences(count: int, seed: int = 0) -> list[str]:
    """6 to 30 words each."""
    rng = np.random.default_rng(seed)

    def clause() -> str:
        return " ".join(str(rng.choice(words)) for words in (SUBJECTS, VERBS, WORDS))

    def sentence() -> str:
        parts = [clause()]
        for _ in range(rng.integers(1, 5)):
            parts += [str(rng.choice(JOINS)), clause()]
        return " ".join(parts)

    return [sentence() for _ in range(count)]
