"""What a lab leaves behind: sentences, tables, figures and claims, in the order they were made.

A claim is a sentence that held or failed, with the number it rests on. Its number has a 95 % interval, or the
range of all numbers if the sentence is about every one, or is exact: arithmetic, in which nothing was drawn.
A report holds when all its claims do. Needs neither torch nor the lab: a saved report opens anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from heedful.core.result import StoredResult, TextResult, reports
from heedful.core.result_kinds import result_kind

SLACK = 1e-9  # of rounding, between a value and the end of its interval


Cell = str | int | float | None


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of numbers and words; numbers keep all their digits until they are shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Figure:
    """An image as SVG text, written as NAME.svg."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Claim:
    """What was to be shown, and whether it was. Every seed ends in the same sentences, with other digits."""

    sentence: str
    value: float
    holds: bool
    interval: tuple[float, float] | None = None  # None: exact
    against: float | None = None  # the control the value is read by
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


Part = Paragraph | Table | Figure | Claim


@result_kind("lab", version=1)
@dataclass(frozen=True, repr=False, eq=False)
class LabReport(TextResult, StoredResult):
    """The result of `heedful.run_lab`."""

    kind: ClassVar[str] = "lab"

    lab: str
    title: str
    cite: str
    parts: tuple[Part, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # fast, seed, seconds, versions

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(part for part in self.parts if isinstance(part, Claim))

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(part for part in self.parts if isinstance(part, Table))

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(part for part in self.parts if isinstance(part, Figure))

    @property
    def holds(self) -> bool:
        """Whether every claim held."""
        return all(claim.holds for claim in self.claims)

    @property
    def answer(self) -> str:
        """The claims counted, in a sentence."""
        count, kept = len(self.claims), sum(claim.holds for claim in self.claims)
        if kept == count:
            return "Its claim holds." if count == 1 else f"All {count} claims hold."
        return f"{count - kept} of {count} claim{'s' * (count > 1)} failed."

    def __repr__(self) -> str:
        return f"<heedful.LabReport of {self.lab}: {self.answer}>"

    def to_dict(self) -> dict[str, Any]:
        """Parts with their kind, and the claims by themselves, for other readers."""
        data = super().to_dict()
        kinds = [type(part).__name__.lower() for part in self.parts]
        parts = [{"kind": kind, **part} for kind, part in zip(kinds, data["parts"], strict=True)]
        claims = [part for kind, part in zip(kinds, data["parts"], strict=True) if kind == "claim"]
        return {**data, "parts": parts, "holds": self.holds, "claims": claims}

    def run_title(self) -> str:
        return self.title

    def views(self) -> dict[str, bytes]:
        """The report, and every figure as NAME.svg."""
        standalone = reports("charts.export_svg").standalone
        drawn = {f"{figure.name}.svg": standalone(figure.svg).encode() for figure in self.figures}
        return drawn | {"report.html": self.page().encode()}
