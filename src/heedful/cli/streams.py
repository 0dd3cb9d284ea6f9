"""Standard streams that are closed or cannot be written: a command says so, or goes on without them."""

from __future__ import annotations

import os
import sys


def open_streams() -> None:
    """A closed stream (`heedful ... >&-`) becomes an empty one: otherwise the next file that is opened gets
    its number, and whatever a library prints is written into that file."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115  open as long as the process
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115


def drop_output() -> None:
    """What is still to be written to standard output goes nowhere: the interpreter must not try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
