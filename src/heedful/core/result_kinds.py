"""Kinds of results that a run folder can hold. A result class declares its own kind; nothing else lists them.

    @result_kind("trial", version=1)
    @dataclass(frozen=True)
    class Trial(StoredResult): ...

A kind of heedful is found by reading the source, so that opening one kind imports no other. A third party
registers its kinds in a module named under the entry-point group "heedful.plugins".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from heedful.core.declarations import declarations, import_plugins

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class ResultKind:
    """One registered kind."""

    name: str
    version: int  # of its result.json: raised when older readers would misread it
    cls: type[Any]


_kinds: dict[str, ResultKind] = {}


def result_kind(name: str, *, version: int) -> Callable[[Class], Class]:
    """Register a result class under the name that stands in the manifest."""

    def register(cls: Class) -> Class:
        if name in _kinds and _kinds[name].cls.__module__ != cls.__module__:
            raise ValueError(f"two kinds of results are called {name!r}")
        _kinds[name] = ResultKind(name, version, cls)
        return cls

    return register


@cache
def _modules() -> dict[str, str]:
    """Kind -> the module of heedful that declares it."""
    return {each.name: each.module for each in declarations("heedful", "result_kind", below=True)}


def result_kinds() -> list[str]:
    """Every kind there is, by name."""
    import_plugins()
    return sorted({*_modules(), *_kinds})


def find_kind(name: str) -> ResultKind | None:
    """A kind by name; None where nobody declares it."""
    if name not in _kinds and name in _modules():
        import_module(_modules()[name])
    if name not in _kinds:
        import_plugins()
    return _kinds.get(name)


def kind_of(result: object) -> ResultKind:
    """The kind of a result."""
    for kind in _kinds.values():
        if type(result) is kind.cls:
            return kind
    raise TypeError(f"{type(result).__name__} is not a result that a run folder can hold")
