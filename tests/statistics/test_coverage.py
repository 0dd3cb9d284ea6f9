"""95 % intervals hold the exact value in 92 to 98 % of cases, and planted bugs show."""

from __future__ import annotations

from typing import Any

import held_intervals
import mask_games
import numpy as np
import pytest
from mask_games import Game

from heedful.stats import control_variates, lime_limit, mask_sampling

LOW, HIGH = 0.92, 0.98


@pytest.fixture(scope="module")
def games() -> list[Game]:
    return [
        mask_games.net(10, 11),
        mask_games.steep(10, 20.0, 12),
        mask_games.sparse(14, 5, 4, 13),
        mask_games.heads(12, 0.5, 14),
        mask_games.heads(12, 4.0, 15),
        mask_games.one_layer(mask_games.REVIEWS[0]),
    ]


def covered(games: list[Game], method: str, rows: int, precision: float, seeds: int) -> float:
    return float(
        np.mean([held_intervals.hits(game, method, rows, precision, range(seeds)) for game in games])
    )


@pytest.mark.parametrize("precision", [0.0, held_intervals.STOPPING])
@pytest.mark.parametrize("method", held_intervals.METHODS)
def test_intervals_cover(games: list[Game], method: str, precision: float) -> None:
    assert LOW <= covered(games, method, 130, precision, 10) <= HIGH  # sd 0.01 at these seeds


@pytest.mark.parametrize("method", held_intervals.METHODS)
def test_intervals_cover_when_half_of_all_masks_are_run(method: str) -> None:
    """Surrogates then know half of every stratum: treated as strangers, they cover 40 to 85 %."""
    few = [mask_games.net(8, 16), mask_games.one_layer("the food is not as good as it was")]
    assert 0.90 <= covered(few, method, 140, 0.0, 20) <= 0.985  # sd 0.015


def scaled(by: float) -> Any:
    right = mask_sampling._stderr

    def wrong(*args: Any) -> np.ndarray:
        return np.asarray(by * right(*args))

    return mask_sampling, "_stderr", wrong


def leaking() -> Any:
    """Every surrogate has seen its own pair."""
    return control_variates, "_values", lambda residual, a, c, v, pairs: (residual @ a, residual @ a)


def unblended() -> Any:
    right = control_variates._values

    def wrong(*args: Any) -> tuple[np.ndarray, np.ndarray]:
        left_out, _ = right(*args)
        return left_out, left_out

    return control_variates, "_values", wrong


def skewed() -> Any:
    right = mask_sampling.law_weights
    return mask_sampling, "law_weights", lambda keep, law: right(keep, law) * keep.sum(1) ** 2


def other_limit() -> Any:
    right = lime_limit.coin_mixture
    return lime_limit, "coin_mixture", lambda d, nu: right(d, 2 * nu)


BUGS = {
    "too small by 1.3": (lambda: scaled(1 / 1.3), held_intervals.METHODS, 130),
    "too large by 1.5": (lambda: scaled(1.5), held_intervals.METHODS, 130),
    "adjustment leaks": (leaking, held_intervals.METHODS, 130),
    "weights skewed": (skewed, held_intervals.METHODS, 130),
    "surrogate explained at another bandwidth": (other_limit, ("lime",), 130),
    "surrogates taken for strangers": (unblended, ("kernel-shap",), 500),
}


@pytest.mark.parametrize(
    ("bug", "method"), [(bug, method) for bug, (_, methods, _) in BUGS.items() for method in methods]
)
def test_planted_bugs_are_caught(
    games: list[Game], monkeypatch: pytest.MonkeyPatch, bug: str, method: str
) -> None:
    plant, _, rows = BUGS[bug]
    monkeypatch.setattr(*plant())
    if rows > 130:
        games = [mask_games.one_layer(mask_games.REVIEWS[0])]
    assert not LOW <= covered(games, method, rows, 0.0, 3) <= HIGH


def check(games: list[Game], method: str, rows: int, precision: float, name: str) -> None:
    seeds = range(200 // len(games) + 1)
    found = [
        held_intervals.hits(game, method, held_intervals.rows_of(game, rows), precision, seeds)
        for game in games
    ]
    print(f"{name} {method} {rows} rows, precision {precision}: {np.mean(found):.3f}")
    assert LOW <= np.mean(found) <= HIGH


SETTINGS = [(128, 0.0), (256, 0.0), (512, held_intervals.STOPPING)]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "precision"), SETTINGS)
@pytest.mark.parametrize("method", held_intervals.METHODS)
@pytest.mark.parametrize("name", [*held_intervals.synthetic(), "zoo:one-layer", "zoo:sentiment"])
def test_200_seeds(name: str, method: str, rows: int, precision: float) -> None:
    check(dict(held_intervals.families(False))[name], method, rows, precision, name)


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("method", held_intervals.METHODS)
def test_200_seeds_on_the_prompt_injection_classifier(method: str) -> None:
    games = held_intervals.zoo("prompt-injection", mask_games.PROMPTS[:3])
    for rows, precision in SETTINGS:
        check(games, method, rows, precision, "zoo:prompt-injection")
