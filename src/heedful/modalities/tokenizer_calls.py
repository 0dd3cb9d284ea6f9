"""Calls of a tokenizer: what fails inside it on some text, or never ends, is one sentence.

Fast tokenizers are written in Rust. Where a pattern of theirs takes too many steps on a text they panic,
which Python sees as an exception that no `except Exception` catches. Rust itself prints a line about it to
stderr, which cannot be held back without taking stderr away from all threads.

A pattern may also stay below that limit at every letter and take hours in all. Nothing can stop such a call,
and Ctrl-C waits for it. So each call that reads a text has a thread of its own, which is left behind when
its time is over. A call that writes a text keeps all threads waiting, so a tokenizer whose decoder has such a
pattern is refused (heedful.models.tokenizer_steps).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

from heedful.core.errors import HeedfulError, first_line

PANIC = "PanicException"  # of the module pyo3_runtime, which cannot be imported
MAX_SECONDS = 30  # for a short text; real tokenizers need milliseconds
LEAST_SPEED = 10_000  # letters per second beyond that; real tokenizers read about a million
FIX = "Use another text, or the tokenizer that the model was trained with"
Given = TypeVar("Given")


def tokenized(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """What the tokenizer gives for a text, a pair or a list of texts, without remarks about long ones."""
    letters = sum(map(_letters, texts))
    with panics_as_errors("the tokenizer failed on this text", FIX):
        return _in_time(lambda: tokenizer(*texts, verbose=False, **options), letters, "text")


def decoded(tokenizer: Any, ids: Sequence[int], **options: Any) -> str:
    """The text of these tokens."""
    with panics_as_errors("the tokenizer failed on this list of tokens", FIX):
        return str(tokenizer.decode(list(ids), **options))


def _letters(texts: Any) -> int:
    return len(texts) if isinstance(texts, str) else sum(map(_letters, texts or ()))


def _in_time(call: Callable[[], Given], size: int, what: str) -> Given:
    results: list[Given] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # a panic, too: it is raised where the call was made
            errors.append(error)

    seconds = MAX_SECONDS + size / LEAST_SPEED
    thread = Thread(target=run, daemon=True)  # a process does not wait for it when it ends
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise HeedfulError(f"the tokenizer took over {seconds:.0f} s on this {what}", fix=FIX)
    return results[0]


@contextmanager
def panics_as_errors(what: str, fix: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise HeedfulError(what, first_line(error), fix) from None
