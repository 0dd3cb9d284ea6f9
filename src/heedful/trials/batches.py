"""Texts to train and to test on, as padded rows of ids with labels.

    rows       training texts, cut to one length
    of_cases   the texts of a trial, cut alike
    marked     texts in which people marked the words that made them decide
    joined     both kinds in one

A text longer than `length` tokens loses its end, as everywhere in heedful; special tokens stay.
Cost: tokenizing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.io.rationales import Marked, by_unit
from heedful.modalities.encode import fit as shortened
from heedful.modalities.text import TextInput
from heedful.models.adapter import TokenModel
from heedful.models.backend import Inputs
from heedful.trials.examples import Cases, label_of

LENGTH = 128  # tokens


@dataclass(frozen=True, eq=False)
class PaddedTexts:
    """Texts as the model reads them, padded on the right."""

    ids: Tensor  # (n, L)
    mask: Tensor  # (n, L), 0 = padding
    special: Tensor  # (n, L) bool: tokens the tokenizer added
    labels: Tensor  # (n,)
    types: Tensor | None = None  # (n, L)
    marks: Tensor | None = None  # (n, L) bool: tokens that people marked; nothing where nobody looked
    pad: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    def pick(self, which: Tensor) -> Inputs:
        """Some of the texts, without columns that are padding in all of them."""
        mask = self.mask[which]
        width = int(mask.sum(1).max())
        types = None if self.types is None else self.types[which, :width]
        return Inputs(self.ids[which, :width], mask[:, :width], types)


def rows(model: TokenModel, texts: Sequence[Any], labels: Sequence[Any], length: int = LENGTH) -> PaddedTexts:
    """Training texts with their labels. Strings go through the tokenizer at once, which is quick."""
    if not len(texts):
        raise HeedfulError("there are no training texts", fix="Give texts with their labels to train on")
    if len(texts) != len(labels):
        raise HeedfulError(f"{len(labels)} labels were given for {len(texts)} training texts")
    truth = [label_of(model, label) for label in labels]
    if any(label is None for label in truth):
        raise HeedfulError("a training text has no label", fix="Leave texts without a label out")
    most = min(length, model.window or length)
    if not all(isinstance(text, str) for text in texts):
        encoded = [shortened(model.encode(text, long="truncate"), most, "truncate") for text in texts]
        return of_encoded(encoded, truth, model)
    batch = model.encode_many(texts, most)
    if any(not row for row in batch["input_ids"]):
        raise HeedfulError("a training text is empty", fix="Leave it out")
    types = batch.get("token_type_ids")
    return _padded(batch["input_ids"], batch["special_tokens_mask"], truth, model, types)


def of_cases(cases: Cases, length: int = LENGTH) -> PaddedTexts:
    """The texts of a trial, cut alike; all of them need a label."""
    if any(case.label is None for case in cases.cases):
        raise HeedfulError("a text to test on has no label", fix="Give labels with the texts")
    return of_encoded(cut(cases, length), [case.label for case in cases.cases], cases.model)


def cut(cases: Cases, length: int = LENGTH) -> list[TextInput]:
    return [shortened(case.x, min(length, cases.model.window or length), "truncate") for case in cases.cases]


def of_encoded(encoded: Sequence[TextInput], labels: Sequence[Any], model: TokenModel) -> PaddedTexts:
    types = [x.type_ids for x in encoded] if encoded[0].type_ids is not None else None
    return _padded([x.ids for x in encoded], [x.special for x in encoded], labels, model, types)


def marked(
    model: TokenModel, items: Sequence[Marked], labels: Sequence[Any], length: int = LENGTH
) -> PaddedTexts:
    """Texts with marks, one bool a token; words that were cut off take their marks along."""
    if not items:
        raise HeedfulError("there are no marked texts")
    most = min(length, model.window or length)
    encoded = [shortened(model.encode(item.text, long="truncate"), most, "truncate") for item in items]
    data = of_encoded(encoded, [label_of(model, label) for label in labels], model)
    marks = torch.zeros_like(data.special)
    for row, (x, item) in enumerate(zip(encoded, items, strict=True)):
        for (position,), mark in zip(x.units("token"), by_unit(x, item.spans, "token"), strict=True):
            marks[row, position] = mark
    return replace(data, marks=marks)


def joined(some: PaddedTexts, others: PaddedTexts) -> PaddedTexts:
    """All texts of both; what has no marks gets empty ones."""
    width = max(some.ids.shape[1], others.ids.shape[1])

    def both(name: str, by: int = 0) -> Any:
        parts = [getattr(some, name), getattr(others, name)]
        if all(part is None for part in parts):
            return None
        empty = [torch.zeros_like(data.special if name == "marks" else data.ids) for data in (some, others)]
        filled = [blank if part is None else part for part, blank in zip(parts, empty, strict=True)]
        pad = torch.nn.functional.pad
        return torch.cat([pad(part, (0, width - part.shape[1]), value=by) for part in filled])

    labels = torch.cat([some.labels, others.labels])
    ids, mask, special = both("ids", some.pad), both("mask"), both("special")
    return PaddedTexts(
        ids=ids,
        mask=mask,
        special=special,
        labels=labels,
        types=both("types"),
        marks=both("marks"),
        pad=some.pad,
    )


def _padded(ids: Any, special: Any, labels: Sequence[Any], model: TokenModel, types: Any) -> PaddedTexts:
    width, pad = max(map(len, ids)), model.special_id("pad") or 0

    def filled(parts: Any, by: int) -> Tensor:
        return torch.tensor([[*map(int, part), *[by] * (width - len(part))] for part in parts])

    mask = filled([[1] * len(row) for row in ids], 0)
    kinds = None if types is None else filled(types, 0)
    return PaddedTexts(
        ids=filled(ids, pad),
        mask=mask,
        special=filled(special, 0).bool(),
        labels=torch.tensor(list(labels)),
        types=kinds,
        marks=None,
        pad=pad,
    )
