"""A network that cannot run on its input: whatever torch or transformers raise is told in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from heedful.core.errors import HeedfulError, first_line, out_of_memory

# of a module that is run
RUN_ERRORS = (AssertionError, AttributeError, ImportError, LookupError, RuntimeError, TypeError, ValueError)
FIX = "Check that its weights, its config and its tokenizer belong together"


@contextmanager
def run_errors(name: str) -> Iterator[None]:
    """Too little memory is not told here: whoever runs many rows tries again with fewer."""
    try:
        yield
    except RUN_ERRORS as error:
        if out_of_memory(error):
            raise
        why = f"{type(error).__name__}: {first_line(error)}"
        raise HeedfulError(f"{name} cannot run on this text", why, FIX) from error
