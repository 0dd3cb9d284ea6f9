"""A sequence whose members are computed when they are asked for: an input may have a label for each of very
many units, of which hardly any is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

Member = TypeVar("Member")


class Computed(Sequence[Member]):
    """`function(i)` for i in 0 .. length - 1. It equals a tuple with these members."""

    def __init__(self, length: int, function: Callable[[int], Member]) -> None:
        self.length, self.function = length, function

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Member: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Member, ...]: ...
    def __getitem__(self, index: int | slice) -> Member | tuple[Member, ...]:
        if isinstance(index, slice):
            return tuple(map(self.function, range(self.length)[index]))
        return self.function(range(self.length)[index])

    def __iter__(self) -> Iterator[Member]:
        return map(self.function, range(self.length))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | Computed) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{self.length:,} computed members>"
