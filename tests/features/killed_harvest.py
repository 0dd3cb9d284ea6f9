"""Kill a harvest with SIGKILL at random points, start it again, and at last let it finish.

Run as a script by test_harvest.py: python killed_harvest.py FOLDER KILLS SEED. Each attempt is a forked child
of one warm process. Deaths are of two kinds: at a random time, and half way through, or right after, a random
one of the files it replaces.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import heedful
from heedful.features import folder, harvest, shuffle

WORDS = ["the", "food", "was", "good", "but", "not", "bad", "and", "bar", "is", "far", "from", "here"]
TEXTS = [
    " ".join(WORDS[(i * 7 + j * (1 + i % 5)) % len(WORDS)] for j in range(5 + i % 40)) for i in range(60)
]
replace = folder.replace


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


def run(given: Any, out: Path) -> Any:
    """Generations of 4 shards of 64 rows: several are closed on the way."""
    return harvest.harvest(
        given,
        TEXTS,
        "blocks.1.resid",
        out,
        context=16,
        batch_tokens=64,
        dtype="float16",
        shard_rows=64,
        seed=3,
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(after: int, half: bool) -> Any:
    left = after

    def write(path: Path, content: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            beside = path.with_name(f".{path.name}.part")
            beside.write_bytes(content[: len(content) // 2] if half else content)
            if not half:
                replace(path, content)
            die()
        replace(path, content)

    return write


def attempt(given: Any, out: Path, rng: random.Random, longest: float) -> int:
    """One child that is killed; returns the signal it died of, 0 if it was finished before."""
    by_time, delay, after, half = (
        rng.random() < 0.4,
        rng.uniform(0, longest),
        rng.randrange(9),
        rng.random() < 0.5,
    )
    child = os.fork()
    if not child:
        if not by_time:
            folder.replace = shuffle.replace = dying(after, half)
        run(given, out)
        os._exit(0)
    if by_time:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def main(home: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    shuffle.SHARDS, harvest.KEEP = 4, 0.0  # progress is kept at every batch
    given = heedful.load(model())
    rng = random.Random(seed)
    started = time.monotonic()
    run(given, home / "unbroken")
    longest = (time.monotonic() - started) / 4
    died = sum(attempt(given, home / "killed", rng, longest) == signal.SIGKILL for _ in range(kills))
    done = (home / "killed" / "shards").exists() and len(list((home / "killed" / "shards").iterdir()))
    run(given, home / "killed")
    print(died, int(done))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
