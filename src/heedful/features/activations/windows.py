"""Texts become windows of token ids, and windows full batches: streaming, the same every time.

    packed    (causal language models) all texts one after the other, an end-of-text token between them, cut
              into windows of `context` tokens that each begin with the model's first token, if it has one
    apart     (all others) every text by itself, cut into windows that each have the model's special tokens

A .txt file is one long text when packed, and a text a line when not. A text of more than 100,000 characters
is tokenized in pieces, cut at a space where there is one. Windows of like length share a batch: those of a
pool of batches are sorted, so padding is small; it is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.io.datasets import Columns, DataRow, Source, open_source
from heedful.modalities.kinds import KINDS
from heedful.models.adapter import TokenModel

PIECE_CHARACTERS = 100_000  # characters
POOL_BATCHES = 32  # batches whose windows are sorted together

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Window:
    """What the model reads at once; `keep` marks the positions whose activations are wanted."""

    ids: Ids  # (T,)
    keep: npt.NDArray[np.bool_]  # (T,)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Batch:
    """Windows side by side, the shorter ones padded at the end."""

    ids: Tensor  # (B, T)
    mask: Tensor  # (B, T)
    keep: Tensor  # (B, T) bool


@dataclass(frozen=True)
class Cut:
    """How texts are cut."""

    context: int
    pack: bool
    skip_special: bool
    before: tuple[int, ...]  # special tokens of a window
    after: tuple[int, ...]
    between: tuple[int, ...]  # two packed texts
    pad: int

    @property
    def room(self) -> int:
        """Tokens of the text in a window."""
        return self.context - len(self.before) - len(self.after)


def cut_for(model: TokenModel, context: int | None, pack: bool | None, skip_special: bool) -> Cut:
    """What the tokenizer puts around a text; packed, the first token of the model also where it does not."""
    pack = model.kind == "causal-lm" if pack is None else pack
    probe, find = model.encode_whole("a"), model.special_id
    inside = [at for at, mark in enumerate(probe.special) if not mark]
    before, after = probe.ids[: inside[0]], probe.ids[inside[-1] + 1 :]
    end, begin = find("eos"), find("bos")
    if pack:
        before = before or (() if begin is None else (begin,))
        after = ()
    context = min(128, model.window or 128) if context is None else context
    cut = Cut(
        context=context,
        pack=pack,
        skip_special=skip_special,
        before=before,
        after=after,
        between=() if end is None else (end,),
        pad=find("pad") or 0,
    )
    if model.window is not None and context > model.window:
        raise HeedfulError(
            f"a context of {context:,} tokens", f"{model.name} reads at most {model.window:,}", "Use fewer"
        )
    if cut.room < 1:
        raise HeedfulError(
            f"a context of {context} tokens contains no text", "special tokens fill it", "Use more"
        )
    return cut


# --- texts -----------------------------------------------------------------------------------------


@dataclass
class TextSource:
    """Where texts come from, how much was read, and what could not be."""

    source: Source
    read: int = 0  # rows of the source
    tokens: int = 0  # of them
    skipped: dict[str, int] = field(default_factory=dict)  # why -> how many

    def each(self) -> Iterator[str]:
        return (row.text for row in self.rows())

    def rows(self) -> Iterator[DataRow]:
        """Rows with a text. Empty ones are left out, and what cannot be read is counted."""
        for row in self.source.rows():
            self.read += 1
            if why := _unreadable(row):
                self.skipped[why] = self.skipped.get(why, 0) + 1
            elif row.text.strip():
                yield row

    def notes(self) -> tuple[str, ...]:
        """What was skipped so far, and why."""
        return tuple(f"skipped: {why} ({count:,} times)" for why, count in self.skipped.items())


def _unreadable(row: DataRow) -> str:
    """Why a row has no text that a tokenizer takes; an empty one has."""
    if row.broken:
        return "a row cannot be read"
    if not isinstance(row.text, str):
        return "a row has no text" if row.text is None else f"a row is {type(row.text).__name__}, not text"
    unfit = row.text.strip() and KINDS["text"].unfit(row.text)
    return unfit and unfit.replace("the text", "a row")


def open_texts(texts: Any, column: str) -> Source:
    """A .txt, .csv, .tsv, .jsonl or .parquet file, or any iterable of texts."""
    return open_source(texts, columns=Columns(text=column), plain=True)


# --- windows ---------------------------------------------------------------------------------------


def windows(texts: TextSource, model: TokenModel, cut: Cut) -> Iterator[Window]:
    if not cut.pack:
        for text in texts.each():
            ids = np.concatenate([*_tokenized(text.rstrip("\r\n"), model, texts), np.empty(0, np.int64)])
            for at in range(0, len(ids), cut.room):
                yield _framed(ids[at : at + cut.room], np.ones(len(ids[at : at + cut.room]), bool), cut)
        return
    between = () if texts.source.kind == "txt" else cut.between
    ids, keep = np.empty(0, np.int64), np.empty(0, bool)
    for number, piece in _stream(texts, model):
        new = np.array(between if number else (), dtype=np.int64)
        ids = np.concatenate([ids, new, piece])
        keep = np.concatenate([keep, np.full(len(new), not cut.skip_special), np.ones(len(piece), bool)])
        whole = len(ids) // cut.room * cut.room
        for at in range(0, whole, cut.room):
            yield _framed(ids[at : at + cut.room], keep[at : at + cut.room], cut)
        ids, keep = ids[whole:], keep[whole:]
    if len(ids):
        yield _framed(ids, keep, cut)


def _stream(texts: TextSource, model: TokenModel) -> Iterator[tuple[bool, Ids]]:
    """(whether a new text begins that is not the first, tokens)."""
    first = True
    for text in texts.each():
        begins = not first
        for ids in _tokenized(text, model, texts):
            yield begins, ids
            begins = False
        first = False


def _tokenized(text: str, model: TokenModel, texts: TextSource) -> Iterator[Ids]:
    for piece in _pieces(text):
        ids = model.token_ids(piece)
        texts.tokens += len(ids)
        yield np.array(ids, dtype=np.int64)


def _pieces(text: str) -> Iterator[str]:
    while len(text) > PIECE_CHARACTERS:
        at = text.rfind(" ", 1, PIECE_CHARACTERS)
        at = PIECE_CHARACTERS if at < 0 else at
        yield text[:at]
        text = text[at:]
    yield text


def _framed(ids: Ids, keep: npt.NDArray[np.bool_], cut: Cut) -> Window:
    """With the special tokens of a window."""
    special = [np.full(len(side), not cut.skip_special) for side in (cut.before, cut.after)]
    before, after = np.array(cut.before, np.int64), np.array(cut.after, np.int64)
    return Window(np.concatenate([before, ids, after]), np.concatenate([special[0], keep, special[1]]))


def batches(found: Iterable[Window], tokens: int, pad: int) -> Iterator[Batch]:
    """Batches of at most `tokens` tokens with padding, or of one window that is longer."""
    pool: list[Window] = []
    size = 0
    for window in found:
        pool.append(window)
        size += len(window)
        if size >= POOL_BATCHES * tokens:
            yield from _sorted(pool, tokens, pad)
            pool, size = [], 0
    yield from _sorted(pool, tokens, pad)


def _sorted(pool: list[Window], tokens: int, pad: int) -> Iterator[Batch]:
    chosen: list[Window] = []
    for window in sorted(pool, key=len, reverse=True):  # stable; the first of a batch is its longest
        if chosen and (len(chosen) + 1) * len(chosen[0]) > tokens:
            yield _side_by_side(chosen, pad)
            chosen = []
        chosen.append(window)
    if chosen:
        yield _side_by_side(chosen, pad)


def _side_by_side(chosen: list[Window], pad: int) -> Batch:
    shape = (len(chosen), len(chosen[0]))
    ids, mask, keep = np.full(shape, pad), np.zeros(shape, np.int64), np.zeros(shape, bool)
    for row, window in enumerate(chosen):
        ids[row, : len(window)] = window.ids
        mask[row, : len(window)] = 1
        keep[row, : len(window)] = window.keep
    return Batch(torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(keep))


def first_of(batch: Batch, rows: int | None) -> Batch:
    """The same batch, of which no more than so many positions are kept."""
    if rows is None or int(batch.keep.sum()) <= rows:
        return batch
    keep = batch.keep & (batch.keep.flatten().cumsum(0) <= rows).view_as(batch.keep)
    return replace(batch, keep=keep)
