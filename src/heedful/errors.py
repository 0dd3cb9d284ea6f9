"""One error class whose message helps: what happened, why, and what to type next."""

from __future__ import annotations


class HeedfulError(Exception):
    """A user's mistake or a model's limit, told in one line. The CLI prints it and exits with code 2."""

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(what, why, fix)

    def __str__(self) -> str:
        """One line: what: why. What to do next."""
        what, why, fix = (" ".join(part.split()).rstrip(".") for part in (self.what, self.why, self.fix))
        told = f"{what}: {why}." if why else f"{what}."
        return f"{told} {fix}." if fix else told
