"""What a model wrote, as a text: behind the text it read (`extended`), or by itself (`written_text`).

The characters of token k are what decoding k tokens adds to decoding k - 1 of them. Half a character has no
place yet: it belongs to the token that completes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from heedful.core import text_spans
from heedful.core.arrays import Span
from heedful.core.input import Encoded
from heedful.modalities.text import build


def extended(tokenizer: Any, x: Encoded, answer: Sequence[int]) -> Encoded:
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
def written_text(tokenizer: Any, ids: tuple[int, ...]) -> Encoded:
    """The tokens by themselves. Kept, since all rows and methods ask for it; may hold no word at all."""
    text, spans, special = _decoded(tokenizer, (), ids)
    words, word_spans = text_spans.align_words(text, spans, special)
    return Encoded(
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
    start = len(str(tokenizer.decode(list(before))))
    tail, ends = "", [0]
    for k in range(1, len(answer) + 1):
        tail = str(tokenizer.decode([*before, *answer[:k]]))[start:]
        ends.append(max(len(tail.rstrip("\ufffd")), ends[-1]))  # half a character: not there yet
    controls = set(tokenizer.all_special_ids)
    return tail, list(pairwise(ends)), [token in controls for token in answer]
