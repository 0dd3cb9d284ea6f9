"""Which number is explained: turn what the user asks for into a `Target`.

A spec is None (the prediction itself), an index, a label, a token, "A rather than B" as {"label": A,
"contrast": B}, a place in the text {"position": k}, the token after what was already written
{"given": "..."}, a whole continuation {"sequence": "..."}, or one rather than another {"sequence": "...",
"contrast": "..."}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.io.labels import label_index
from heedful.modalities.text import TextInput

KEYS = {"label", "contrast", "position", "given", "sequence"}


def as_mapping(spec: Any) -> dict[str, Any]:
    """Any accepted spec in its long form."""
    if spec is None:
        return {}
    if isinstance(spec, bool) or not isinstance(spec, int | str | Mapping):
        raise HeedfulError(
            f"cannot read a target of type {type(spec).__name__}",
            fix="Give a label, an index, or a mapping with: " + ", ".join(sorted(KEYS)),
        )
    if not isinstance(spec, Mapping):
        return {"label": spec}
    if unknown := set(spec) - KEYS:
        raise HeedfulError(
            f"unknown target keys: {', '.join(sorted(unknown))}", fix=f"Known: {', '.join(sorted(KEYS))}"
        )
    return {key: value for key, value in spec.items() if value is not None}


def for_classifier(spec: Any, kind: str, labels: Sequence[str], predicted: int) -> Target:
    """Single label, multi-label and regression models: the spec names a label."""
    wish = as_mapping(spec)
    if extra := {"position", "given", "sequence"} & set(wish):
        raise HeedfulError(f"a {kind} has no {' and no '.join(sorted(extra))}", fix="Name a label instead")
    target_kind = {"classifier": "class", "multi-label": "label"}.get(kind, "regression")
    index = label_index(wish["label"], labels) if "label" in wish else predicted
    contrast = label_index(wish["contrast"], labels) if "contrast" in wish else None
    if contrast == index:
        raise HeedfulError(f"{labels[index]!r} cannot be contrasted with itself")
    return Target(
        kind=target_kind,
        index=index,
        label=labels[index],
        contrast=contrast,
        contrast_label="" if contrast is None else labels[contrast],
    )


def for_generator(
    spec: Any,
    x: TextInput,
    tokenize: Callable[[str], list[int]],
    show: Callable[[Sequence[int]], str],
    predicted: Callable[[Sequence[int]], int],
    vocabulary: int,
) -> Target:
    """Language models: a next token, an earlier token, or a continuation.

    `tokenize` gives the ids of a piece of text, `show` the text of ids, `predicted(given)` the model's own
    next token after the text and the tokens `given`.
    """
    wish = as_mapping(spec)
    if "sequence" in wish:
        return _continuation(wish, tokenize, show, vocabulary)
    position, given = _position(wish.get("position"), x), _ids(wish.get("given", ()), tokenize, vocabulary)
    if given and position is not None:
        raise HeedfulError("a target is at a position of the text or after it", fix="Drop position or given")
    if "label" in wish:
        index = _known(token_index(wish["label"], tokenize), vocabulary)
    else:
        index = x.ids[position] if position is not None else predicted(given)
    contrast = _known(token_index(wish["contrast"], tokenize), vocabulary) if "contrast" in wish else None
    if contrast == index:
        raise HeedfulError(f"{show([index])!r} cannot be contrasted with itself")
    return Target(
        kind="token",
        index=index,
        label=show([index]),
        position=position,
        contrast=contrast,
        contrast_label="" if contrast is None else show([contrast]),
        given=tuple(given),
    )


def _continuation(
    wish: Mapping[str, Any],
    tokenize: Callable[[str], list[int]],
    show: Callable[[Sequence[int]], str],
    vocabulary: int,
) -> Target:
    """A continuation, or one rather than another."""
    if extra := {"label", "position", "given"} & set(wish):
        raise HeedfulError(f"a sequence target takes no {', '.join(sorted(extra))}")
    ids = _ids(wish["sequence"], tokenize, vocabulary)
    if not ids:
        raise HeedfulError("the continuation to explain is empty")
    if "contrast" not in wish:
        return Target(kind="sequence", sequence=tuple(ids), label=show(ids))
    others = _ids(wish["contrast"], tokenize, vocabulary)
    if not others:
        raise HeedfulError("the continuation to contrast with is empty")
    if others == ids:
        raise HeedfulError(f"{show(ids)!r} cannot be contrasted with itself")
    return Target(
        kind="sequence",
        sequence=tuple(ids),
        label=show(ids),
        contrast_label=show(others),
        contrast_sequence=tuple(others),
    )


def _ids(wish: Any, tokenize: Callable[[str], list[int]], vocabulary: int) -> list[int]:
    """Tokens by text or by id."""
    if not isinstance(wish, str | Iterable):
        raise HeedfulError(f"{wish!r} is not a continuation", fix="Give text or a list of token ids")
    return [_known(token, vocabulary) for token in (tokenize(wish) if isinstance(wish, str) else wish)]


def _known(token: Any, vocabulary: int) -> int:
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
        raise HeedfulError(
            f"{token!r} is not in the vocabulary", f"it has {vocabulary:,} tokens, counted from 0"
        )
    return token


def _position(position: Any, x: TextInput) -> int | None:
    if position is None:
        return None
    if isinstance(position, bool) or not isinstance(position, int) or not 1 <= position < len(x):
        raise HeedfulError(
            f"position {position!r} is not in the text",
            f"a token is explained by those before it, so positions run from 1 to {len(x) - 1}",
        )
    return position


def token_index(wish: Any, tokenize: Callable[[str], list[int]]) -> Any:
    """A token by id or by text; text that is several tokens is refused, with the way out."""
    if not isinstance(wish, str):
        return wish  # checked against the vocabulary by the caller
    ids = tokenize(wish)
    if len(ids) != 1:
        spaced = wish if wish.startswith(" ") else f" {wish}"  # as it stands inside a text
        way = (
            f'Did you mean "{spaced}", with its space, which is one? Or explain'
            if len(tokenize(spaced)) == 1
            else "Explain"
        )
        raise HeedfulError(
            f"{wish!r} is {len(ids)} tokens for this model, not one",
            fix=f'{way} it whole: --sequence "{spaced}", in Python {{"sequence": "{spaced}"}}',
        )
    return ids[0]
