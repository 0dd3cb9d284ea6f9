"""One error class whose message helps: what happened, why, and what to type next."""

from __future__ import annotations

NO_MEMORY = (  # how torch says it: CUDA, Linux, Windows, and more bytes than can be counted
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "storage size calculation overflowed",
)
MEMORY_SENTENCE = "there is not enough memory. Use a smaller model, fewer or shorter texts"


class HeedfulError(Exception):
    """An error that you can fix, or something that a model cannot do, described in one line.

    The command line prints it and exits with code 2.

    Parameters
    ----------
    what
        What happened.
    why
        The reason.
    fix
        What to do next.

    Examples
    --------
    >>> import heedful
    >>> print(heedful.HeedfulError("no such file", "texts.csv is missing", "Check the name"))
    no such file: texts.csv is missing. Check the name.
    """

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__(what, why, fix)

    def __str__(self) -> str:
        """One line: what: why. What to do next."""
        what, why, fix = (" ".join(part.split()) for part in (self.what, self.why, self.fix))
        return " ".join(map(_closed, filter(None, [f"{what}: {why}" if why else what, fix])))


def first_line(error: BaseException) -> str:
    """Of what another library says, as the reason of a sentence."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line] or [type(error).__name__]
    first, *rest = lines
    return f"{first} {rest[0]}"[:300] if first.endswith(":") and rest else first[:300]


def out_of_memory(error: BaseException) -> bool:
    """torch tells of memory in several ways; a CPU allocation failure is a plain RuntimeError."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(part in text for part in NO_MEMORY)


def _closed(sentence: str) -> str:
    return sentence if sentence[-1] in ".!?" else sentence + "."
