"""One method's answer: signed scores, one per token. Needs neither torch nor the model."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.input import Encoded
from heedful.core.result import NotebookRepr, StoredResult
from heedful.core.target import Target


@dataclass(frozen=True)
class Cost(NotebookRepr):
    """What an explanation cost. Rows are model inputs: `forwards` asked for, `unique` really run after
    duplicates and remembered rows were taken out."""

    forwards: int = 0
    backwards: int = 0
    unique: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def __sub__(self, other: Cost) -> Cost:
        return Cost(**{name: value - getattr(other, name) for name, value in asdict(self).items()})


@dataclass(frozen=True)
class UnitScore(NotebookRepr):
    """A word of the text with its score: the sum of its tokens' scores."""

    text: str
    score: float
    stderr: float | None
    start: int
    end: int


@dataclass(frozen=True)
class Written(NotebookRepr):
    """Scores of the tokens the model had already written before the one that is explained.

    An encoder-decoder's start token is none of them. `same_scale` is false where the scores cannot be
    compared with those of the text, so that no share of the two says anything.
    """

    x: Encoded  # what was written, as a text of its own
    scores: Floats  # (W,)
    stderr: Floats | None = None  # (W,)
    same_scale: bool = True

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.shape != (len(self.x),):
            raise ValueError(f"{scores.shape} scores for {len(self.x)} written tokens")
        object.__setattr__(self, "scores", scores)


@dataclass(frozen=True, repr=False)
class Attribution(StoredResult):
    """One method's answer: signed scores, one per token, with standard errors where the method samples.

    `signed` says what the scores mean: signed scores push towards (+) or away from (-) the target;
    unsigned ones (norms, attention) only say how much, so no sign is ever shown for them.
    `written` scores what the target says was already written; None where nothing was, or the method cannot.
    """

    kind: ClassVar[str] = "attribution"
    store: ClassVar[str] = "heedful.comparisons.run_folder"

    x: Encoded
    target: Target
    scores: Floats  # (T,)
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    stderr: Floats | None = None  # (T,)
    output: float = float("nan")  # f(x)
    base: float | None = None  # f(baseline), for methods that have one
    signed: bool = True
    cost: Cost = Cost()
    notes: tuple[str, ...] = ()
    # removal operators whose rows the method asked for; None: made elsewhere, by what is not known
    fitted_by: tuple[str, ...] | None = ()
    written: Written | None = None

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.shape != (len(self.x),):
            raise ValueError(f"{self.method or 'explainer'}: {scores.shape} scores for {len(self.x)} tokens")
        object.__setattr__(self, "scores", scores)

    @classmethod
    def over(
        cls,
        x: Encoded,
        written: Encoded | None,
        target: Target,
        scores: Floats,
        stderr: Floats | None = None,
        **more: Any,
    ) -> Attribution:
        """From scores of the text and, behind them, of what was written (None: of the text alone)."""
        if written is None:
            return cls(x, target, scores, stderr=stderr, **more)
        errors = (None, None) if stderr is None else (stderr[: len(x)], stderr[len(x) :])
        behind = Written(written, scores[len(x) :], errors[1])
        return cls(x, target, scores[: len(x)], stderr=errors[0], written=behind, **more)

    def of_written(self) -> Attribution | None:
        """The same answer about what was written, as an attribution of its own."""
        if self.written is None:
            return None
        part = self.written
        return replace(self, x=part.x, scores=part.scores, stderr=part.stderr, written=None, notes=())

    def __repr__(self) -> str:
        strongest = ", ".join(f"{word.text} {word.score:+.3g}" for word in self.top(3))
        return f"<heedful.Attribution {self.method} of {self.target.name!r}: {strongest}>"

    def words(self) -> list[UnitScore]:
        """Word view. A word removed as a whole has its score (and error) spread evenly over its tokens,
        so sums give both back exactly."""
        count = len(self.x.word_spans)
        totals, errors = np.zeros(count), np.zeros(count)
        for position, word in enumerate(self.x.words):
            if word >= 0:
                totals[word] += self.scores[position]
                errors[word] += 0.0 if self.stderr is None else self.stderr[position]
        return [
            UnitScore(
                self.x.word_text(i),
                float(totals[i]),
                None if self.stderr is None else float(errors[i]),
                *self.x.word_spans[i],
            )
            for i in range(count)
        ]

    def units(self, name: str = "word") -> list[UnitScore]:
        """Words, or the tokens or sentences that were scored when the unit is one of these."""
        if name == "word":
            return self.words()
        parts = []
        for positions in self.x.units(name):
            start = min(self.x.offsets[p][0] for p in positions)
            end = max(self.x.offsets[p][1] for p in positions)
            error = None if self.stderr is None else float(self.stderr[positions].sum())
            parts.append(
                UnitScore(self.x.text[start:end], float(self.scores[positions].sum()), error, start, end)
            )
        return parts

    def top(self, k: int = 5) -> list[UnitScore]:
        """The k words with the largest absolute score, largest first (ties in reading order)."""
        return sorted(self.words(), key=lambda word: -abs(word.score))[:k]

    @property
    def total(self) -> float:
        """Sum of all scores, those of what was written among them: what a complete method splits up."""
        return float(self.scores.sum()) + (0.0 if self.written is None else float(self.written.scores.sum()))

    @property
    def special_mass(self) -> float:
        """Share of the absolute score that sits on special tokens, which the word view leaves out."""
        total = float(np.abs(self.scores).sum())
        return float(np.abs(self.scores)[list(self.x.special)].sum()) / total if total else 0.0

    def to_csv(self) -> str:
        """One line per word: method, word, start, end, score, stderr."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["method", "word", "start", "end", "score", "stderr"])
        for word in self.words():
            error = "" if word.stderr is None else repr(word.stderr)
            writer.writerow([self.method, word.text, word.start, word.end, repr(word.score), error])
        return out.getvalue()
