"""Which number is explained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from heedful.core.result import NotebookRepr

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Target(NotebookRepr):
    """The number that is explained.

    `heedful.explain` makes a target from a label or a token. You rarely make one yourself.

    The kinds, and the logits that they read:

        class       (n, C)              logit of class `index` (one label per text)
        label       (n, C)              logit of label `index` (several labels per text)
        regression  (n, C)              output `index`
        token       (n, V)              logit of token `index` at `position`, or after the tokens `given`
        sequence    (n, L, V)           sum of log-probabilities of the tokens `sequence`
        margin      (n, C) or (n, V)    logit of `index` minus the largest other logit
        similarity  (n, 1) or (n, 2)    cosine of the two vectors of a dual encoder; with a contrast also that
                                        with the other text ("logit": times the scale of the model)

    With a contrast, the target is "A rather than B": the difference of the two logits. For sequences, the
    target is the difference of the two sums. In this case the model reads every input twice, and the logits
    are (2n, L, V): first n inputs with A, then n inputs with B. L is the length of the longer sequence.

    Parameters
    ----------
    kind
        One of the kinds above.
    index
        Index of the class, label, output or token.
    label
        Name of the class, label, output or token.
    position
        For a token: its position in the text.
    sequence
        For a sequence: the token ids.
    contrast
        The index of B in "A rather than B".
    contrast_label
        The name of B.
    given
        Token ids that the model has already written after the text.
    contrast_sequence
        For sequences: the token ids of B.

    Examples
    --------
    >>> import heedful
    >>> heedful.Target("class", index=1, label="positive").name
    'positive'
    >>> heedful.Target("class", 1, "positive", contrast=0, contrast_label="negative").name
    'positive rather than negative'
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
        """Whether the target is "A rather than B"."""
        return self.contrast is not None or bool(self.contrast_sequence)

    @property
    def sides(self) -> tuple[Target, ...]:
        """The two sequences whose difference is the target. Any other target has one side: the target
        itself."""
        if not self.contrast_sequence:
            return (self,)
        other = Target("sequence", label=self.contrast_label, sequence=self.contrast_sequence)
        return replace(self, contrast_sequence=(), contrast_label=""), other

    @property
    def written(self) -> tuple[int, ...]:
        """Ids of the tokens that the model reads after the text."""
        return self.sequence[:-1] if self.kind == "sequence" else self.given

    def score(self, logits: Tensor) -> Tensor:
        """The explained number of each input, (n,), from logits (n, C), (n, V), (n, L, V) or (2n, L, V)."""
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
        """The label and, with a contrast, the other label."""
        label = self.label or f"{self.kind} {self.index}"
        return f"{label} rather than {self.contrast_label}" if self.contrasted else label
