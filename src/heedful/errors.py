"""One error class whose message helps: what happened, why, and what to type next."""

from __future__ import annotations


class HeedfulError(Exception):
    """A user's mistake or a model's limit, told in one line. The CLI prints it and exits with code 2."""

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(what, why, fix)

    def __str__(self) -> str:
        """One line; the parts keep their own punctuation and get a full stop where they have none."""
        parts = (" ".join(part.split()) for part in (self.what, self.why, self.fix) if part)
        return " ".join(part if part[-1] in ".!?:" else part + "." for part in parts)
