"""Results are data: what draws and stores them is found by their kind, here and nowhere else.

    heedful.reports.KIND            document(result): what it shows, as data
    heedful.reports.html, terminal  draw any document
    heedful.io                      one rule for JSON, one way to write a file

A result class names its kind and inherits the methods users expect. It imports no view.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from heedful.core.document import Document


class NotebookRepr:
    """For small frozen dataclasses without a page: a notebook cell made of their own fields."""

    def _repr_html_(self) -> str:
        return str(reports("notebook_fields").fragment(self))


class Result:
    """What every result can do. Its document is made by `heedful.reports.KIND`."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError  # each result says what it holds

    def to_json(self) -> str:
        return str(import_module("heedful.io.json_codec").json_text(self.to_dict()))

    def document(self) -> Document:
        """What it shows, as data: the answer first."""
        made: Document = reports(self.kind.replace("-", "_")).document(self)
        return made

    def page(self) -> str:
        """The text of a self-contained HTML report."""
        return str(reports("html").page(self.document()))

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained HTML report."""
        import_module("heedful.io.files").write_file(Path(path), self.page())
        return Path(path)

    def __str__(self) -> str:
        return str(reports("terminal").as_text(self.document()))

    def _repr_html_(self) -> str:
        return str(reports("html").fragment(self.document()))


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
