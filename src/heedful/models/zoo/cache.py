"""The user's cache: where it is, one writer at a time, and folders that are either whole or absent.

    $HEEDFUL_CACHE, else $XDG_CACHE_HOME/heedful, else ~/.cache/heedful
      carriers/*.whl    downloaded, hash checked        zoo/NAME/    converted, ready for transformers
      zoo/.work-NAME-*  a conversion under way          locks/       one file per model

A folder is built aside, its manifest (size and SHA-256 of every file) is written last, and it is renamed into
place, so a killed pull leaves nothing that looks finished. Checking sizes costs one `stat` a file; checking
hashes reads everything.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
STAMP = ".verified.json"


def cache_dir() -> Path:
    """The cache's root; it need not exist yet."""
    if given := os.environ.get("HEEDFUL_CACHE"):
        return Path(given).expanduser()
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    base = xdg if xdg.is_absolute() else Path("~/.cache").expanduser()  # the XDG rule: absolute or ignored
    return base / "heedful"


def model_dir(name: str) -> Path:
    """Where the converted model `name` lives once it is pulled."""
    return cache_dir() / "zoo" / name


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of one file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the model's lock: other processes wait, and the system releases it if this one dies."""
    from filelock import FileLock

    path = cache_dir() / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


@contextmanager
def workspace(name: str) -> Iterator[Path]:
    """A directory beside the final one (same file system), gone afterwards. Call with the lock held.

    Left-overs of a killed pull of the same model are swept first: the lock says nobody is using them.
    """
    root = cache_dir() / "zoo"
    root.mkdir(parents=True, exist_ok=True)
    for stale in root.glob(f".work-{name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".work-{name}-", dir=root))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Record `about` and the size and SHA-256 of every file in `folder`; written last: it means complete."""
    files = {
        str(path.relative_to(folder).as_posix()): {"size": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    text = json.dumps({**about, "files": files}, indent=2) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The folder's manifest, or None when it is missing or unreadable."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest if all(map(_is_entry, manifest["files"].items())) else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def _is_entry(entry: tuple[str, Any]) -> bool:
    """A file inside the folder, its size and its hash."""
    name, want = entry
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts
    return inside and isinstance(want["size"], int) and isinstance(want["sha256"], str)


def problems(folder: Path, about: Mapping[str, Any], *, full: bool) -> list[str]:
    """What is wrong with a converted folder, in words; empty when it is as its manifest says.

    `about` must agree with the manifest (same carrier, same converter); `full` also compares every SHA-256.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return [f"{MANIFEST} is missing or unreadable"]
    lines = [f"made from another {key}" for key, value in about.items() if manifest.get(key) != value]
    for name, want in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            lines.append(f"{name} is missing")
        elif path.stat().st_size != want["size"]:
            lines.append(f"{name} has {path.stat().st_size} bytes instead of {want['size']}")
        elif full and sha256(path) != want["sha256"]:
            lines.append(f"{name} has another SHA-256 than when it was made")
    return lines


def verified(folder: Path) -> bool:
    """Whether every file has the size and times of writing it had when its SHA-256 was last compared."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return bool(stamp == _stamp(folder))


def mark_verified(folder: Path) -> None:
    """Remember that the hashes were right; a cache that cannot be written is compared again next time."""
    with contextlib.suppress(OSError):
        (folder / STAMP).write_text(json.dumps(_stamp(folder)), encoding="utf-8")


def _stamp(folder: Path) -> dict[str, list[int]]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != STAMP)
    facts = ((str(path.relative_to(folder)), path.stat()) for path in files)
    # who changes a file can set its time of writing back, but not the time of that change
    return {name: [at.st_size, at.st_mtime_ns, at.st_ctime_ns] for name, at in facts}


def place(made: Path, final: Path) -> None:
    """Rename `made` to `final`; what stood there goes into the workspace and is swept with it."""
    if final.exists():
        final.rename(made.parent / "replaced")
    made.rename(final)
