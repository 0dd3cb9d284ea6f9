"""What a model wrote, as a text: behind the text it read (`extended`), by itself (`written_text`), or as its
decoder reads it (`decoder_text`).

The characters of token k are what decoding k tokens adds to decoding k - 1 of them. Half a character has no
place yet: it belongs to the token that completes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from heedful.core.arrays import Span
from heedful.modalities import text_spans
from heedful.modalities.encode import build
from heedful.modalities.text import TextInput
from heedful.modalities.tokenizer_calls import decoded


def extended(tokenizer: Any, x: TextInput, answer: Sequence[int]) -> TextInput:
    """x with the tokens of `answer` behind it, as one text."""
    tail, spans, special = _decoded(tokenizer, x.ids, answer)
    start = len(x.text)
    turn = max(x.segments, default=-1) + (len(set(x.segments) - {-1}) > 1)  # a new turn of a chat
    return build(
        tokenizer,
        x.text + tail,
        (*x.ids, *answer),
        (*x.offsets, *((start + a, start + b) for a, b in spans)),
        (*x.special, *special),
        (*x.segments, *(-1 if flag else max(turn, 0) for flag in special)),
        None if x.type_ids is None else (*x.type_ids, *[x.type_ids[-1]] * len(answer)),
    )


@lru_cache(maxsize=64)
def written_text(tokenizer: Any, ids: tuple[int, ...]) -> TextInput:
    """The tokens by themselves. Kept, since all rows and methods ask for it; may hold no word at all."""
    text, spans, special = _decoded(tokenizer, (), ids)
    words, word_spans = text_spans.align_words(text, spans, special)
    return TextInput(
        text=text,
        ids=ids,
        tokens=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        offsets=tuple((0, 0) if flag else span for span, flag in zip(spans, special, strict=True)),
        special=tuple(special),
        words=tuple(words),
        word_spans=tuple(word_spans),
        segments=tuple(-1 if flag else 0 for flag in special),
    )


def _decoded(
    tokenizer: Any, before: Sequence[int], answer: Sequence[int]
) -> tuple[str, list[Span], list[bool]]:
    """(characters that `answer` adds behind `before`, which of them each token has, which are special)."""
    start = len(decoded(tokenizer, before))
    tail, ends = "", [0]
    for k in range(1, len(answer) + 1):
        tail = decoded(tokenizer, [*before, *answer[:k]])[start:]
        ends.append(max(len(tail.rstrip("\ufffd")), ends[-1]))  # half a character: not there yet
    controls = set(tokenizer.all_special_ids)
    return tail, list(pairwise(ends)), [token in controls for token in answer]


def decoder_text(tokenizer: Any, ids: Sequence[int]) -> TextInput:
    """Tokens a decoder reads as a text of their own, with words; the first, its start, is special."""
    controls = set(tokenizer.all_special_ids)
    special = tuple(k == 0 or token in controls for k, token in enumerate(ids))
    before, ends = decoded(tokenizer, ids[:1]), [0]
    for k in range(2, len(ids) + 1):
        tail = decoded(tokenizer, ids[:k])[len(before) :]
        ends.append(max(len(tail.rstrip("\ufffd")), ends[-1]))  # half a character: not there yet
    text = decoded(tokenizer, ids)[len(before) :]
    spans = (
        (0, 0),
        *((0, 0) if flag else span for span, flag in zip(pairwise(ends), special[1:], strict=True)),
    )
    words, word_spans = text_spans.align_words(text, spans, special)
    return TextInput(
        text=text,
        ids=tuple(ids),
        tokens=tuple(_name(tokenizer, token) for token in ids),
        offsets=spans,
        special=special,
        words=tuple(words),
        word_spans=tuple(word_spans),
        segments=tuple(-1 if flag else 0 for flag in special),
    )


def _name(tokenizer: Any, token: int) -> str:
    """Models may have more embeddings than their tokenizer has tokens, and write one of those."""
    return str(tokenizer.convert_ids_to_tokens([token])[0] or f"<{token}>")
