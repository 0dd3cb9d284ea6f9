"""One folder format for every result: written whole or refused, opened without torch or the model.

    run/manifest.json   format, kind, version of the kind, title, versions of packages, files with their sizes
                        and SHA-256; written last
    run/result.json     the result, by the rule of heedful.io.json_codec: numbers come back bit for bit
    run/...             further files of the kind: arrays (safetensors), tables (parquet)
    run/...             views for people (report.html, table.csv, NAME.svg): listed, and never read back

Each file is written beside its place and renamed into it, the manifest last. A kill in between leaves files
that the manifest does not describe, and such a folder is refused. Other files in the folder are left alone.

A folder may come from anybody. Regular files inside it are read and nothing else: no link, no pipe, no
device, no more than `most` bytes. A checksum shows damage, not forgery, so every value is checked by the type
it must have. heedful.io.sharded_run writes runs that can be resumed, with the same manifest.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from heedful._version import __version__
from heedful.core.errors import HeedfulError
from heedful.core.result import AnyStored, Stored, mark_loaded
from heedful.core.result_kinds import ResultKind, find_kind, kind_of, result_kinds
from heedful.core.versions import versions
from heedful.io.files import write_inside
from heedful.io.json_codec import json_bytes, json_object

R = TypeVar("R")
FORMAT = 3  # of the manifest; 1 and 2 were those of explanations and audits before all had one format
MANIFEST, RESULT = "manifest.json", "result.json"
MOST_BYTES = 64 << 20  # read from a folder that a stranger may have made
# most bytes of one file, also of a folder that the user named: nothing larger is written or read
MAX_FILE_BYTES = {MANIFEST: 32 << 20, RESULT: 256 << 20, "sae.safetensors": 64 << 30}
MAX_CHECKPOINT_BYTES = 3 * (64 << 30)  # of a training: weights, and two numbers of Adam for each
MAX_BLOB_BYTES = 1 << 30  # of any other file
MAX_TITLE = 120  # characters
MAX_NAME, MAX_PATH = 255, 1000  # of a file: bytes, and characters with the folders above it
HINT = "A run folder is written by --out of a command, such as: heedful explain TEXT --out FOLDER"
AGAIN = "Make the run again"
LARGE = "Open it with: heedful report FOLDER"
UPGRADE = "Update heedful (in your clone: git pull, then pip install .)"
CHANGED = "its content has changed since it was written"


# --- writing ---------------------------------------------------------------------------------------


def write(
    folder: str | Path,
    result: Stored,
    blobs: Mapping[str, bytes] | None = None,
    *,
    stored: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
    most: int | None = None,
) -> Path:
    """Write a result as a run folder.

    blobs   files beside result.json; None: those the result has
    stored  what result.json holds; None: what the result says
    extra   further facts of the manifest, such as what the web page needs to open it again
    most    refuse to write files of more bytes than this
    """
    place, kind = Path(folder), kind_of(result)
    check_free(place, kind.name)
    files = {
        RESULT: json_bytes(result.stored() if stored is None else stored),
        **(result.blobs() if blobs is None else blobs),
    }
    if most is not None and sum(map(len, files.values())) > most:
        raise HeedfulError(f"this {kind.name} is too large to be stored", f"it has over {_mb(most)}")
    for name, content in files.items():
        if len(content) > max_bytes(name):
            why = f"{name} has over {_mb(max_bytes(name))}"
            raise HeedfulError(f"this {kind.name} is too large to be stored", why)
    views = result.views()
    if wrong := [name for name in (files | views) if not _is_inside(name)]:
        raise HeedfulError(f"{wrong[0][:60]!r} cannot be written", "a file of a run stays in its folder")
    manifest = start_of_manifest(kind, result.run_title()) | dict(extra or {})
    manifest |= {"files": sums(files), "views": sums(views)}
    try:
        for name, content in (files | views).items():
            write_inside(place, name, content)
        write_inside(place, MANIFEST, json_bytes(manifest))
    except OSError as error:
        raise HeedfulError(
            f"Cannot write the run to {place}", error.strerror or str(error), "Name another folder"
        ) from error
    return place


def start_of_manifest(kind: ResultKind, title: str) -> dict[str, Any]:
    """What every manifest says, also that of a run that is not finished."""
    line = " ".join(title.split())[:MAX_TITLE]
    facts = {"format": FORMAT, "kind": kind.name, "version": kind.version, "title": line}
    return facts | {"versions": versions()}


def sums(contents: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """Sizes and checksums of files, as a manifest has them."""
    return {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    }


def check_free(place: Path, kind: str) -> None:
    """Another result is not written over, nor are the shards of a run that can be resumed. A command asks
    before a long run, too."""
    try:
        there = read_manifest(place)
    except HeedfulError:
        return  # no run, or one that nothing opens
    if there["kind"] != kind or "made" in there:
        raise HeedfulError(f"{place} already holds a run of kind {there['kind']}", fix="Name another folder")


# --- reading ---------------------------------------------------------------------------------------


@dataclass
class OpenRun:
    """A run folder whose manifest is checked. Files are compared with it as they are read."""

    folder: Path
    manifest: dict[str, Any]
    most: int | None = MOST_BYTES
    compared: set[str] = field(default_factory=set)

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        return checked_files(self.folder, self.manifest.get("files"))

    def file(self, name: str) -> bytes:
        """The content of a file that the manifest lists."""
        entry = self.files.get(name)
        if entry is None:
            raise damaged(self.folder, f"its manifest lists no {name}")
        content = read_inside(self.folder, name, self.most, entry["bytes"])
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise damaged(self.folder / name, CHANGED)
        self.compared.add(name)
        return content

    def compare_rest(self) -> None:
        """Compare what was not read, without holding it in memory."""
        for name, entry in self.files.items():
            if name not in self.compared:
                compare(self.folder, name, entry)


def read(folder: str | Path, most: int | None = MOST_BYTES, kind: type[Any] | None = None) -> AnyStored:
    """Open a run folder of any kind.

    most   bytes that its files may have together; None: any number, of a folder that the user named
    kind   the result class that is expected; None: any
    """
    run = open_run(folder, most)
    result = result_of(run, Stored if kind is None else kind)
    run.compare_rest()
    assert isinstance(result, AnyStored)
    return result


def result_of(run: OpenRun, kind: type[R]) -> R:
    """The result of a run; files that it did not need are not compared yet."""
    found = _known_kind(run)
    stored: type[Stored] = found.cls
    if not issubclass(stored, kind):
        raise HeedfulError(
            f"{run.folder} holds a run of kind {found.name}, and {kind.__name__}.load opens another kind",
            fix=f"Open it with heedful report, or {stored.__name__}.load",
        )
    if run.most is not None and sum(entry["bytes"] for entry in run.files.values()) > run.most:
        raise HeedfulError(f"{run.folder} has over {_mb(run.most)}", fix=LARGE)
    content = run.file(RESULT)
    with refusing_damage(run.folder, f"its {RESULT} is not the result of a run of kind {found.name}"):
        result = stored.from_stored(json_object(content), run)
        mark_loaded(result, run.folder)
    assert isinstance(result, kind)
    return result


def open_run(folder: str | Path, most: int | None = MOST_BYTES) -> OpenRun:
    """A finished run folder; its files are not read yet."""
    place = Path(folder)
    manifest = read_manifest(place, most)
    if "files" not in manifest:
        raise HeedfulError(
            f"the {manifest['kind']} in {place} is not finished",
            "it was stopped, or still runs",
            "Start it again with the same arguments to resume it",
        )
    run = OpenRun(place, manifest, most)
    checked_files(place, manifest["files"])
    return run


def read_manifest(folder: Path, most: int | None = MOST_BYTES) -> dict[str, Any]:
    """The manifest, checked to be one that this version reads."""
    return checked_manifest(folder, read_inside(folder, MANIFEST, most))


def checked_manifest(folder: Path, content: bytes) -> dict[str, Any]:
    """The same from the content of the file."""
    try:
        manifest = json_object(content)
    except ValueError as error:
        raise damaged(folder / MANIFEST, str(error)) from error
    form, kind, version = (manifest.get(name) for name in ("format", "kind", "version"))
    if not _count(form):
        raise HeedfulError(f"{folder} is not a run folder", "its manifest.json names no format", HINT)
    if form != FORMAT:
        why = f"it has format {form}, and heedful {__version__} reads format {FORMAT}"
        newer = isinstance(form, int) and form > FORMAT
        age = "a newer" if newer else "an older"
        raise HeedfulError(f"{folder} was written by {age} heedful", why, UPGRADE if newer else AGAIN)
    if not isinstance(kind, str) or not _count(version) or not isinstance(manifest.get("title", ""), str):
        raise damaged(folder / MANIFEST, "it does not say of what kind the run is")
    return manifest


def _known_kind(run: OpenRun) -> ResultKind:
    name, version = run.manifest["kind"], run.manifest["version"]
    kind = find_kind(name)
    if kind is None:
        known = ", ".join(result_kinds())
        raise HeedfulError(
            f"{run.folder} holds a run of kind {name[:40]!r}", f"heedful {__version__} knows {known}", UPGRADE
        )
    if version > kind.version:
        why = f"its version is {version}, and heedful {__version__} reads up to {kind.version}"
        raise HeedfulError(f"the {name} in {run.folder} was written by a newer heedful", why, UPGRADE)
    if version < kind.version:
        why = f"its version is {version}, and heedful {__version__} reads {kind.version}"
        raise HeedfulError(f"the {name} in {run.folder} was written by an older heedful", why, AGAIN)
    return kind


@contextmanager
def refusing_damage(what: str | Path, why: str = "its values do not fit together") -> Iterator[None]:
    """Whatever a cut or forged file leads to becomes one sentence. A ValueError says in words what is wrong;
    the words of other exceptions are about the code."""
    try:
        yield
    except HeedfulError:
        raise
    except Exception as error:  # the values are a stranger's: any constructor may refuse them in its own way
        detail = f" ({error})" if isinstance(error, ValueError) and str(error) else ""
        raise damaged(what, f"{why}{detail}") from error


def damaged(what: str | Path, why: str, fix: str = AGAIN) -> HeedfulError:
    return HeedfulError(f"{what} is damaged", " ".join(why.split())[:200], fix)


# --- files of a folder that may be a stranger's ----------------------------------------------------


def max_bytes(name: str) -> int:
    """How large a file of a run folder may be."""
    is_checkpoint = name.startswith("state-") and name.endswith(".safetensors")
    return MAX_FILE_BYTES.get(name, MAX_CHECKPOINT_BYTES if is_checkpoint else MAX_BLOB_BYTES)


def read_inside(folder: Path, name: str, most: int | None, expected: int | None = None) -> bytes:
    """A regular file of the folder. Its size is compared before anything is read.

    most       bytes that it may have; None: as many as a file of this name may have
    expected   bytes that it must have; None: not known
    """
    with opened_inside(folder, name) as handle:
        size = os.fstat(handle).st_size
        if expected is not None and size != expected:
            raise damaged(folder / name, f"it has {size:,} bytes instead of {expected:,}")
        if size > max_bytes(name):
            raise HeedfulError(f"{folder} is refused", f"{name} has over {_mb(max_bytes(name))}", AGAIN)
        if most is not None and size > most:
            raise HeedfulError(f"{folder / name} has over {_mb(most)}", fix=LARGE)
        with os.fdopen(os.dup(handle), "rb") as file:
            content = file.read(size + 1)
    if len(content) > size:
        raise damaged(folder / name, "it grew while it was read")
    return content


def compare(
    folder: Path, name: str, entry: Mapping[str, Any], *, size_only: bool = False, fix: str = AGAIN
) -> None:
    """Compare a file with its size, where it is known, and checksum, without holding it in memory.

    fix   what to do if it is damaged or missing
    """
    with opened_inside(folder, name, fix) as handle:
        size = os.fstat(handle).st_size
        if size != entry.get("bytes", size):
            raise damaged(folder / name, f"it has {size:,} bytes instead of {entry['bytes']:,}", fix)
        if size_only:
            return
        with os.fdopen(os.dup(handle), "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
                raise damaged(folder / name, CHANGED, fix)


@contextmanager
def opened_inside(folder: Path, name: str, fix: str = AGAIN) -> Iterator[int]:
    """A handle of a regular file below the folder. Opening never waits, so a pipe cannot hang it."""
    path = folder
    for each in PurePosixPath(name).parts[:-1]:
        path = path / each
        if path.is_symlink():
            raise HeedfulError(f"{folder} is refused", f"{name} leads out of it by a link", HINT)
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(folder / name, flags | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        if (folder / name).is_symlink():
            raise HeedfulError(f"{folder} is refused", f"{name} is a link", "Copy the file itself") from None
        why = getattr(error, "strerror", None) or str(error)
        what, fix = ("a run folder", HINT) if name == MANIFEST else ("a complete run folder", fix)
        raise HeedfulError(f"{folder} is not {what}", f"cannot read {name}: {why}", fix) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise HeedfulError(f"{folder} is refused", f"{name} is not a regular file", HINT)
        yield handle
    finally:
        os.close(handle)


def checked_files(folder: Path, files: Any) -> dict[str, dict[str, Any]]:
    """The files of a manifest, whose names must stay inside the folder."""
    if not isinstance(files, dict) or not all(map(_is_entry, files.values())):
        raise damaged(folder / MANIFEST, "its list of files is not one")
    for name in files:
        if not _is_inside(name):
            raise damaged(folder / MANIFEST, f"{name[:60]!r} is not a file of the folder")
    return files


def _is_inside(name: str) -> bool:
    """A file of the folder itself, by a name that means the same on every system."""
    parts = name.split("/")
    if len(name) > MAX_PATH or any(len(each.encode("utf-8", "replace")) > MAX_NAME for each in parts):
        return False
    outside = any(each in ("", ".", "..") for each in parts)
    return name != MANIFEST and not outside and not set(name) & set("\\\0:")


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and _count(entry.get("bytes")) and isinstance(entry.get("sha256"), str)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _mb(size: int) -> str:
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size:,} bytes"
