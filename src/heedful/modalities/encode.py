"""A tokenizer's output as `TextInput`: plain text, text pairs and chat messages.

Needs a fast tokenizer (one with offsets). Tokens the tokenizer or the chat template added are `special`;
control tokens that stand in the user's own text are not, but a note says that the model obeys them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heedful.core.arrays import Span
from heedful.core.errors import HeedfulError
from heedful.modalities import text_spans, text_windows
from heedful.modalities.chat_template import render
from heedful.modalities.text import TextInput
from heedful.modalities.tokenizer_calls import tokenized

FEW_CHARACTERS, MANY_CHARACTERS = 8, 128  # per token: at least, and at most, of texts that are counted first
MARKER = re.compile("\ue000[0-9]+\ue001")
PAIR_SEPARATOR = "\n"  # stands between the two parts in TextInput.text; belongs to no token


def encode(tokenizer: Any, text: Any, most: int | None = None) -> TextInput:
    """Tokenize a string, a pair or messages, without truncation: `fit` decides about long texts.

    `most` refuses a text with more tokens at once, before the work of aligning its words.
    """
    require_fast(tokenizer)
    if isinstance(text, str):
        _refuse_long(tokenizer, _checked(text), most)
        return _single(tokenizer, text)
    if isinstance(text, tuple) and len(text) == 2 and isinstance(text[0], str) and isinstance(text[1], str):
        _refuse_long(tokenizer, _checked(text[0]) + _checked(text[1]), most)
        return _pair(tokenizer, *text)
    if isinstance(text, Sequence) and text and all(isinstance(turn, Mapping) for turn in text):
        return _chat(tokenizer, list(text), most)
    raise HeedfulError(
        f"cannot read a text of type {type(text).__name__}",
        fix="Give a string, a pair (text, text) or a list of {'role': ..., 'content': ...} messages",
    )


def _refuse_long(tokenizer: Any, text: str, most: int | None) -> None:
    """Before its tokens are aligned with its words, which takes far longer than to count them. Of a text that
    is surely too long, only the beginning is counted."""
    if most is None or len(text) <= FEW_CHARACTERS * most:
        return
    start = text[: MANY_CHARACTERS * most]
    count = len(tokenized(tokenizer, start)["input_ids"])
    if count > most:
        raise too_long(count, len(text), most, more=len(start) < len(text))


def require_fast(tokenizer: Any) -> None:
    if not getattr(tokenizer, "is_fast", False):
        raise HeedfulError(
            f"the tokenizer {type(tokenizer).__name__} gives no character offsets",
            "heedful needs a fast tokenizer to map tokens back to the text",
            "Load it with AutoTokenizer.from_pretrained(..., use_fast=True)",
        )


def _checked(text: str) -> str:
    if not text.strip():
        raise HeedfulError("the text is empty", fix="Give at least one word")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise HeedfulError(
            "the text contains a lone surrogate, which is not a character",
            f"at position {error.start}",
            "Decode the file as UTF-8 first",
        ) from None
    return text


def _single(tokenizer: Any, text: str) -> TextInput:
    batch = tokenized(tokenizer, text, return_offsets_mapping=True, return_special_tokens_mask=True)
    special = [bool(flag) for flag in batch["special_tokens_mask"]]
    bos, ids = tokenizer.bos_token_id, batch["input_ids"]
    doubled = bos is not None and len(ids) > 1 and ids[0] == ids[1] == bos and special[0] and not special[1]
    start = 1 if doubled else 0  # the text brought its own BOS: the added one goes
    type_ids = batch.get("token_type_ids")
    return build(
        tokenizer,
        text,
        ids[start:],
        text_spans.repair_offsets(text, batch["offset_mapping"][start:], special[start:]),
        special[start:],
        [-1 if flag else 0 for flag in special[start:]],
        None if type_ids is None else type_ids[start:],
    )


def _pair(tokenizer: Any, first: str, second: str) -> TextInput:
    batch = tokenized(tokenizer, first, second, return_offsets_mapping=True, return_special_tokens_mask=True)
    special = [bool(flag) for flag in batch["special_tokens_mask"]]
    parts = batch.sequence_ids(0)
    shift = len(first) + len(PAIR_SEPARATOR)
    in_first = text_spans.repair_offsets(first, batch["offset_mapping"], [part != 0 for part in parts])
    in_second = text_spans.repair_offsets(second, batch["offset_mapping"], [part != 1 for part in parts])
    offsets = [
        (b[0] + shift, b[1] + shift) if part == 1 else a
        for a, b, part in zip(in_first, in_second, parts, strict=True)
    ]
    segments = [-1 if flag or part is None else part for flag, part in zip(special, parts, strict=True)]
    joined = first + PAIR_SEPARATOR + second
    return build(
        tokenizer, joined, batch["input_ids"], offsets, special, segments, batch.get("token_type_ids")
    )


def _chat(tokenizer: Any, messages: list[Mapping[str, str]], most: int | None) -> TextInput:
    """Render with the model's own template and tokenize the result, adding nothing (no second BOS)."""
    if not getattr(tokenizer, "chat_template", None):
        raise HeedfulError(
            "this tokenizer has no chat template",
            fix="Give plain text, or a model that was trained for chat",
        )
    for turn in messages:
        if not isinstance(turn.get("role"), str) or not isinstance(turn.get("content"), str):
            raise HeedfulError(
                f"not a chat message: {dict(turn)!r}", fix="Use {'role': 'user', 'content': '...'}"
            )
    waiting = messages[-1]["role"] != "assistant"
    rendered = _checked(render(tokenizer, messages, waiting))
    _refuse_long(tokenizer, rendered, most)
    batch = tokenized(tokenizer, rendered, add_special_tokens=False, return_offsets_mapping=True)
    spans = text_spans.repair_offsets(rendered, batch["offset_mapping"], [False] * len(batch["input_ids"]))
    turns = _content_spans(tokenizer, rendered, messages, waiting)
    segments = _turns_of(spans, turns)
    special = [segment < 0 for segment in segments]
    return build(
        tokenizer, rendered, batch["input_ids"], spans, special, segments, batch.get("token_type_ids")
    )


def _content_spans(
    tokenizer: Any, rendered: str, messages: list[Mapping[str, str]], waiting: bool
) -> list[Span | None]:
    """Where each message's content stands in the rendered text.

    The template is rendered once more with markers for contents; what stands between the markers is
    scaffolding, so a content that reads like scaffolding ("user") is found where it really stands. A template
    that reads its contents, and so writes something else around the markers, is searched from left to right.
    """
    markers = [f"\ue000{index}\ue001" for index in range(len(messages))]  # as MARKER finds them
    marked = [{**turn, "content": marker} for turn, marker in zip(messages, markers, strict=True)]
    frame = render(tokenizer, marked, waiting)
    for strip in (False, True):  # templates may strip what they are given
        contents = [turn["content"].strip() if strip else turn["content"] for turn in messages]
        if spans := _fill(frame, markers, contents, rendered):
            return spans
    return _search(rendered, messages)


def _fill(frame: str, markers: list[str], contents: list[str], rendered: str) -> list[Span | None] | None:
    """Spans of the contents when putting them in place of the markers gives the rendered text, else None."""
    if MARKER.findall(frame) != markers:
        return None
    spans, parts, end = list[Span | None](), list[str](), 0
    between = MARKER.split(frame)
    for before, content in zip(between, contents, strict=False):  # one more stands behind the last content
        parts += (before, content)
        end += len(before) + len(content)
        spans.append((end - len(content), end) if content.strip() else None)
    return spans if "".join(parts) + between[-1] == rendered else None


def _search(rendered: str, messages: list[Mapping[str, str]]) -> list[Span | None]:
    spans: list[Span | None] = []
    cursor = 0
    for turn in messages:
        content = turn["content"].strip()
        result = rendered.find(content, cursor) if content else -1
        spans.append((result, result + len(content)) if result >= 0 else None)
        cursor = result + len(content) if result >= 0 else cursor
    return spans


def _turns_of(spans: Sequence[Span], turns: Sequence[Span | None]) -> list[int]:
    """For each token the first turn that it shares a character with, else -1. Turns are in order."""
    known = [(turn, index) for index, turn in enumerate(turns) if turn is not None]
    ends = [turn[1] for turn, _ in known]
    segments = []
    for start, end in spans:
        place = bisect_right(ends, start)  # the first turn that ends behind the start of the token
        inside = place < len(known) and known[place][0][0] < end
        segments.append(known[place][1] if inside else -1)
    return segments


ENDLESS = 1000  # characters without a break that no tokenizer can know as one word


def _refuse_endless_words(tokenizer: Any, content: Sequence[tuple[int, Span]]) -> None:
    unknown = [end - start for token, (start, end) in content if token == tokenizer.unk_token_id]
    if unknown and max(unknown) > ENDLESS:
        raise HeedfulError(
            f"{max(unknown):,} characters without a break are one unknown word to this model",
            "there is nothing in them to explain",
            "Give text with spaces between the words",
        )


def _notes(
    tokenizer: Any, text: str, content: Sequence[tuple[int, Span]], read: Sequence[Span]
) -> Iterator[str]:
    """What the reader must know: control tokens, unknown words, characters outside all `read` spans."""
    controls = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    control = sorted(tokenizer.convert_ids_to_tokens(list({t for t, _ in content if t in controls})))
    if control:
        yield f"the text holds {', '.join(control)}, which the model reads as control, not as words"
    unknown = list(dict.fromkeys(text[slice(*span)] for t, span in content if t == tokenizer.unk_token_id))
    if unknown:
        shown = ", ".join(word[:20] for word in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        yield f"unknown to the model: {shown}"
    inside = {i for start, end in read for i in range(start, end)}
    dropped = [c for i, c in enumerate(text) if not c.isspace() and i not in inside]
    if dropped:
        codes = ", ".join(f"U+{ord(c):04X}" for c in list(dict.fromkeys(dropped))[:5])
        yield f"{len(dropped)} characters never reach the model ({codes})"


def build(
    tokenizer: Any,
    text: str,
    ids: Sequence[int],
    offsets: Sequence[Span],
    special: Sequence[bool],
    segments: Sequence[int],
    type_ids: Sequence[int] | None,
) -> TextInput:
    words, word_spans = text_spans.align_words(text, offsets, special)
    if not word_spans:
        raise HeedfulError(
            "no token of the text reaches the model",
            "the tokenizer drops all of its characters",
            "Check the text for control characters; of a chat, check that its template writes the messages",
        )
    content = [(token, span) for token, span, flag in zip(ids, offsets, special, strict=True) if not flag]
    _refuse_endless_words(tokenizer, content)
    return TextInput(
        text=text,
        ids=tuple(int(token) for token in ids),
        tokens=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        offsets=tuple((0, 0) if flag else span for span, flag in zip(offsets, special, strict=True)),
        special=tuple(special),
        words=tuple(words),
        word_spans=tuple(word_spans),
        segments=tuple(segments),
        type_ids=None if type_ids is None else tuple(type_ids),
        notes=tuple(_notes(tokenizer, text, content, [*word_spans, *offsets])),
    )


def knows_unknown_words(tokenizer: Any) -> bool:
    """Whether its unknown token ever stands for a word. Byte-level tokenizers name one (often a control such
    as end-of-text) but can spell everything, so no model has seen it in place of a word."""
    ids = tokenized(tokenizer, "𪚥 ꙮ ⸎", add_special_tokens=False)["input_ids"]  # in nobody's vocabulary
    return tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids


LONG = ("error", "truncate", "window")
LONG_OF_MANY = ("skip", "truncate")  # what functions of many texts offer: one long text does not stop them


def long_of_many(long: str) -> str:
    """The `long` of `encode` for one of many texts: to skip it, it is refused, and the caller goes on."""
    if long not in LONG_OF_MANY:
        raise HeedfulError(f"long cannot be {long!r}", fix=f"Use one of: {', '.join(LONG_OF_MANY)}")
    return "error" if long == "skip" else long


class TooLong(HeedfulError):
    """A text longer than the model reads: callers that cannot read in windows give other advice."""


def too_long(tokens: int, characters: int, window: int, *, more: bool = False) -> HeedfulError:
    """`more`: it has more tokens than these."""
    least = "more than " if more else ""
    return TooLong(
        f"the text has {least}{tokens:,} tokens ({characters:,} characters)",
        f"the model reads at most {window:,}, so that is {least}{tokens - window:,} too many",
        "Shorten it, or use long='truncate' or long='window' (--long truncate, --long window)",
    )


def fit(x: TextInput, window: int | None, long: str, *, keep: str = "start") -> TextInput:
    """What to do with a text longer than the model's window: never silently.

    "truncate" keeps the start of the text (the end for causal language models, whose next token needs it);
    "window" leaves it whole: the explanation is then made window by window and joined.
    """
    if long not in LONG:
        raise HeedfulError(f"unknown setting long={long!r}", fix=f"Use one of: {', '.join(LONG)}")
    if window is None or len(x) <= window:
        return x
    if long == "error":
        raise too_long(len(x), len(x.text), window)
    if long == "window":
        pieces = len(text_windows.windows(x, window))
        note = f"{len(x):,} tokens read in {pieces} windows of at most {window:,}; the outputs are averaged"
        return replace(x, notes=(*x.notes, note))
    content = [t for t, flag in enumerate(x.special) if not flag]
    surplus = len(x) - window
    if surplus >= len(content):
        raise HeedfulError(f"the model's window of {window} tokens contains no word of this text")
    dropped = set(content[-surplus:] if keep == "start" else content[:surplus])
    note = (
        f"truncated: the {'first' if keep == 'start' else 'last'} {window:,} of {len(x):,} tokens were read"
    )
    kept = text_windows.select(x, [t for t in range(len(x)) if t not in dropped])
    return replace(kept, notes=(*x.notes, note))
