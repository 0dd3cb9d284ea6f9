"""Texts on which dictionaries are measured: cut as harvest cuts them, read as often as it takes.

    packed   (causal language models) windows filled with texts one after the other, as harvest does
    apart    one window a text, its first `context` tokens; what is left out is noted

A window is the unit over which intervals are taken. Token ids are held in memory, activations are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.features.activations.windows import (
    Batch,
    Cut,
    TextSource,
    Window,
    batches,
    cut_for,
    windows,
)
from heedful.io.datasets import Columns, open_source
from heedful.io.labels import is_missing
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import read

BATCH_TOKENS = 2048


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts, cut into windows of tokens and grouped into batches."""

    batches: Sequence[Batch]
    labels: tuple[Any, ...] | None  # one a window, in the order of the batches
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Positions that are looked at."""
        return sum(int(batch.keep.sum()) for batch in self.batches)

    @property
    def units(self) -> int:
        return sum(len(batch.ids) for batch in self.batches)


def corpus(
    model: TokenModel,
    texts: Iterable[str] | str | Path,
    *,
    labels: Iterable[Any] | None = None,
    context: int | None = None,
    pack: bool | None = None,
    rows: int | None = None,
    text_column: str = "text",
    label_column: str | None = None,
) -> Corpus:
    """Read texts and cut them into windows. With labels, each text gives one window.

    rows    stop after about so many tokens: no window is cut for it
    labels  one per text; of a file, name the column
    """
    wants_labels = labels is not None or label_column is not None
    cut = cut_for(model, context, False if wants_labels else pack, skip_special=True)
    if rows is not None and rows < 1:
        raise HeedfulError(f"rows cannot be {rows}", "it is 1 or more")
    columns = Columns(text_column, label_column)
    given = TextSource(open_source(texts, labels, columns=columns, plain=not wants_labels))
    every = _packed(model, given, cut) if cut.pack else _apart(model, _rows(given, wants_labels), cut)
    chosen = list(_first(every, rows))
    if not chosen:
        why = "; ".join(given.notes())
        raise HeedfulError("there is no text to measure on", why, "Give texts with at least one word")
    chosen.sort(key=lambda one: len(one.window), reverse=True)  # stable, so batches keep this order
    made = list(batches((one.window for one in chosen), BATCH_TOKENS, cut.pad))
    cuts = sum(one.cut for one in chosen)
    note = f"{cuts} of {len(chosen)} texts are longer than {cut.context} tokens: only these were read"
    result = tuple(one.label for one in chosen) if wants_labels else None
    return Corpus(made, result, (*((note,) if cuts else ()), *given.notes()))


def _rows(texts: TextSource, wants_labels: bool) -> Iterator[tuple[str, Any]]:
    """(text, label or None)"""
    for row in texts.rows():
        if not wants_labels or not is_missing(row.label):
            yield row.text, row.label if wants_labels else None


@dataclass(frozen=True, eq=False)
class _One:
    window: Window
    label: Any = None
    cut: bool = False  # the text goes on


def _packed(model: TokenModel, texts: TextSource, cut: Cut) -> Iterator[_One]:
    return (_One(window) for window in windows(texts, model, cut) if window.keep.any())


def _apart(model: TokenModel, rows: Iterable[tuple[str, Any]], cut: Cut) -> Iterator[_One]:
    for text, label in rows:
        result = list(islice(windows(TextSource(open_source([text])), model, cut), 2))
        if result:
            yield _One(result[0], label, len(result) > 1)


def _first(every: Iterable[_One], rows: int | None) -> Iterator[_One]:
    """Windows until about so many tokens are there; what follows is not read."""
    observed = 0
    for one in every:
        if rows is not None and observed >= rows:
            return
        observed += int(one.window.keep.sum())
        yield one


def activations(
    model: TokenModel, found: Corpus, sites: Sequence[str]
) -> Iterator[tuple[Batch, dict[str, Tensor]]]:
    """Yield for each batch the activations (B, T, d) of each site, as float32. Forward passes stop after the
    last site."""
    names = list(dict.fromkeys(sites))
    for batch in found.batches:
        with torch.no_grad():
            observed = read(model, model.padded(batch.ids, batch.mask), names)
            kept = {name: value.float().cpu() for name, value in observed.items()}
        yield batch, kept  # outside: a mode must not leak to whoever asked


def rows_at(model: TokenModel, found: Corpus, sites: Sequence[str]) -> Iterator[tuple[Tensor, ...]]:
    """Batch by batch, the kept rows (n, d) of each site."""
    for batch, observed in activations(model, found, sites):
        yield tuple(observed[site][batch.keep] for site in sites)


def site_of(sae: Any, site: str | None) -> str:
    """The place a dictionary was trained for, unless another is named."""
    known = site or sae.config.source.get("site")
    if not known:
        raise HeedfulError(
            "the SAE does not say where it was trained", fix="Name the site: site='blocks.2.resid'"
        )
    return str(known)
