"""The result of a lab: sentences, tables, figures and claims, in the order they were made.

A claim is a sentence that holds or fails, with the number it is based on. The number has a 95 % interval, or
the range of all numbers if the sentence is about every one, or is exact: arithmetic without random numbers.
A report holds when all its claims do. Needs neither torch nor the lab: a saved report opens anywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from heedful.core.document import Figure, Paragraph
from heedful.core.exports import frame_of, frames_of
from heedful.core.result import CodedResult, reports
from heedful.core.result_kinds import result_kind

if TYPE_CHECKING:
    from pandas import DataFrame

FIGURE_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")  # of its file
SLACK = 1e-9  # of rounding, between a value and the end of its interval

Value = str | int | float | None


@dataclass(frozen=True)
class NumberTable:
    """Rows of numbers and words; numbers keep all their digits until they are shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Claim:
    """A tested sentence and whether it holds. Every seed gives the same sentences, with other digits."""

    sentence: str
    value: float
    holds: bool
    interval: tuple[float, float] | None = None  # None: exact
    against: float | None = None  # the control the value is compared with
    control: str = ""  # what that is, in a few words

    def __post_init__(self) -> None:
        if not self.sentence.strip():
            raise ValueError("a claim is a sentence")
        if not math.isfinite(self.value) or (self.against is not None and not math.isfinite(self.against)):
            raise ValueError(f"{self.sentence!r}: its numbers are not finite")
        if self.interval is not None:
            low, high = self.interval
            slack = SLACK * max(1.0, abs(self.value))
            if not (low - slack <= self.value <= high + slack and math.isfinite(high - low)):
                raise ValueError(f"{self.sentence!r}: {self.value} is not in a finite {self.interval}")

    @property
    def exact(self) -> bool:
        return self.interval is None


Part = Paragraph | NumberTable | Figure | Claim


@result_kind("lab", version=1)
@dataclass(frozen=True, repr=False, eq=False)
class LabReport(CodedResult):
    """The result of `heedful.run_lab`: text, tables, figures and claims.

    Parameters
    ----------
    lab
        Name of the lab.
    title
        Title of the lab.
    cite
        The paper or book that the lab is about.
    parts
        Paragraphs, tables, figures and claims, in order.
    settings
        How the lab was run: fast, seed, seconds, versions.

    Examples
    --------
    >>> import heedful
    >>> report = heedful.run_lab("attention-by-hand", fast=True)
    >>> report
    <heedful.LabReport of attention-by-hand: All 8 claims hold.>
    >>> report.to_frame()["holds"].all()
    np.True_
    """

    kind: ClassVar[str] = "lab"
    codec: ClassVar[str] = "heedful.io.lab_codec"

    lab: str
    title: str
    cite: str
    parts: tuple[Part, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # fast, seed, seconds, versions

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims, in order."""
        return tuple(part for part in self.parts if isinstance(part, Claim))

    @property
    def tables(self) -> tuple[NumberTable, ...]:
        """The tables, in order."""
        return tuple(part for part in self.parts if isinstance(part, NumberTable))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures, in order."""
        return tuple(part for part in self.parts if isinstance(part, Figure))

    def to_frame(self) -> DataFrame:
        """The claims as a pandas table: sentence, value, interval, control, and whether the claim holds."""
        return frame_of(self)

    def to_frames(self) -> dict[str, DataFrame]:
        """The tables of the lab by title, as pandas tables."""
        return frames_of(self)

    @property
    def holds(self) -> bool:
        """Whether the results confirm every claim."""
        return all(claim.holds for claim in self.claims)

    @property
    def answer(self) -> str:
        """A sentence that says how many claims the results confirm."""
        count, kept = len(self.claims), sum(claim.holds for claim in self.claims)
        if kept == count:
            return "Its claim holds." if count == 1 else f"All {count} claims hold."
        return f"{count - kept} of {count} claim{'s' * (count > 1)} failed."

    def __repr__(self) -> str:
        return f"<heedful.LabReport of {self.lab}: {self.answer}>"

    def views(self) -> dict[str, bytes]:
        """The report, and every figure as NAME.svg."""
        draw, standalone = reports("charts.draw").svg, reports("charts.export_svg").standalone
        drawn = {f"{each.name}.svg": standalone(draw(each.chart)).encode() for each in self.figures}
        return drawn | {"report.html": self.page().encode()}
