"""Where rows come from: a file that can be read again, or an iterable; in their order, or in a random one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.io.datasets import csv_file, jsonl_file, parquet_file, text_file
from heedful.io.datasets.pictures import FolderSource, folder_source, located, picture_row
from heedful.io.datasets.rows import PATH, Columns, DataRow, missing_column
from heedful.io.files import RESUME_HINT
from heedful.modalities.image_files import opened_file
from heedful.modalities.image_masks import TruthBoxes
from heedful.modalities.joint import JointInput
from heedful.modalities.kinds import KINDS as INPUT_KINDS

KINDS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
PLAIN = {".txt": "txt", ".md": "txt"}
READERS = {
    "csv": csv_file.read,
    "jsonl": jsonl_file.read,
    "parquet": parquet_file.read,
    "txt": text_file.read,
}
NAMES = {"csv": csv_file.names, "jsonl": jsonl_file.names, "parquet": parquet_file.names}
USUAL = {  # names by which columns of a table of pictures are found
    "path": (PATH, "picture", "file", "filename", "image"),
    "label": ("label",),
    "mask": ("mask",),
    "boxes": ("boxes", "box"),
    "caption": ("caption", "text"),
}
# files up to so many bytes are known by their SHA-256, larger ones by size and time
MAX_HASHED_BYTES = 1 << 30
SHUFFLE_ROWS = 20_000  # rows that are held to be taken in random order
MAX_SHUFFLED = 10_000_000  # rows of a file that is read in random order: each of them is looked at
MAX_SHOWN_PATH = 200  # characters
_END = object()


@dataclass(frozen=True)
class FileSource:
    """A file that can be read again and again, and on another machine that has it, too."""

    path: Path
    columns: Columns
    limit: int | None = None
    modality: str = "text"

    @property
    def kind(self) -> str:
        return (KINDS | PLAIN)[self.path.suffix.lower()]

    again = True  # it can be read twice

    @property
    def marked(self) -> bool:
        """Whether what people marked comes along."""
        return self.columns.rationale is not None or self.masked

    @property
    def masked(self) -> bool:
        """Whether it says where the thing is that must be found."""
        return (self.columns.mask or self.columns.boxes) is not None

    def rows(self) -> Iterator[DataRow]:
        try:
            rows = islice(READERS[self.kind](self.path, self.columns), self.limit)
            yield from (self._located(row) for row in rows) if self.columns.path else rows
        except OSError as error:
            raise HeedfulError(
                f"cannot read {self.path}", error.strerror or str(error), RESUME_HINT
            ) from None

    def _located(self, row: DataRow) -> DataRow:
        return located(row, self.path.parent, pair=self.columns.caption is not None)

    def facts(self) -> dict[str, Any]:
        stat = self.path.stat()
        known: dict[str, Any] = {"kind": self.kind, "name": self.path.name, "bytes": stat.st_size}
        known |= {"columns": self.columns.roles, "limit": self.limit}
        if stat.st_size > MAX_HASHED_BYTES:
            return known | {"modified": stat.st_mtime_ns}
        with self.path.open("rb") as file:
            return known | {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}

    def count(self) -> int | None:
        """By reading it once: nothing beside the work on one text. A Parquet file says it."""
        if self.limit is None and self.kind == "parquet":
            return parquet_file.row_count(self.path)
        return sum(1 for _ in self.rows())


@dataclass(frozen=True)
class IterableSource:
    """Texts in memory or from a generator; labels and rationales beside them."""

    texts: Iterable[Any]
    labels: Iterable[Any] | None = None
    rationales: Iterable[Any] | None = None
    limit: int | None = None
    modality: str = "text"
    kind = "python"

    @property
    def again(self) -> bool:
        every = (self.texts, self.labels, self.rationales)
        return all(given is None or isinstance(given, Sequence) for given in every)

    @property
    def marked(self) -> bool:
        return self.rationales is not None or self.masked

    @property
    def masked(self) -> bool:
        """Of a generator it is not known, so it may."""
        if self.modality == "text":
            return False
        keys = ("mask", "boxes")
        every = self.texts if isinstance(self.texts, Sequence) else [dict.fromkeys(keys, 1)]
        return any(
            isinstance(row, Mapping) and any(row.get(key) is not None for key in keys) for row in every
        )

    def rows(self) -> Iterator[DataRow]:
        beside = [given for given in (self.labels, self.rationales) if given is not None]
        for number, (text, *more) in enumerate(
            islice(zip_longest(self.texts, *beside, fillvalue=_END), self.limit)
        ):
            if any(one is _END for one in (text, *more)):
                raise HeedfulError(
                    f"texts, labels and rationales differ in length at row {number}",
                    fix="Give one of each per text",
                )
            label = more[0] if self.labels is not None else None
            if self.modality != "text":
                yield picture_row(number, text, label)
                continue
            yield DataRow(number, text, label, more[-1] if self.rationales is not None else None)

    def facts(self) -> dict[str, Any]:
        """Shards know their rows by their own sums, so little is needed here."""
        given = [name for name in ("labels", "rationales") if getattr(self, name) is not None]
        return {"kind": self.kind, "rows": self.count(), "beside": given, "limit": self.limit}

    def count(self) -> int | None:
        """None where only reading would tell."""
        if not isinstance(self.texts, Sequence):
            return None
        return len(self.texts) if self.limit is None else min(self.limit, len(self.texts))


def in_random_order(source: Source, seed: int, window: int = SHUFFLE_ROWS) -> Iterator[DataRow]:
    """Rows in a random order of their own: files are often sorted, by label say.

    `limit` rows of all are taken. At most `window` rows are in memory: the source is read once for each.
    Where it can be read only once, rows come as they are. A text that came before is marked as a copy.
    """
    rows = _shuffled(source, seed, window) if source.again else source.rows()
    return _without_copies(rows, source.modality)


def _shuffled(source: Source, seed: int, window: int) -> Iterator[DataRow]:
    every = replace(source, limit=None)
    count = every.count() or 0
    if count > MAX_SHUFFLED:
        raise HeedfulError(
            f"{count:,} rows are too many to draw from",
            f"at most {MAX_SHUFFLED:,} are possible",
            "Split the file",
        )
    order = np.random.default_rng([seed, 2]).permutation(count)[: source.limit]
    for first in range(0, len(order), window):
        here = order[first : first + window].tolist()
        wanted = dict.fromkeys(here)
        rows = {row.number: row for row in every.rows() if row.number in wanted}
        yield from (rows[number] for number in here)


def _without_copies(rows: Iterable[DataRow], modality: str) -> Iterator[DataRow]:
    numbers: dict[bytes, int] = {}
    for row in rows:
        content = b"" if row.broken else INPUT_KINDS[modality].digest(row.text)
        if not content:
            yield row
            continue
        if modality != "text":  # a path is not what it names
            row = replace(row, digest=content.hex() + _mask_digest(row.mask))
        first = numbers.setdefault(content, row.number)
        yield row if first == row.number else replace(row, copy_of=first)


def _mask_digest(mask: Any) -> str:
    """A mask that cannot be read is known by its name: its row says what is wrong."""
    if mask is None or isinstance(mask, TruthBoxes):
        return f" {mask.boxes}" if mask is not None else ""
    if not isinstance(mask, str | Path):
        return " " + _short_hash(np.asarray(mask).tobytes()).hexdigest()
    try:
        with opened_file(mask) as file:
            return " " + hashlib.file_digest(file, _short_hash).hexdigest()
    except HeedfulError:
        return " " + _short_hash(str(mask).encode("utf-8", "surrogatepass")).hexdigest()


def _short_hash(content: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(content, digest_size=16)


Source = (
    FileSource | IterableSource | FolderSource
)  # rows in order, and facts by which the same source is known again


def open_source(
    texts: Any,
    labels: Any = None,
    rationales: Any = None,
    columns: Columns | None = None,
    limit: int | None = None,
    *,
    plain: bool = False,
    modality: str | None = "text",
    known: Sequence[str] = (),
) -> Source:
    """A path names a file, or a folder of pictures; anything else is an iterable of inputs.

    plain      a .txt file is one, too
    modality   what the model reads; None: not known yet, so the columns of a file tell
    known      labels of the model, by which sub-folders are recognised as labels
    """
    if limit is not None and limit < 1:
        raise HeedfulError(f"limit cannot be {limit}", "it is the number of rows to read, 1 or more")
    if isinstance(texts, str | Path):
        if labels is not None or rationales is not None:
            raise HeedfulError(
                "labels and rationales of a file are columns", fix="Name them: columns=Columns(...)"
            )
        path, pictures = Path(texts), modality != "text"
        if modality == JointInput.modality and path.is_dir():
            raise HeedfulError(
                f"{path} is a folder of pictures",
                "this model compares each picture with a text",
                "Give a table with the columns path and caption, or captions to choose from (--labels A,B)",
            )
        if pictures and path.is_dir():
            return folder_source(path, known, limit)
        there = named_columns(path, columns, modality) if pictures else columns or Columns()
        kind = "text" if there.path is None else modality or "image"
        return _file(path, there, limit, KINDS | PLAIN if plain else KINDS, kind)
    if not isinstance(texts, Iterable):
        raise HeedfulError(
            f"texts cannot be a {type(texts).__name__}", fix="Give a list, an iterator or a file"
        )
    return IterableSource(_listed(texts), _listed(labels), _listed(rationales), limit, modality or "text")


def _listed(given: Any) -> Any:
    """An array or a column of a table as a list: it can be read again. A generator stays what it is."""
    again = given is not None and not isinstance(given, Sequence) and iter(given) is not given
    return list(given) if again and hasattr(given, "__len__") else given


def check_there(path: Path) -> None:
    """Refuses what is no file, and says where it was looked for."""
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except OSError as error:  # a name that is too long, a folder that may not be opened
        name = str(path) if len(str(path)) < MAX_SHOWN_PATH else f"{str(path)[:MAX_SHOWN_PATH]}…"
        raise HeedfulError(f"cannot read {name}", error.strerror or str(error)) from None
    if path.is_dir():
        raise HeedfulError(f"{path} is not a file", "it is a folder", "Name a file in it")
    if not path.exists():
        looked = f"heedful looked for it in {path.parent.resolve()}"
        raise HeedfulError(f"there is no file {path}", looked, "Check the name, or give the whole path")
    if not path.is_file():
        raise HeedfulError(f"{path} is not a file", "it is a device or a pipe", "Write the texts to a file")


def named_columns(path: Path, columns: Columns | None, modality: str | None) -> Columns:
    """The columns of a table of pictures; those that are not named are found by their usual names."""
    columns = columns or Columns()
    if not path.is_file() or (kind := KINDS.get(path.suffix.lower())) is None:
        return columns
    there = NAMES[kind](path)
    if modality is None and columns.path is None and columns.text in there:
        return columns

    def usual(field: str) -> str | None:
        return getattr(columns, field) or next((name for name in USUAL[field] if name in there), None)

    if usual("path") is None:
        if modality is None and there:  # texts or pictures: the model is not loaded yet
            raise missing_column(path, columns.text, there)
        return columns if modality is None else replace(columns, path=PATH)
    if modality == "image" and columns.text != Columns().text:
        raise HeedfulError(
            f"the column {columns.text!r} of texts would not be read",
            "this model reads pictures alone",
            "Leave out --text-column, or name a model that compares pictures with texts",
        )
    label, mask, boxes = (usual(field) for field in ("label", "mask", "boxes"))
    caption = _caption(columns, there) if modality == JointInput.modality else None
    return replace(columns, path=usual("path"), label=label, mask=mask, boxes=boxes, caption=caption)


def _caption(columns: Columns, there: Sequence[str]) -> str:
    """The column of the texts that pictures are compared with: the one that was named, or a usual one."""
    if columns.caption or columns.text in there or columns.text != Columns().text:
        return columns.caption or columns.text
    return next((name for name in USUAL["caption"] if name in there), columns.text)


def _file(
    path: Path, columns: Columns, limit: int | None, kinds: Mapping[str, str], modality: str = "text"
) -> FileSource:
    """Refuses, before any work, what could never be read."""
    check_there(path)
    if path.suffix.lower() not in kinds:
        raise HeedfulError(f"{path.name} has an unknown file type", fix=f"Name it one of: {', '.join(kinds)}")
    source = FileSource(path, columns, limit, modality)
    if next(source.rows(), None) is None:
        raise HeedfulError(f"{path} is empty", "it has no row")
    if source.kind == "jsonl":
        jsonl_file.check_columns(path, columns)
    return source
