"""Pictures of a folder, or those that a table names by their paths.

    folder    every picture in it and in its sub-folders, by name; the first sub-folder may name the label
    table     paths, and those of masks, are relative to the folder of the table

Sub-folders are labels if at least one of them is called like a label of the model.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.io.datasets.rows import DataRow
from heedful.io.labels import label_index
from heedful.modalities.image_files import ADDRESS
from heedful.modalities.image_masks import read_boxes

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm")
KEYS = ("picture", "label", "mask", "boxes", "regions", "text")  # of a row in Python


@dataclass(frozen=True)
class FolderSource:
    """The pictures of a folder, in the order of their names."""

    path: Path
    known: Sequence[str] = ()  # labels of the model
    limit: int | None = None
    kind = "folder"
    modality = "image"
    again = True
    marked = masked = False

    @cached_property
    def files(self) -> list[Path]:
        found = []
        for place, folders, names in os.walk(self.path):  # links to folders are not followed
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inside = (name for name in names if not name.startswith("."))
            found += [Path(place, name) for name in inside if name.lower().endswith(SUFFIXES)]
        return sorted(found)

    @cached_property
    def labels(self) -> list[str]:
        """Names of sub-folders, where they are labels."""
        names = sorted({one for path in self.files if (one := self._sub_folder(path)) is not None})
        return names if any(_is_label(name, self.known) for name in names) else []

    def _sub_folder(self, path: Path) -> str | None:
        parts = path.relative_to(self.path).parts
        return parts[0] if len(parts) > 1 else None

    def rows(self) -> Iterator[DataRow]:
        for number, path in enumerate(islice(self.files, self.limit)):
            yield DataRow(number, str(path), self._sub_folder(path) if self.labels else None)

    def facts(self) -> dict[str, Any]:
        names = "\n".join(path.relative_to(self.path).as_posix() for path in self.files)
        known = hashlib.sha256(names.encode("utf-8", "surrogatepass")).hexdigest()
        labels = {"labels": "names of the sub-folders"} if self.labels else {}
        return {"kind": self.kind, "name": self.path.name, "names": known, "limit": self.limit} | labels

    def count(self) -> int:
        return len(self.files) if self.limit is None else min(self.limit, len(self.files))


def _is_label(name: str, known: Sequence[str]) -> bool:
    try:
        label_index(name, known)
    except HeedfulError:
        return False
    return True


def folder_source(path: Path, known: Sequence[str], limit: int | None) -> FolderSource:
    source = FolderSource(path, known, limit)
    if not source.files:
        raise HeedfulError(
            f"{path} has no pictures", f"heedful looked for {', '.join(SUFFIXES)}", "Name another folder"
        )
    return source


def located(row: DataRow, folder: Path, pair: bool = False) -> DataRow:
    """A row of a table: its paths from the folder of the table on, its boxes read; a pair with its text."""
    if row.broken:
        return row
    try:
        mask = _path(row.mask, folder) or read_boxes(row.boxes)  # a mask says more than a box
    except HeedfulError as error:
        return replace(row, boxes=None, broken=str(error))
    picture = _path(row.text, folder)
    raw = {"picture": picture, "text": row.caption} if pair else picture
    return replace(row, text=raw, mask=mask, boxes=None, caption=None)


def _path(given: Any, folder: Path) -> Any:
    """None where the field is empty."""
    if not isinstance(given, str) or ADDRESS.match(given):  # an address is refused when it is read
        return given
    return str(folder / given) if given.strip() else None


def picture_row(number: int, given: Any, label: Any = None) -> DataRow:
    """A row in Python: a picture, or a mapping with "picture", and "label", "mask" or "boxes" beside it."""
    if not isinstance(given, Mapping):
        return DataRow(number, given, label)
    if unknown := sorted(str(key) for key in given if key not in KEYS):
        return DataRow(number, broken=f"unknown keys: {', '.join(unknown)}; known: {', '.join(KEYS)}")
    raw = {key: given[key] for key in ("picture", "regions", "text") if key in given}
    try:
        mask = read_boxes(given.get("boxes")) if given.get("mask") is None else given["mask"]
    except HeedfulError as error:
        return DataRow(number, broken=str(error))
    own = given.get("label") if label is None else label
    return DataRow(number, raw if len(raw) > 1 else raw.get("picture"), own, mask=mask)
