"""Stop a process at a named place: before a call that settles something on disk.

Run as a script by test_fault_points.py: python fault_points.py WORK HOME. Every place is tried twice, in a
forked child of one warm process: killed by SIGKILL, and by a loss of power (unsynced bytes are lost). The
work is then done again to its end, and must leave the bytes of a run that was never stopped. Nothing is left
to chance: a place is a call, a file, and which of these calls it is.

    replace shards/000001 #0       a file is whole beside its place, and not renamed yet
    truncate 000000-00 #1          between two files that are cut back
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALLS = ("fsync", "truncate", "replace", "rename", "unlink", "rmtree")


@dataclass(frozen=True)
class Place:
    """Before call number `nth` of those on a file whose path holds `file`."""

    call: str
    file: str
    nth: int = 0
    after: str = ""  # counted from the moment when a file whose path holds this was put in its place

    def __str__(self) -> str:
        since = f" after {self.after}" if self.after else ""
        return f"{self.call} {self.file} #{self.nth}{since}"


Stages = tuple[Place, ...]  # stopped at the first, started again, stopped at the second, ...


class Disk:
    """Stands between the process and the disk: dies at a place, knows which bytes are safe."""

    def __init__(self, folder: Path, place: Place, power: bool) -> None:
        self.folder, self.place, self.power = folder, place, power
        self.seen, self.counts = 0, not place.after
        self.safe = {p.stat().st_ino: p.stat().st_size for p in self._files()}
        self.fsync = os.fsync
        os.fsync, os.truncate = self._fsync, self._before("truncate", os.truncate)
        shutil.rmtree = self._before("rmtree", shutil.rmtree)  # type: ignore[assignment]
        for name in ("replace", "rename", "unlink"):
            setattr(Path, name, self._before(name, getattr(Path, name)))

    def _files(self) -> list[Path]:
        return [p for p in self.folder.rglob("*") if p.is_file()]

    def _fsync(self, handle: int) -> None:
        facts = os.fstat(handle)
        if not fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_APPEND:
            self.safe[facts.st_ino] = 0  # it was opened empty: what it held before is gone
        for path in self._files():
            if path.stat().st_ino == facts.st_ino:
                self._pass("fsync", path)
        self.fsync(handle)
        self.safe[facts.st_ino] = facts.st_size

    def _before(self, call: str, really: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *rest: Any, **more: Any) -> Any:
            target = Path(rest[0]) if call in ("replace", "rename") else Path(path)
            self._pass(call, target)
            result = really(path, *rest, **more)
            if call in ("replace", "rename") and self.place.after in str(target):
                self.counts = True
            return result

        return called

    def _pass(self, call: str, path: Path) -> None:
        if not self.counts or call != self.place.call or self.place.file not in str(path):
            return
        if self.seen == self.place.nth:
            self._die()
        self.seen += 1

    def _die(self) -> None:
        for path in self._files() if self.power else ():
            facts = path.stat()
            with path.open("rb+") as file:
                file.truncate(min(facts.st_size, self.safe.get(facts.st_ino, 0)))
        os.kill(os.getpid(), signal.SIGKILL)


def stopped(work: Callable[[Path], Any], folder: Path, place: Place, power: bool) -> bool:
    """Whether a child that does the work was stopped at the place."""
    child = os.fork()
    if not child:
        try:
            Disk(folder, place, power)
            work(folder)
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def contents(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: content for name, content in found.items() if not name.endswith(".lock")}


def tried(work: Callable[[Path], Any], home: Path, places: list[Stages]) -> dict[str, str]:
    """By place: "" where nothing differs from an unbroken run, or what does."""
    work(home / "unbroken")
    whole = contents(home / "unbroken")
    found: dict[str, str] = {}
    for stages in places:
        for power in (False, True):
            name = ", ".join(map(str, stages)) + (", power" if power else "")
            folder = home / f"stopped-{len(found)}"
            died = [stopped(work, folder, place, power) for place in stages]
            found[name] = "" if all(died) else f"it was not stopped: {died}"
            if not found[name]:
                found[name] = _differing(work, folder, whole)
            shutil.rmtree(folder, ignore_errors=True)
    return found


def _differing(work: Callable[[Path], Any], folder: Path, whole: dict[str, bytes]) -> str:
    try:
        work(folder)
    except Exception as error:
        return f"it does not go on: {error}"
    now = contents(folder)
    names = sorted(name for name in now.keys() | whole.keys() if now.get(name) != whole.get(name))
    return f"these files differ: {', '.join(names)}" if names else ""


# --- the works, and their places -----------------------------------------------------------------------


def harvesting(home: Path) -> dict[str, str]:
    """Generations of four shards and about four batches, the last of which goes on in the next generation."""
    sys.path.insert(0, str(Path(__file__).parent / "features"))
    import killed_harvest as small

    import heedful
    from heedful.features.activations import harvest, shuffle

    shuffle.SHARDS, harvest.MAX_LOST_SECONDS = 4, 0.0  # progress is kept at every batch
    given = heedful.load(small.model())
    progress, first, second = ".part/progress.json", "shards/000000", "shards/000001"
    places: list[Stages] = [
        (Place("replace", "/manifest.json"),),  # nothing is there yet
        (Place("fsync", ".part/000000-", 5),),  # some buckets of the second batch are on disk
        (Place("fsync", "progress.json", 2),),  # half of the progress is written
        (Place("replace", progress, 1),),  # rows of the second batch on disk, progress knows the first
        (Place("replace", progress, 2),),
        (Place("replace", progress, 1), Place("truncate", ".part/000000-")),  # before buckets are cut back
        (Place("replace", progress, 1), Place("truncate", ".part/000000-", 1)),  # between two of them
        (Place("replace", first),),  # a shard is written, and not renamed
        (Place("replace", second),),  # between two renames
        (Place("replace", progress, after="shards/000003"),),  # all shards there, progress does not know
        (Place("unlink", ".part/000000-"),),  # progress knows, the buckets are still there
        (Place("unlink", ".part/000000-", 1),),
        (Place("replace", progress, 1, after="shards/000003"),),  # the rest of a batch cut by a generation
        (Place("replace", "/manifest.json", 1),),  # the last shard is there, the manifest does not say so
        (Place("rmtree", ".part"),),  # it does, and left-overs are still there
        (Place("replace", progress, 1), Place("replace", second), Place("unlink", ".part/000001-")),
    ]
    return tried(lambda out: small.run(given, out, small.TEXTS[:26], 60), home, places)


def training(home: Path) -> dict[str, str]:
    """Eight steps with three checkpoints; k is left open, so that the choice is kept, too."""
    import torch

    import heedful
    from heedful.features.sae import train

    train.time.strftime = lambda *_: "today"  # type: ignore[assignment]
    x = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)).exp()
    places: list[Stages] = [
        (Place("replace", "pilot.json"),),  # chosen, and not kept
        (Place("replace", "state-3."),),  # no checkpoint yet
        (Place("replace", "state.json"),),  # weights there, nothing vouches for them
        (Place("fsync", "state-6."),),  # half of the weights written
        (Place("replace", "state-6."),),
        (Place("replace", "state.json", 1),),  # between two renames: the checkpoint before stays
        (Place("unlink", "state-3."),),  # the new checkpoint is there, the old one is, too
        (Place("replace", "sae.safetensors"),),  # trained, and not saved
        (Place("replace", "/manifest.json"),),  # between two renames: not a whole autoencoder
        (
            Place("replace", "state.json", 1),
            Place("replace", "state.json"),
            Place("replace", "/manifest.json"),
        ),
    ]

    def work(out: Path) -> None:
        heedful.train_sae(x, 24, "topk", steps=8, batch=64, keep=3, out=out, resume=True)

    return tried(work, home, places)


def auditing(home: Path) -> dict[str, str]:
    """Five shards, then the result."""
    sys.path.insert(0, str(Path(__file__).parent / "audits"))
    import killed_audit

    source = home / "texts.csv"
    texts = ["the food was good", "", "not bad", "the bar is far", "good food but bad", "not the food"] * 2
    source.write_text("text,label\n" + "".join(f'"{text}",{i % 2}\n' for i, text in enumerate(texts)))
    places: list[Stages] = [
        (Place("replace", "/manifest.json"),),  # nothing is there yet
        (Place("fsync", "scores.parquet"),),  # half of a shard written
        (Place("fsync", "shard.json", 1),),
        (Place("rename", "shards/000000"),),  # a shard is whole, and not renamed
        (Place("rename", "shards/000002"),),  # between two renames
        (Place("fsync", "result.json"),),  # all shards there, half of the result
        (Place("replace", "/result.json"),),
        (Place("replace", "/report.html"),),  # between two files of the result
        (Place("replace", "/manifest.json", 1),),  # all written, the manifest does not say so
        (Place("rename", "shards/000001"), Place("rmtree", ".part-000001"), Place("replace", "/report.html")),
    ]
    return tried(lambda out: killed_audit.run(source, out), home, places)


WORKS = {"harvest": harvesting, "train": training, "audit": auditing}

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)  # a forked child has no threads but its own
    os.fsync = lambda handle: None  # a kill loses nothing that was written, and `Disk` knows what power loses
    print(json.dumps(WORKS[sys.argv[1]](Path(sys.argv[2]))))
