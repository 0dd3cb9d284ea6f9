"""Activations on disk: rows (d,) of one site, shuffled, in shards that are mapped into memory.

    acts/manifest.json             model, site, texts, settings; rows, mean, E‖x‖², SHA-256 of every shard
    acts/shards/000000.safetensors (n, d) float32 or float16, under the name "activations"

A store of up to one generation of rows (heedful.features.activations.shuffle) is in uniformly random order;
a larger one is a sequence of such generations. `batches` draws runs of neighbouring rows, about 64 kB each,
from all over the store in an order of its own each epoch, so that a disk is read in pieces it likes and
every batch mixes all texts. Batch t of a size and seed is always the same: training goes on where it stopped
by `start=t`.

Memory: one batch, and pages that the system may take back at any time.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful._version import __version__
from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.io.json_codec import parse

FORMAT = 1
KIND = "activations"
READ_BYTES = 1 << 16  # bytes read in one piece
MAX_OPEN_SHARDS = 256  # shards mapped at once

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ActivationStore(NotebookRepr):
    """Activations on disk, made by `heedful.harvest`.

    Parameters
    ----------
    folder
        Where it is.
    manifest
        Model, site, settings, sizes and checksums.

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
    manifest: Mapping[str, Any]
    _open: dict[str, Array] = field(default_factory=dict, repr=False)  # shards that are mapped

    @classmethod
    def load(cls, folder: str | Path) -> ActivationStore:
        """Open a store; refuses a folder that is none, or whose harvest was stopped."""
        path = Path(folder)
        results = manifest_of(path)
        if "shards" not in results:
            raise HeedfulError(
                f"{path} is not finished",
                "its harvest was stopped",
                "Run the same command again to resume it",
            )
        acts = cls(path, results)
        for shard in results["shards"]:
            acts._shard(shard["file"])
        return acts

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return int(self.manifest["width"])

    @property
    def rows(self) -> int:
        """Number of activations."""
        return int(self.manifest["rows"])

    @property
    def mean(self) -> Array:
        """(d,) float64"""
        return np.array(self.manifest["mean"])

    @property
    def mean_square_norm(self) -> float:
        """E‖x‖² over all rows."""
        return float(self.manifest["mean_square_norm"])

    def __repr__(self) -> str:
        site, model = self.manifest["site"], self.manifest["name"]
        return f"<{self.rows:,} activations of {site}, {model}: ({self.d},) {self.manifest['dtype']}>"

    def __len__(self) -> int:
        return self.rows

    def slice(self, start: int, stop: int) -> Tensor:
        """Rows in the order of the store, (stop - start, d) float32."""
        out = np.empty((max(0, min(stop, self.rows) - max(start, 0)), self.d), dtype=self.manifest["dtype"])
        self._fill(out, max(start, 0))
        return torch.from_numpy(out).float()

    def batches(
        self, size: int, seed: int = 0, *, start: int = 0, epochs: int | None = None
    ) -> Iterator[Tensor]:
        """Full batches (size, d) float32 in an order that `seed` settles; endless unless `epochs` is given.

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
        for shard in self.manifest["shards"]:
            with (self.folder / "shards" / shard["file"]).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != shard["sha256"]:
                    raise HeedfulError(
                        f"{shard['file']} of {self.folder} is damaged", "its checksum is another"
                    )

    # --- reading -----------------------------------------------------------------------------------

    def _order(self, size: int, seed: int, epoch: int) -> tuple[Array, Array]:
        """(first row of each run as drawn, where in the epoch it begins): 16 bytes a run."""
        item = np.dtype(self.manifest["dtype"]).itemsize
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
        out = np.empty((size, self.d), dtype=self.manifest["dtype"])
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
        shards = self.manifest["shards"]
        return [shard["file"] for shard in shards], np.cumsum([shard["rows"] for shard in shards])

    def _shard(self, file: str) -> Array:
        if file not in self._open:
            while len(self._open) >= MAX_OPEN_SHARDS:
                del self._open[next(iter(self._open))]
            self._open[file] = mapped(self.folder / "shards" / file)
        return self._open[file]


# --- files -----------------------------------------------------------------------------------------


def manifest_of(folder: Path) -> dict[str, Any]:
    """Checked to be that of a store that this version reads."""
    path = folder / "manifest.json"
    try:
        results = parse(path.read_bytes(), path)
    except OSError as error:
        raise HeedfulError(
            f"{folder} contains no activations",
            f"cannot read manifest.json: {error.strerror or error}",
            "A store is written by: heedful features harvest FILE --out FOLDER",
        ) from None
    if results.get("kind") != KIND or results.get("format") != FORMAT:
        raise HeedfulError(
            f"{folder} contains {results.get('kind', 'something else')} of format {results.get('format')}",
            f"heedful {__version__} reads {KIND} of format {FORMAT}",
        )
    return results


def header(rows: int, d: int, dtype: str) -> bytes:
    """What stands before the numbers of a safetensors file with one tensor."""
    size = rows * d * np.dtype(dtype).itemsize
    name = {"float32": "F32", "float16": "F16"}[dtype]
    text = json.dumps({KIND: {"dtype": name, "shape": [rows, d], "data_offsets": [0, size]}}).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def mapped(path: Path) -> Array:
    """(n, d): a shard as it lies on disk, read when looked at."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            facts = json.loads(file.read(length))[KIND]
        dtype = {"F32": np.float32, "F16": np.float16}[facts["dtype"]]
        return np.asarray(np.memmap(path, dtype, "r", 8 + length, tuple(facts["shape"])))
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise HeedfulError(f"{path} is damaged or missing", str(error)) from None
