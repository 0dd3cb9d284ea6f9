"""Fifty clients for a minute, and that too many are noticed."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.soak import RATE, served, soak, told, wrong

pytestmark = pytest.mark.slow
SANE = {
    "errors": 0.0,
    "95 % within": 1.0,
    "asked late by": 0.0,
    "beside a long question": 0.5,
    "MB after a minute": 600.0,
    "MB at the end": 610.0,
}


def test_fifty_clients_for_a_minute() -> None:
    with served() as server:
        tally = asyncio.run(soak(server, 60, 50, RATE))
    assert wrong(told(tally, 60), quiet=False) == [], tally.errors[:5]
    assert tally.jobs >= 1
    assert tally.events > tally.jobs  # each was listened to


def test_more_than_it_can_answer_is_noticed() -> None:
    """Eight times the rate for ten seconds: the same checks say so."""
    with served() as server:
        tally = asyncio.run(soak(server, 10, 50, 8 * RATE))
    assert any("the queue grew" in sentence for sentence in wrong(told(tally, 10)))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"errors": 1.0}, "1 errors"),
        ({"waiting, last third": 20.0}, "the queue grew"),
        ({"95 % within": 60.0}, "95 % within"),
        ({"asked late by": 9.0}, "clients were late"),
        ({"beside a long question": 3.0}, "waited 3.00 s for a long one"),
        ({"MB at the end": 640.0}, "memory grew by a factor of 1.067"),
    ],
)
def test_each_check_can_fail(more: dict[str, float], said: str) -> None:
    numbers = SANE | {"waiting, first third": 2.0, "waiting, last third": 2.0}
    assert wrong(numbers) == []
    (sentence,) = wrong(numbers | more)
    assert said in sentence
    assert bool(wrong(numbers | more, quiet=False)) == ("errors" in more or "MB at the end" in more)
