"""The forward loop: rows in, values out.

    evaluate   one number per row, each row once; what perturbation methods and removal metrics draw from
    passes     logits or attention weights of rows, under an edit of the attention if wished

Duplicates are run once, rows are sorted by length so that almost nothing is padding, cut into chunks by a
token budget, and remembered for as long as the caller keeps the memory. Out of memory halves the chunk and
goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError, out_of_memory
from heedful.core.progress import Progress
from heedful.modalities.operators import InputRow

if TYPE_CHECKING:
    from torch import Tensor

    from heedful.core.target import Target
    from heedful.models.adapter import TokenModel
    from heedful.models.attention_hooks import Edit

PREFIX_BLOCK_TOKENS = 16  # a shared beginning is cut to whole blocks
MIN_SAVED_TOKEN_SHARE = 0.25  # of all tokens: a shared beginning that saves less is not used
CHUNK_TOKENS = 2048  # fits a small machine; larger gains nothing on a CPU
MIN_CHUNK_TOKENS = 512  # a chunk of so many ends where rows get shorter than MIN_LENGTH_RATIO of its first
MIN_LENGTH_RATIO = 0.85


class BudgetSpentError(HeedfulError):
    """A method asked for more rows than were left."""


class RowCache(dict[InputRow, float]):
    """Values of the rows that were run, and how many more may be (None: as many as it takes)."""

    allowed: int | None = None


def check_budget(allowed: int | None, rows: int) -> None:
    if allowed is not None and rows > allowed:
        raise BudgetSpentError(f"the budget has {allowed:,} model inputs left and this method needs {rows:,}")


class Prefix:
    """How far each row is the beginning of the text, in whole blocks, which a decoder need not read again."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids, self.used = tuple(ids), False

    def choose(self, rows: Sequence[InputRow], allowed: int | None = None) -> None:
        """Use it where it pays: it takes a pass over the text, and less than a quarter saved is not felt.
        That pass is a model input, too: where the budget has none to spare, rows are run whole."""
        self.used = True
        saved = sum(map(self.of, rows))
        pays = saved > MIN_SAVED_TOKEN_SHARE * sum(map(len, rows)) + len(self.ids)
        self.used = pays and (allowed is None or len(rows) < allowed)

    def of(self, row: InputRow) -> int:
        if not self.used or row.type_ids is not None:
            return 0
        most = min(len(row) - 1, len(self.ids), *row.hidden[:1], *row.blank[:1])  # the last token is asked
        same = next((t for t in range(most) if row.ids[t] != self.ids[t]), most)
        return max(same, 0) // PREFIX_BLOCK_TOKENS * PREFIX_BLOCK_TOKENS


def chunks(
    rows: Sequence[InputRow], tokens: int, most: int | None = None, prefix: Prefix | None = None
) -> list[list[InputRow]]:
    """Rows by length, longest first (so that running out of memory shows at once), cut so that
    rows × longest row ≤ tokens, and before rows that would be mostly padding. What is shared counts as read;
    rows that share more come later."""
    shared = {row: 0 if prefix is None else prefix.of(row) for row in rows}
    out: list[list[InputRow]] = []
    for row in sorted(rows, key=lambda row: (shared[row], -len(row))):
        width = max(len(out[-1][0]) - shared[row], 1) if out else 0
        alike = bool(out) and shared[out[-1][0]] == shared[row]
        count = len(out[-1]) if out else 0
        ragged = count * width >= MIN_CHUNK_TOKENS and len(row) - shared[row] < MIN_LENGTH_RATIO * width
        fits = (count + 1) * width <= tokens and (most is None or count < most)
        if alike and fits and not ragged:
            out[-1].append(row)
        else:
            out.append([row])
    return out


def evaluate(
    rows: Sequence[InputRow],
    run: Callable[[list[InputRow]], Floats],
    *,
    memory: RowCache | None = None,
    most: int | None = None,
    progress: Progress | None = None,
    tokens: int = CHUNK_TOKENS,
    prefix: Prefix | None = None,
    copies: int = 1,
) -> tuple[Floats, list[InputRow]]:
    """(value of each row, rows that were really run). Interrupted, finished chunks stay in `memory`.

    `copies` is how often the model reads each row: twice for "this continuation rather than that".
    """
    known = RowCache() if memory is None else memory
    fresh = [row for row in dict.fromkeys(rows) if row not in known]
    check_budget(known.allowed, len(fresh))
    if prefix is not None:
        prefix.choose(fresh, known.allowed)
    done = 0
    for chunk, values in run_with_oom_retry(chunks(fresh, tokens // copies, most, prefix), run):
        known.update(zip(chunk, values.tolist(), strict=True))
        done += len(chunk)
        if progress is not None:
            progress(done, len(fresh))
    return np.array([known[row] for row in rows], dtype=np.float64), fresh


@dataclass(frozen=True, eq=False)
class Pass:
    """Rows that were run together."""

    rows: tuple[int, ...]  # which of the rows that were given, B of them
    logits: Tensor | None = None  # (B, C), (B, V) or (B, L, V): what the target reads, or all there are
    attentions: tuple[Tensor, ...] = ()  # (B, H, T, T) per layer: self-attention, the encoder's of a pair
    notes: tuple[str, ...] = ()


def passes(
    model: TokenModel,
    rows: Sequence[InputRow],
    queue: Iterable[list[int]] | None = None,
    *,
    target: Target | None = None,
    edit: Callable[[Sequence[int]], Edit] | None = None,
    want: Collection[str] = ("logits",),
    progress: Progress | None = None,
) -> Iterator[Pass]:
    """Runs the rows.

    queue      numbers of the rows that run together; None: rows of equal length, so that nothing is padding
    target     whose logits are wanted; None: those of every position
    edit       makes, for the rows of a pass, what reads and changes their attention
    want       "logits", "attentions" or both
    Where gradients are on, logits have a graph to whatever the edit put in.
    """
    done = 0
    if queue is None:
        queue = same_length(rows, model.rows_that_fit)

    def run(part: list[int]) -> Pass:
        with nullcontext() if edit is None else model.attending(edit(part)):
            return model.run_pass([rows[i] for i in part], part, target, want)

    for part, ran in run_with_oom_retry(queue, run):
        yield ran
        done += len(part)
        if progress is not None:
            progress(done, len(rows))


def same_length(rows: Sequence[InputRow], fits: Callable[[int], int]) -> list[list[int]]:
    """Numbers of rows of equal length, as many together as `fits` says for it; short ones first."""
    lengths: dict[tuple[int, int], list[int]] = {}
    for number, row in enumerate(rows):
        behind = 0 if row.written is None else len(row.written) + 1  # with a decoder's start token
        lengths.setdefault((len(row), behind), []).append(number)
    return [
        same[first : first + most]
        for (length, behind), same in sorted(lengths.items())
        for most in (fits(length + behind),)
        for first in range(0, len(same), most)
    ]


def ragged(rows: Sequence[InputRow], most: int | None = None, tokens: int = CHUNK_TOKENS) -> list[list[int]]:
    """Numbers of rows of like length; long ones first. Rows must differ."""
    number = {row: at for at, row in enumerate(rows)}
    return [[number[row] for row in chunk] for chunk in chunks(rows, tokens, most)]


def run_with_oom_retry(queue: Iterable[Any], run: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
    """(chunk, what `run` made of it), in order; one that does not fit the memory is run in halves.

    A chunk is anything with a length that can be sliced: a list of rows, a tensor.
    """
    left = list(queue)
    while left:
        chunk = left.pop(0)
        try:
            result = run(chunk)
        except (MemoryError, RuntimeError) as error:
            if len(chunk) == 1 or not out_of_memory(error):
                raise
            half = len(chunk) // 2
            left[:0] = [chunk[:half], chunk[half:]]
            continue
        yield chunk, result
