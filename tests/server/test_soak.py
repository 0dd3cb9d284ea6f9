"""Fifty clients for a minute, and that too many are noticed."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.soak import EVERY, MEASURED, RATE, Tally, served, soak, told, wrong

SANE = {
    "errors": 0.0,
    "95 % within": 1.0,
    "asked late by": 0.0,
    "beside a long question": 0.5,
    "beside the longest text": 0.5,
    "MB after a minute": 600.0,
    "MB at the end": 610.0,
}


@pytest.mark.slow
def test_fifty_clients_for_a_minute() -> None:
    with served() as server:
        tally = asyncio.run(soak(server, 60, 50, RATE))
    assert wrong(told(tally, 60), quiet=False) == [], tally.errors[:5]
    assert tally.jobs >= 1
    assert tally.events > tally.jobs  # each was listened to


@pytest.mark.slow
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
        ({"beside the longest text": 3.0}, "waited 3.00 s for the longest text"),
        ({"MB at the end": 640.0}, "memory grew by a factor of 1.067"),
    ],
)
def test_each_check_can_fail(more: dict[str, float], said: str) -> None:
    numbers = SANE | {"waiting, first third": 2.0, "waiting, last third": 2.0}
    assert wrong(numbers) == []
    (sentence,) = wrong(numbers | more)
    assert said in sentence
    assert bool(wrong(numbers | more, quiet=False)) == ("errors" in more or "MB at the end" in more)


def tally_of(seconds: float) -> Tally:
    """Memory that grows by a tenth every minute."""
    looks = int(seconds / EVERY)
    memory = [600.0 * (1 + 0.1 * look * EVERY / 60) for look in range(looks)]
    one = [0.1]
    return Tally(seconds=one, waiting=[0] * looks, memory=memory, beside=one, longest=one, beside_longest=one)


def test_memory_is_told_only_by_a_run_that_is_long_enough() -> None:
    """In a minute, its first and its last look are nearly the same, however much the memory grows."""
    short, long = (told(tally_of(seconds), seconds) for seconds in (60, MEASURED))
    assert not any(name.startswith("MB") for name in short)
    assert wrong(short) == []
    assert long["MB at the end"] > 1.1 * long["MB after a minute"]
    assert any("the memory grew" in sentence for sentence in wrong(long))
