"""Attention maps of one pass of the user's own model, as data.

With gradients: one forward and backward (`model.trace`), in eager attention by the scoped switch. Without, or
where the model makes no prediction: one forward. A target at an earlier place of a causal model's text is
traced only up to that place; the whole text is then read once more, and later rows have a gradient of zero,
which is exact, since no token looks ahead.

What a query may look at is all of the text, or, where no query ever looks ahead, what came before. Weights
that are exactly 0 in all heads of a layer beside that are a mask, such as a sliding window, or attention that
is very sharp: the pass is then run once more and the masks themselves are read.

Cost: 1 forward, 1 backward with gradients, 1 forward for masks where there are zeros. Needs: a model that
shows its attention weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.core.target import Target
from heedful.heads.maps import MapAxis, Maps, Weights
from heedful.heads.word_maps import reachable
from heedful.modalities.text import TextInput
from heedful.models import targets
from heedful.models.adapter import TokenModel
from heedful.models.token_reader import GENERATORS

if TYPE_CHECKING:
    from torch import Tensor

# how far a row may be from a sum of one before the reader is told; bfloat16 stays below
MAX_ROW_SUM_ERROR = 1e-3


@dataclass(frozen=True)
class Captured:
    """What one pass showed."""

    x: TextInput  # with what was written behind it, for a causal model
    stacks: tuple[Maps, ...]
    target: Target | None
    readout: tuple[float, ...]
    notes: tuple[str, ...]


def captured(model: Model, x: TextInput, spec: Any, answer: Any, gradients: bool) -> Captured:
    """Maps of the whole text; see `heedful.attention`."""
    if not isinstance(model, TokenModel):
        raise _shows_none(model, "it is a function of texts, not a transformer")
    wish = _wish(model, x, spec, answer)
    needed = gradients and model.kind != "encoder"
    target = model.target(x, wish) if needed or wish is not None or _writes_apart(model) else None
    if target is not None and target.contrast_sequence:
        raise HeedfulError(
            "an atlas shows one pass",
            "one continuation rather than another takes two",
            "Give each continuation its own: answer='...'",
        )
    trace: Any = None
    notes: tuple[str, ...] = ()
    if gradients and not (why := model.lacks(["attentions"])):
        assert target is not None  # an encoder without one lacks the maps' gradients
        trace = model.trace(x, target)
    elif gradients:
        notes = (f"no gradients: {why}",)
    partial = trace is None or (target is not None and target.position is not None)
    observed = model.attention_only(x, target) if partial else trace
    if not observed.attentions and not observed.cross:
        raise _shows_none(model, "no attention weights come back from it")
    written = target.written if target is not None else ()
    whole = model.extended(x, written) if written and model.kind == "causal-lm" else x
    stacks, hidden = _masked(model, x, target, _stacks(model, whole, written, observed, trace))
    return Captured(
        x=whole,
        stacks=stacks,
        target=None if trace is None else target,
        readout=() if trace is None else _longer(trace.readout, observed),
        notes=(*x.notes, *observed.notes, *notes, *hidden, *_loose(stacks)),
    )


def _shows_none(model: Model, why: str) -> HeedfulError:
    return HeedfulError(
        f"{model.name} shows no attention",
        why,
        "Give a transformers model and its tokenizer, or a module whose forward returns (logits, attentions)",
    )


def _writes_apart(model: TokenModel) -> bool:
    return bool(model.kind == "encoder-decoder")


def _wish(model: TokenModel, x: TextInput, spec: Any, answer: Any) -> Any:
    """The target spec that makes the model read `answer` as what it wrote."""
    if model.kind == "encoder":
        if spec is not None:
            model.target(x, spec)  # says why there is none
        return None
    if answer is None:
        return spec
    if model.kind not in GENERATORS:
        raise HeedfulError(f"a {model.kind} writes no answer", fix="Leave answer out")
    ids = answer_ids(model, answer)
    requested = {} if isinstance(spec, Target) else targets.as_mapping(spec)
    if isinstance(spec, Target) or requested.keys() & {"sequence", "given", "position"}:
        raise HeedfulError("the target already contains the continuation", fix="Leave answer out")
    return {**requested, "given": ids} if requested else {"sequence": ids}


def answer_ids(model: TokenModel, answer: Any) -> list[int]:
    """Tokens of a forced answer; an encoder-decoder's ends with its end token, so that every word is read."""
    if not isinstance(answer, str):
        return [int(token) for token in answer]
    ids = model.token_ids(answer)
    if not ids:
        raise HeedfulError("the answer is empty", fix="Give at least one word, or leave it out")
    end = model.special_id("eos") if _writes_apart(model) else None
    return ids if end is None or ids[-1] == end else [*ids, end]


# --- maps -----------------------------------------------------------------------------------------------


def _stacks(
    model: TokenModel, x: TextInput, written: Sequence[int], seen: Any, found: Any
) -> tuple[Maps, ...]:
    """Every stack the pass showed, "self" first."""
    text = text_side(x)
    if not seen.cross:
        weights = _array(seen.attentions, model)
        queries = text if weights.shape[2] == len(text) else _pooling(weights.shape[2])
        return (_maps("self", weights, queries, text, found and found.grad_attentions),)
    answer = _answer_side(model, x, written, seen.cross[0].shape[-2])
    parts = (
        ("self", "attentions", text, text),
        ("decoder", "decoder_attentions", answer, answer),
        ("cross", "cross", answer, text),
    )
    return tuple(
        _maps(name, _array(maps, model), queries, keys, found and getattr(found, f"grad_{field}"))
        for name, field, queries, keys in parts
        if (maps := getattr(seen, field))
    )


def _maps(name: str, weights: Weights, queries: MapAxis, keys: MapAxis, grads: Any) -> Maps:
    made = Maps(name, weights, queries, keys, causal=is_causal(weights))
    if not grads:
        return made
    full = np.zeros_like(weights)
    for layer, grad in enumerate(grads):  # fewer rows when the target stands earlier: the others feel nothing
        values = _numpy(grad)
        full[layer, :, : values.shape[1], : values.shape[2]] = values
    return replace(made, grads=full)


def is_causal(weights: Weights) -> bool:
    """Whether no query of a square map looks ahead: measured, since classifiers may be decoders, too."""
    queries, keys = weights.shape[2:]
    return queries == keys > 1 and not np.triu(weights.any((0, 1)), 1).any()


def _masked(
    model: TokenModel, x: TextInput, target: Target | None, stacks: tuple[Maps, ...]
) -> tuple[tuple[Maps, ...], tuple[str, ...]]:
    """Stacks with their masks, where zeros say that there are some, and a note where these cannot be read."""
    if not any((reachable(maps) & ~maps.weights.any(1)).any() for maps in stacks):
        return stacks, ()
    if model.lacks(["edits"]):
        return stacks, (
            "some weights are exactly 0 in all heads; this model does not show its masks, so uniform heads "
            "and scores count these keys as if they could be looked at",
        )
    masks: dict[tuple[str, int], Any] = {}

    def read(seen: Any) -> Any:
        masks[seen.site.stack, seen.site.layer] = seen.allowed.expand_as(seen.weights)[0].any(0).cpu().numpy()
        return seen

    with model.attending(read):
        model.attention_only(x, target)
    return tuple(_with_mask(maps, masks) for maps in stacks), ()


def _with_mask(maps: Maps, masks: Mapping[tuple[str, int], Any]) -> Maps:
    """Only where it hides more than is known already."""
    allowed = np.stack([masks[maps.stack, layer] for layer in range(maps.layers)])  # (L, Q, K)
    return maps if (allowed == reachable(maps)).all() else replace(maps, allowed=allowed)


def _array(maps: Sequence[Tensor], model: TokenModel) -> Weights:
    """(L, H, Q, K) float32 from one tensor a layer."""
    layers = [_numpy(layer) for layer in maps]
    if len({layer.shape for layer in layers}) > 1:
        shapes = ", ".join(str(layer.shape) for layer in layers)
        raise _shows_none(model, f"its layers show maps of different shapes, {shapes}")
    return np.stack(layers)


def _numpy(layer: Tensor) -> Any:
    return layer.float().cpu().numpy()


def _loose(stacks: Sequence[Maps]) -> tuple[str, ...]:
    """A note where rows do not sum to one, as with a sink that is not shown."""
    sums = [maps.weights.sum(-1) for maps in stacks]
    low, high = min(float(s.min()) for s in sums), max(float(s.max()) for s in sums)
    if low > 1 - MAX_ROW_SUM_ERROR and high < 1 + MAX_ROW_SUM_ERROR:
        return ()
    return (f"rows of these maps do not sum to one, but to between {low:.3g} and {high:.3g}",)


def _longer(readout: tuple[float, ...], seen: Any) -> tuple[float, ...]:
    """With zeros for the positions after the target's, which it does not feel."""
    queries = (seen.cross or seen.attentions)[-1].shape[-2]
    return (*readout, *[0.0] * (queries - len(readout)))


# --- edges ----------------------------------------------------------------------------------------------


def text_side(x: TextInput) -> MapAxis:
    """The tokens of a text; a piece that continues a word is shown as ##piece, whatever the tokenizer."""
    labels, before = [], -1
    for token, span, special, word in zip(x.tokens, x.offsets, x.special, x.words, strict=True):
        read = x.text[slice(*span)].strip()
        shown = token if special or not read else f"##{read}" if word == before >= 0 else read
        labels.append(shown)
        before = word
    texts = tuple(map(x.word_text, range(len(x.word_spans))))
    return MapAxis(tuple(labels), x.special, x.words, x.segments, texts)


def _pooling(queries: int) -> MapAxis:
    """Queries that are no tokens of the text: a learned one that reads the answer off."""
    names = ("answer",) if queries == 1 else tuple(f"query {q}" for q in range(queries))
    return MapAxis(names, (False,) * queries, (-1,) * queries, (-1,) * queries)


def _answer_side(model: TokenModel, x: TextInput, written: Sequence[int], length: int) -> MapAxis:
    """What a decoder reads: its start token, then what was written; a classifier's reads the text again."""
    start = model.special_id("decoder_start")
    ids = [start or 0, *(written if model.kind == "encoder-decoder" else x.ids[:-1])]
    if len(ids) != length:
        return _pooling(length)
    return text_side(model.decoder_text(ids))


def written(model: TokenModel, x: TextInput, answer: Any = None) -> Any:
    """What an encoder-decoder is made to write, as a target; None for models that write nothing apart."""
    if model.kind != "encoder-decoder":
        return None
    ids = model.answer(x) if answer is None else answer_ids(model, answer)
    if not ids:
        raise HeedfulError("the model writes nothing for it")
    return Target("sequence", sequence=tuple(ids))
