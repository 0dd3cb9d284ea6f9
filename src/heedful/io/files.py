"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

from heedful.core.errors import HeedfulError


def write_atomic(path: Path, content: bytes) -> None:
    """Beside its place, then renamed into it: a reader never sees half a file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise HeedfulError(
            f"{path.parent} is not a whole run folder",
            f"cannot read {path.name}: {error.strerror or error}",
            "A run folder is written by: heedful explain TEXT --save FOLDER",
        ) from error
