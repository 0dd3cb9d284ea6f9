"""Results are data: what draws and stores them is found by their kind, here and nowhere else.

    heedful.reports.KIND_page       page(result), the whole file; fragment(result), a notebook cell
    heedful.reports.KIND_terminal   as_text(result)
    heedful.io                      one rule for JSON, one way to write a file

A result class names its kind and inherits the methods users expect. It imports no view.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self


class NotebookRepr:
    """For small frozen dataclasses without a page: a notebook cell made of their own fields."""

    def _repr_html_(self) -> str:
        return str(reports("notebook_fields").fragment(self))


class Result:
    """What every result with a page can do."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError  # each result says what it holds

    def to_json(self) -> str:
        return str(import_module("heedful.io.json_codec").json_text(self.to_dict()))

    def page(self) -> str:
        """The text of a self-contained page."""
        return str(reports(f"{self.kind}_page").page(self))

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page."""
        import_module("heedful.io.files").write_file(Path(path), self.page())
        return Path(path)

    def _repr_html_(self) -> str:
        return str(reports(f"{self.kind}_page").fragment(self))


class TextResult(Result):
    """A result that prints as a table."""

    def __str__(self) -> str:
        return str(reports(f"{self.kind}_terminal").as_text(self))


class StoredResult(Result):
    """A result whose folder and JSON are the work of a module of its own, which `store` names."""

    store: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        return dict(import_module(self.store).to_dict(self))

    def save(self, folder: str | Path) -> Path:
        return Path(import_module(self.store).save(self, Path(folder)))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        result = getattr(import_module(cls.store), f"load_{cls.kind}")(Path(folder))
        assert isinstance(result, cls)
        return result


def reports(name: str) -> ModuleType:
    """A module that draws, by name: results import none."""
    return import_module(f"heedful.reports.{name}")
