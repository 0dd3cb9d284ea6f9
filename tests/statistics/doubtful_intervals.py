"""How often a sampled explanation says "interval not reliable", and how often its intervals hold.

    python tests/statistics/doubtful_intervals.py [--games 40] [--seed 1]

The first two families are those it is meant for, then balanced logistic models, whose residuals look odd but
whose slopes are known, and those of held_intervals.py, made anew from other seeds. One line per family,
method and number of rows: the share of games with the warning, in per cent, and the share of words whose 95 %
interval holds the exact value, of all games and of those without the warning.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

import held_intervals
import mask_games
import numpy as np
from mask_games import Game

WARNING = "interval not reliable"
SETTINGS = ((256, 0.0), (512, held_intervals.STOPPING))
Make = Callable[[int], Game]

MEANT: dict[str, list[Make]] = {
    "products of log-normal factors, 40 words": [
        lambda seed: mask_games.factors(40, 1.0, seed),
        lambda seed: mask_games.factors(40, 1.25, seed),
        lambda seed: mask_games.factors(40, 1.5, seed),
    ],
    "three-way interactions, 12 words": [
        lambda seed: mask_games.threes(12, 1, seed),
        lambda seed: mask_games.threes(12, 5, seed),
        lambda seed: mask_games.threes(12, 40, seed),
        lambda seed: mask_games.threes(12, 220, seed),
    ],
}
ORDINARY: dict[str, list[Make]] = {  # as held_intervals.synthetic, and S-shapes
    "balanced logistic, 12 words": [
        lambda seed: mask_games.logistic(12, 0.5, seed),
        lambda seed: mask_games.logistic(12, 1.0, seed),
        lambda seed: mask_games.logistic(12, 2.0, seed),
        lambda seed: mask_games.logistic(12, 8.0, seed),
    ],
    "network": [lambda seed: mask_games.net(11, seed)],
    "nearly 0/1": [
        lambda seed: mask_games.steep(12, 5.0, seed),
        lambda seed: mask_games.steep(12, 30.0, seed),
    ],
    "strong sparse products": [
        lambda seed: mask_games.sparse(14, 6, 4, seed),
        lambda seed: mask_games.sparse(24, 8, 3, seed),
    ],
    "attention": [
        lambda seed: mask_games.heads(13, 0.5, seed),
        lambda seed: mask_games.heads(25, 4.0, seed),
    ],
}


def tried(
    games: Iterable[Game], method: str, rows: int, precision: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """((n,) whether the warning came, (n,) share of the words whose interval holds), one draw per game."""
    warned, held = [], []
    for number, game in enumerate(games):
        (values, stderr), notes = mask_games.ours_with_notes(
            game, method, held_intervals.rows_of(game, rows), precision, seed + number
        )
        warned.append(any(WARNING in note for note in notes))
        exact = game.exact[method]
        held.append(np.mean(np.abs(values - exact) <= 1.96 * stderr + 1e-12 * np.abs(exact).max()))
    return np.array(warned), np.array(held)


def made(makes: list[Make], games: int, seed: int) -> list[Game]:
    return [makes[number % len(makes)](seed + number) for number in range(games)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    families = {name: made(makes, chosen.games, chosen.seed) for name, makes in (MEANT | ORDINARY).items()}
    families["zoo:one-layer"] = [mask_games.one_layer(words) for words in mask_games.REVIEWS]
    families["zoo:sentiment"] = held_intervals.zoo("sentiment", mask_games.REVIEWS)
    print(
        "| games | method | rows | warned | covered | covered where not warned |\n|---|---|---|---|---|---|"
    )
    for name, games in families.items():
        for method in held_intervals.METHODS:
            for rows, precision in SETTINGS:
                warned, held = tried(games, method, rows, precision, chosen.seed)
                silent = f"{100 * held[~warned].mean():.0f}" if not warned.all() else ""
                row = f"{rows}, stopping early" if precision else str(rows)
                print(
                    f"| {name} | `{method}` | {row} | {100 * warned.mean():.0f} | {100 * held.mean():.0f} "
                    f"| {silent} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
