"""An audit on two Ray workers, one of which is killed in the middle, beside the same audit in one process.

Run as a script by test_engine_ray.py, in a process of its own: python ray_audit.py FOLDER. Prints JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import heedful

WORDS = ["the", "food", "was", "good", "but", "not", "bad", "and", "the", "bar", "is", "far", "from", "here"]
TEXTS = [" ".join(WORDS[i % 5 :: 1 + i % 3]) if i != 4 else "" for i in range(14)]


def files(run: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(run)): p.read_bytes()
        for p in sorted(run.rglob("*"))
        if p.is_file() and p.name != ".lock"
    }


def black_box(folder: Path, deadly: bool) -> Any:
    """Scores texts, notes in which process, and once, at the text of row 9, dies with it."""

    def score(texts: list[str]) -> list[float]:
        with (folder / "processes").open("a") as file:
            file.write(f"{os.getpid()}\n")
        if deadly and TEXTS[9] in texts and not (folder / "died").exists():
            (folder / "died").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return [sum(len(word) * (i + 1) for i, word in enumerate(text.split())) / 10 for text in texts]

    return score


def audit(folder: Path, engine: str, deadly: bool = False, **more: Any) -> dict[str, bytes]:
    folder.mkdir()
    heedful.audit(
        black_box(folder, deadly),
        TEXTS,
        methods=["occlusion", "lime"],
        metrics=["aopc"],
        out=folder / "run",
        draws=3,
        shard=2,
        params={"lime": {"samples": 40}},
        engine=engine,
        **more,
    )
    return files(folder / "run")


def main(folder: Path) -> None:
    here = audit(folder / "local", "local")
    there = audit(folder / "ray", "ray", deadly=True, workers=2)
    again = heedful.Audit.load(folder / "ray" / "run")
    import ray

    found = {
        "same": here == there,
        "differ": sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name)),
        "died": (folder / "ray" / "died").exists(),
        "driver": os.getpid(),
        "workers": sorted(set((folder / "ray" / "processes").read_text().split())),
        "headline": again.verdict.headline,
        "left running": ray.is_initialized(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
