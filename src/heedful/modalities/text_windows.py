"""A long input in pieces that a model can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from heedful.core.errors import HeedfulError
from heedful.modalities.text import TextInput


def windows(x: TextInput, size: int) -> list[tuple[TextInput, list[int]]]:
    """Cut a text that is too long into pieces of at most `size` tokens, each with the special tokens around.

    Returns (piece, positions of its tokens in x). Pieces do not overlap and break between words (a word
    longer than the window is cut), so each token of the text is read exactly once.
    """
    if max(x.segments, default=0) > 0:
        raise HeedfulError(
            "windows work on a single text, not on a pair or a chat",
            fix="Use long='truncate' or shorten the text",
        )
    content = [t for t, is_special in enumerate(x.special) if not is_special]
    if not content:
        return [(x, list(range(len(x))))]
    head, tail = list(range(content[0])), list(range(content[-1] + 1, len(x)))
    room = size - len(head) - len(tail)
    if room < 1:
        raise HeedfulError(
            f"a window of {size} tokens has no room for words next to {len(head) + len(tail)} special ones"
        )
    pieces, start = [], 0
    while start < len(content):
        end = _window_end(x, content, start, room)
        positions = [*head, *content[start:end], *tail]
        pieces.append((select(x, positions), positions))
        start = end
    return pieces


def _window_end(x: TextInput, content: Sequence[int], start: int, room: int) -> int:
    end = min(start + room, len(content))
    if end < len(content):
        cut = end
        while cut > start and x.words[content[cut]] == x.words[content[cut - 1]]:
            cut -= 1
        end = cut if cut > start else end
    return end


def select(x: TextInput, positions: Sequence[int]) -> TextInput:
    """The same text with only some of its tokens; words are renumbered, offsets stay those of the text."""
    kept = sorted({x.words[t] for t in positions if x.words[t] >= 0})
    number = {word: index for index, word in enumerate(kept)}
    return replace(
        x,
        ids=tuple(x.ids[t] for t in positions),
        tokens=tuple(x.tokens[t] for t in positions),
        offsets=tuple(x.offsets[t] for t in positions),
        special=tuple(x.special[t] for t in positions),
        words=tuple(number.get(x.words[t], -1) for t in positions),
        word_spans=tuple(x.word_spans[word] for word in kept),
        segments=tuple(x.segments[t] for t in positions),
        type_ids=None if x.type_ids is None else tuple(x.type_ids[t] for t in positions),
    )
