"""What features are said to mean, and how well that predicts them, as data. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from heedful.core.result import NotebookRepr
from heedful.features.interpretation.scores import AgreementScore


@dataclass(frozen=True)
class Explanation:
    """What a feature is said to fire on."""

    text: str
    by: str  # "rules", or the name of a language model
    rule: Any = None  # what a simulator of the same kind needs beside the text
    greatest: float = 1.0  # the strongest training activation: the scale of predictions
    found: bool = True  # False: nothing was found, and the text says so


@dataclass(frozen=True)
class Scores:
    """Of one explanation on one feature's held-out examples."""

    detection: AgreementScore
    pearson: AgreementScore
    spearman: AgreementScore

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).to_dict() for name in ("detection", "pearson", "spearman")}


@dataclass(frozen=True)
class Interpretation(NotebookRepr):
    """A feature, what is said about it, and how well that predicts it beside the controls."""

    feature: int
    explanation: Explanation
    scores: Scores | None  # None: too few examples
    controls: dict[str, Scores] = field(default_factory=dict)
    examples: tuple[int, int] = (0, 0)  # of training, held out
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "feature": self.feature,
            "explanation": self.explanation.text,
            "by": self.explanation.by,
            "scores": self.scores.to_dict() if self.scores else None,
            "controls": {name: scores.to_dict() for name, scores in self.controls.items()},
            "examples": {"training": self.examples[0], "held out": self.examples[1]},
            "notes": list(self.notes),
        }


def together(found: Sequence[Interpretation]) -> dict[str, dict[str, AgreementScore]]:
    """Means over the features that were scored, with Student's intervals: {"": ..., "shuffled": ...}."""
    out: dict[str, dict[str, AgreementScore]] = {}
    for who in ("", "shuffled", "permuted"):
        scored = [i.scores if not who else i.controls.get(who) for i in found]
        values = [s for s in scored if s is not None]
        if values:
            out[who] = {
                name: AgreementScore.mean([getattr(s, name).value for s in values], least)
                for name, least in (("detection", 0.0), ("pearson", -1.0), ("spearman", -1.0))
            }
    return out
