"""What a method is asked, and how it asks the model.

    q.values(keep)     target values of the input with units removed, (n, units) -> (n,)
    q.trace()          one forward and backward, shared by all methods that read it
    q.gradients(...)   values and gradients at points in embedding space
    q.answer(scores)   the `Attribution`: scores of units or of atoms, what was written split off

Units are those of the input and, behind them, those of what a language model had already written. Caches, the
budget and progress are the session's business; a method sees what is `left`. By which operators it was fitted
is recorded here, whatever the method does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution, Written
from heedful.core.input import NEVER, Atoms, Input, Units
from heedful.core.model import Masks, Model
from heedful.core.registry import Explainer
from heedful.core.removal_record import recording
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.engine.session import Session, session_of
from heedful.modalities.operators import checked_operator

if TYPE_CHECKING:
    from torch import Tensor


POSITION = "position"  # scores of the places that attention runs over


@dataclass(frozen=True)
class Question:
    """Why did this model give this number for this input?"""

    session: Session
    x: Input
    target: Target
    unit: str = ""  # "": the default unit of the input
    operator: str = ""  # how a unit is removed; "" where nothing can be
    seed: int = 0

    @property
    def model(self) -> Model:
        return self.session.model

    @cached_property
    def written(self) -> Input | None:
        """What a language model had written before the token that is explained; None: nothing."""
        return self.model.written(self.target)

    @cached_property
    def units(self) -> Units:
        """Of the input, then of what was written."""
        written = None if self.written is None else self.written.units(self.unit)
        return self.x.units(self.unit).followed_by(written)

    @property
    def left(self) -> int | None:
        """Model inputs it may still run; None: as many as it takes."""
        return self.session.left

    @property
    def planned(self) -> int:
        """Model inputs it set out to run before it was interrupted: what it draws depends on it."""
        return self.session.planned

    def values(self, keep: Masks, target: Target | None = None) -> Floats:
        """(n, units) -> (n,): the target's value, or another target's, with units removed."""
        return self.session.values(self.x, target or self.target, keep, self.operator, self.unit)

    def trace(self) -> Trace:
        return self.session.trace(self.x, self.target)

    def gradients(self, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """(n, atoms, d) -> values (n,) and gradients (n, atoms, d)."""
        return self.session.gradients(self.x, self.target, embeds)

    def by_atom(self, reduce: Callable[..., Tensor], *embeds: Tensor) -> Tensor:
        """`reduce` makes (..., atoms) of points or gradients (..., atoms, d); here of points whose atoms may
        differ in width, part by part."""
        import torch

        parts = zip(*(self.model.embed_parts(self.x, each) for each in embeds), strict=True)
        return torch.cat([reduce(*part) for part in parts], -1)

    @contextmanager
    def spend(self, rows: int) -> Iterator[None]:
        """Around passes of the model that go another way: refused where fewer are left."""
        with self.session.spending(rows):
            yield

    def embeds(self) -> Tensor:
        """(atoms, d) embeddings of the input and of what was written after it."""
        return self._joined(self.model.lookup(self.x, self.target), ())

    def embeds_without(self, by: str) -> Tensor:
        """The same with everything that can be removed replaced by the token, or the mean embedding, `by`."""
        removable = np.flatnonzero(self.x.units(self.x.atom).owner != NEVER).tolist()
        return self._joined(self.model.lookup(self.x, self.target, removable, by), (by,))

    def _joined(self, embeds: Tensor, by: tuple[str, ...]) -> Tensor:
        if self.written is None:
            return embeds
        import torch

        owner = self.written.units(self.written.atom).owner
        replaced: Atoms = np.flatnonzero(owner != NEVER).tolist() if by else []
        return torch.cat([embeds, self.model.lookup_written(self.target, replaced, *by)])

    def answer(
        self,
        scores: Floats,
        stderr: Floats | None = None,
        *,
        over: str = "",
        same_scale: bool = True,
        **facts: Any,
    ) -> Attribution:
        """Scores of units, spread over their atoms; or, with `over` the atom's name ("token"), of the atoms
        themselves. Those of what was written may stand behind; `same_scale` says whether they compare.
        `facts` are further fields of the attribution: output, base, params, notes."""
        if not self.x.scored_by_atom and over != self.x.atom:
            units = self.x.positions if over == POSITION else self.x.units(self.unit)
            sums = units.sums if over == POSITION else np.asarray
            errors = None if stderr is None else sums(stderr)
            return Attribution(self.x, self.target, sums(scores), stderr=errors, over=units.name, **facts)
        if over not in (self.x.atom, POSITION):
            units = self.units if len(scores) == len(self.units) else self.x.units(self.unit)
            scores, stderr = units.spread(scores), None if stderr is None else units.spread(stderr)
        length, written = len(self.x), None
        if self.written is not None and len(scores) > length:
            behind = None if stderr is None else stderr[length:]
            written = Written(self.written, scores[length:], behind, same_scale=same_scale)
        own = None if stderr is None else stderr[:length]
        return Attribution(self.x, self.target, scores[:length], stderr=own, written=written, **facts)


def run_explainer(
    method: str | Explainer, model: Model | Session, x: Input, target: Target, **params: Any
) -> Attribution:
    """Run one method on one input. The result also has its name, parameters, sign and removal operators."""
    entry = registry.get(method) if isinstance(method, str) else method
    settings = entry.settled(params)
    session = session_of(model)
    question = _question(entry, session, x, target, settings)
    own = {name: value for name, value in settings.items() if name not in registry.COMMON}
    with recording() as operators:
        item = entry.run(question, **own)
    if "unit" in entry.takes:
        settings["unit"] = question.unit
    if "operator" in entry.takes:
        settings["operator"] = question.operator
    return replace(
        item,
        method=entry.name,
        params=settings | dict(item.params),
        signed=entry.signed and item.signed,
        fitted_by=tuple(sorted(operators)),
    )


def _question(
    entry: Explainer, session: Session, x: Input, target: Target, settings: Mapping[str, Any]
) -> Question:
    offered, operator = session.model.operators, settings.get("operator")
    if "operator" in entry.takes:
        preferred = entry.default_operator if entry.default_operator in offered else None
        operator = checked_operator(operator or preferred, session.model.named_operators)
    unit, seed = settings.get("unit") or x.default_unit, settings.get("seed", 0)
    return Question(session=session, x=x, target=target, unit=unit, operator=operator or "", seed=seed)
