"""The memory of a server that runs for days, on Linux with glibc; elsewhere nothing is done.

By default glibc gives each thread a pool of memory of its own, and what one thread frees is of no use to the
others. Pages that are free between others are kept. With both, the server grew for as long as it ran.
"""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

M_ARENA_MAX, MALLOC_ARENAS = -8, 2  # the first is a constant of malloc.h
TRIM_SECONDS = 2.0  # at least between two trims: one takes some milliseconds
_last_trim = 0.0


def limit_malloc_arenas() -> None:
    """Let the threads of this process share MALLOC_ARENAS pools of memory."""
    with suppress(AttributeError, OSError, TypeError):  # another C library or system
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, MALLOC_ARENAS)


def trim_heap() -> None:
    """Give pages that are free back to the system."""
    global _last_trim
    if time.monotonic() - _last_trim < TRIM_SECONDS:
        return
    _last_trim = time.monotonic()
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
