"""Try it: change words and see what the methods claimed beside what the model does.

    claimed   minus the sum of the scores of the words that went: a signed score says how much a word adds
    actual    f(changed text) - f(text), of the explained number

A word that is replaced goes, too; of the new one no method said anything. Words are taken out by an operator,
as methods do it: on the tokens, so nothing else changes. A method without a sign claims no direction, and a
claim is about the explained number only where the method's scores are in its unit: gradients and attention
are not, which is why claims are shown on each method's own scale, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from heedful.errors import HeedfulError
from heedful.text import select
from heedful.types import CONTROL, Attribution, Comparison, Encoded, Target
from heedful.web import answers, asks, pieces
from heedful.web.looking import Memory, look, predicted

LABELS = 20  # most labels that are worked out one by one


def tried(model: Any, ask: asks.Try, memory: Memory) -> answers.Tried:
    whole = asks.Look(**{name: getattr(ask, name) for name in asks.Look.model_fields})
    have = memory.of(ask.key)
    if not have or not have.keys() >= set(ask.methods or ()):  # not asked before, or not for all of them
        look(model, whole, memory)
        have = memory.of(ask.key)
    first: Attribution = next(iter(have.values()))
    x, target = first.x, first.target
    if model.window is not None and len(x) > model.window:
        raise HeedfulError(
            "a text longer than the model reads cannot be tried",
            f"it reads {model.window:,} tokens",
            "Shorten it",
        )
    gone, new = _sorted(ask, x)
    after, removed = x, gone
    if new:
        contents, places = pieces.replaced(x, ask.contents, new, gone)
        after = model.encode(ask.given(contents), ask.long)
        removed = pieces.overlapping(after, contents, places)
    before, value = _value(model, x, target, []), _value(model, after, target, removed, ask.operator)
    shown = _without(after, removed) if ask.operator == "delete" else _marked(after, removed, ask.operator)
    return answers.Tried(
        before=before, after=value, text=shown,
        prediction=_predicted(model, after, removed, ask.operator),
        claims=[_claim(item, {*gone, *new}) for item in have.values() if _wanted(item, ask.methods)],
        target=target.name, notes=_notes(new, gone),
    )  # fmt: skip


def _sorted(ask: asks.Try, x: Encoded) -> tuple[list[int], dict[int, str]]:
    """(words that go, word -> what stands there instead)"""
    wrong = [edit.word for edit in ask.edits if edit.word >= len(x.word_spans)]
    if wrong:
        raise HeedfulError(f"there is no word {wrong[0]}", f"the text has {len(x.word_spans)}")
    new = {edit.word: edit.by for edit in ask.edits if edit.by is not None}
    return sorted({edit.word for edit in ask.edits} - set(new)), new


def _value(model: Any, x: Encoded, target: Target, gone: Sequence[int], operator: str | None = None) -> float:
    """The explained number without some words."""
    keep = np.array([[x.words[unit[0]] not in gone for unit in x.units("word")]])
    return float(model.rows(x, target, keep, operator if gone else None, "word")[0])


def _without(x: Encoded, gone: Sequence[int]) -> str:
    """As it reads: a word that goes takes one space with it."""
    out, at = "", 0
    for word in gone:
        start, end = x.word_spans[word]
        out += x.text[at:start]
        at = end
        if (not out or out[-1].isspace()) and x.text[at : at + 1].isspace():
            at += 1
    return out + x.text[at:]


def _marked(x: Encoded, gone: Sequence[int], operator: str) -> str:
    out, at = "", 0
    for word in gone:
        start, end = x.word_spans[word]
        out, at = out + x.text[at:start] + f"[{operator}]", end
    return out + x.text[at:]


def _predicted(model: Any, x: Encoded, gone: Sequence[int], operator: str) -> list[answers.Prediction]:
    """What the model says of the changed text: of tokens taken out, from the scores of all labels."""
    if not gone:
        shares = model.predict(x)
    elif operator == "delete" and hasattr(model, "ranked"):
        kept = [t for t, word in enumerate(x.words) if word not in gone]
        shares = model.ranked(model.logits(select(x, kept)), 5) if kept else []
    elif model.labels:
        shares = _shares(model, x, gone, operator)
    else:
        shares = []  # a language model: only what is deleted leaves a text to go on from
    facts = {"kind": model.kind, "prediction": [list(pair) for pair in shares]}
    return predicted(Comparison((), model=facts))


def _shares(model: Any, x: Encoded, gone: Sequence[int], operator: str) -> list[tuple[str, float]]:
    """Of each label, from one removal row a label."""
    most = min(len(model.labels), LABELS)
    values = [_value(model, x, model.target(x, i), gone, operator) for i in range(most)]
    if model.kind == "classifier" and most == len(model.labels):
        top = max(values)
        weights = [math.exp(value - top) for value in values]
        values = [weight / sum(weights) for weight in weights]
    elif model.kind == "multi-label":
        values = [1 / (1 + math.exp(-value)) for value in values]
    pairs = zip(model.labels, values, strict=False)
    return sorted(pairs, key=lambda pair: -pair[1])[:5]


def _wanted(item: Attribution, methods: Sequence[str] | None) -> bool:
    return methods is None or item.method in methods or item.method == CONTROL


def _claim(item: Attribution, words: set[int]) -> answers.Claim:
    """Minus what the words were said to add."""
    scores = item.words()
    said = -sum(scores[word].score for word in words)
    errors = [scores[word].stderr for word in words]
    known = [error for error in errors if error is not None]
    stderr = math.sqrt(sum(error**2 for error in known)) if known else None
    return answers.Claim(
        method=item.method, signed=item.signed, stderr=stderr,
        claimed=said if math.isfinite(said) else None,
    )  # fmt: skip


def _notes(new: dict[int, str], gone: Sequence[int]) -> list[str]:
    out = []
    if new:
        out.append("Methods spoke of the words that went, not of those that came.")
    if len(new) + len(gone) > 1:
        out.append("Claims of several words are added up; what words do together, they do not tell.")
    return out
