"""What running a model cost: inputs asked for, inputs really run, tokens and time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from heedful.core.result import NotebookRepr


@dataclass(frozen=True)
class Cost(NotebookRepr):
    """The cost of an explanation.

    Parameters
    ----------
    forwards
        Number of model inputs that were requested.
    backwards
        Number of model inputs with a backward pass.
    unique
        Number of model inputs that were really run. Duplicates and cached inputs are not run again.
    tokens
        Number of tokens that the model read.
    seconds
        Seconds that the model ran.

    Examples
    --------
    >>> import heedful
    >>> heedful.Cost(forwards=10, unique=8) + heedful.Cost(forwards=5, unique=5)
    Cost(forwards=15, backwards=0, unique=13, tokens=0, seconds=0.0)
    """

    forwards: int = 0
    backwards: int = 0
    unique: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def __sub__(self, other: Cost) -> Cost:
        return Cost(**{name: value - getattr(other, name) for name, value in asdict(self).items()})


@dataclass
class Meter:
    """Running totals behind `Model.spent`."""

    forwards: int = 0
    backwards: int = 0
    unique: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def read(self) -> Cost:
        return Cost(self.forwards, self.backwards, self.unique, self.tokens, self.seconds)

    @contextmanager
    def counted(
        self, *, forwards: int = 0, backwards: int = 0, unique: int = 0, tokens: int = 0
    ) -> Iterator[None]:
        """Count what is run inside, and its time, once it is done: what fails or is interrupted is not."""
        started = time.perf_counter()
        yield
        self.forwards += forwards
        self.backwards += backwards
        self.unique += unique
        self.tokens += tokens
        self.seconds += time.perf_counter() - started
