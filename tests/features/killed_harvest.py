"""Kill a harvest with SIGKILL, start it again, and at last let it finish.

Run as a script by test_harvest.py: python killed_harvest.py FOLDER SEED. Each attempt is a forked child of
one warm process, and dies at one of the calls that settle something on disk (fsync, rename, truncate,
unlink). With the process the power fails: what a file got since its last fsync is cut off at a random place,
as a disk may do. That a rename is lost because its folder was not synced is not tried.

    every    a small harvest is killed once at every one of these calls
    again    a larger one is killed again and again, at random calls and at random times
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import heedful
from heedful.features.activations import harvest, shuffle

WORDS = ["the", "food", "was", "good", "but", "not", "bad", "and", "bar", "is", "far", "from", "here"]
TEXTS = [
    " ".join(WORDS[(i * 7 + j * (1 + i % 5)) % len(WORDS)] for j in range(5 + i % 40)) for i in range(60)
]
POINTS = 70  # calls among which one is drawn: a third of those of the larger harvest
KILLS = 12
really_replace, really_unlink, really_truncate = Path.replace, Path.unlink, os.truncate


def model() -> Any:
    vocabulary = {word: at for at, word in enumerate(["<s>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="<s>", unk_token="<s>"
    )
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(vocabulary),
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=32,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).eval(), fast


def run(given: Any, out: Path, texts: list[str], shard_rows: int) -> Any:
    """Generations of 4 shards: several are closed on the way, and within a batch."""
    return harvest.harvest(
        given,
        texts,
        "blocks.1.resid",
        out,
        context=16,
        batch_tokens=64,
        dtype="float16",
        shard_rows=shard_rows,
        seed=3,
    )


class Disk:
    """Counts the calls that settle something, and dies at one of them; after=None: it never does."""

    def __init__(self, folder: Path, after: int | None, rng: random.Random) -> None:
        self.calls, self.after, self.rng = 0, after, rng
        self.settled = {p.stat().st_ino: p.stat().st_size for p in folder.rglob("*")}  # bytes that are safe
        os.fsync, os.truncate = self.fsync, self.truncate
        Path.replace, Path.unlink = self._replace(), self._unlink()  # type: ignore[assignment]

    def dies(self) -> bool:
        self.calls += 1
        return self.calls - 1 == self.after

    def fsync(self, handle: int) -> None:
        facts = os.fstat(handle)
        if self.dies():
            if stat.S_ISREG(facts.st_mode):
                appends = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_APPEND
                self.lose(handle, self.settled.get(facts.st_ino, 0) if appends else 0)
            die()
        self.settled[facts.st_ino] = facts.st_size

    def truncate(self, path: Path, size: int) -> None:
        if self.dies():
            die()
        really_truncate(path, size)

    def _replace(self) -> Any:
        def replace(path: Path, target: Path) -> Path:
            if self.dies():
                facts = path.stat()
                if self.settled.get(facts.st_ino) != facts.st_size:  # the name is there before the content
                    self.lose(os.open(path, os.O_RDWR), 0)
                    really_replace(path, target)
                die()
            return really_replace(path, target)

        return replace

    def _unlink(self) -> Any:
        def unlink(path: Path, missing_ok: bool = False) -> None:
            if self.dies():
                die()
            really_unlink(path, missing_ok)

        return unlink

    def lose(self, handle: int, safe: int) -> None:
        size = os.fstat(handle).st_size
        os.ftruncate(handle, self.rng.randrange(safe, size) if safe < size else size)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def every(given: Any, home: Path, rng: random.Random) -> int:
    """One kill at each call; how many there are. Stores that differ are left behind."""
    small = (TEXTS[:14], 16)
    disk = Disk(home / "small", None, rng)
    run(given, home / "small", *small)
    points = disk.calls
    for point in range(points):
        out = home / f"killed-{point}"
        child = os.fork()
        if not child:
            Disk(out, point, rng)
            run(given, out, *small)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, point
        run(given, out, *small)
        if contents(out) == contents(home / "small"):
            shutil.rmtree(out)
    return points


def contents(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    found.pop(".lock", None)
    return found


def again(given: Any, home: Path, rng: random.Random) -> int:
    """Killed many times on its way; how often it died."""
    started = time.monotonic()
    run(given, home / "large", TEXTS, 64)
    longest, died, out = (time.monotonic() - started) / 4, 0, home / "killed"
    for _ in range(KILLS):
        by_time, delay, after = rng.random() < 0.2, rng.uniform(0, longest), rng.randrange(POINTS)
        child = os.fork()
        if not child:
            Disk(out, None if by_time else after, rng)
            run(given, out, TEXTS, 64)
            os._exit(0)
        if by_time:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
        died += os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    run(given, out, TEXTS, 64)
    return died


def main(home: Path, seed: int) -> None:
    torch.set_num_threads(1)
    shuffle.SHARDS, harvest.MAX_LOST_SECONDS = 4, 0.0  # progress is kept at every batch
    given, rng = heedful.load(model()), random.Random(seed)
    print(every(given, home, rng), again(given, home, rng))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
