"""What one pass over texts keeps of each feature: counts, a histogram, and examples with what stands around.

strongest   one candidate a window, so that the examples are of different ones
sample      uniform over firings; silent: uniform over places where the feature is zero
a snippet   is cut out of its batch when it is kept, so no batch stays alive
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heedful.features.activations.windows import Batch
from heedful.features.reading.examples import Context, Snippet
from heedful.features.reading.reservoir import Histograms, TopItems
from heedful.features.reading.results import Quantile, Reading

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

TOKENS_BEFORE, TOKENS_AFTER = 16, 8  # tokens shown around the marked one
Values = npt.NDArray[np.float32]


class FeatureCollector:
    """Counts, and the examples that are kept, of each wanted feature."""

    def __init__(self, wanted: Sequence[int], top: int, sample: int, seed: int) -> None:
        self.wanted, self.seed, self.tokens, self.turn = list(wanted), seed, 0, 0
        self.known: dict[int, str] = {}  # characters of tokens
        self.fired = np.zeros(len(wanted), np.int64)
        self.histograms = Histograms.empty(len(wanted))
        self.top = [TopItems[_Raw](top) for _ in wanted]
        self.sample = [TopItems[_Raw](sample) for _ in wanted]
        self.silent = [TopItems[_Raw](sample) for _ in wanted]

    def add(self, number: int, batch: Batch, values: Values) -> None:
        """values (B, T, wanted)"""
        keep = batch.keep.numpy()
        rows = values[keep]  # (n, wanted)
        self.tokens += len(rows)
        self.fired += (rows > 0).sum(0)
        self.histograms.add(rows)
        keys = np.random.default_rng((self.seed, self.turn)).random(rows.shape)
        self.turn += 1
        places = np.argwhere(keep)  # (n, 2)
        codes = _BatchCodes(number, batch.ids.numpy(), batch.mask.numpy().sum(1), values)
        for at in range(len(self.wanted)):
            self._strongest(at, codes)
            for best, where in ((self.sample[at], rows[:, at] > 0), (self.silent[at], rows[:, at] <= 0)):
                for i in np.flatnonzero(where & (-keys[:, at] > best.least)):
                    row, place = places[i].tolist()
                    best.offer(-float(keys[i, at]), partial(codes.raw, row, place, at))

    def _strongest(self, at: int, codes: _BatchCodes) -> None:
        """One candidate a window, so that the examples are of different ones."""
        strongest = codes.values[:, :, at].max(1)  # (B,)
        for row in np.flatnonzero(strongest > max(0.0, self.top[at].least)).tolist():
            place = int(codes.values[row, :, at].argmax())
            self.top[at].offer(float(strongest[row]), partial(codes.raw, row, place, at, True))

    def reading(self, at: int, model: TokenModel, quantiles: int, a_quantile: int) -> Reading:
        made = {
            name: tuple(raw.snippet(model, self.known) for raw in best[at].items())
            for name, best in (("top", self.top), ("sample", self.sample), ("silent", self.silent))
        }
        parts = cut_in(made["sample"], quantiles, a_quantile)
        counts, edges = self.histograms.counts[at], self.histograms.edges(at)
        used = int(np.flatnonzero(counts).max(initial=0)) + 1
        return Reading(
            feature=self.wanted[at],
            fired=int(self.fired[at]),
            tokens=self.tokens,
            top=made["top"],
            quantiles=parts,
            sample=made["sample"],
            silent=made["silent"],
            counts=tuple(counts[:used].tolist()),
            edges=tuple(edges[: used + 1].tolist()),
        )


def cut_in(sample: Sequence[Snippet], quantiles: int, examples: int) -> tuple[Quantile, ...]:
    """Parts of equal size by activation; the sample is in random order, so the first of a part are a draw."""
    order = np.argsort([s.value for s in sample], kind="stable")
    parts = []
    for part in np.array_split(order, quantiles):
        if len(part):
            values = [sample[i].value for i in part]
            drawn = sorted(part.tolist())[:examples]
            parts.append(Quantile(min(values), max(values), tuple(sample[i] for i in drawn)))
    return tuple(parts)


@dataclass(frozen=True, eq=False)
class _Raw:
    """A snippet before its characters are known."""

    ids: npt.NDArray[np.int64]
    values: Values
    at: int
    first: int
    window: int
    whole: tuple[int, ...]

    def snippet(self, model: TokenModel, known: dict[int, str]) -> Snippet:
        ids = tuple(self.ids.tolist())
        context = Context(ids, model.pieces(ids, known), self.first)
        return Snippet(context, tuple(self.values.tolist()), self.at, self.window, self.whole)


@dataclass(frozen=True, eq=False)
class _BatchCodes:
    """A batch, out of which snippets are cut."""

    number: int
    ids: npt.NDArray[np.int64]  # (B, T)
    lengths: npt.NDArray[np.int64]  # (B,)
    values: Values  # (B, T, wanted)

    def raw(self, row: int, place: int, at: int, whole: bool = False) -> _Raw:
        first, end = max(0, place - TOKENS_BEFORE), min(int(self.lengths[row]), place + TOKENS_AFTER + 1)
        ids = self.ids[row, first:end].copy()  # the batch itself is not kept alive
        values = self.values[row, first:end, at].copy()
        all_of_it = tuple(self.ids[row, : self.lengths[row]].tolist()) if whole else ()
        return _Raw(
            ids=ids, values=values, at=place - first, first=first, window=self.number + row, whole=all_of_it
        )
