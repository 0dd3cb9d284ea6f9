"""How a unit of a text is removed: the rows of token ids that a model reads instead.

    @operator("delete", "taken out, what follows moves up")
    def delete(removal: RowRequest) -> InputRow: ...

One function per operator, registered by its name. Deleting a word and masking it are different questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.core.input import Input, Units
from heedful.core.removal_record import record
from heedful.modalities.text import TextInput

Swaps = Mapping[int, Sequence[int]]  # by a unit's first token, the ids that stand for the unit


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


@dataclass(frozen=True)
class RowRequest:
    """What an operator is given: the first `stop` tokens of x, of which those in `gone` go."""

    x: TextInput
    stop: int
    gone: set[int]
    filler: int | None = None  # the token of "mask" and "unk"
    swaps: Swaps | None = None  # the words of "swap"

    @property
    def types(self) -> tuple[int, ...] | None:
        return None if self.x.type_ids is None else self.x.type_ids[: self.stop]

    @property
    def places(self) -> tuple[int, ...]:
        """Positions that go, in order."""
        return tuple(sorted(t for t in self.gone if t < self.stop))


@dataclass(frozen=True)
class Operator:
    """A way to remove units."""

    name: str
    summary: str
    remove: Callable[[RowRequest], InputRow]
    filler: str = ""  # the special token it puts in place; the model must have it


Remove = Callable[[RowRequest], InputRow]
OPERATORS: dict[str, Operator] = {}  # in the order of preference: a model's first is its default


def operator(name: str, summary: str, *, filler: str = "") -> Callable[[Remove], Remove]:
    """Register a way to remove units of a text."""

    def register(function: Remove) -> Remove:
        OPERATORS[name] = Operator(name, summary, function, filler)
        return function

    return register


@operator("mask", "replaced by the mask token", filler="mask")
def mask(removal: RowRequest) -> InputRow:
    return _filled(removal, "mask")


@operator("delete", "taken out, what follows moves up")
def delete(removal: RowRequest) -> InputRow:
    x, types = removal.x, removal.types
    kept = [t for t in range(removal.stop) if t not in removal.gone]
    return InputRow(tuple(x.ids[t] for t in kept), None if types is None else tuple(types[t] for t in kept))


@operator("swap", "replaced by a word drawn from other texts")
def swap(removal: RowRequest) -> InputRow:
    """New ids have the type id of the token whose place they take."""
    x, new, types = removal.x, removal.swaps or {}, removal.types
    places = [(t, new.get(t, ()) if t in removal.gone else (x.ids[t],)) for t in range(removal.stop)]
    return InputRow(
        tuple(i for _, ids in places for i in ids),
        None if types is None else tuple(types[t] for t, ids in places for _ in ids),
    )


@operator("unk", "replaced by the unknown-word token", filler="unk")
def unk(removal: RowRequest) -> InputRow:
    return _filled(removal, "unk")


@operator("pad", "left in place but hidden from attention")
def pad(removal: RowRequest) -> InputRow:
    """Hidden at the very end is not there: a decoder must not read its answer from it."""
    x, types = removal.x, removal.types
    stop = max((t + 1 for t in range(removal.stop) if t not in removal.gone), default=0)
    hidden = tuple(t for t in removal.places if t < stop)
    return InputRow(x.ids[:stop], None if types is None else types[:stop], hidden=hidden)


@operator("mean", "replaced by the mean of all token embeddings")
def mean(removal: RowRequest) -> InputRow:
    return InputRow(removal.x.ids[: removal.stop], removal.types, blank=removal.places)


def _filled(removal: RowRequest, operator: str) -> InputRow:
    if removal.filler is None:
        raise HeedfulError(f"the tokenizer has no token for the operator {operator!r}")
    ids = (removal.filler if t in removal.gone else removal.x.ids[t] for t in range(removal.stop))
    return InputRow(tuple(ids), removal.types)


def whole(x: TextInput, stop: int | None = None) -> InputRow:
    """The first `stop` tokens, or all, as they are."""
    return delete(RowRequest(x, len(x) if stop is None else stop, set()))


def checked(
    x: Input,
    keep: npt.ArrayLike,
    operator: str | None,
    unit: str,
    offered: Sequence[str],
    written: Input | None = None,
) -> tuple[npt.NDArray[np.bool_], str, Units]:
    """(masks (n, d), operator, units), or an error that says which is wrong.
    Masks may reach over the units of the text alone, or also over those of what was `written`."""
    units = x.units(unit)
    masks = np.asarray(keep, dtype=bool)
    if written is not None and masks.ndim == 2 and masks.shape[1] > len(units):
        units = units.followed_by(written.units(unit))
    if masks.ndim != 2 or masks.shape[1] != len(units):
        raise HeedfulError(f"keep has shape {masks.shape}, but the text has {len(units)} {units.name}s")
    operator = checked_operator(operator, offered)
    if not masks.all():  # the text as it is shows no operator
        record(operator)
    return masks, operator, units


def checked_operator(operator: str | None, offered: Sequence[str], parts: str = "words") -> str:
    """The operator, or the model's first when none was named."""
    operator = operator or offered[0]
    if operator not in offered:
        known = "this model does not offer it" if operator in OPERATORS else "there is no such operator"
        raise HeedfulError(
            f"{parts} cannot be removed by {operator!r}", known, f"Use one of: {', '.join(offered)}"
        )
    return operator
