"""Kill an audit with SIGKILL at random points, start it again, and at last let it finish.

Run as a script by test_audit_resume.py: python killed_audit.py SOURCE OUT KILLS SEED. Each attempt is a
forked child of one warm process, so that twenty cost no twenty starts of torch. Deaths are of three kinds: at
a random time; half way through a file, or right after it (a random one of those it writes); and, when all
shards are there, half way through each file of the result.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import heedful
from heedful.audits import audit_run
from heedful.io import files
from heedful.io.datasets import Columns

RESULT = ("result.json", "report.html", "manifest.json")
write = files.write_synced


def score(texts: list[str]) -> list[list[float]]:
    """A black box that knows some words and their order."""
    weights = {"good": 2.0, "bad": -2.0, "not": -1.0, "food": 0.5}
    sums = [sum(weights.get(word, 0.0) / (1 + 0.1 * i) for i, word in enumerate(t.split())) for t in texts]
    return [[-value, value] for value in sums]


def run(source: Path, out: Path) -> Any:
    return heedful.audit(
        score,
        source,
        methods=["occlusion", "lime"],
        metrics=["aopc", "comprehensiveness"],
        out=out,
        columns=Columns("text", "label"),
        params={"lime": {"samples": 60}},
        draws=5,
        shard=2,
        seed=3,
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_write(after: int, half: bool, name: str = "") -> Any:
    """Like the real one, until its turn comes."""
    left = after

    def dying(path: Path, content: bytes) -> None:
        nonlocal left
        wanted = path.name.removesuffix(files.PART).endswith(name)
        left -= wanted
        if left < 0 and wanted:
            path.write_bytes(content[: len(content) // 2] if half else content)
            die()
        write(path, content)

    return dying


def attempt(source: Path, out: Path, rng: random.Random, longest: float, name: str = "") -> int:
    """One child that is killed; returns the signal it died of, 0 if it was finished before."""
    by_time = not name and rng.random() < 0.5
    delay, after, half = rng.uniform(0, longest), 0 if name else rng.randrange(12), rng.random() < 0.7
    child = os.fork()
    if not child:
        if not by_time:
            files.write_synced = audit_run.write_synced = dying_write(after, half, name)
        run(source, out)
        os._exit(0)
    if by_time:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def main(source: Path, out: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    started = time.monotonic()
    run(source, out.with_name("unbroken"))  # what it leaves in memory must not matter
    longest = (time.monotonic() - started) / 25  # so that all attempts together do not finish it
    died = sum(attempt(source, out, rng, longest) == signal.SIGKILL for _ in range(kills - len(RESULT)))
    for name in RESULT:
        died += attempt(source, out, rng, longest, name) == signal.SIGKILL
    run(source, out)
    print(died)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
