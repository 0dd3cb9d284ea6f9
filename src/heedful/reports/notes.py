"""Notes of a result as sentences."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NOTES = 10


def note_lines(notes: Sequence[str]) -> list[str]:
    """The first few, and how many more there are."""
    more = [f"And {len(notes) - MAX_NOTES} more notes."] if len(notes) > MAX_NOTES else []
    return [f"Note: {note.rstrip('.')}." for note in notes[:MAX_NOTES]] + more
