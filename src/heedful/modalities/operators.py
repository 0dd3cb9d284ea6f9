"""How a unit of a text is removed: the rows of token ids that a model reads instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.input import Encoded
from heedful.core.removal_record import record

OPERATORS = {
    "mask": "replaced by the mask token",
    "delete": "taken out, what follows moves up",
    "swap": "replaced by a word drawn from other texts",
    "unk": "replaced by the unknown-word token",
    "pad": "left in place but hidden from attention",
    "mean": "replaced by the mean of all token embeddings",
}


@dataclass(frozen=True)
class InputRow:
    """One model input: token ids, and the positions hidden from attention or set to the mean embedding."""

    ids: tuple[int, ...]
    type_ids: tuple[int, ...] | None = None
    hidden: tuple[int, ...] = ()
    blank: tuple[int, ...] = ()
    text: str = ""  # for functions, which read text instead of ids
    written: InputRow | None = None  # what was written after it, where something of that is removed, too

    def __len__(self) -> int:
        return len(self.ids) or len(self.text) // 4


def removed(x: Encoded, stop: int, gone: set[int], operator: str, filler: int | None) -> InputRow:
    """The first `stop` tokens of x without those in `gone`. `filler` is the token of "mask" and "unk"."""
    types = None if x.type_ids is None else x.type_ids[:stop]
    out = tuple(sorted(t for t in gone if t < stop))
    if operator == "delete":
        kept = [t for t in range(stop) if t not in gone]
        return InputRow(
            tuple(x.ids[t] for t in kept), None if types is None else tuple(types[t] for t in kept)
        )
    if operator == "pad":  # hidden at the very end is not there: a decoder must not read its answer from it
        stop = max((t + 1 for t in range(stop) if t not in gone), default=0)
        types = None if types is None else types[:stop]
        return InputRow(x.ids[:stop], types, hidden=tuple(t for t in out if t < stop))
    if operator == "mean":
        return InputRow(x.ids[:stop], types, blank=out)
    if filler is None:
        raise HeedfulError(f"the tokenizer has no token for the operator {operator!r}")
    return InputRow(tuple(filler if t in gone else x.ids[t] for t in range(stop)), types)


def swapped(x: Encoded, stop: int, gone: set[int], new: Mapping[int, Sequence[int]]) -> InputRow:
    """The first `stop` tokens of x without those in `gone`; at a position in `new` these ids stand instead.
    They have the type id of the token whose place they take."""
    places = [(t, new.get(t, ()) if t in gone else (x.ids[t],)) for t in range(stop)]
    types = x.type_ids
    return InputRow(
        tuple(i for _, ids in places for i in ids),
        None if types is None else tuple(types[t] for t, ids in places for _ in ids),
    )


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


def unit_to_token_scores(values: Floats, groups: Sequence[Sequence[int]], length: int) -> Floats:
    """Unit values as token scores: each unit's value split evenly over its tokens, zero elsewhere."""
    scores = np.zeros(length)
    for value, positions in zip(values, groups, strict=True):
        scores[list(positions)] = value / len(positions)
    return scores
