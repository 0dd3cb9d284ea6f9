"""What a model reads, and the units a person can point at in it. No modality is named here.

    input   what was given, as the model reads it: `len(x)` atoms (tokens), the finest parts one can remove
    units   a partition of the atoms (words, sentences), each with a label and a region a person sees

Explainers, metrics and reports speak of units alone; heedful.modalities has one file per kind of input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats, Span
from heedful.core.result import NotebookRepr


class Rectangle(NamedTuple):
    """A rectangle, right and bottom edge not included."""

    left: int
    top: int
    right: int
    bottom: int


# where a unit is in what the person sees: characters (start, end), or the box around it
Region = Span | Rectangle
PLACES = {4: Rectangle._fields, 2: ("start", "end")}  # what the numbers of a region are, by their count
Atoms = list[int]
NEVER = -1  # owner of an atom that is never removed, such as a special token


@dataclass(frozen=True, eq=False)
class Units(NotebookRepr, Sequence[Atoms]):
    """An input divided into words, tokens or sentences.

    `units[i]` gives the atoms of unit i. Atoms are the smallest parts of an input: the tokens of a text.

    Parameters
    ----------
    name
        "word", "token" or "sentence".
    labels
        The text of each unit.
    regions
        The characters (start, end) of each unit.
    owner
        For each token: the number of its unit, or -1 for special tokens, which are never removed.

    Examples
    --------
    >>> import heedful
    >>> units = heedful.load("zoo:sentiment").encode("The food was great").units("word")
    >>> units.labels
    ('The', 'food', 'was', 'great')
    >>> units[0]
    [1]
    """

    name: str  # "token", "word", "sentence"
    labels: Sequence[str]
    regions: Sequence[Region]
    owner: npt.NDArray[np.intp]  # (atoms,): the unit of each atom, or NEVER

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, index: int) -> Atoms: ...
    @overload
    def __getitem__(self, index: slice) -> list[Atoms]: ...
    def __getitem__(self, index: int | slice) -> Atoms | list[Atoms]:
        return self._atoms[index]

    def __iter__(self) -> Iterator[Atoms]:
        return iter(self._atoms)

    @cached_property
    def _atoms(self) -> list[Atoms]:
        groups: list[Atoms] = [[] for _ in self.labels]
        for atom, unit in enumerate(self.owner.tolist()):
            if unit != NEVER:
                groups[unit].append(atom)
        return groups

    @property
    def atoms(self) -> int:
        """Number of atoms in the input, including atoms that are never removed."""
        return len(self.owner)

    @cached_property
    def atomic(self) -> bool:
        """Whether each atom is a unit of its own."""
        return len(self) == self.atoms and bool((self.owner == np.arange(self.atoms)).all())

    def sums(self, scores: Floats) -> Floats:
        """Convert scores of atoms (atoms,) into scores of units (units,). The score of a unit is the sum over
        its atoms."""
        if self.atomic:
            return np.array(scores, dtype=np.float64)
        return np.array([scores[atoms].sum() for atoms in self], dtype=np.float64)

    def spread(self, values: Floats) -> Floats:
        """Convert values of units (units,) into scores of atoms (atoms,). Each value is divided evenly among
        the atoms of its unit, so `sums` gives the values back. Atoms that are never removed get 0."""
        if self.atomic:
            return np.array(values, dtype=np.float64)
        scores = np.zeros(self.atoms)
        for value, atoms in zip(values, self, strict=True):
            scores[atoms] = value / len(atoms)
        return scores

    def followed_by(self, other: Units | None) -> Units:
        """The units of this input, followed by the units of an input that is read after it."""
        if other is None:
            return self
        later = np.where(other.owner == NEVER, NEVER, other.owner + len(self))
        owner = np.concatenate([self.owner, later])
        labels, regions = (*self.labels, *other.labels), (*self.regions, *other.regions)
        return Units(self.name, labels, regions, owner)


def place_columns(regions: Sequence[Region]) -> tuple[str, ...]:
    """The columns of a table that has these regions: those of boxes, of characters, or both."""
    counts = {len(region) for region in regions} or {2}
    return tuple(name for count, names in PLACES.items() if count in counts for name in names)


def place_of(region: Region, columns: Sequence[str]) -> list[int | None]:
    """The numbers of a region by column; None in those that it does not have."""
    own: dict[str, int] = dict(zip(PLACES[len(region)], region, strict=True))
    return [own.get(name) for name in columns]


class Input(NotebookRepr):
    """What a model reads. Two inputs are equal if their content and their encoding are equal.

    `TextInput` is the input of text models.

    Examples
    --------
    >>> import heedful
    >>> model = heedful.load("zoo:sentiment")
    >>> x = model.encode("The food was great")
    >>> isinstance(x, heedful.Input), x.raw
    (True, 'The food was great')
    >>> x == model.encode("The food was great")
    True
    """

    modality: ClassVar[str]
    noun: ClassVar[str] = "input"  # what a person calls it: "text", "picture"
    atom: ClassVar[str]  # what its finest parts are called: "token"
    # whether all scores are kept by atom; where atoms are many, they are kept by the units they were made for
    scored_by_atom: ClassVar[bool] = True
    notes: tuple[str, ...] = ()  # what was done to it that the reader must know, such as truncation

    def __len__(self) -> int:
        """Number of atoms."""
        raise NotImplementedError

    @property
    def raw(self) -> Any:
        """The input as a person sees it."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """The input in one line: a text itself, or the name of a file."""
        return str(self.raw)

    def content(self) -> bytes:
        """The bytes that identify the input. Equal inputs have equal content."""
        raise NotImplementedError

    @property
    def default_unit(self) -> str:
        """What is removed and scored as one piece if nobody says otherwise."""
        raise NotImplementedError

    def units(self, name: str = "") -> Units:
        """The atoms, grouped into units such as "word". "" means the default unit. An unknown name gives an
        error that lists the known names."""
        raise NotImplementedError

    def unit_noun(self, name: str = "") -> str:
        """What a person calls one unit of this name: "word", "cell". "" means the default unit."""
        return name or self.default_unit

    @property
    def map_shape(self) -> tuple[int, int] | None:
        """Rows and columns of the atoms, where they form a map; None where they form a line, as tokens do."""
        return None

    @property
    def mask_length(self) -> int:
        """How many of the atoms, the first ones, can belong to a thing that a mask shows: all, unless the
        input has a part of another kind behind them."""
        return len(self)

    @property
    def read_length(self) -> int:
        """How many positions a network computes for it, about: what a forward pass costs."""
        return len(self)

    @property
    def positions(self) -> Units:
        """The places that attention runs over, as units: the tokens of a text."""
        return self.units(self.atom)

    @cached_property
    def key(self) -> str:
        """SHA-256 of content and encoding, computed once: what results are remembered by."""
        return hashlib.sha256(self.modality.encode() + b"\0" + self.content()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Input) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)
