"""One method's answer: signed scores, one per atom of the input. Needs neither torch nor the model."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.cost import Cost
from heedful.core.exports import frame_of, plot_of
from heedful.core.input import NEVER, Input, Region, Units, place_columns, place_of
from heedful.core.result import CodedResult, NotebookRepr
from heedful.core.result_kinds import result_kind
from heedful.core.target import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True)
class UnitScore(NotebookRepr):
    """A word, token or sentence with its score, which is the sum over its tokens.

    Parameters
    ----------
    text
        The text of the unit.
    score
        Score of the unit.
    stderr
        Standard error of the score. `None` if the method does not sample.
    region
        Where it is: the characters (start, end) of a text, or a box (left, top, right, bottom).

    Examples
    --------
    >>> import heedful
    >>> item = heedful.explain("zoo:sentiment", "The food was great", methods=["occlusion"])["occlusion"]
    >>> word = item.words()[3]
    >>> word.text, word.start, word.end
    ('great', 13, 18)
    """

    text: str
    score: float
    stderr: float | None
    region: Region

    @property
    def start(self) -> int:
        """Position of its first character in the text."""
        return self.region[0]

    @property
    def end(self) -> int:
        """Position after its last character."""
        return self.region[1]


@dataclass(frozen=True)
class Written(NotebookRepr):
    """Scores of the tokens that a model had already written before the token that is explained.

    The start token of an encoder-decoder is not included.

    Parameters
    ----------
    x
        The written tokens, as a separate input.
    scores
        One score per token.
    stderr
        Standard errors of the scores. `None` if the method does not sample.
    same_scale
        Whether the scores can be compared with those of the text.

    Examples
    --------
    >>> import heedful
    >>> import numpy as np
    >>> x = heedful.load("zoo:lm").encode(" of the")
    >>> len(heedful.Written(x, np.zeros(len(x))).scores) == len(x)
    True
    """

    x: Input  # what was written, as a text of its own
    scores: Floats  # (W,)
    stderr: Floats | None = None  # (W,)
    same_scale: bool = True

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.shape != (len(self.x),):
            raise ValueError(f"{scores.shape} scores for {len(self.x)} written tokens")
        object.__setattr__(self, "scores", scores)


@result_kind("attribution", version=1)
@dataclass(frozen=True, repr=False)
class Attribution(CodedResult):
    """The scores of one method for one prediction, one score per token.

    A signed score says whether a token pushes the output towards (+) or away from (-) the target. An unsigned
    score, such as a norm or attention, only says how much a token matters.

    Parameters
    ----------
    x
        The text as the model reads it.
    target
        The number that is explained.
    scores
        One score per token.
    method
        Name of the method.
    params
        Parameters of the method.
    stderr
        Standard errors of the scores. `None` if the method does not sample.
    output
        The value of the target for this text.
    base
        The value of the target for the baseline. `None` if the method has no baseline.
    signed
        Whether the sign of a score has a meaning.
    cost
        Model inputs, tokens and time that were used.
    notes
        Remarks of the method.
    fitted_by
        Removal operators that the method used to compute its scores. `None` if they are not known.
    written
        Scores of tokens that the model had already written. `None` if there were no such tokens, or if the
        method cannot score them.
    over
        What the scores belong to: "token" for texts.
    asked
        The units that were asked for, in which the scores are listed. If empty, those of `over`.

    Examples
    --------
    >>> import heedful
    >>> item = heedful.explain("zoo:sentiment", "The food was great", methods=["occlusion"])["occlusion"]
    >>> [word.text for word in item.words()]
    ['The', 'food', 'was', 'great']
    >>> item.top(1)[0].text
    'great'
    >>> item.to_frame().columns[:4].tolist()
    ['method', 'part', 'index', 'text']
    """

    kind: ClassVar[str] = "attribution"
    codec: ClassVar[str] = "heedful.comparisons.explanation_codec"

    x: Input
    target: Target
    scores: Floats  # (T,)
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    stderr: Floats | None = None  # (T,)
    output: float = float("nan")  # f(x)
    base: float | None = None  # f(baseline), for methods that have one
    signed: bool = True
    cost: Cost = field(default_factory=Cost)
    notes: tuple[str, ...] = ()
    # removal operators whose rows the method asked for; None: made elsewhere, by what is not known
    fitted_by: tuple[str, ...] | None = ()
    written: Written | None = None
    over: str = ""  # the atoms that the scores live on: "token" of a text
    asked: str = ""  # the units that were asked for; "": those that the scores were made for

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        object.__setattr__(self, "over", self.over or self.x.atom)
        count = len(self.x) if self.over == self.x.atom else len(self.x.units(self.over))
        if scores.shape != (count,):
            raise ValueError(f"{self.method or 'explainer'}: {scores.shape} scores for {count} {self.over}s")
        object.__setattr__(self, "scores", scores)

    def of_written(self) -> Attribution | None:
        """The scores of the written tokens as a separate attribution. `None` if there are no such scores."""
        if self.written is None:
            return None
        part = self.written
        return replace(self, x=part.x, scores=part.scores, stderr=part.stderr, written=None, notes=())

    def __repr__(self) -> str:
        strongest = ", ".join(f"{word.text} {word.score:+.3g}" for word in self.top(3))
        return f"<heedful.Attribution {self.method} of {self.target.name!r}: {strongest}>"

    @property
    def own_unit(self) -> str:
        """The units that were asked for, else those that the scores were made for. Scores by atom are shown
        by the input's default units."""
        return self.asked or (self.x.default_unit if self.over == self.x.atom else self.over)

    def units(self, name: str = "") -> list[UnitScore]:
        """Units with their scores. "" means the units that were asked for. If a unit was removed as a
        whole, its score and its standard error are spread evenly over its atoms, so the sums over atoms are
        exact."""
        units = self.x.units(name or self.own_unit)
        errors = [None] * len(units) if self.stderr is None else self._pooled(self.stderr, units).tolist()
        return [
            UnitScore(label, score, error, region)
            for label, score, error, region in zip(
                units.labels, self.unit_scores(units.name).tolist(), errors, units.regions, strict=True
            )
        ]

    def unit_scores(self, name: str = "") -> Floats:
        """One score per unit, (d,). The score of a unit is the sum over its atoms."""
        return self._pooled(self.scores, self.x.units(name or self.own_unit))

    def _pooled(self, values: Floats, units: Units) -> Floats:
        """Values of the units they were made for, as sums over other units. A unit's value is spread evenly
        over its atoms first."""
        if self.over == units.name and self.over != self.x.atom:
            return np.array(values)
        return units.sums(values if self.over == self.x.atom else self.x.units(self.over).spread(values))

    def words(self) -> list[UnitScore]:
        """The words of a text with their scores; of another input, the units that were scored."""
        return self.units()

    def top(self, k: int = 5) -> list[UnitScore]:
        """The k words with the largest absolute score, largest first (ties in reading order)."""
        return sorted(self.units(), key=lambda unit: -abs(unit.score))[:k]

    @property
    def total(self) -> float:
        """Sum of all scores, including scores of written tokens. For a complete method, this sum is the
        change of the output from the baseline to the text."""
        return float(self.scores.sum()) + (0.0 if self.written is None else float(self.written.scores.sum()))

    @property
    def special_mass(self) -> float:
        """Share of the absolute scores on special tokens. Special tokens belong to no unit, so lists of words
        do not show them."""
        if self.over != self.x.atom:  # made for units: nothing is outside
            return 0.0
        total, outside = float(np.abs(self.scores).sum()), self.x.units(self.over).owner == NEVER
        return float(np.abs(self.scores)[outside].sum()) / total if total else 0.0

    def save(self, folder: str | Path, keep: str = "png") -> Path:
        """Write a run folder, which `load` and `heedful report` open.

        `keep` says what is stored of a picture: a small copy ("png"), or only the path of its file and the
        checksum ("path").
        """
        data = import_module(self.codec).attribution_to_dict(self, keep)
        return Path(import_module("heedful.io.run_folder").write(folder, self, stored=data))

    def to_csv(self) -> str:
        """One line per word: method, word, start, end, score, stderr. For a picture, the box of each unit;
        for a picture with a text, both, and what a unit does not have is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns = place_columns(self.x.units(self.own_unit).regions)
        name = "unit" if "left" in columns else "word"
        writer.writerow(["method", name, *columns, "score", "stderr"])
        for word in self.words():
            error = math.nan if word.stderr is None else word.stderr
            numbers = ["" if math.isnan(value) else repr(value) for value in (word.score, error)]
            writer.writerow([self.method, word.text, *place_of(word.region, columns), *numbers])
        return out.getvalue()

    def to_frame(self, unit: str = "") -> DataFrame:
        """A pandas table, one row per unit: method, part, index, text, start, end, score, stderr, signed. For
        a picture: left, top, right and bottom instead of start and end; for a picture with a text, both."""
        return frame_of(self, unit=unit)

    def plot(self, unit: str = "", top: int = 20) -> Figure:
        """A matplotlib figure with one bar per unit: the `top` strongest units, in reading order. A picture
        is shaded. `figure.savefig("map.png")` writes it, also as .svg or .pdf."""
        return plot_of(self, unit=unit, top=top)
