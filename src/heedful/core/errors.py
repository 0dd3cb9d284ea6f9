"""One error class whose message helps: what happened, why, and what to type next."""

from __future__ import annotations


class HeedfulError(Exception):
    """A user's mistake or a model's limit, in one line. The CLI prints it and exits with code 2."""

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(what, why, fix)

    def __str__(self) -> str:
        """One line: what: why. What to do next."""
        what, why, fix = (" ".join(part.split()) for part in (self.what, self.why, self.fix))
        return " ".join(map(_closed, filter(None, [f"{what}: {why}" if why else what, fix])))


def _closed(sentence: str) -> str:
    return sentence if sentence[-1] in ".!?" else sentence + "."
