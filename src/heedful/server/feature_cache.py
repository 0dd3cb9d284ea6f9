"""Activations of all features on the texts, read once and kept: a feature's page needs no pass over them.

Sparse, sorted by feature: 8 bytes a firing, so 100,000 tokens with 32 active features each are 26 MB. The
batches are kept as they were read, so that what is drawn from here is what `read_features` draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.core.progress import Report
from heedful.features.activations.windows import Batch
from heedful.features.reading.collect import Values
from heedful.features.reading.read_features import Passes, Stream
from heedful.features.reading.select import FiringRates

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

MAX_FIRINGS = 60_000_000  # firings that are kept
CONTEXT_TOKENS = 6  # tokens shown before the strongest one


@dataclass(frozen=True, eq=False)
class Codes:
    """What every feature does on the texts."""

    batches: tuple[Batch, ...]
    numbers: tuple[int, ...]  # of the first window of each batch
    starts: npt.NDArray[np.int64]  # (F + 1,) where a feature's firings begin
    places: npt.NDArray[np.int64]  # (n,) of firings, over all batches one after the other
    values: Values  # (n,)
    firing: FiringRates
    context: int  # tokens of a window
    texts: str  # their name
    notes: tuple[str, ...]

    def passes(self, wanted: Sequence[int]) -> Passes:
        """As the stream gave them: number of the first window, batch, activations (B, T, wanted)."""
        for number, batch, begin, end in self._spans():
            out = np.zeros((end - begin, len(wanted)), np.float32)
            for at, feature in enumerate(wanted):
                places, values = self._of(feature)
                low, high = np.searchsorted(places, (begin, end))
                out[places[low:high] - begin, at] = values[low:high]
            yield number, batch, out.reshape(*batch.ids.shape, len(wanted))

    def strongest(self, feature: int, model: TokenModel) -> tuple[str, str]:
        """(what stands before it, the token) where the feature is strongest."""
        places, values = self._of(feature)
        if not len(values):
            return "", ""
        place = int(places[values.argmax()])
        for _, batch, begin, end in self._spans():
            if begin <= place < end:
                row, at = divmod(place - begin, batch.ids.shape[1])
                ids = batch.ids[row, max(0, at - CONTEXT_TOKENS) : at + 1].tolist()
                pieces = model.pieces(ids)
                return "".join(pieces[:-1]), pieces[-1]
        return "", ""

    def _of(self, feature: int) -> tuple[npt.NDArray[np.int64], Values]:
        own = slice(self.starts[feature], self.starts[feature + 1])
        return self.places[own], self.values[own]

    def _spans(self) -> Iterator[tuple[int, Batch, int, int]]:
        begin = 0
        for number, batch in zip(self.numbers, self.batches, strict=True):
            end = begin + batch.ids.numel()
            yield number, batch, begin, end
            begin = end


def read_codes(
    model: TokenModel, sae: Any, site: str, texts: Any, rows: int, progress: Report | None
) -> Codes:
    """One pass over `rows` tokens of the texts."""
    stream = Stream(
        model=model,
        sae=sae,
        texts=texts,
        site=site,
        rows=rows,
        context=None,
        column="text",
        progress=progress,
    )
    firing = FiringRates.none(sae.config.width)
    results: list[tuple[int, Batch]] = []
    parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Values]] = []
    begin = count = 0
    for number, batch, values in stream.passes(None, "reading"):
        firing.add(values[batch.keep.numpy()])
        flat = values.reshape(-1, sae.config.width)
        place, feature = np.nonzero(flat > 0)
        parts.append((place + begin, feature, flat[place, feature]))
        results.append((number, batch))
        begin, count = begin + len(flat), count + len(place)
        if count > MAX_FIRINGS:
            raise HeedfulError(
                f"features fire more than {MAX_FIRINGS:,} times on these texts",
                "so many are not kept in memory",
                f"Read fewer tokens: --rows {max(1, rows // 4)}",
            )
    if not results:
        raise HeedfulError("there are no texts", fix="Give at least one that is not empty")
    place, feature, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(feature, kind="stable")  # within a feature, places stay in order
    starts = np.concatenate([[0], np.bincount(feature, minlength=sae.config.width).cumsum()])
    numbers, kept = zip(*results, strict=True)
    return Codes(
        batches=kept,
        numbers=numbers,
        starts=starts,
        places=place[order],
        values=value[order],
        firing=firing,
        context=stream.cut.context,
        texts=stream.told,
        notes=stream.notes,
    )
