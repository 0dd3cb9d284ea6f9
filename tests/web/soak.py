"""Fifty clients for a minute on zoo:sentiment: no error, and no queue that grows.

    python tests/web/soak.py [SECONDS] [CLIENTS]

A server in a process of its own is asked by so many clients at once: each types (a text that grows by a
word), now and then tries a deletion, and now and then starts a job and follows it. Told at the end: requests,
errors, times of an answer, and how many questions waited in the first and in the last third.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

SAID = "the food was great and the service is not bad but a little slow for such a small place"
WORDS = SAID.split(" ")
THINK = 1.0  # seconds between the questions of one client, on average
JOBS = 0.02  # share of questions that are jobs
TRIES = 0.2


@dataclass
class Tally:
    """What came of it."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    waiting: list[tuple[float, int]] = field(default_factory=list)
    jobs: int = 0


async def client(number: int, http: httpx.AsyncClient, end: float, tally: Tally) -> None:
    """One who types, tries and sometimes runs what is dear."""
    draw = random.Random(number)
    while time.monotonic() < end:
        start, size = draw.randrange(len(WORDS) - 3), draw.randrange(3, 16)
        for upto in range(start + 1, min(start + size, len(WORDS))):
            text = " ".join([*WORDS[start:upto], str(number)])
            await one(http, draw, text, number, tally)
            await asyncio.sleep(draw.expovariate(1 / THINK))
            if time.monotonic() > end:
                return


async def one(http: httpx.AsyncClient, draw: random.Random, text: str, number: int, tally: Tally) -> None:
    ask: dict[str, Any] = {"model": "zoo:sentiment", "text": text}
    kind = draw.random()
    began = time.monotonic()
    if kind < JOBS:
        wish = ask | {"methods": ["occlusion", "grad-l2"], "weigh": False, "owner": f"client-{number}"}
        answer = await http.post("/api/jobs/explain", json=wish)
        tally.jobs += 1
        state = answer.json().get("state")
        while answer.status_code < 300 and state in ("waiting", "running"):
            await asyncio.sleep(0.5)
            answer = await http.get(f"/api/jobs/{answer.json()['id']}")
            state = answer.json()["state"]
        if state != "done":
            tally.errors.append(f"job: {answer.text[:200]}")
        return
    place, more = ("/api/try", {"edits": [{"word": 0}]}) if kind < JOBS + TRIES else ("/api/look", {})
    answer = await http.post(place, json=ask | more)
    tally.seconds.append(time.monotonic() - began)
    if answer.status_code != 200:
        tally.errors.append(f"{place} {answer.status_code}: {answer.text[:200]}")


async def watch(http: httpx.AsyncClient, end: float, tally: Tally) -> None:
    """How many wait, every half second."""
    while time.monotonic() < end:
        found = (await http.get("/api/here")).json()
        tally.waiting.append((time.monotonic(), found["waiting"]["zoo:sentiment"]))
        await asyncio.sleep(0.5)


async def soak(address: str, seconds: float, clients: int) -> Tally:
    tally, end = Tally(), time.monotonic() + seconds
    limits = httpx.Limits(max_connections=clients + 5)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as http:
        asked = [client(number, http, end, tally) for number in range(clients)]
        await asyncio.gather(*asked, watch(http, end, tally))
    return tally


def told(tally: Tally, seconds: float) -> dict[str, float]:
    """The numbers that count."""
    third = len(tally.waiting) // 3
    first, last = (
        statistics.mean(n for _, n in part) for part in (tally.waiting[:third], tally.waiting[-third:])
    )
    times = sorted(tally.seconds)
    return {
        "requests": len(times), "a second": len(times) / seconds, "jobs": tally.jobs,
        "errors": len(tally.errors), "median seconds": statistics.median(times),
        "95 % within": times[int(0.95 * len(times))],
        "slowest": times[-1], "waiting, first third": first, "waiting, last third": last,
    }  # fmt: skip


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    clients = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "heedful", "serve", "zoo:sentiment", "--port", "0"]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        server = subprocess.Popen(
            [*command, "--runs", str(Path(folder) / "runs")], stdout=subprocess.PIPE, text=True, env=env
        )
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            tally = asyncio.run(soak(address, seconds, clients))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
    numbers = told(tally, seconds)
    for name, value in numbers.items():
        print(f"{name:24} {value:10.3f}")
    for error in tally.errors[:10]:
        print(error)
    grew = numbers["waiting, last third"] > 2 * numbers["waiting, first third"] + 5
    return 1 if tally.errors or grew else 0


if __name__ == "__main__":
    sys.exit(main())
