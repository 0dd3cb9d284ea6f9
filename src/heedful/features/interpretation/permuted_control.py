"""Where there is nothing to find: activations moved to other tokens, so that no text belongs to them.

    block   the tokens of one window that examples show, each once
    move    every block is turned by a random number of places, the blocks follow each other in random order,
            and the row of them all is turned once more

Every token gets every activation with the same probability, so the expected covariance with any prediction
is 0: a prediction can no longer profit from where examples are marked. Firings that stand side by side stay
side by side, but for one cut of each block, and a token that two examples show has one activation in both.

    p = (1 + moves whose score is at least the one seen) / (1 + moves)

Phipson & Smyth 2010 (p values of random permutations are never 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from heedful.features.interpretation.scores import correlation, correlations
from heedful.features.reading.examples import Snippet

PERMUTATIONS, CHUNK_PERMUTATIONS = 999, 100  # a chunk at a time: long examples would need a lot of memory
ROUNDING = 1e-12  # of a correlation: equal ones count as reached
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TokenPlaces:
    """Where the tokens of examples stand in the model's windows."""

    of_token: Ints  # (N,) the place of each token, examples one after the other
    shown: Ints  # (P,) the token that shows a place with most before it
    block: Ints  # (P,) the window of each place, numbered from 0
    start: Ints  # (B,) the first place of each block
    size: Ints  # (B,)

    @classmethod
    def of(cls, examples: Sequence[Snippet]) -> TokenPlaces:
        """Texts of the reader, whose window has no number, are a block each."""
        keys = np.array(
            [
                (s.window if s.window >= 0 else -2 - number, s.context.first + t, t)
                for number, s in enumerate(examples)
                for t in range(len(s.context))
            ],
            dtype=np.int64,
        )
        places, of_token = np.unique(keys[:, :2], axis=0, return_inverse=True)
        order = np.lexsort((-keys[:, 2], of_token.reshape(-1)))
        shown = order[np.unique(of_token.reshape(-1)[order], return_index=True)[1]]
        _, start, block, size = np.unique(
            places[:, 0], return_index=True, return_inverse=True, return_counts=True
        )
        return cls(of_token.reshape(-1), shown, block, start, size)

    def move(self, rng: np.random.Generator) -> Ints:
        """(P,) which place each place gets its activation from."""
        start, size = self.start[self.block], self.size[self.block]
        turn = rng.integers(self.size)[self.block]
        turned = start + (np.arange(len(start)) - start + turn) % size
        order = rng.permutation(len(self.size))
        row = turned[np.argsort(order[self.block], kind="stable")]
        return np.roll(row, rng.integers(len(row)))

    def moved(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Activations (N,), one per token, after one move."""
        return values[self.shown][self.move(rng)][self.of_token]

    def p_values(
        self, pairs: Sequence[tuple[Floats, Floats]], seed: int, moves: int = PERMUTATIONS
    ) -> list[float]:
        """Of the correlation of each pair (predicted, true), both (N,); the same moves for all.

        The predictions are moved here, not the activations: how many examples show a token depends on where
        the feature fires, and must stay with it.
        """
        rng = np.random.default_rng(seed)
        results = [correlation(x, y) for x, y in pairs]
        own = [x[self.shown] for x, _ in pairs]
        reached = np.zeros(len(pairs), np.int64)
        for first in range(0, moves, CHUNK_PERMUTATIONS):
            count = min(CHUNK_PERMUTATIONS, moves - first)
            sources = np.stack([self.move(rng)[self.of_token] for _ in range(count)])  # (C, N)
            for number, ((_, y), x) in enumerate(zip(pairs, own, strict=True)):
                reached[number] += (correlations(y, x[sources]) >= results[number] - ROUNDING).sum()
        return [float(p) for p in (1 + reached) / (1 + moves)]


def moved(examples: Sequence[Snippet], rng: np.random.Generator) -> tuple[Snippet, ...]:
    """Examples after one move; each is marked at its strongest token, if the feature now fires in it."""
    values = TokenPlaces.of(examples).moved(flat(examples), rng)
    parts = np.split(values, np.cumsum([len(s.context) for s in examples])[:-1])
    return tuple(
        replace(s, values=tuple(own.tolist()), at=int(own.argmax()) if own.max() > 0 else s.at)
        for s, own in zip(examples, parts, strict=True)
    )


def flat(examples: Sequence[Snippet]) -> Floats:
    """(N,) the activations of all tokens, examples one after the other."""
    return np.concatenate([np.asarray(s.values, dtype=np.float64) for s in examples])
