"""Attention maps made small enough for a page: 8 bits per weight, and only the weights that carry the mass.

    scale_q = ceil(65535 * max_k w_qk / top) / 65535 * top      largest weight of row q, rounded up
    byte_qk = round(255 * w_qk / scale_q)                       so |w - decoded| <= scale_q / 510

A stack is dense where it fits its share of the budget. Otherwise it is sparse: of each row the weights not
below one threshold, and at least its `least` largest. One threshold for all rows keeps more mass a byte than
a fixed number a row: a row that looks at one token needs one weight, a broad row is well told by its mean.
What is left out is counted, by row and by head. Each head is compressed by itself, so a page opens only what
is looked at.

Bytes of a head before compression, little endian (N = weights kept):
    dense     scale u16[Q]  byte u8[Q * K]
    sparse    scale u16[Q]  rest u8[Q] (share of the row left out)  count u16[Q]  byte u8[N]  gap u8[N..]
A gap is the number of columns skipped since the last one kept of the row; 255 or more is 255 and then u16.

Cost: a few passes over the weights. Needs: numpy.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.heads.maps import Maps

MAX_BYTES = 3_300_000  # bytes of all stacks, compressed; base64 makes a third more of them
MIN_ROW_WEIGHTS = 4  # weights kept of each row, however small
FINE, STEPS = 65535, 255
SAMPLED_WEIGHTS = 2_000_000  # weights looked at to find the threshold
Rows = npt.NDArray[np.floating]  # (Q, K) or some rows of it


@dataclass(frozen=True, eq=False)
class Packed:
    """One stack, ready for a page."""

    blobs: tuple[bytes, ...]  # L * H, layer-major, compressed
    shape: tuple[int, int, int, int]  # (L, H, Q, K)
    top: float  # what a full scale stands for: 1, or the largest weight where that is larger
    dense: bool
    threshold: float  # sparse: what is left out is under it, or rounds to nothing
    least: int
    left: npt.NDArray[np.float64]  # (L * H,) share of each head's mass that was left out
    error: float  # no decoded weight is further off than this


@dataclass(frozen=True, eq=False)
class Opened:
    """One head, decoded."""

    weights: npt.NDArray[np.float64]  # (Q, K), zero where not kept
    kept: npt.NDArray[np.bool_]  # (Q, K)
    rest: npt.NDArray[np.float64]  # (Q,) share of the row left out


def pack(stacks: Sequence[Maps], budget: int = MAX_BYTES) -> list[Packed]:
    """Every stack in its share of the budget, by its number of rows."""
    rows = [maps.layers * maps.heads * max(1, len(maps.queries)) for maps in stacks]
    return [pack_one(maps, budget * n // sum(rows)) for maps, n in zip(stacks, rows, strict=True)]


def pack_one(maps: Maps, share: int) -> Packed:
    """One stack in at most `share` bytes: dense if it fits, else the smallest threshold that does."""
    largest = _largest(maps)
    top = max(1.0, largest)
    heads = maps.weights.reshape(-1, *maps.weights.shape[2:])  # (L * H, Q, K)
    if heads.size <= 4 * share:  # compression gains no more than that on weights worth looking at
        blobs = tuple(_squeeze(dense_bytes(head, top)) for head in heads)
        if sum(map(len, blobs)) <= share:
            return _packed(maps, blobs, top, 0.0, 0, np.zeros(len(heads)))
    result = _sparsely(heads, top, *_fit(heads, top, share))
    if result.size < 0.9 * share:  # the sample was larger than the whole: once more with what it was off
        result = _sparsely(heads, top, *_fit(heads, top, int(share * share * 0.97 / result.size)))
    while result.size > share and (result.least or result.threshold <= top):
        least = result.least - (result.threshold > top)
        result = _sparsely(heads, top, result.threshold * 1.15, max(0, least))
    return _packed(maps, result.blobs, top, result.threshold, result.least, np.array(result.left))


@dataclass(frozen=True)
class _Try:
    """A stack packed with some threshold."""

    blobs: tuple[bytes, ...]
    left: list[float]
    threshold: float
    least: int

    @property
    def size(self) -> int:
        return sum(map(len, self.blobs))


def _sparsely(heads: Rows, top: float, threshold: float, least: int) -> _Try:
    results = [_sparse(head, top, threshold, least) for head in heads]
    return _Try(tuple(_squeeze(raw) for raw, _ in results), [left for _, left in results], threshold, least)


def _packed(
    maps: Maps, blobs: tuple[bytes, ...], top: float, threshold: float, least: int, left: Rows
) -> Packed:
    layers, heads, queries, keys = maps.weights.shape
    error = (_largest(maps) + top / FINE) / (2 * STEPS)
    return Packed(
        blobs=blobs,
        shape=(layers, heads, queries, keys),
        top=top,
        dense=not threshold,
        threshold=threshold,
        least=least,
        left=left.astype(float),
        error=error,
    )


def _largest(maps: Maps) -> float:
    """Largest weight; refuses what is no weight."""
    if not maps.weights.size:
        return 0.0
    low, high = float(maps.weights.min()), float(maps.weights.max())
    if not (low >= 0 and np.isfinite(high)):
        raise HeedfulError(
            f"the {maps.stack} attention of this model holds weights that are negative or not numbers",
            f"between {low:g} and {high:g}",
            "look at its weights with atlas.stack(...).weights",
        )
    return high


def _scales(rows: Rows, top: float) -> npt.NDArray[np.uint16]:
    """Largest weight of each row in 65535ths of `top`, rounded up."""
    largest = rows.max(axis=1, initial=0.0).astype(np.float64)
    steps: npt.NDArray[np.uint16] = np.minimum(np.ceil(largest / top * FINE), FINE).astype("<u2")
    return steps


def _steps(
    weights: Rows, scales: npt.NDArray[np.uint16] | npt.NDArray[np.float64], top: float
) -> npt.NDArray[np.uint8]:
    """Weights in 255ths of their row's scale; `scales` broadcasts against `weights`."""
    unit = np.maximum(scales.astype(np.float64), 1) * (top / FINE)
    return np.minimum(np.rint(weights / unit * STEPS), STEPS).astype(np.uint8)


def dense_bytes(rows: Rows, top: float) -> bytes:
    scales = _scales(rows, top)
    return scales.tobytes() + _steps(rows, scales[:, None], top).tobytes()


def _sparse(rows: Rows, top: float, threshold: float, least: int) -> tuple[bytes, float]:
    """The bytes of a head, and the share of its mass that is left out."""
    keep = _chosen(rows, threshold, least)  # (Q, K)
    scales = _scales(rows, top)
    where, columns = np.nonzero(keep)  # by row, columns ascending
    steps = _steps(rows[where, columns], scales[where], top)
    real = steps > 0  # what rounds to nothing is left out and counted as such
    where, columns, steps = where[real], columns[real], steps[real]
    counts = np.bincount(where, minlength=len(rows)).astype("<u2")
    scales[counts == 0] = 0  # no use for it
    totals = rows.sum(axis=1, dtype=np.float64)
    values = np.bincount(where, weights=rows[where, columns], minlength=len(rows))
    missing = np.maximum(totals - values, 0.0)
    rest = np.rint(STEPS * missing / np.where(totals > 0, totals, 1)).astype(np.uint8)
    raw = b"".join(
        part.tobytes() for part in (scales, rest, counts, steps, _gaps(where, columns))
    )  # scales first: they want even addresses
    return raw, float(missing.sum() / totals.sum()) if totals.sum() > 0 else 0.0


def _chosen(rows: Rows, threshold: float, least: int) -> npt.NDArray[np.bool_]:
    """Not below the threshold, or among the `least` largest of the row."""
    keep = rows >= threshold
    least = min(least, rows.shape[1])
    short = np.flatnonzero(keep.sum(axis=1) < least)
    if len(short):
        first = np.argpartition(-rows[short], least - 1, axis=1)[:, :least]
        keep[short[:, None], first] = True
    return keep


def _gaps(where: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> npt.NDArray[np.uint8]:
    """Columns skipped before each kept one, a byte or three each."""
    before = np.concatenate([[-1], columns[:-1]])[: len(columns)]
    before[np.flatnonzero(np.diff(where, prepend=-1))] = -1
    gaps = columns - before - 1
    wide = gaps >= STEPS
    ends = np.cumsum(1 + 2 * wide)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    starts = ends - 1 - 2 * wide
    out[starts] = np.minimum(gaps, STEPS)
    out[starts[wide] + 1] = gaps[wide] & 255
    out[starts[wide] + 2] = gaps[wide] >> 8
    return out


def _squeeze(raw: bytes) -> bytes:
    return zlib.compress(raw, 6)


def _fit(heads: Rows, top: float, share: int) -> tuple[float, int]:
    """The smallest threshold, and the most weights kept anyway, that a sample says fit the share."""
    sample, fraction = _sample(heads)
    goal = 0.94 * share * fraction

    def size(threshold: float, least: int) -> int:
        return sum(len(_squeeze(_sparse(rows, top, threshold, least)[0])) for rows in sample)

    least = MIN_ROW_WEIGHTS
    while least and size(2 * top, least) > goal:
        least -= 1
    low, high = 1e-6, 2 * top
    while high / low > 1.03:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if size(middle, least) <= goal else (middle, high)
    return high, least


def _sample(heads: Rows) -> tuple[list[Rows], float]:
    """Some rows of some heads from all places, and the share of all rows they are."""
    count, queries, keys = heads.shape
    chosen = np.unique(np.linspace(0, count - 1, 96).round().astype(int))
    size = min(queries, max(8, SAMPLED_WEIGHTS // (len(chosen) * keys)))
    starts = np.linspace(0, queries - size, len(chosen)).round().astype(int)
    sample = [heads[head, start : start + size] for head, start in zip(chosen, starts, strict=True)]
    return sample, len(chosen) * size / (count * queries)


def decode(packed: Packed, head: int) -> Opened:
    """What the page's script makes of a head (layer * H + head)."""
    raw = zlib.decompress(packed.blobs[head])
    queries, keys = packed.shape[2:]
    unit = np.frombuffer(raw, "<u2", queries).astype(np.float64) * (packed.top / FINE / STEPS)  # (Q,)
    at = 2 * queries
    if packed.dense:
        steps = np.frombuffer(raw, np.uint8, queries * keys, at).reshape(queries, keys)
        return Opened(steps * unit[:, None], np.ones((queries, keys), bool), np.zeros(queries))
    rest = np.frombuffer(raw, np.uint8, queries, at) / STEPS
    counts = np.frombuffer(raw, "<u2", queries, at + queries)
    at += 3 * queries
    kept = int(counts.sum())
    steps = np.frombuffer(raw, np.uint8, kept, at)
    where, columns = np.repeat(np.arange(queries), counts), _columns(raw[at + kept :], counts)
    weights, mask = np.zeros((queries, keys)), np.zeros((queries, keys), bool)
    weights[where, columns] = steps * unit[where]
    mask[where, columns] = True
    return Opened(weights, mask, rest)


def _columns(gaps: bytes, counts: npt.NDArray[np.uint16]) -> list[int]:
    out, at = [], 0
    for count in counts.tolist():
        column = -1
        for _ in range(count):
            gap = gaps[at]
            if gap == STEPS:
                gap, at = gaps[at + 1] + 256 * gaps[at + 2], at + 2
            at += 1
            column += gap + 1
            out.append(column)
    return out
