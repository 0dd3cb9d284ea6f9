"""What registers itself: ours as the source declares it, read without importing it so that lists come up at
once; that of third parties by importing what they name under the entry-point group "heedful.plugins".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError

PLUGINS = "heedful.plugins"


@cache
def import_plugins() -> None:
    """Import what third parties name, once."""
    for point in entry_points(group=PLUGINS):
        try:
            point.load()
        except Exception as error:  # whatever another's file does when it is imported
            package = point.dist.name if point.dist is not None else point.name
            why = f"{point.value}: {type(error).__name__}: {error}"
            raise HeedfulError(
                f"the plugin {point.name!r} cannot be imported", why, f"Mend it, or: pip uninstall {package}"
            ) from error


@dataclass(frozen=True)
class Declaration:
    """One decorated function or class."""

    name: str  # the decorator's first argument
    module: str
    facts: dict[str, Any]  # its keyword arguments that are literals


def declarations(package: str, decorator: str, below: bool = False) -> Iterator[Declaration]:
    """Every `@decorator("name", keyword=literal, ...)` at the top level of the package's files; `below`: of
    the packages in it, too."""
    home = Path(str(files(package)))
    for path in sorted(home.rglob("*.py") if below else home.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if f"@{decorator}(" not in text:  # parsing is slow, and most files declare nothing
            continue
        module = ".".join((package, *path.relative_to(home).with_suffix("").parts))
        for node in ast.parse(text).body:
            for mark in getattr(node, "decorator_list", ()):
                if (
                    isinstance(mark, ast.Call)
                    and isinstance(mark.func, ast.Name)
                    and mark.func.id == decorator
                ):
                    facts = {
                        str(word.arg): ast.literal_eval(word.value)
                        for word in mark.keywords
                        if _literal(word)
                    }
                    yield Declaration(ast.literal_eval(mark.args[0]), module, facts)


@cache
def declared_facts(package: str, decorator: str) -> dict[str, dict[str, Any]]:
    """Name -> the literal keyword arguments of its decorator, without importing anything."""
    return {each.name: each.facts for each in declarations(package, decorator)}


def _literal(word: ast.keyword) -> bool:
    plain = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.Load, ast.USub)
    return word.arg is not None and all(isinstance(node, plain) for node in ast.walk(word.value))
