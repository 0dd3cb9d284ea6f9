"""Calls of a tokenizer: what fails inside it on some text is one sentence.

Fast tokenizers are written in Rust. Where a pattern of theirs takes too many steps on a text they panic,
which Python sees as an exception that no `except Exception` catches. Rust itself prints a line about it to
stderr, which cannot be held back without taking stderr away from all threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from heedful.core.errors import HeedfulError

PANIC = "PanicException"  # of the module pyo3_runtime, which cannot be imported


def tokenized(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """What the tokenizer gives for a text, a pair or a list of texts, without remarks about long ones."""
    with _panics_told("text"):
        return tokenizer(*texts, verbose=False, **options)


def decoded(tokenizer: Any, ids: Sequence[int], **options: Any) -> str:
    """The text of these tokens."""
    with _panics_told("list of tokens"):
        return str(tokenizer.decode(list(ids), **options))


@contextmanager
def _panics_told(what: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        lines = str(error).strip().splitlines() or [PANIC]
        raise HeedfulError(
            f"the tokenizer failed on this {what}",
            lines[0][:300],
            "Use another text, or the tokenizer that the model was trained with",
        ) from None
