"""Files that a stranger may have replaced by a pipe, which has no end, or by a device."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from heedful.core.errors import HeedfulError


@contextmanager
def regular_file(path: str | Path, fix: str = "") -> Iterator[BinaryIO]:
    """Open a regular file; links are followed. A pipe is refused and not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise HeedfulError(f"{path} is not a regular file", "it is a pipe, a device or a folder", fix)
        with os.fdopen(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)
