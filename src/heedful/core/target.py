"""Which number is explained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from heedful.core.result import NotebookRepr

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Target(NotebookRepr):
    """Which number is explained. `score` maps the model's logits to one scalar a row.

    kind        logits it reads     the number
    class       (n, C)              logit of class `index` (single label)
    label       (n, C)              logit of label `index` (multi-label: no softmax between labels)
    regression  (n, C)              output `index`
    token       (n, V)              logit of token `index` at `position`, or after the tokens `given`
    sequence    (n, L, V)           sum of log-probabilities of the tokens `sequence`
    margin      (n, C) or (n, V)    logit of `index` less the largest other: positive while it is predicted

    `contrast` turns it into "A rather than B": the difference of the two logits. For a sequence that is
    `contrast_sequence`, the difference of the two sums: the model reads every row twice, and the logits are
    (2n, L, V), those with A first; L is the longer of the two.
    """

    kind: str
    index: int = 0
    label: str = ""
    position: int | None = None
    sequence: tuple[int, ...] = ()
    contrast: int | None = None
    contrast_label: str = ""
    given: tuple[int, ...] = ()  # what the model has already written after the text
    contrast_sequence: tuple[int, ...] = ()

    @property
    def contrasted(self) -> bool:
        return self.contrast is not None or bool(self.contrast_sequence)

    @property
    def sides(self) -> tuple[Target, ...]:
        """The sequences whose difference this is; a target that is read once is its own only side."""
        if not self.contrast_sequence:
            return (self,)
        other = Target("sequence", label=self.contrast_label, sequence=self.contrast_sequence)
        return replace(self, contrast_sequence=(), contrast_label=""), other

    @property
    def written(self) -> tuple[int, ...]:
        """Tokens read after the text."""
        return self.sequence[:-1] if self.kind == "sequence" else self.given

    def score(self, logits: Tensor) -> Tensor:
        """(n, C) or (n, V) or (n, L, V) or (2n, L, V) -> (n,)"""
        if self.contrast_sequence:
            (this, that), half = self.sides, len(logits) // 2
            return this.score(logits[:half]) - that.score(logits[half:])
        if self.kind == "sequence":
            logp = logits.log_softmax(-1)  # (n, L, V)
            steps = range(len(self.sequence))
            return logp[:, list(steps), list(self.sequence)].sum(-1)
        chosen = logits[:, self.index]
        if self.kind == "margin":
            others = [i for i in range(logits.shape[1]) if i != self.index]
            best: Any = logits[:, others].max(-1)
            largest: Tensor = getattr(best, "values", best)  # torch gives (values, indices), numpy the values
            return chosen - largest
        return chosen if self.contrast is None else chosen - logits[:, self.contrast]

    @property
    def name(self) -> str:
        label = self.label or f"{self.kind} {self.index}"
        return f"{label} rather than {self.contrast_label}" if self.contrasted else label
