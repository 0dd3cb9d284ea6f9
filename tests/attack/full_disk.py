"""Disks that refuse: one that is full, and one that becomes read-only while a command runs."""

from __future__ import annotations

import builtins
import errno
import io
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


@contextmanager
def full_disk(size: int = 512) -> Iterator[None]:
    """No file may have more bytes than these: writing fails in the same place as on a full disk, with another
    reason."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        # a module that is imported now would be compiled into a file that is cut, and broken for all tests
        patch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only_disk(folder: Path) -> Iterator[None]:
    """Nothing below the folder is made, changed or removed. A disk with an error becomes so while it is used:
    whoever asks at the start is told that it can be written to."""

    def refuse(path: Any) -> None:
        if isinstance(path, str | os.PathLike) and folder in Path(path).absolute().parents:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def opening(really: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if set(mode) & set("wxa+"):
                refuse(path)
            return really(path, mode, *rest, **more)

        return called

    def low_level(path: Any, flags: int, *rest: Any, **more: Any) -> Any:
        if flags & WRITES:
            refuse(path)
        return really_open(path, flags, *rest, **more)

    def changing(really: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *rest: Any, **more: Any) -> Any:
            if more.get("dir_fd") is None and os.path.lexists(path) == (really is not really_mkdir):
                refuse(path)
            return really(path, *rest, **more)

        return called

    really_open, really_mkdir = os.open, os.mkdir
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", opening(io.open))
        patch.setattr(builtins, "open", opening(builtins.open))
        patch.setattr(os, "open", low_level)
        for name in ("mkdir", "rename", "replace", "unlink", "remove", "truncate", "rmdir"):
            patch.setattr(os, name, changing(getattr(os, name)))
        yield
