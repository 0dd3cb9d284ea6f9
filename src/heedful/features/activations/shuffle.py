"""Rows that come in any order leave it shuffled, in constant memory, and a kill changes no byte.

Rows are taken in generations of up to 64 shards. A generation draws one permutation: row j gets slot π(j),
and is appended to the bucket of that slot's shard as it comes. When the generation is full, or there are no
more rows, each bucket is read, sorted by slot and written as a shard. Within a generation the order is thus
exactly uniform (a shorter last one too: a uniform order restricted to some rows is uniform); between
generations it is not, which `Acts.batches` makes up for.

    acts/.part/000000-017    bucket 17 of generation 0: appended to, and cut back to what progress.json knows
    acts/.part/progress.json what is done; written after the buckets are on disk

Memory: one shard (64 MB by default), π (4 bytes a row of a generation) and the rows that are given at once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.features.activations.store import Array, header
from heedful.io.files import PART, sync, write_file, write_synced, writing
from heedful.io.json_codec import from_jsonable, json_bytes, parse
from heedful.io.run_folder import MOST_BYTES, read_inside

SHARDS = 64  # of a generation
SHARD_BYTES = 1 << 26
SHARD_ROWS = 1 << 16  # at most, so that a generation has no more than 4 million rows
BUFFER_BYTES = 1 << 18  # bytes of a bucket in memory


@dataclass(frozen=True)
class Shape:
    """What the rows are, and how many go together."""

    d: int
    dtype: str  # float32 or float16
    shard_rows: int
    seed: int
    rows: int | None = None  # that will come, if it is known

    @property
    def row_bytes(self) -> int:
        return self.d * np.dtype(self.dtype).itemsize

    def size(self, generation: int) -> int:
        """Rows of a generation."""
        most = SHARDS * self.shard_rows
        return most if self.rows is None else max(0, min(most, self.rows - generation * most))

    def slots(self, generation: int) -> Array:
        """(rows,) the place of each row of a generation."""
        every = np.arange(self.size(generation), dtype=np.uint32)
        return np.random.default_rng((self.seed, generation)).permutation(every)


def shard_rows(d: int, dtype: str) -> int:
    """Rows of a shard of the usual size."""
    return min(SHARD_ROWS, max(256, SHARD_BYTES // (d * np.dtype(dtype).itemsize)))


@dataclass
class Progress:
    """What is done, exactly enough to go on."""

    batches: int = 0
    rows: int = 0
    generation: int = 0
    filled: int = 0  # rows of this generation
    partly: int = 0  # rows of the batch after these that are stored, too: a generation ended within it
    total: list[float] = field(default_factory=list)  # sum of all rows
    squares: float = 0.0  # sum of all squares
    digest: str = ""  # of what the model read
    shards: list[dict[str, Any]] = field(default_factory=list)


class ScatterWriter:
    """Takes rows, leaves shards. `state` is where it stands; it is on disk when `keep` has returned."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.folder, self.shape = folder, shape
        self.part, self.shards = folder / PART, folder / "shards"
        self.files: dict[int, IO[bytes]] = {}
        with writing(folder):
            self.part.mkdir(parents=True, exist_ok=True)
            self.shards.mkdir(exist_ok=True)
            self.state = self._found()
            self._begin()

    def _found(self) -> Progress:
        path = self.part / "progress.json"
        if not path.exists():
            return Progress()
        return from_jsonable(Progress, parse(read_inside(self.part, path.name, MOST_BYTES), path))

    def _begin(self) -> None:
        """Buckets as they were when progress was kept; all others go."""
        generation = self.state.generation
        self.slots = self.shape.slots(generation)
        known = np.bincount(self.slots[: self.state.filled] // self.shape.shard_rows, minlength=SHARDS)
        wanted = {self._name(k): int(n) * self.shape.row_bytes for k, n in enumerate(known) if n}
        for path in self.part.iterdir():
            if path.name not in wanted and path.name != "progress.json":
                path.unlink()
        for name, size in wanted.items():
            path = self.part / name
            if not path.exists() or path.stat().st_size < size:
                raise HeedfulError(
                    f"{path} is damaged", "it is shorter than it was", f"Remove {self.folder} and start again"
                )
            os.truncate(path, size)

    def _name(self, bucket: int) -> str:
        return f"{self.state.generation:06d}-{bucket:03d}"

    def add(self, rows: Array) -> None:
        """(n, d) in the dtype of the store, in the order in which they come: one batch.

        A generation may end within a batch. What it took of it is kept in `partly`, and passed over when the
        batch comes again because the harvest was killed before its end.
        """
        rows = rows[self.state.partly :]
        while len(rows):
            if not len(self.slots):
                raise ValueError(f"more than {self.shape.rows} rows")
            now = rows[: len(self.slots) - self.state.filled]
            self._append(np.ascontiguousarray(now))
            self.state.partly += len(now)
            rows = rows[len(now) :]
            if self.state.filled == len(self.slots) and len(self.slots) == SHARDS * self.shape.shard_rows:
                self._close()
        self.state.partly = 0

    def _append(self, rows: Array) -> None:
        state, here = self.state, slice(self.state.filled, self.state.filled + len(rows))
        buckets = self.slots[here] // self.shape.shard_rows
        order = np.argsort(buckets, kind="stable")
        rows, ends = rows[order], np.cumsum(np.bincount(buckets, minlength=SHARDS))
        with writing(self.folder):
            for bucket in np.unique(buckets):
                begin = ends[bucket - 1] if bucket else 0
                self._file(int(bucket)).write(rows[begin : ends[bucket]].data)
        state.filled += len(rows)
        state.rows += len(rows)

    def _file(self, bucket: int) -> IO[bytes]:
        if bucket not in self.files:
            self.files[bucket] = (self.part / self._name(bucket)).open("ab", buffering=BUFFER_BYTES)
        return self.files[bucket]

    def keep(self) -> None:
        """What was added is on disk, and progress says so."""
        with writing(self.folder):
            for file in self.files.values():
                file.flush()
                os.fsync(file.fileno())
            write_file(self.part / "progress.json", json_bytes(self.state))

    def _close(self) -> None:
        """Turn the buckets of a generation into shards."""
        self._release()
        state, first = self.state, len(self.state.shards)
        with writing(self.folder):
            for number, rows in enumerate(self._shards(), start=first):
                name = f"{number:06d}.safetensors"
                state.shards.append({"file": name, "rows": len(rows), "sha256": self._put(name, rows)})
            sync(self.shards)
            state.generation, state.filled = state.generation + 1, 0
            write_file(self.part / "progress.json", json_bytes(state))
            self._begin()

    def _release(self) -> None:
        with writing(self.folder):
            for file in self.files.values():
                file.close()
        self.files.clear()

    def _shards(self) -> Iterator[Array]:
        """All rows of the generation by slot, cut into shards; those of a short generation are filled up."""
        state, size = self.state, self.shape.shard_rows
        slots = self.slots[: state.filled]
        left = np.empty((0, self.shape.d), dtype=self.shape.dtype)
        for bucket in range(SHARDS):
            own = slots[slots // size == bucket]
            if not len(own):
                continue
            rows = np.fromfile(self.part / self._name(bucket), dtype=self.shape.dtype).reshape(
                -1, self.shape.d
            )
            rows = rows[np.argsort(own)]
            left = np.concatenate([left, rows]) if len(left) else rows
            while len(left) >= size:
                yield left[:size]
                left = left[size:]
        if len(left):
            yield left

    def _put(self, name: str, rows: Array) -> str:
        head, body = header(len(rows), self.shape.d, self.shape.dtype), np.ascontiguousarray(rows)
        beside = self.part / name
        write_synced(beside, head, body.data)
        beside.replace(self.shards / name)
        digest = hashlib.sha256(head)
        digest.update(body.data)
        return digest.hexdigest()

    def finish(self) -> Progress:
        """The last generation becomes shards, too."""
        if self.state.filled:
            self._close()
        return self.state

    def stop(self) -> None:
        """Close files; what was not kept is forgotten."""
        for file in self.files.values():
            file.close()


def remove_parts(folder: Path) -> None:
    """Nothing but the shards is left of a finished store."""
    with writing(folder):
        shutil.rmtree(folder / PART, ignore_errors=True)
