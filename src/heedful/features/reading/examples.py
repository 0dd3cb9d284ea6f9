"""A few tokens of a text with one feature's activation on each, and the characters each token stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Context:
    """Tokens in a row, without any activation: all that a simulator may see."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]  # the characters of each token
    first: int = 0  # place of the first of them in the model's window

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Snippet:
    """A context around one marked token, with a feature's activations."""

    context: Context
    values: tuple[float, ...]
    at: int  # which token is marked
    window: int = -1  # number of the model's window it was seen in; -1: a text of the reader
    whole: tuple[int, ...] = ()  # ids of that window, kept for the strongest examples

    @property
    def value(self) -> float:
        """Activation of the marked token."""
        return self.values[self.at]

    @property
    def position(self) -> int:
        """Place of the marked token in the model's window."""
        return self.context.first + self.at

    def to_dict(self) -> dict[str, Any]:
        pieces, values = list(self.context.pieces), [round(v, 6) for v in self.values]
        return {
            "tokens": pieces,
            "activations": values,
            "at": self.at,
            "window": self.window,
            "position": self.position,
        }
