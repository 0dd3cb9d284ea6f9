"""How often 95 % intervals hold the exact value.

    python tests/statistics/held_intervals.py [--real] [--seeds 200]

One line per configuration: the share over words and seeds, +- 1.96 standard errors of that share (words of
one seed count as one observation, because their errors go together).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import mask_games
import numpy as np
from mask_games import Game

import heedful

METHODS = ("lime", "kernel-shap")
STOPPING = 0.1  # the explainers' default precision


def hits(game: Game, method: str, rows: int, precision: float, seeds: range) -> np.ndarray:
    """(seeds,): share of the words whose interval holds the exact value."""
    shares = []
    for seed in seeds:
        found, stderr = mask_games.ours(game, method, rows, precision, seed)
        shares.append(np.mean(np.abs(found - game.exact[method]) <= 1.96 * stderr + 1e-12))
    return np.array(shares)


def rows_of(game: Game, rows: int) -> int:
    """At most 0.6 of all masks: beyond, there is little left to sample."""
    return min(rows, int(0.6 * 2**game.d))


def synthetic() -> dict[str, list[Game]]:
    """Not the games the estimator was tuned on: other seeds, other sizes."""
    return {
        "network": [mask_games.net(11, seed) for seed in (1, 2)],
        "nearly 0/1": [mask_games.steep(12, scale, 3) for scale in (5.0, 30.0)],
        "strong sparse products": [mask_games.sparse(14, 6, 4, 7), mask_games.sparse(24, 8, 3, 8)],
        "attention": [mask_games.heads(13, 0.5, 31), mask_games.heads(25, 4.0, 32)],
    }


def zoo(name: str, texts: tuple[str, ...]) -> list[Game]:
    model = heedful.load(f"zoo:{name}")
    return [mask_games.text(model, words, operator) for words in texts for operator in ("mask", "delete")]


def families(real: bool) -> Iterator[tuple[str, list[Game]]]:
    yield from synthetic().items()
    yield "zoo:one-layer", [mask_games.one_layer(words) for words in mask_games.REVIEWS]
    yield "zoo:sentiment", zoo("sentiment", mask_games.REVIEWS)
    if real:
        yield "zoo:prompt-injection", zoo("prompt-injection", mask_games.PROMPTS)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--seeds", type=int, default=200)
    chosen = parser.parse_args()
    print("| games | method | 128 rows | 256 rows | default stopping |\n|---|---|---|---|---|")
    for name, games in families(chosen.real):
        for method in METHODS:
            cells = []
            for rows, precision in ((128, 0.0), (256, 0.0), (512, STOPPING)):
                found = [
                    hits(game, method, rows_of(game, rows), precision, range(chosen.seeds // len(games)))
                    for game in games
                ]
                spread = np.sqrt(np.sum([share.var(ddof=1) / len(share) for share in found])) / len(found)
                cells.append(f"{100 * np.mean(found):.1f} ± {196 * spread:.1f}")
            print(f"| {name} | `{method}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
