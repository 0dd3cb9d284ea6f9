"""Results are data: what draws and stores them is found by their kind, here and nowhere else.

    heedful.reports.KIND            document(result): what it shows, as data
    heedful.reports.html, terminal  draw any document
    heedful.io                      one rule for JSON, one way to write a file

A result class names its kind and inherits the methods users expect. It imports no view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from heedful.core.document import Document, Paragraph
from heedful.core.errors import HeedfulError

STATED = "These numbers are stated by the file. heedful did not compute them again."
LOADED = "_loaded_from"  # the attribute of a result that has its run folder
SURFACES = {
    "document",
    "to_dict",
    "to_json",
    "page",
    "to_csv",
    "to_frame",
    "__str__",
    "__repr__",
    "_repr_html_",
}
MISFITS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
)


class NotebookRepr:
    """For small frozen dataclasses without a page: a notebook cell made of their own fields."""

    def _repr_html_(self) -> str:
        return str(reports("notebook_fields").fragment(self))


class DrawingGuard:
    """A result from a run folder may hold values that have the right types and still do not fit together.
    Whatever drawing them leads to is told in one sentence: every class below has its surfaces wrapped."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in SURFACES.intersection(vars(cls)):
            setattr(cls, name, _guarded(vars(cls)[name]))


def _guarded(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A result that was made here is drawn as it is: its errors are those of the code."""

    @wraps(draw)
    def drawn(self: Any, *args: Any, **kwargs: Any) -> Any:
        folder = vars(self).get(LOADED)
        if folder is None:
            return draw(self, *args, **kwargs)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # numpy would warn of numbers near the largest
                return draw(self, *args, **kwargs)
        except HeedfulError:
            raise
        except MISFITS as error:
            why = "its values do not fit together"
            raise HeedfulError(f"{folder} is damaged", why, "Make the run again") from error

    return drawn


def _with_note(result: Any, document: Document) -> Document:
    """Whoever changes a number in a run folder can change its checksum, too: what was read from one says so.
    An audit is computed again from its shards, and says itself whether it was (`verified`)."""
    if vars(result).get(LOADED) is None or hasattr(result, "verified"):
        return document
    return replace(document, nodes=(*document.nodes, Paragraph(STATED, "soft")))


def stated(result: Any) -> dict[str, bool]:
    """The same note for the JSON of a result: {"verified": false} where its numbers are stated by a file."""
    loaded = vars(result).get(LOADED) is not None
    return {"verified": bool(getattr(result, "verified", False))} if loaded else {}


def mark_loaded(result: Any, folder: Path) -> None:
    """This result, and those that it holds, come from a run folder."""
    object.__setattr__(result, LOADED, folder)  # results are frozen
    for value in vars(result).values():
        parts = (
            value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
        )
        for part in parts:
            if isinstance(part, DrawingGuard) and LOADED not in vars(part):
                mark_loaded(part, folder)


class Shown(DrawingGuard):
    """What can be shown on every surface, from one document."""

    def document(self) -> Document:
        """What it shows, as data: the answer first."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError  # each result says what it holds

    def to_json(self) -> str:
        return str(import_module("heedful.io.json_codec").json_text(self.to_dict() | stated(self)))

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


class Result(Shown):
    """A result whose document is made by the module `heedful.reports.KIND`."""

    kind: ClassVar[str]

    def document(self) -> Document:
        """What it shows, as data: the answer first."""
        return _with_note(self, reports(self.kind.replace("-", "_")).document(self))


class Stored(DrawingGuard):
    """What a run folder can hold; `@result_kind` names its kind (heedful.core.result_kinds).

    By default the folder has the fields of the dataclass as JSON, and reading goes by their type hints. What
    a class needs beyond that it says by the hooks below; heedful.io.run_folder calls them.
    """

    def to_dict(self) -> dict[str, Any]:
        return dict(import_module("heedful.io.json_codec").to_jsonable(self))

    def save(self, folder: str | Path) -> Path:
        """Write a run folder, which `load` and `heedful report` open."""
        return Path(import_module("heedful.io.run_folder").write(folder, self))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open a run folder. Needs neither torch nor the model."""
        result = import_module("heedful.io.run_folder").read(folder, most=None, kind=cls)
        assert isinstance(result, cls)
        return result

    def checked(self) -> Self:
        """The same result, with numbers computed again where opening it did not, because they are many."""
        return self

    # --- hooks of heedful.io.run_folder --------------------------------------------------------------

    def run_title(self) -> str:
        """A title of one line, for lists of runs."""
        return ""

    def stored(self) -> dict[str, Any]:
        """The data that are written to result.json."""
        return dict(import_module("heedful.io.json_codec").to_jsonable(self))

    def blobs(self) -> dict[str, bytes]:
        """Further data files of the result: file name and content."""
        return {}

    def views(self) -> dict[str, bytes]:
        """Files for people to read: file name and content. heedful never reads them back."""
        return {}

    @classmethod
    def from_stored(cls, data: dict[str, Any], run: Any) -> Self:
        """Make the result from the data of `stored`. `run` is the open run folder
        (`heedful.io.run_folder.OpenRun`)."""
        result = import_module("heedful.io.json_codec").from_jsonable(cls, data)
        assert isinstance(result, cls)
        return result


class StoredResult(Stored, Result):
    """A result with a page of its own that a run folder can hold."""


class Summary(Stored, Shown):
    """A result that is shown by its own fields, as facts and tables."""

    def document(self) -> Document:
        return _with_note(self, reports("notebook_fields").document(self))


AnyStored = StoredResult | Summary


class CodedResult(StoredResult):
    """A result whose JSON is the work of a module of its own, which `codec` names."""

    codec: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        return dict(import_module(self.codec).to_dict(self))

    def run_title(self) -> str:
        return str(import_module(self.codec).run_title(self))

    def stored(self) -> dict[str, Any]:
        return self.to_dict()

    def blobs(self) -> dict[str, bytes]:
        return dict(import_module(self.codec).blobs(self))

    @classmethod
    def from_stored(cls, data: dict[str, Any], run: Any) -> Self:
        result = import_module(cls.codec).from_stored(cls, data)
        assert isinstance(result, cls)
        return result


def reports(name: str) -> ModuleType:
    """A module that draws, by name: results import none."""
    return import_module(f"heedful.reports.{name}")
