"""A model at work: what was run is remembered, a budget caps it, and progress is told.

`heedful.explain` takes a session in place of a model: rows that were run before are not run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from heedful.core.arrays import Floats
from heedful.core.cost import Cost
from heedful.core.input import Input
from heedful.core.model import Masks, Model
from heedful.core.progress import Report, Step
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.models.passes import RowCache, check_budget

if TYPE_CHECKING:
    from torch import Tensor


class Session:
    """A model with a cache: each trace and each model input is computed only once."""

    def __init__(self, model: Model, budget: int | None = None, progress: Report | None = None) -> None:
        self.model, self.progress = model, progress
        self.step = Step("", 1, 1)
        self.done, self.began = 0, Cost()  # rows of finished calls since the step began, and cost until then
        self.planned = 0  # rows an interrupted method had set out to run: what it drew depends on it
        self._until = None if budget is None else model.spent.unique + budget
        self._traces: dict[tuple[Input, Target], Trace] = {}
        self._rows: dict[tuple[Input, Target], RowCache] = {}
        self._remembered = Cost()  # asked for and found in memory

    @property
    def spent(self) -> Cost:
        """A remembered pass counts as asked for (forwards, backwards), not as run (unique)."""
        return self.model.spent + self._remembered

    @property
    def left(self) -> int | None:
        """Number of model inputs that may still run. `None` if there is no limit."""
        return None if self._until is None else self._until - self.model.spent.unique

    @contextmanager
    def at_most(self, rows: int | None) -> Iterator[None]:
        """For a while, a smaller budget."""
        before = self._until
        if rows is not None:
            until = self.model.spent.unique + rows
            self._until = until if before is None else min(before, until)
        try:
            yield
        finally:
            self._until = before

    def begin(self, step: Step) -> None:
        self.step, self.done, self.began = step, 0, self.spent
        self._report(0, 0)

    def _report(self, done: int, total: int) -> None:
        if self.progress is not None:
            done += self.done
            self.progress(replace(self.step, done=done, total=max(self.step.total, total + self.done)))

    def trace(self, x: Input, target: Target) -> Trace:
        if (x, target) in self._traces:
            self._remembered += Cost(forwards=1, backwards=1)
        else:
            check_budget(self.left, 1)
            self._traces[x, target] = self.model.trace(x, target)
        return self._traces[x, target]

    def gradients(self, x: Input, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        with self.spending(len(embeds)):
            return self.model.gradients(x, target, embeds)

    def values(
        self, x: Input, target: Target, keep: Masks, operator: str | None = None, unit: str = ""
    ) -> Floats:
        cache = self._rows.setdefault((x, target), RowCache())
        cache.allowed = self.left
        values = self.model.values(x, target, keep, operator, unit, self._report, cache)
        self.done += len(keep)
        self._report(0, 0)
        return values

    @contextmanager
    def spending(self, rows: int) -> Iterator[None]:
        """Around passes that are run inside by another way, which counts them: the budget is asked first."""
        check_budget(self.left, rows)
        yield
        self.done += rows
        self._report(0, 0)

    def known_values(
        self, x: Input, target: Target, keep: Masks, operator: str, unit: str = ""
    ) -> list[float]:
        """Values of rows that were run before, nan for the others; nothing is run or counted."""
        cache = self._rows.get((x, target), RowCache())
        return [cache.get(row, float("nan")) for row in self.model.rows(x, target, keep, operator, unit)]

    def known_trace(self, x: Input, target: Target) -> Trace | None:
        """A pass that was made before, or None."""
        return self._traces.get((x, target))


def session_of(model: Model | Session) -> Session:
    """A session as it is, or a new one of a model."""
    return model if isinstance(model, Session) else Session(model)
