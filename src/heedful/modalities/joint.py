"""A picture and a text as one input: what a model that compares the two reads.

    atoms       the pixels, row by row, then the tokens
    units       those of the picture, then those of the text: "grid:8+word", "patch+token", "region+sentence".
                One name is enough: "grid:8" means "grid:8+word", "token" means the default cells and tokens
    positions   where attention lives: positions of the picture's encoder, then of the text's encoder

A unit of the picture has a `Rectangle` as its region, a unit of the text a `Span` of characters.
`JointInput.picture_units` says how many of the units belong to the picture; they come first.

An operator removes units of both parts, each in its own way:

    name      a unit of the picture                a word                                  (of a function)
    mean      the mean colour                      the mask token, or the mean embedding   the string [MASK]
    blur      the blurred picture                  hidden from attention                   deleted
    noise     random colours, several draws        another word                            another word
    inpaint   filled in from the pixels around     deleted                                 deleted
    pad       patches hidden from attention        hidden from attention (where the picture's encoder can)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER, Input, Units
from heedful.modalities.image import ImageInput, image_of
from heedful.modalities.text import UNITS as TEXT_UNITS
from heedful.modalities.text import TextInput

KEYS = {"picture", "text", "regions"}
# how words go, by the operator of the picture: the first that the text's encoder offers
WORD_OPERATORS = {
    "mean": ("mask", "mean"),
    "blur": ("pad", "delete"),
    "noise": ("swap",),
    "inpaint": ("delete",),
    "pad": ("pad",),
}


@dataclass(frozen=True, eq=False)
class JointInput(Input):
    """A picture and a text that a model compares.

    Parameters
    ----------
    picture
        The picture as the model reads it.
    text
        The text as the model reads it.
    notes
        Remarks of both.
    """

    modality: ClassVar[str] = "image+text"
    noun: ClassVar[str] = "pair"
    atom: ClassVar[str] = "pixel+token"
    scored_by_atom: ClassVar[bool] = False

    picture: ImageInput
    text: TextInput
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", (*self.picture.notes, *self.text.notes))

    def __len__(self) -> int:
        return len(self.picture) + len(self.text)

    @property
    def raw(self) -> dict[str, Any]:
        """The picture as the model sees it, and the text."""
        return {"picture": self.picture.raw, "text": self.text.raw}

    @property
    def title(self) -> str:
        """The file of the picture, and the text."""
        return f"{self.picture.source}: {self.text.text}"

    @property
    def default_unit(self) -> str:
        return f"{self.picture.default_unit}+{self.text.default_unit}"

    def content(self) -> bytes:
        return self.picture.content() + b"\0" + self.text.content()

    def unit_noun(self, name: str = "") -> str:
        """A cell or a word: both are parts."""
        return "part"

    @property
    def mask_length(self) -> int:
        """The pixels: no word is a thing in the picture."""
        return len(self.picture)

    @property
    def read_length(self) -> int:
        return self.picture.read_length + self.text.read_length

    def parts_of(self, unit: str = "") -> tuple[str, str]:
        """The name of a unit as the picture's and the text's own names."""
        named = [name for name in (unit or self.default_unit).split("+") if name]
        of_text = [name for name in named if name in TEXT_UNITS]
        of_picture = [name for name in named if name not in TEXT_UNITS]
        if len(of_text) > 1 or len(of_picture) > 1:
            raise HeedfulError(f"unknown unit {unit!r}", fix="Use one of each, such as grid:8+word")
        return (*of_picture, self.picture.default_unit)[0], (*of_text, self.text.default_unit)[0]

    def picture_units(self, unit: str = "") -> int:
        """How many of the units belong to the picture. They come first."""
        return len(self.picture.units(self.parts_of(unit)[0]))

    def units(self, name: str = "") -> Units:
        """Units of the picture, then of the text."""
        first, second = self.parts_of(name)
        joined = f"{first}+{second}"
        if joined not in self._partitions:
            self._partitions[joined] = _behind(joined, self.picture.units(first), self.text.units(second))
        return self._partitions[joined]

    @property
    def positions(self) -> Units:
        """Positions of the picture's encoder, then of the text's encoder."""
        first, second = self.picture.positions, self.text.positions
        return _behind(f"{first.name}+{second.name}", first, second)

    @cached_property
    def _partitions(self) -> dict[str, Units]:
        return {}  # filled as they are asked for


def _behind(name: str, first: Units, second: Units) -> Units:
    later = np.where(second.owner == NEVER, NEVER, second.owner + len(first))
    owner = np.concatenate([first.owner, later])
    labels, regions = (*first.labels, *second.labels), (*first.regions, *second.regions)
    return Units(name, labels, regions, owner)


def joint_of(x: Input) -> JointInput:
    """The input as a `JointInput`. Another input gives an error."""
    if not isinstance(x, JointInput):
        raise HeedfulError(
            f"this model reads a picture and a text, and the input is of the kind {x.modality!r}"
        )
    return x


def split_raw(raw: Any) -> tuple[Any, str]:
    """What the user gave, as what the picture's reader takes and the text."""
    if not isinstance(raw, Mapping) or "text" not in raw or "picture" not in raw:
        raise HeedfulError(
            "this model compares a picture with a text",
            fix='Give both: {"picture": "scene.png", "text": "a red circle"}, or --text on the command line',
        )
    if unknown := set(raw) - KEYS:
        raise HeedfulError(f"unknown keys: {', '.join(map(str, sorted(unknown)))}")
    if not isinstance(raw["text"], str):
        raise HeedfulError(f"the text is a {type(raw['text']).__name__}", fix="Give a string")
    return {name: raw[name] for name in ("picture", "regions") if name in raw}, raw["text"]


def picture_of(x: Input) -> ImageInput:
    """The picture of an input: the input itself, or its part."""
    return x.picture if isinstance(x, JointInput) else image_of(x)


def over_atoms(x: Input, scores: Floats) -> Floats:
    """Scores of the pixels as scores of all atoms: words, where there are some, score zero."""
    return np.concatenate([scores, np.zeros(len(x) - len(scores))])


def words_left_out(x: Input) -> tuple[str, ...]:
    """The note of a method that looks at the picture alone."""
    return ("looks at the picture alone: words score zero",) if isinstance(x, JointInput) else ()
