"""A stranger's program (a chat template, a pattern, a config) in a short-lived copy of this process that
has limits of its own. Where processes cannot be copied (Windows), it runs here without them.

Cost: copying a process takes some milliseconds.
"""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock

MAX_SECONDS = 10
MAX_BYTES = 1 << 30  # memory that it may take
LIMITS = f"{MAX_SECONDS} s or {MAX_BYTES >> 20} MB"
_one_at_a_time = Lock()


def limited(call: Callable[[], bytes]) -> bytes:
    """What the call gives; b"" if it needs more than the limits, or fails."""
    if not hasattr(os, "fork"):
        return call()
    with _one_at_a_time:  # a copy made by another thread would keep the writing end, and reading never end
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that threads are not copied is meant
            child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                _limit()
                with os.fdopen(writer, "wb") as out:
                    out.write(call())
            finally:
                os._exit(0)
        os.close(writer)
    try:
        return _read(reader)
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _limit() -> None:
    """Time and memory beyond what this process has now."""
    import resource

    with suppress(OSError, ValueError):  # not every system has each
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError), Path("/proc/self/statm").open("rb") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + MAX_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _read(reader: int) -> bytes:
    """All that comes until the writer closes, or b"" where the time is over."""
    content, end = bytearray(), time.monotonic() + MAX_SECONDS
    while (left := end - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
        piece = os.read(reader, 1 << 16)
        if not piece:
            return bytes(content)
        content += piece
    return b""
