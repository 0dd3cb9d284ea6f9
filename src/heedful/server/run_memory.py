"""What was made of run folders, remembered until their manifest changes.

A run may be a stranger's and may take long to read. So one is read at a time, and what came of it is kept.
The number of things that are kept is limited, and so is their size. What was used last stays.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from heedful.server.run_list import RunPlace, Stamp

Made = TypeVar("Made")


class RunMemory(Generic[Made]):
    """Made from a run by `make`; at most `most` of them, of at most `most_bytes` together. The one that was
    made last is kept whatever its size: its report is asked for next."""

    def __init__(
        self,
        make: Callable[[RunPlace], Made],
        most: int,
        size: Callable[[Made], int] = lambda made: 0,
        most_bytes: int = 0,
    ) -> None:
        self._make, self._most, self._size, self._most_bytes = make, most, size, most_bytes
        self._kept = OrderedDict[Path, tuple[Stamp, Made]]()
        self._change, self._making = threading.Lock(), threading.Lock()

    def of(self, place: RunPlace) -> Made:
        """Known, or made now, one run after the other."""
        with self._making:
            for made in self.known(place):
                return made
            made = self._make(place)
            self._keep(place, made)
            return made

    def known(self, place: RunPlace) -> tuple[Made] | tuple[()]:
        """In a tuple, since None may have been made of it; waits for nothing that is being made."""
        with self._change:
            kept = self._kept.get(place.path)
            if kept is None or kept[0] != place.stamp:
                return ()
            self._kept.move_to_end(place.path)
            return (kept[1],)

    def _keep(self, place: RunPlace, made: Made) -> None:
        with self._change:
            self._kept.pop(place.path, None)
            self._kept[place.path] = place.stamp, made
            while len(self._kept) > 1 and (len(self._kept) > self._most or self._bytes() > self._most_bytes):
                self._kept.popitem(last=False)

    def _bytes(self) -> int:
        return sum(self._size(made) for _, made in self._kept.values())
