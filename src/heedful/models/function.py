"""A plain function `list[str] -> scores` as a model: the black box. Only text goes in, so only text can be
removed: words are deleted from the text or replaced by a string or by other words, and the function is asked
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.cost import Meter
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Masks, Model
from heedful.core.progress import Progress
from heedful.core.target import Target
from heedful.modalities import text_spans
from heedful.modalities.operators import InputRow, checked
from heedful.modalities.swap_words import replacements
from heedful.modalities.text import TextInput, text_of
from heedful.models import passes, targets

Scores = Callable[[list[str]], Any]
MASK = "[MASK]"


class FunctionModel(Model):
    """Scores are (n,) or (n, C) numbers; with C > 1 each column is a label."""

    kind = "function"
    operators: tuple[str, ...] = ("delete", "mask", "swap")
    capabilities = frozenset({"values"})

    def __init__(
        self, function: Scores, labels: Sequence[str] | None = None, name: str = "", mask: str = MASK
    ) -> None:
        self.function, self.mask = function, mask
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.meter = Meter()
        self._labels = None if labels is None else tuple(labels)

    @property
    def labels(self) -> tuple[str, ...]:
        if self._labels is None:
            self._labels = tuple(f"score {i}" for i in range(self.scores(["a"]).shape[1]))
        return self._labels

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "labels": list(self.labels),
            "window": None,
            "class": "function",
        }

    def encode(self, raw: Any, long: str = "error") -> TextInput:
        """Words are the tokens: the function's own tokens are its secret."""
        if isinstance(raw, Input):
            return text_of(raw)
        text = raw
        if not isinstance(text, str):
            raise HeedfulError(
                "a function explains single texts", f"not a {type(text).__name__}", "Give a string"
            )
        spans = text_spans.split_words(text)
        if not spans:
            raise HeedfulError("the text is empty", fix="Give at least one word")
        count = len(spans)
        return TextInput(
            text=text,
            ids=tuple(range(count)),
            tokens=tuple(text[start:end] for start, end in spans),
            offsets=tuple(spans),
            special=(False,) * count,
            words=tuple(range(count)),
            word_spans=tuple(spans),
            segments=(0,) * count,
        )

    def target(self, x: Input, spec: Any = None) -> Target:
        if isinstance(spec, Target):
            return spec
        scores = self.scores([text_of(x).text])[0]
        return targets.for_classifier(spec, "regression", self.labels, int(scores.argmax()))

    def predict(self, x: Input, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        scores = self.scores([text_of(x).text])[0]
        order = np.argsort(-scores, kind="stable")[:k]
        return [(self.labels[i], float(scores[i])) for i in order]

    def rows(
        self, x: Input, target: Target, keep: Masks, operator: str | None = None, unit: str = ""
    ) -> list[InputRow]:
        x = text_of(x)
        keep, operator, groups = checked(x, keep, operator, unit, self.operators)
        new = _swaps(x, groups) if operator == "swap" else {}
        texts = [
            self._without(x, {t for d in np.flatnonzero(~row).tolist() for t in groups[d]}, operator, new)
            for row in keep
        ]
        return [InputRow(ids=(), text=text) for text in texts]

    def values(
        self,
        x: Input,
        target: Target,
        keep: Masks,
        operator: str | None = None,
        unit: str = "",
        progress: Progress | None = None,
        cache: passes.RowCache | None = None,
    ) -> Floats:
        rows = self.rows(x, target, keep, operator, unit)
        values, _ = passes.evaluate(
            rows,
            lambda chunk: self._targets([row.text for row in chunk], target),
            memory=cache,
            most=64,
            progress=progress,
        )
        self.meter.forwards += len(rows)
        return values

    def _without(self, x: TextInput, gone: set[int], operator: str, new: Mapping[int, str]) -> str:
        """The text with some words out; deletion takes the white space before each too, so no gap is left.
        With "swap", `new` tells what stands at a unit's first word; its other words go."""
        pieces, cursor = [""], 0
        swapped = False  # the last piece ends with a word that was put in
        for t, (start, end) in enumerate(x.offsets):
            coming = t in gone and t in new
            if t not in gone:
                piece = x.text[cursor:end]
            elif operator == "mask":
                piece = x.text[cursor:start] + self.mask
            else:
                piece = x.text[cursor:start] + new[t] if coming else ""
            # in place of a comma, a word must not grow together with its neighbour, which is still there
            if (coming or swapped) and pieces[-1][-1:].isalnum() and piece[:1].isalnum():
                piece = f" {piece}"
            if piece:
                pieces.append(piece)
                swapped = coming
            cursor = end
        pieces.append(x.text[cursor:])
        joined = "".join(pieces)
        return joined.lstrip() if operator == "delete" and 0 in gone else joined

    def _targets(self, texts: list[str], target: Target) -> Floats:
        with self.meter.counted(unique=len(texts)):
            values: Any = target.score(self.scores(texts))  # type: ignore[arg-type]
        return np.asarray(values)

    def scores(self, texts: list[str]) -> Floats:
        """(n, C): what the function says of each text; not counted."""
        return checked_scores(self.function(texts), len(texts), self.name, self._labels, "text")


def checked_scores(
    result: Any, count: int, name: str, labels: Sequence[str] | None = None, what: str = "text"
) -> Floats:
    """What a function returned for `count` inputs, as (count, C) float64; nonsense is refused at once."""
    each = f"Return one number, or one list of numbers, per {what}"
    try:
        raw = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError):
        raise HeedfulError(f"{name} gave no numbers, but a {type(result).__name__}", fix=each) from None
    scores = raw[:, None] if raw.ndim == 1 else raw
    if scores.ndim != 2 or len(scores) != count:
        raise HeedfulError(f"{name} gave scores of shape {raw.shape} for {count} {what}s", fix=each)
    if labels is not None and scores.shape[1] != len(labels):
        raise HeedfulError(f"{len(labels)} labels were given, but {name} gives {scores.shape[1]} scores")
    if not np.isfinite(scores).all():
        raise HeedfulError(f"{name} gave NaN or infinity")
    return scores


def _swaps(x: TextInput, groups: Sequence[Sequence[int]]) -> dict[int, str]:
    """By a unit's first word, what stands for the unit."""
    texts = [x.text[x.offsets[group[0]][0] : x.offsets[group[-1]][1]] for group in groups]
    drawn = replacements(x.text, texts)
    return {group[0]: word for group, word in zip(groups, drawn, strict=True)}
