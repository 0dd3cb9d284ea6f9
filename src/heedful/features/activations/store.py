"""Activations on disk: rows (d,) of one site, shuffled, in shards that are mapped into memory. The run folder
is described in heedful.features.activations.store_facts.

A store of up to one generation of rows (heedful.features.activations.shuffle) is in uniformly random order;
a larger one is a sequence of such generations. `batches` draws runs of neighbouring rows, about 64 kB each,
from all over the store in an order of its own each epoch, so that a disk is read in pieces it likes and
every batch mixes all texts. Batch t of a size and seed is always the same: training goes on where it stopped
by `start=t`.

Memory: one batch, and pages that the system may take back at any time.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.features.activations.store_facts import KIND, StoreFacts
from heedful.io.run_folder import open_run, refusing_damage
from heedful.io.sharded_run import check_shards

READ_BYTES = 1 << 16  # bytes read in one piece
MAX_HEADER_BYTES = 1 << 20
MAX_OPEN_SHARDS = 256  # shards mapped at once

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ActivationStore(NotebookRepr):
    """Activations on disk, made by `heedful.harvest`.

    Parameters
    ----------
    folder
        Folder of the store.
    facts
        Model, site, settings and sizes.

    Examples
    --------
    >>> import heedful, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = heedful.harvest("zoo:lm", ["Long live the king!"], "blocks.1.resid", f"{folder.name}/a")
    >>> heedful.ActivationStore.load(f"{folder.name}/a").rows == store.rows
    True
    >>> folder.cleanup()
    """

    folder: Path
    facts: StoreFacts
    _open: dict[str, Array] = field(default_factory=dict, repr=False)  # shards that are mapped

    @classmethod
    def load(cls, folder: str | Path) -> ActivationStore:
        """Open a store. A folder without a store, or with an unfinished harvest, gives an error."""
        acts = cls(Path(folder), StoreFacts.load(folder))
        for shard in acts.facts.shards:
            acts._shard(shard.name)
        return acts

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.facts.width

    @property
    def rows(self) -> int:
        """Number of activations."""
        return self.facts.rows

    @property
    def mean(self) -> Array:
        """Mean activation, (d,), as float64."""
        return np.array(self.facts.mean)

    @property
    def mean_square_norm(self) -> float:
        """Mean of ‖x‖² over all activations."""
        return self.facts.mean_square_norm

    def __repr__(self) -> str:
        return f"<{self.facts.run_title()}: ({self.d},) {self.facts.dtype}>"

    def __len__(self) -> int:
        return self.rows

    def slice(self, start: int, stop: int) -> Tensor:
        """Activations from `start` up to `stop`, in stored order: (stop - start, d), as float32."""
        out = np.empty((max(0, min(stop, self.rows) - max(start, 0)), self.d), dtype=self.facts.dtype)
        self._fill(out, max(start, 0))
        return torch.from_numpy(out).float()

    def batches(
        self, size: int, seed: int = 0, *, start: int = 0, epochs: int | None = None
    ) -> Iterator[Tensor]:
        """Full batches (size, d), as float32. `seed` sets the order of the batches. If `epochs` is `None`,
        the batches never end.

        An epoch has rows // size batches and gives no row twice; the rows left over differ from epoch to
        epoch. `start` is the number of the first batch given. A store smaller than one batch is repeated
        within it.
        """
        if size < 1 or start < 0:
            raise HeedfulError(
                f"a batch of {size} activations from number {start} on", "there is no such batch"
            )
        a_round = max(1, self.rows // size)
        epoch, place = divmod(start, a_round)
        while epochs is None or epoch < epochs:
            order = self._order(size, seed, epoch)
            for at in range(place, a_round):
                yield torch.from_numpy(self._batch(order, at * size, size)).float()  # faster than numpy's
            epoch, place = epoch + 1, 0

    def check(self) -> None:
        """Compare every shard with its checksum."""
        check_shards(open_run(self.folder, None))

    # --- reading -----------------------------------------------------------------------------------

    def _order(self, size: int, seed: int, epoch: int) -> tuple[Array, Array]:
        """(first row of each run as drawn, where in the epoch it begins): 16 bytes a run."""
        item = np.dtype(self.facts.dtype).itemsize
        run = max(
            1, min(READ_BYTES // (self.d * item), size // 8)
        )  # a small batch draws from many places, too
        rng = np.random.default_rng((seed, epoch))
        shift = int(rng.integers(run))  # other neighbours each epoch
        starts = np.arange(-shift, self.rows, run)[rng.permutation(-(-(self.rows + shift) // run))]
        lengths = np.minimum(starts + run, self.rows) - np.maximum(starts, 0)
        return np.maximum(starts, 0), np.concatenate([[0], np.cumsum(lengths)])

    def _batch(self, order: tuple[Array, Array], begin: int, size: int) -> Array:
        """Rows begin .. begin + size of an epoch."""
        starts, ends = order
        out = np.empty((size, self.d), dtype=self.facts.dtype)
        filled, at = 0, int(np.searchsorted(ends, begin, side="right")) - 1
        skip = begin - int(ends[at])
        while filled < size:
            length = int(ends[at + 1] - ends[at]) - skip
            take = min(length, size - filled)
            self._fill(out[filled : filled + take], int(starts[at]) + skip)
            filled, skip, at = filled + take, 0, (at + 1) % len(starts)
        return out

    def _fill(self, out: Array, row: int) -> None:
        """Rows from `row` on, as many as `out` has; they may lie in several shards."""
        shards, ends = self._table
        while len(out):
            at = int(np.searchsorted(ends, row, side="right"))
            inside = row - (int(ends[at - 1]) if at else 0)
            take = min(len(out), int(ends[at]) - row)
            out[:take] = self._shard(shards[at])[inside : inside + take]
            out, row = out[take:], row + take

    @cached_property
    def _table(self) -> tuple[list[str], Array]:
        """Files of the shards, and the number of the row after the last of each."""
        shards = self.facts.shards
        return [shard.name for shard in shards], np.cumsum([shard.rows for shard in shards])

    def _shard(self, file: str) -> Array:
        if file not in self._open:
            while len(self._open) >= MAX_OPEN_SHARDS:
                del self._open[next(iter(self._open))]
            self._open[file] = mapped(self.folder / file)
            if self._open[file].shape[1:] != (self.d,) or self._open[file].dtype != self.facts.dtype:
                raise HeedfulError(
                    f"{self.folder / file} is damaged", "it holds activations of another shape"
                )
        return self._open[file]


# --- files -----------------------------------------------------------------------------------------


def header(rows: int, d: int, dtype: str) -> bytes:
    """What stands before the numbers of a safetensors file with one tensor."""
    size = rows * d * np.dtype(dtype).itemsize
    name = {"float32": "F32", "float16": "F16"}[dtype]
    text = json.dumps({KIND: {"dtype": name, "shape": [rows, d], "data_offsets": [0, size]}}).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def mapped(path: Path) -> Array:
    """(n, d): a shard as it lies on disk, read when looked at."""
    if not path.is_file():
        raise HeedfulError(f"{path} is damaged or missing", "there is no such file")
    with refusing_damage(path):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > MAX_HEADER_BYTES:
                raise ValueError("its header is too long")
            facts = json.loads(file.read(length))[KIND]
        dtype = {"F32": np.float32, "F16": np.float16}[facts["dtype"]]
        return np.asarray(np.memmap(path, dtype, "r", 8 + length, tuple(facts["shape"])))
