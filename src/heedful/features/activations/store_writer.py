"""The folder of a store while it is harvested: one writer, files whole or not there, settings kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.features.activations.store import manifest_of
from heedful.io.datasets import RESUME_HINT

PART = ".part"  # what is not a store yet


@contextmanager
def opened(folder: Path, made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Alone in the folder: begin, or go on with a harvest made in the same way. Gives its manifest."""
    from filelock import FileLock, Timeout

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise HeedfulError(
                f"another harvest is writing to {folder}", fix="Wait for it, or name another"
            ) from None
    try:
        yield _begun(folder, json.loads(to_json(made)))
    finally:
        lock.release()


def _begun(folder: Path, made: dict[str, Any]) -> dict[str, Any]:
    (folder / ".manifest.json.part").unlink(missing_ok=True)  # of a harvest that was killed
    if not (folder / "manifest.json").exists():
        if (folder / "shards").exists():
            raise HeedfulError(f"{folder} holds shards but no manifest", fix="Name another folder")
        with writing(folder):
            replace(folder / "manifest.json", to_json(made))
        return made
    there = manifest_of(folder)
    differ = [name for name in made if there.get(name) != made[name] and name != "name"]
    if differ:
        told = "; ".join(_difference(name, there.get(name), made[name]) for name in differ)
        raise HeedfulError(
            f"{folder} was harvested differently: {told}", fix="Name another folder, or remove this one"
        )
    return there


def _difference(name: str, there: Any, here: Any) -> str:
    if isinstance(there, dict) and isinstance(here, dict):
        keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
        return ", ".join(f"{name} {key} was {there.get(key)}, is {here.get(key)}" for key in keys)
    return f"{name} was {there}, is {here}"


def complete(folder: Path, manifest: Mapping[str, Any]) -> None:
    """The manifest of a finished store; nothing else is left."""
    with writing(folder):
        replace(folder / "manifest.json", to_json(manifest))
        shutil.rmtree(folder / PART, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A disk that is full, or gone, is told in one line."""
    try:
        yield
    except OSError as error:
        raise HeedfulError(f"cannot write to {path}", error.strerror or str(error), RESUME_HINT) from None


def to_json(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, allow_nan=False, indent=1, default=str) + "\n").encode("ascii")


def replace(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Whole or not at all, also when the power fails. `shared`: several processes may write it at once."""
    beside = path.with_name(f".{path.name}.part")
    if shared:
        beside = beside.with_name(f"{beside.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """A rename is on disk when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
