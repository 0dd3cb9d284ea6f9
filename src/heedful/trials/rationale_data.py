"""Texts with what people marked in them, some to train on and some held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from heedful.core.errors import HeedfulError
from heedful.io.datasets.labelled_texts import LabelledTexts
from heedful.io.rationales import Marked, spans_of
from heedful.trials import batches
from heedful.trials.batches import PaddedTexts

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

HELD_OUT = 5  # every fifth marked text is not trained on


def with_marks(model: TokenModel, given: LabelledTexts, length: int) -> tuple[PaddedTexts, PaddedTexts]:
    """(texts to train on, marked ones among them; marked texts that are held out)."""
    if given.labels is None or given.rationales is None:
        raise HeedfulError("texts with marks need labels, too", fix="Give train=(texts, labels, rationales)")
    every = list(zip(given.texts, given.labels, given.rationales, strict=True))
    marked = [
        (Marked(text, spans), label) for text, label, marks in every if (spans := spans_of(text, marks))
    ]
    if len(marked) < 2 * HELD_OUT:
        raise HeedfulError(f"{len(marked)} texts have marks", "too few to train on some and test on others")
    held_out = marked[::HELD_OUT]
    away = {item.text for item, _ in held_out}  # a text that stands twice is not trained on either
    rest = [pair for pair in marked if pair[0].text not in away]
    train, test = (_rows(model, part, length) for part in (rest, held_out))
    plain = [(text, label) for text, label, marks in every if not spans_of(text, marks) and text not in away]
    if plain:
        texts, labels = ([pair[k] for pair in plain] for k in (0, 1))
        train = batches.joined(batches.rows(model, texts, labels, length), train)
    return train, test


def _rows(model: TokenModel, pairs: Sequence[tuple[Marked, Any]], length: int) -> PaddedTexts:
    return batches.marked(model, [item for item, _ in pairs], [label for _, label in pairs], length)
