"""A page of a run that was opened, as it was when the run was made."""

from __future__ import annotations

from heedful.core.result import STATED

NOTE = f'\n<p class="lead">{STATED}</p>'


def without_note(page: str) -> str:
    """The same without the note about its numbers, which must be there once."""
    assert page.count(NOTE) == 1
    return page.replace(NOTE, "")
