"""The masked-rows engine: masks over units and a removal operator in, target values out.

Duplicates are run once, rows are sorted by length so that almost nothing is padding, cut into chunks by a
token budget, and remembered for as long as the caller keeps the memory. Out of memory halves the chunk and
goes on. Every perturbation method and every deletion metric draws from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.core.types import Encoded, Floats, Progress

OPERATORS = {
    "mask": "replaced by the mask token",
    "delete": "taken out, what follows moves up",
    "swap": "replaced by a word drawn from other texts",
    "unk": "replaced by the unknown-word token",
    "pad": "left in place but hidden from attention",
    "mean": "replaced by the mean of all token embeddings",
}
BLOCK, SAVED = 16, 0.25  # tokens that rows share by, and the share of all tokens that must be saved by it
CHUNK_TOKENS = 2048  # fits a small machine; larger gains nothing on a CPU
ENOUGH, RAGGED = 512, 0.85  # a chunk of so many tokens ends where rows get so much shorter than its first


@dataclass(frozen=True)
class Row:
    """One model input: token ids, and the positions hidden from attention or set to the mean embedding."""

    ids: tuple[int, ...]
    type_ids: tuple[int, ...] | None = None
    hidden: tuple[int, ...] = ()
    blank: tuple[int, ...] = ()
    text: str = ""  # for functions, which read text instead of ids
    written: Row | None = None  # what was written after it, where something of that is removed, too

    def __len__(self) -> int:
        return len(self.ids) or len(self.text) // 4


class BudgetSpentError(HeedfulError):
    """A method asked for more rows than were left."""


class Memory(dict[Row, float]):
    """Values of the rows that were run, and how many more may be (None: as many as it takes)."""

    allowed: int | None = None


def check_budget(allowed: int | None, rows: int) -> None:
    if allowed is not None and rows > allowed:
        raise BudgetSpentError(f"the budget has {allowed:,} rows left and this method asks for {rows:,}")


def removed(x: Encoded, stop: int, gone: set[int], operator: str, filler: int | None) -> Row:
    """The first `stop` tokens of x without those in `gone`. `filler` is the token of "mask" and "unk"."""
    types = None if x.type_ids is None else x.type_ids[:stop]
    out = tuple(sorted(t for t in gone if t < stop))
    if operator == "delete":
        kept = [t for t in range(stop) if t not in gone]
        return Row(tuple(x.ids[t] for t in kept), None if types is None else tuple(types[t] for t in kept))
    if operator == "pad":  # hidden at the very end is not there: a decoder must not read its answer from it
        stop = max((t + 1 for t in range(stop) if t not in gone), default=0)
        types = None if types is None else types[:stop]
        return Row(x.ids[:stop], types, hidden=tuple(t for t in out if t < stop))
    if operator == "mean":
        return Row(x.ids[:stop], types, blank=out)
    if filler is None:
        raise HeedfulError(f"the tokenizer has no token for the operator {operator!r}")
    return Row(tuple(filler if t in gone else x.ids[t] for t in range(stop)), types)


def swapped(x: Encoded, stop: int, gone: set[int], new: Mapping[int, Sequence[int]]) -> Row:
    """The first `stop` tokens of x without those in `gone`; at a position in `new` these ids stand instead.
    They have the type id of the token whose place they take."""
    places = [(t, new.get(t, ()) if t in gone else (x.ids[t],)) for t in range(stop)]
    types = x.type_ids
    return Row(
        tuple(i for _, ids in places for i in ids),
        None if types is None else tuple(types[t] for t, ids in places for _ in ids),
    )


_recorded: ContextVar[tuple[set[str], ...]] = ContextVar("recorded operators", default=())


@contextmanager
def recording() -> Iterator[set[str]]:
    """The operators by which something is removed inside the block; blocks around this one get them, too."""
    own: set[str] = set()
    token = _recorded.set((*_recorded.get(), own))
    try:
        yield own
    finally:
        _recorded.reset(token)


def record(operator: str) -> None:
    """Tell every `recording` around that something was removed by this operator."""
    for found in _recorded.get():
        found.add(operator)


def read(x: Encoded, written: Encoded | None) -> int:
    """How many tokens the text and what was written after it have."""
    return len(x) + (0 if written is None else len(written))


def removable(x: Encoded, written: Encoded | None, unit: str) -> list[list[int]]:
    """Token positions of each unit: of the text, then of what was written, counted on from the text."""
    behind = [] if written is None else written.units(unit)
    return [*x.units(unit), *([len(x) + t for t in group] for group in behind)]


def checked(
    x: Encoded,
    keep: npt.ArrayLike,
    operator: str | None,
    unit: str,
    offered: Sequence[str],
    written: Encoded | None = None,
) -> tuple[npt.NDArray[np.bool_], str, list[list[int]]]:
    """(masks (n, d), operator, token positions of each unit), or an error that says which is wrong.
    Masks may reach over the units of the text alone, or also over those of what was `written`."""
    groups = x.units(unit)
    masks = np.asarray(keep, dtype=bool)
    if written is not None and masks.ndim == 2 and masks.shape[1] > len(groups):
        groups = removable(x, written, unit)
    if masks.ndim != 2 or masks.shape[1] != len(groups):
        raise HeedfulError(f"keep has shape {masks.shape}, but the text has {len(groups)} {unit}s")
    operator = checked_operator(operator, offered)
    if not masks.all():  # the text as it is shows no operator
        record(operator)
    return masks, operator, groups


def checked_operator(operator: str | None, offered: Sequence[str]) -> str:
    """The operator, or the model's first when none was named."""
    operator = operator or offered[0]
    if operator not in offered:
        known = "this model does not offer it" if operator in OPERATORS else "there is no such operator"
        raise HeedfulError(
            f"words cannot be removed by {operator!r}", known, f"Use one of: {', '.join(offered)}"
        )
    return operator


class Prefix:
    """How far each row is the beginning of the text, in whole blocks, which a decoder need not read again."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids, self.used = tuple(ids), False

    def choose(self, rows: Sequence[Row], allowed: int | None = None) -> None:
        """Use it where it pays: it takes a pass over the text, and less than a quarter saved is not felt.
        That pass is a model input, too: where the budget has none to spare, rows are run whole."""
        self.used = True
        saved = sum(map(self.of, rows))
        pays = saved > SAVED * sum(map(len, rows)) + len(self.ids)
        self.used = pays and (allowed is None or len(rows) < allowed)

    def of(self, row: Row) -> int:
        if not self.used or row.type_ids is not None:
            return 0
        most = min(len(row) - 1, len(self.ids), *row.hidden[:1], *row.blank[:1])  # the last token is asked
        same = next((t for t in range(most) if row.ids[t] != self.ids[t]), most)
        return max(same, 0) // BLOCK * BLOCK


def chunks(
    rows: Sequence[Row], tokens: int, most: int | None = None, prefix: Prefix | None = None
) -> list[list[Row]]:
    """Rows by length, longest first (so that running out of memory shows at once), cut so that
    rows × longest row ≤ tokens, and before rows that would be mostly padding. What is shared counts as read;
    rows that share more come later."""
    shared = {row: 0 if prefix is None else prefix.of(row) for row in rows}
    out: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: (shared[row], -len(row))):
        width = max(len(out[-1][0]) - shared[row], 1) if out else 0
        alike = bool(out) and shared[out[-1][0]] == shared[row]
        count = len(out[-1]) if out else 0
        ragged = count * width >= ENOUGH and len(row) - shared[row] < RAGGED * width
        fits = (count + 1) * width <= tokens and (most is None or count < most)
        if alike and fits and not ragged:
            out[-1].append(row)
        else:
            out.append([row])
    return out


def evaluate(
    rows: Sequence[Row],
    run: Callable[[list[Row]], Floats],
    *,
    memory: Memory | None = None,
    most: int | None = None,
    progress: Progress | None = None,
    tokens: int = CHUNK_TOKENS,
    prefix: Prefix | None = None,
    copies: int = 1,
) -> tuple[Floats, list[Row]]:
    """(value of each row, rows that were really run). Interrupted, finished chunks stay in `memory`.

    `copies` is how often the model reads each row: twice for "this continuation rather than that".
    """
    known = Memory() if memory is None else memory
    fresh = [row for row in dict.fromkeys(rows) if row not in known]
    check_budget(known.allowed, len(fresh))
    if prefix is not None:
        prefix.choose(fresh, known.allowed)
    done = 0
    for chunk, values in halving(chunks(fresh, tokens // copies, most, prefix), run):
        known.update(zip(chunk, values.tolist(), strict=True))
        done += len(chunk)
        if progress is not None:
            progress(done, len(fresh))
    return np.array([known[row] for row in rows], dtype=np.float64), fresh


def halving(queue: Iterable[Any], run: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """(chunk, what `run` made of it), in order; one that does not fit the memory is run in halves.

    A chunk is anything with a length that can be sliced: a list of rows, a tensor.
    """
    left = list(queue)
    while left:
        chunk = left.pop(0)
        try:
            found = run(chunk)
        except (MemoryError, RuntimeError) as error:
            if len(chunk) == 1 or not out_of_memory(error):
                raise
            half = len(chunk) // 2
            left[:0] = [chunk[:half], chunk[half:]]
            continue
        yield chunk, found


def out_of_memory(error: BaseException) -> bool:
    """torch tells of memory in several ways; a CPU allocation failure is a plain RuntimeError."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text


def spread(values: Floats, groups: Sequence[Sequence[int]], length: int) -> Floats:
    """Unit values as token scores: each unit's value split evenly over its tokens, zero elsewhere."""
    scores = np.zeros(length)
    for value, positions in zip(values, groups, strict=True):
        scores[list(positions)] = value / len(positions)
    return scores
