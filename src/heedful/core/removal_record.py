"""By which operators something was removed inside a block: what a method was fitted by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_recorded: ContextVar[tuple[set[str], ...]] = ContextVar("recorded operators", default=())


@contextmanager
def recording() -> Iterator[set[str]]:
    """The operators by which something is removed inside the block; blocks around this one get them, too."""
    own: set[str] = set()
    token = _recorded.set((*_recorded.get(), own))
    try:
        yield own
    finally:
        _recorded.reset(token)


def record(operator: str) -> None:
    """Tell every `recording` around that something was removed by this operator."""
    for each in _recorded.get():
        each.add(operator)


@contextmanager
def not_recording() -> Iterator[None]:
    """Nothing inside is told to any `recording`: what is removed there has another name outside."""
    token = _recorded.set(())
    try:
        yield
    finally:
        _recorded.reset(token)
