"""The texts of a trial, the model's answer to each, and how far two answers are apart.

    classifier, causal-lm   probabilities (of the next token); total variation, 1/2 sum |p - q|
    multi-label             one probability a label; the largest |p - q|
    regression              outputs; the largest |p - q|, in standard deviations of the outputs over the texts

Cost: one forward a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.core.progress import Progress
from heedful.io.labels import is_missing, label_index
from heedful.modalities.encode import long_of_many
from heedful.modalities.text import TextInput

if TYPE_CHECKING:
    from torch import Tensor

    from heedful.models.adapter import TokenModel

LABELLED = ("classifier", "multi-label")
KINDS = (*LABELLED, "regression", "causal-lm")


@dataclass(frozen=True, eq=False)
class Example:
    """One text, as the model reads and answers it."""

    x: TextInput
    answer: Floats  # (C,) or (V,): probabilities, or outputs in standard deviations
    label: int | None = None  # what people say


@dataclass(frozen=True, eq=False)
class Cases:
    """All texts of a trial, and the model."""

    model: TokenModel
    cases: tuple[Example, ...]
    scale: float = 1.0  # of a regression: standard deviation of its outputs
    notes: tuple[str, ...] = ()  # texts that were cut or could not be read, labels that are of no use

    def __len__(self) -> int:
        return len(self.cases)

    def answers(self, logits: Tensor) -> Tensor:
        """(n, C) logits -> (n, C) answers; differentiable."""
        if self.model.kind == "regression":
            return logits / self.scale
        return logits.sigmoid() if self.model.kind == "multi-label" else logits.softmax(-1)

    def apart(self, some: Tensor, others: Tensor) -> Tensor:
        """(n,): how far answers (n, C) are apart; differentiable."""
        gap = (some - others).abs()
        return gap.amax(-1) if self.model.kind in ("multi-label", "regression") else gap.sum(-1) / 2


def largest_change(changes: Floats) -> float:
    """The most a change of the answer can be: 1 for probabilities; a regression's has no limit."""
    return 1.0 if np.nanmax(changes, initial=0.0) <= 1 else np.inf


def prepare(
    model: Model,
    texts: Iterable[Any],
    labels: Sequence[Any] | None = None,
    *,
    long: str = "truncate",
    progress: Progress | None = None,
) -> Cases:
    """Read every text once. Texts that cannot be read are skipped, and notes say why. Labels are names or
    indices."""
    from heedful.models.adapter import token_model

    if model.kind not in KINDS:
        raise HeedfulError(
            f"a model of the kind {model.kind} cannot be put on trial",
            "the tests compare one output per text",
            "Use a classifier, a regression or a causal language model",
        )
    if why := model.lacks(["attentions", "edits"]):
        raise HeedfulError(f"{model.name} cannot be put on trial", why)
    model = token_model(model, "a trial")
    rule = long_of_many(long)
    if isinstance(texts, str):
        raise HeedfulError("texts cannot be one string", fix="Give a list of texts")
    texts = list(texts)
    given = [None] * len(texts) if labels is None else [label_of(model, label) for label in labels]
    if len(given) != len(texts):
        raise HeedfulError(f"{len(given)} labels were given for {len(texts)} texts")
    read: list[tuple[TextInput, Any, int | None]] = []
    notes, cut = [], 0
    if labels is not None and model.kind not in LABELLED:
        notes.append(f"labels are not used: a {model.kind} is compared with itself")
    for number, (text, label) in enumerate(zip(texts, given, strict=True), 1):
        try:
            x = model.encode(text, long=rule)
            read.append((x, model.logits(x).double(), label))
            cut += any(note.startswith("truncated") for note in x.notes)
        except HeedfulError as error:
            notes.append(f"text {number}: {error}")
        if progress is not None:
            progress(number, len(texts))
    if not read:
        raise HeedfulError("no text could be read", notes[-1] if notes else "", "Give at least one text")
    if cut:
        notes.append(f"{cut} of {len(read)} texts were cut to what the model reads")
    return _answered(model, read, tuple(notes))


def again(cases: Cases, model: TokenModel, most: int) -> Cases:
    """The first texts, answered by another model that reads them the same way."""
    read = [(case.x, model.logits(case.x).double(), case.label) for case in cases.cases[:most]]
    return _answered(model, read, ())


def _answered(
    model: TokenModel, read: list[tuple[TextInput, Any, int | None]], notes: tuple[str, ...]
) -> Cases:
    scale = 1.0
    if model.kind == "regression":
        spread = float(np.std([logits.numpy() for _, logits, _ in read], axis=0).max())
        scale = spread if spread > 0 else 1.0
    empty = Cases(model, (), scale)
    examples = (Example(x, empty.answers(logits[None])[0].numpy(), label) for x, logits, label in read)
    return Cases(model, tuple(examples), scale, notes)


def label_of(model: TokenModel, label: Any) -> int | None:
    """What people say of a text, as a position; None where they say nothing, or the model has no labels."""
    return None if is_missing(label) or model.kind not in LABELLED else label_index(label, model.labels)
