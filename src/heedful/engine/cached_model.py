"""A model that remembers: each trace and each row is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from heedful.core.arrays import Floats
from heedful.core.attribution import Cost
from heedful.core.input import Encoded
from heedful.core.model import Masks, Model
from heedful.core.progress import Report, Step
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.models.passes import BudgetSpentError, RowCache, check_budget

if TYPE_CHECKING:
    from torch import Tensor


class CachedModel:
    """A model that remembers: each trace and each row is computed once, whoever asks.

    `heedful.explain` takes one in place of a model, and what was run before need not be run again.
    """

    def __init__(self, model: Model, budget: int | None = None, progress: Report | None = None) -> None:
        self.model, self.progress = model, progress
        self.step = Step("", 1, 1)
        self.asked, self.began = 0, Cost()  # rows of finished calls since the step began, and cost until then
        self.intended = 0  # rows an interrupted method had set out to run: what it drew depends on it
        self._until = None if budget is None else model.spent.unique + budget
        self._traces: dict[tuple[Encoded, Target], Trace] = {}
        self._rows: dict[tuple[Encoded, Target], RowCache] = {}
        self._remembered = Cost()  # asked for and found in memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    @property
    def spent(self) -> Cost:
        """A remembered pass counts as asked for (forwards, backwards), not as run (unique)."""
        return self.model.spent + self._remembered

    @property
    def budget(self) -> int | None:
        """Model inputs that may still be run; None: as many as it takes."""
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
        self.step, self.asked, self.began = step, 0, self.spent
        self._tell(0, 0)

    def _tell(self, done: int, total: int) -> None:
        if self.progress is not None:
            done += self.asked
            self.progress(replace(self.step, done=done, total=max(self.step.total, total + self.asked)))

    def trace(self, x: Encoded, target: Target) -> Trace:
        if (x, target) in self._traces:
            self._remembered += Cost(forwards=1, backwards=1)
        else:
            check_budget(self.budget, 1)
            self._traces[x, target] = self.model.trace(x, target)
        return self._traces[x, target]

    def gradients(self, x: Encoded, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        check_budget(self.budget, len(embeds))
        found = self.model.gradients(x, target, embeds)
        self.asked += len(embeds)
        self._tell(0, 0)
        return found

    def rows(
        self, x: Encoded, target: Target, keep: Masks, operator: str | None = None, unit: str = "word"
    ) -> Floats:
        memory = self._rows.setdefault((x, target), RowCache())
        memory.allowed = self.budget
        values = self.model.rows(x, target, keep, operator, unit, self._tell, memory)
        self.asked += len(keep)
        self._tell(0, 0)
        return values

    def remembered(
        self, x: Encoded, target: Target, keep: Masks, operator: str, unit: str = "word"
    ) -> list[float]:
        """Values of rows that were run before, nan for the others; nothing is run, told or counted."""
        told, asked, spent = self.progress, self.asked, self.spent
        self.progress, values = None, []
        try:
            with self.at_most(0):
                for row in keep:
                    try:
                        values.append(float(self.rows(x, target, row[None], operator, unit)[0]))
                    except BudgetSpentError:
                        values.append(float("nan"))
        finally:
            self.progress, self.asked = told, asked
            self._remembered -= self.spent - spent
        return values

    def trace_of(self, x: Encoded, target: Target) -> Trace | None:
        """A pass that was made before, or None."""
        return self._traces.get((x, target))
