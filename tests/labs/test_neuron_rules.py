"""Planted neurons: what one rule explains, what it takes two for, and what no rule can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from heedful.labs.measures.neuron_rules import RuleWindows, Values, explained

WINDOWS, LENGTH, WORDS = 300, 20, 30


class Reader:
    """Every token is a word of its own."""

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return "".join(f" {'abcdefghijklmnopqrstuvwxyzäöüß'[i] * 3}" for i in ids)


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    return torch.randint(WORDS, (WINDOWS, LENGTH), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def places(rows: torch.Tensor) -> RuleWindows:
    return RuleWindows(rows, Reader(), 40)


def neuron(fires: torch.Tensor, seed: int = 1) -> Values:
    """(1, windows, T): strong where it fires, a little noise elsewhere."""
    noise = torch.rand(fires.shape, generator=torch.Generator().manual_seed(seed))
    return (fires * (0.7 + 0.3 * noise) + 0.2 * noise * ~fires)[None].numpy()


def test_a_token_is_one_rule(places: RuleWindows, rows: torch.Tensor) -> None:
    assert explained(places, neuron(rows == 7), 0) == [1.0]


def test_what_follows_a_token_is_one_rule(places: RuleWindows, rows: torch.Tensor) -> None:
    assert explained(places, neuron(rows.roll(1, 1) == 7), 0) == [1.0]


def test_two_tokens_are_not_one_rule(places: RuleWindows, rows: torch.Tensor) -> None:
    assert explained(places, neuron((rows == 7) | (rows == 8)), 0) == [0.0]


def test_chance_is_no_rule(places: RuleWindows, rows: torch.Tensor) -> None:
    drawn = torch.rand(rows.shape, generator=torch.Generator().manual_seed(3)) < 0.03
    assert explained(places, neuron(drawn), 0) == [0.0]


def test_moved_activations_are_no_rule(places: RuleWindows, rows: torch.Tensor) -> None:
    assert explained(places, neuron(rows == 7), 0, mixed=True) == [0.0]


def test_weak_firings_do_not_count(places: RuleWindows, rows: torch.Tensor) -> None:
    """Below half of the greatest activation the neuron may do what it likes."""
    values = neuron(rows == 7) + 0.3 * neuron(rows == 8)
    assert explained(places, values, 0) == [1.0]


def test_a_rule_that_holds_everywhere_explains_nothing(places: RuleWindows, rows: torch.Tensor) -> None:
    """All but one token: no condition separates it, and a neuron that never fires has none."""
    assert explained(places, neuron(rows != 7), 0) == [0.0]
    assert explained(places, np.zeros((1, *rows.shape), np.float32), 0) == [0.0]


def test_training_and_held_out_windows_are_different(places: RuleWindows, rows: torch.Tensor) -> None:
    parts = places.split(neuron(rows == 7)[0], np.random.default_rng(0))
    assert {s.window % 2 for s in parts.training} == {0}
    assert {s.window % 2 for s in parts.held} == {1}
    assert all(s.value == 0 or s.context.ids[s.at] == 7 for s in (*parts.training, *parts.held))
