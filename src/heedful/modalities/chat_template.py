"""Chats as a model's own template writes them. A template is a stranger's program: Jinja, in a sandbox that
keeps it from files and functions, but not from memory and time. So it runs in a short-lived copy of this
process that has limits of its own. Where processes cannot be copied (Windows), it runs here without them.

Cost: copying a process takes some milliseconds.
"""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError

MAX_SECONDS = 10
MAX_BYTES = 1 << 30  # memory that rendering may take,
MAX_CHARS = 1_000_000  # and characters that it may give: more than any model reads
FIX = "Give plain text, or a model with another template"


def render(tokenizer: Any, messages: Sequence[Mapping[str, str]], waiting: bool) -> str:
    """The text of a chat. `waiting`: it ends where the model's answer begins."""
    if not hasattr(os, "fork"):
        text = _tried(tokenizer, messages, waiting)
    else:
        import jinja2.ext
        import jinja2.sandbox  # noqa: F401  once here, and not again in every copy

        text = _in_a_copy(tokenizer, messages, waiting)
    if not text.startswith("="):
        raise HeedfulError("the chat template of this model failed", text[1:] or "it gave no reason", FIX)
    if len(text) > MAX_CHARS:
        raise HeedfulError(
            "the chat template of this model failed", f"it wrote over {MAX_CHARS:,} characters", FIX
        )
    return text[1:]


def _tried(tokenizer: Any, messages: Sequence[Mapping[str, str]], waiting: bool) -> str:
    """= and the text, or ! and what went wrong."""
    try:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=waiting)
    except Exception as error:  # whatever a stranger's program raises
        lines = str(error).strip().splitlines()
        return f"!{type(error).__name__}{': ' if lines else ''}{lines[0][:300] if lines else ''}"
    return f"={text}" if isinstance(text, str) else "!it wrote no text"


def _in_a_copy(tokenizer: Any, messages: Sequence[Mapping[str, str]], waiting: bool) -> str:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that threads are not copied is meant
        child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            _limit()
            with os.fdopen(writer, "wb") as out:
                out.write(
                    _tried(tokenizer, messages, waiting)[: MAX_CHARS + 2].encode("utf-8", "surrogatepass")
                )
        finally:
            os._exit(0)
    os.close(writer)
    try:
        content = _read(reader)
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return (
        content.decode("utf-8", "surrogatepass") or f"!it took over {MAX_SECONDS} s or {MAX_BYTES >> 20} MB"
    )


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
