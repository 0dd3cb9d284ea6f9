"""What the server remembers: what was explained, pictures that were sent, and how quick each model was."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from heedful.core.attribution import Attribution
from heedful.core.internals import Removal
from heedful.server.picture_store import PictureStore

MAX_REMEMBERED_TEXTS = 64  # texts and pictures whose explanations are kept
MIN_PACE_ROWS, MAX_PACES = 8, 9  # rows from which on a method tells the pace, and how many such are looked at


class ExplanationCache:
    """Explanations by what they depend on, the oldest forgotten; how quick each model was, by token; and how
    many model inputs each method ran."""

    def __init__(self, most: int = MAX_REMEMBERED_TEXTS) -> None:
        self.most, self._explanations = most, OrderedDict[Any, dict[str, Attribution]]()
        self._paces: dict[str, deque[float]] = {}
        self._rows: dict[tuple[str, str], deque[int]] = {}
        self._removals = OrderedDict[Any, Removal]()
        self.advice: dict[str, dict[str, Any]] = {}  # model -> what an audit recommends, as settings
        self.pictures = PictureStore()
        self._lock = threading.Lock()

    def pace(self, model: str) -> float | None:
        """Seconds a token takes among many rows: the median of what was seen."""
        with self._lock:
            observed = self._paces.get(model)
            return median(observed) if observed else None

    def rows(self, model: str, method: str) -> float | None:
        """Model inputs that a method ran: the median of what was seen."""
        with self._lock:
            observed = self._rows.get((model, method))
            return median(observed) if observed else None

    def of(self, key: Any) -> dict[str, Attribution]:
        with self._lock:
            result = self._explanations.pop(key, {})
            self._explanations[key] = result
            return dict(result)

    def removal(self, key: Any, operator: str, work: Callable[[str], Removal]) -> Removal:
        """What removing each word alone by an operator does; measured once."""
        with self._lock:
            known = self._removals.get(key)
        if known is None or known.operator != operator:
            known = work(operator)
            with self._lock:
                self._removals[key] = known
                while len(self._removals) > self.most:
                    self._removals.popitem(last=False)
        return known

    def add(self, key: Any, items: Sequence[Attribution]) -> None:
        costs = [item.cost for item in items if item.cost.unique >= MIN_PACE_ROWS and not item.cost.backwards]
        with self._lock:
            observed = self._paces.setdefault(key[0], deque(maxlen=MAX_PACES))
            observed.extend(cost.seconds / cost.tokens for cost in costs if cost.tokens)
            for item in items:
                own = self._rows.setdefault((key[0], item.method), deque(maxlen=MAX_PACES))
                own.append(item.cost.unique)
            result = self._explanations.pop(key, {})
            self._explanations[key] = result | {item.method: item for item in items}
            while len(self._explanations) > self.most:
                self._explanations.popitem(last=False)
