"""Try it: change words and see what the methods claimed beside what the model does.

    claimed   minus the sum of the scores of the words that went: a signed score says how much a word adds
    actual    f(changed text) - f(text), of the explained number

A word that is replaced goes, too; of the new one no method said anything. Words are taken out by an operator,
as methods do it: on the tokens, so nothing else changes. Each word has its own; one that names none goes by
the operator that the methods used, and a claim says which: under another it answers another question.
A method without a sign claims no direction, and a claim is about the explained number only where the method's
scores are in its unit: gradients and attention are not, which is why claims are shown on each method's own
scale, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution, UnitScore
from heedful.core.defaults import CONTROL
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.core.target import Target
from heedful.modalities.operators import checked_operator
from heedful.modalities.text import TextInput, text_of
from heedful.modalities.text_windows import select
from heedful.models.adapter import token_model
from heedful.server import input_parts
from heedful.server.explanation_cache import ExplanationCache
from heedful.server.live_explain import claims_about, predicted
from heedful.server.schemas import requests, responses

STAND_INS = ("mask", "unk")
MAX_LABELS = 20  # most labels that are worked out one by one
Ways = dict[int, str]  # word that goes -> the operator by which it goes


def apply_edits(
    model: Model, ask: requests.WhatIfRequest, memory: ExplanationCache, waiting: int = 0
) -> responses.WhatIfResponse:
    have = claims_about(model, ask, memory, waiting)
    first: Attribution = next(iter(have.values()))
    x, target = text_of(first.x), first.target
    if model.window is not None and len(x) > model.window:
        raise HeedfulError(
            "a text longer than the model reads cannot be tried",
            f"it reads {model.window:,} tokens",
            "Shorten it",
        )
    gone, new = _sorted(ask, x, usual_operator(model, have))
    after, removed = x, gone
    if new:
        contents, places = input_parts.replaced(x, ask.contents, new, list(gone))
        after = text_of(model.encode(ask.given(contents), ask.long))
        removed = {
            word: way
            for (_, way), place in zip(_in_order(x, ask.contents, gone), places, strict=True)
            for word in input_parts.overlapping(after, contents, [place])
        }
    return responses.WhatIfResponse(
        before=_value(model, x, target, {}),
        after=_value(model, after, target, removed),
        text=_shown(after, removed),
        prediction=_predicted(model, after, removed),
        claims=[
            claim_of(item, item.words(), {*gone, *new})
            for item in have.values()
            if is_wanted(item, ask.methods)
        ],
        target=target.name,
        operators=sorted({*gone.values()}),
        notes=_notes(new, gone),
    )


def usual_operator(model: Model, have: Mapping[str, Attribution]) -> str:
    """The operator by which methods took units out: a claim is about what they did."""
    used = (item.params["operator"] for item in have.values() if "operator" in item.params)
    return str(next(used, model.operators[0]))


def _sorted(ask: requests.WhatIfRequest, x: TextInput, usual: str) -> tuple[Ways, dict[int, str]]:
    """(words that go and how, word -> what stands there instead)"""
    wrong = [edit.word for edit in ask.edits if edit.word >= len(x.word_spans)]
    if wrong:
        raise HeedfulError(f"there is no word {wrong[0]}", f"the text has {len(x.word_spans)}")
    new = {edit.word: edit.by for edit in ask.edits if edit.by is not None}
    gone = {edit.word: edit.operator or ask.operator or usual for edit in ask.edits if edit.word not in new}
    return dict(sorted(gone.items())), new


def _in_order(x: TextInput, contents: Sequence[str], gone: Ways) -> list[tuple[int, str]]:
    """As `input_parts.replaced` goes through them: part by part."""
    parts = [part for part, _, _ in input_parts.placed(x, contents)]
    return sorted(gone.items(), key=lambda pair: (parts[pair[0]], pair[0]))


def _value(model: Model, x: TextInput, target: Target, gone: Ways) -> float:
    """The explained number without some words."""
    if len({*gone.values()}) > 1:
        x, target, gone = _on_tokens(model, x, target, gone)
    keep = np.array([[x.words[unit[0]] not in gone for unit in x.units("word")]], dtype=bool)
    return float(model.values(x, target, keep, next(iter(gone.values()), None), "word")[0])


def _on_tokens(model: Model, x: TextInput, target: Target, gone: Ways) -> tuple[TextInput, Target, Ways]:
    """Several ways in one text: stand-in tokens are put in and tokens taken out by hand; what is left goes by
    one operator, which the model's rows do."""
    left = {word: way for word, way in gone.items() if way in ("pad", "mean", "swap")}
    if model.module is None or len({*left.values()}) > 1:  # a function reads text, not tokens
        ways = " and ".join(sorted({*gone.values()}))
        raise HeedfulError(f"words cannot go by {ways} at once here", fix="Let all of them go the same way")
    used = [checked_operator(way, model.operators) for way in STAND_INS if way in gone.values()]
    fill = {way: token for way in used if (token := model.special_id(way)) is not None}
    ids = tuple(fill.get(gone.get(word, ""), own) for word, own in zip(x.words, x.ids, strict=True))
    kept = [t for t, word in enumerate(x.words) if gone.get(word) != "delete"]
    words = sorted({x.words[t] for t in kept if x.words[t] >= 0})
    if target.position is not None:
        target = replace(target, position=sum(t < target.position for t in kept))
    return select(replace(x, ids=ids), kept), target, {words.index(word): way for word, way in left.items()}


def _shown(x: TextInput, gone: Ways) -> str:
    """As it reads: a word that is taken out takes one space with it, others leave a mark."""
    out, at = "", 0
    for word, way in sorted(gone.items()):
        start, end = x.word_spans[word]
        out, at = out + x.text[at:start], end
        after = x.text[at : at + 1]
        if way != "delete":
            out += f"[{way}]"
        elif after in ("", "\n"):
            out = out.removesuffix(" ")
        elif (not out or out[-1].isspace()) and after.isspace():
            at += 1
    return out + x.text[at:]


def _predicted(model: Model, x: TextInput, gone: Ways) -> list[responses.Prediction]:
    """What the model says of the changed text: of tokens taken out, from the scores of all labels."""
    if not gone:
        shares = model.predict(x)
    elif {*gone.values()} == {"delete"} and model.module is not None:
        reader, kept = token_model(model), [t for t, word in enumerate(x.words) if word not in gone]
        shares = reader.ranked(reader.logits(select(x, kept)), 5) if kept else []
    elif model.labels:
        shares = _shares(model, x, gone)
    else:
        shares = []  # a language model: only what is deleted leaves a text to go on from
    facts = {"kind": model.kind, "prediction": [list(pair) for pair in shares]}
    return predicted(Comparison((), model=facts))


def _shares(model: Model, x: TextInput, gone: Ways) -> list[tuple[str, float]]:
    """Of each label, from one removal row a label."""
    most = min(len(model.labels), MAX_LABELS)
    values = [_value(model, x, model.target(x, i), gone) for i in range(most)]
    if model.kind == "classifier" and most == len(model.labels):
        top = max(values)
        weights = [math.exp(value - top) for value in values]
        values = [weight / sum(weights) for weight in weights]
    elif model.kind == "multi-label":
        values = [1 / (1 + math.exp(-value)) for value in values]
    pairs = zip(model.labels, values, strict=False)
    return sorted(pairs, key=lambda pair: -pair[1])[:5]


def is_wanted(item: Attribution, methods: Sequence[str] | None) -> bool:
    return methods is None or item.method in methods or item.method == CONTROL


def claim_of(item: Attribution, scores: Sequence[UnitScore], gone: Collection[int]) -> responses.MethodClaim:
    """Minus what the units that went were said to add."""
    result = -sum(scores[unit].score for unit in gone)
    errors = [scores[unit].stderr for unit in gone]
    known = [error for error in errors if error is not None]
    stderr = math.sqrt(sum(error**2 for error in known)) if known else None
    return responses.MethodClaim(
        method=item.method,
        signed=item.signed,
        stderr=stderr,
        operator=item.params.get("operator"),
        claimed=result if math.isfinite(result) else None,
    )


def _notes(new: Mapping[int, str], gone: Ways) -> list[str]:
    out = []
    if new:
        out.append("The claims are about the words that were removed, not about the new words.")
    if len(new) + len(gone) > 1:
        out.append("The claims of several words are added. What words do together is not in them.")
    return out
