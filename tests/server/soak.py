"""Fifty clients for a minute on zoo:sentiment: no error, no queue that grows, no memory that grows.

    python tests/server/soak.py [SECONDS] [CLIENTS] [QUESTIONS A SECOND]

A server in a process of its own is asked at a fixed rate, whatever its answers do (an open loop): a server
that is slower than it is asked shows it by a queue and by answers that get ever later, which clients that
wait for their answer before they ask again would hide. Each question is of one of the clients, by turns: a
text that grows by a word, now and then a word tried, now and then a job that is listened to as the page does,
by its stream of events. Where an answer says that the test of the methods is cheap, it is started, as by the
page. At the end everything must have been answered.

Before that, a long question is asked: a job with all methods on a long text. Short questions of the same
model beside it must not wait for it. Then a text that is nearly as long as the model reads is asked as one
types it. Questions are answered in the order of asking, so a short one right after it waits for it.

It fails where there is an error, where the queue grows (GROWN), where answers take longer than LATE, where a
short question waits longer than BESIDE, where the memory of the server at the end is more than MEMORY times
that after one minute, or where the clients themselves could not keep the rate, in which case nothing was
measured. A run of less than MEASURED seconds says nothing about memory: its end is too near to its first
minute.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

SAID = "the food was great and the service is not bad but a little slow for such a small place"
WORDS = SAID.split(" ")
EVERY = 0.5  # seconds between looks at the queue and the memory
MEAN = 20  # looks whose middle is the memory at a time
RATE = 5.0  # questions a second of all clients together
JOBS = 0.02  # share of questions that are jobs
TRIES = 0.2
LATE = 1.0  # seconds within which 95 of 100 are to be answered, on a quiet machine
GROWN = 5.0  # questions that may wait more in the last third than in the first, on average
TARDY = 1.0  # seconds by which the clients may ask later than they should
BESIDE = 1.0  # seconds that a question may wait while a long one runs
MEMORY = 1.05  # of the server's memory after a minute
MEASURED = 180.0  # seconds from which on a run tells whether memory grows
LONG = " ".join(WORDS * 8)
LONGEST = " ".join(WORDS * 24)  # nearly the 512 tokens that the model reads


@dataclass
class Tally:
    """What came of it."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)  # asked and not answered, every half second
    jobs: int = 0
    tests: int = 0  # that start by themselves
    events: int = 0
    tardy: float = 0.0
    open: int = 0
    beside: list[float] = field(default_factory=list)  # seconds of short questions while a long one runs
    longest: list[float] = field(default_factory=list)  # of the longest text, as one types it,
    beside_longest: list[float] = field(default_factory=list)  # and of a short one asked right after it
    memory: list[float] = field(default_factory=list)  # of the server, in MB, every half second


async def one(http: httpx.AsyncClient, draw: random.Random, number: int, tally: Tally) -> None:
    """A question of a client, from the moment it should be asked to its answer."""
    start = draw.randrange(len(WORDS) - 3)
    text = " ".join([*WORDS[start : start + draw.randrange(1, 14)], str(number)])
    ask: dict[str, Any] = {"model": "zoo:sentiment", "text": text}
    kind, began = draw.random(), time.monotonic()
    tally.open += 1
    try:
        if kind < JOBS:
            await job(http, ask | {"owner": f"client-{number}"}, tally)
            return
        place, more = ("/api/try", {"edits": [{"word": 0}]}) if kind < JOBS + TRIES else ("/api/look", {})
        answer = await http.post(place, json=ask | more)
        tally.seconds.append(time.monotonic() - began)
        if answer.status_code != 200:
            tally.errors.append(f"{place} {answer.status_code}: {answer.text[:200]}")
        elif answer.json().get("automatic"):
            await http.post(
                "/api/jobs/explain", json=ask | {"automatic": True, "owner": f"client-{number}-live"}
            )
            tally.tests += 1
    except httpx.HTTPError as error:
        tally.errors.append(f"{type(error).__name__}: {error}")
    finally:
        tally.open -= 1


async def job(http: httpx.AsyncClient, ask: dict[str, Any], tally: Tally) -> None:
    """Started, and listened to until it ends."""
    request = ask | {"methods": ["occlusion", "grad-l2"], "test": False}
    begun = await http.post("/api/jobs/explain", json=request)
    tally.jobs += 1
    if begun.status_code != 202:
        tally.errors.append(f"job {begun.status_code}: {begun.text[:200]}")
        return
    state = ""
    async with http.stream("GET", f"/api/jobs/{begun.json()['id']}/events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                tally.events += 1
                state = json.loads(line[5:])["state"]
    if state != "done":
        tally.errors.append(f"a job ended as {state or 'nothing'}")


async def watch(end: float, tally: Tally, server: int) -> None:
    while time.monotonic() < end:
        tally.waiting.append(tally.open)
        tally.memory.append(resident(server))
        await asyncio.sleep(EVERY)


def resident(process: int) -> float:
    """MB of memory that a process has."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) / 1024
    raise AssertionError("the server has ended")


async def long_question(http: httpx.AsyncClient, tally: Tally) -> None:
    """A job of all methods on a long text, and short questions while it runs."""
    ask = {"model": "zoo:sentiment", "text": LONG, "owner": "long", "methods": ["all"], "test": True}
    begun = (await http.post("/api/jobs/explain", json=ask)).json()
    for number in range(60):
        await look(http, f"not bad {number}", tally.beside, tally)
        state = (await http.get(f"/api/jobs/{begun['id']}")).json()["state"]
        if state not in ("waiting", "running"):
            break
        await asyncio.sleep(0.25)
    await http.post(f"/api/jobs/{begun['id']}/cancel")
    while (await http.get(f"/api/jobs/{begun['id']}")).json()["state"] in ("waiting", "running"):
        await asyncio.sleep(0.1)


async def longest_texts(http: httpx.AsyncClient, tally: Tally) -> None:
    """The longest text as one types it, and a short one that is asked right after it."""
    for number in range(5):
        long = asyncio.create_task(look(http, f"{number} {LONGEST}", tally.longest, tally))
        await asyncio.sleep(0.02)
        await look(http, f"not bad either {number}", tally.beside_longest, tally)
        await long


async def look(http: httpx.AsyncClient, text: str, seconds: list[float], tally: Tally) -> None:
    began = time.monotonic()
    answer = await http.post("/api/look", json={"model": "zoo:sentiment", "text": text})
    seconds.append(time.monotonic() - began)
    if answer.status_code != 200:
        tally.errors.append(f"beside a long question {answer.status_code}: {answer.text[:200]}")


async def soak(server: Server, seconds: float, clients: int, rate: float) -> Tally:
    tally = Tally()
    draws = [random.Random(number) for number in range(clients)]
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=server.address, timeout=120, limits=limits) as http:
        await long_question(http, tally)
        await longest_texts(http, tally)
        began = time.monotonic()
        watching = asyncio.create_task(watch(began + seconds, tally, server.process))
        asked = set()
        for index in range(int(rate * seconds)):
            due = began + index / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tally.tardy = max(tally.tardy, time.monotonic() - due)
            number = index % clients
            asked.add(asyncio.create_task(one(http, draws[number], number, tally)))
        await asyncio.gather(watching, *asked)
    return tally


def told(tally: Tally, seconds: float) -> dict[str, float]:
    """The numbers that count."""
    third = max(1, len(tally.waiting) // 3)
    first, last = (statistics.mean(part) for part in (tally.waiting[:third], tally.waiting[-third:]))
    times = sorted(tally.seconds)
    return {
        "questions": len(times),
        "a second": len(times) / seconds,
        "jobs": tally.jobs,
        "tests": tally.tests,
        "events": tally.events,
        "errors": len(tally.errors),
        "median seconds": statistics.median(times),
        "95 % within": times[int(0.95 * len(times))],
        "slowest": times[-1],
        "waiting, first third": first,
        "waiting, last third": last,
        "asked late by": tally.tardy,
        "beside a long question": max(tally.beside),
        "the longest text": max(tally.longest),
        "beside the longest text": max(tally.beside_longest),
    } | (memory_of(tally) if seconds >= MEASURED else {})


def memory_of(tally: Tally) -> dict[str, float]:
    early = tally.memory[: int(60 / EVERY)][-MEAN:]
    return {
        "MB after a minute": statistics.median(early),
        "MB at the end": statistics.median(tally.memory[-MEAN:]),
    }


def wrong(numbers: dict[str, float], quiet: bool = True) -> list[str]:
    """What is not as it should be. On a machine that is not quiet, times say nothing about the server."""
    grown = numbers["waiting, last third"] - numbers["waiting, first third"]
    more = numbers["MB at the end"] / numbers["MB after a minute"] if "MB at the end" in numbers else 0.0
    timed = {
        f"a short question waited {numbers['beside a long question']:.2f} s for a long one": (
            numbers["beside a long question"] > BESIDE
        ),
        f"a short question waited {numbers['beside the longest text']:.2f} s for the longest text": (
            numbers["beside the longest text"] > BESIDE
        ),
        f"the queue grew by {grown:.1f}": grown > GROWN,
        f"95 % within {numbers['95 % within']:.2f} s, not {LATE} s": numbers["95 % within"] > LATE,
        f"the clients were late by {numbers['asked late by']:.2f} s": numbers["asked late by"] > TARDY,
    }
    found = {
        f"the memory grew by a factor of {more:.3f}": more > MEMORY,
        f"{numbers['errors']:.0f} errors": numbers["errors"] > 0,
    }
    return [sentence for sentence, true in (found | (timed if quiet else {})).items() if true]


@dataclass(frozen=True)
class Server:
    """A server in a process of its own."""

    address: str
    process: int


@contextmanager
def served() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "heedful", "serve", "zoo:sentiment", "--port", "0"]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            [*command, "--runs", str(Path(folder) / "runs")], stdout=subprocess.PIPE, text=True, env=env
        ) as server:
            try:
                assert server.stdout is not None
                yield Server(server.stdout.readline().strip(), server.pid)
            finally:
                server.send_signal(signal.SIGINT)
                server.wait(30)


def main(seconds: float = 60.0, clients: float = 50, rate: float = RATE) -> int:
    with served() as server:
        tally = asyncio.run(soak(server, seconds, int(clients), rate))
    numbers = told(tally, seconds)
    for name, value in numbers.items():
        print(f"{name:24} {value:10.3f}")
    if "MB at the end" not in numbers:
        print(f"memory: not measured (a run of {MEASURED:.0f} seconds or more measures it)")
    for line in [*tally.errors[:10], *wrong(numbers)]:
        print(line)
    return 1 if wrong(numbers) else 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:4])))
