"""The characters each token of a text stands for.

A byte-level token may be half a character: its characters are then shown on the token that completes them,
so that the pieces of a context, joined, are the text the model read. Bytes that nothing completes, at the
ends of a context or of a token by itself, are spelled: <0xE2>.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heedful.modalities.tokenizer_calls import decoded
from heedful.nn.bpe import CHAR_TO_BYTE

HALF = "\ufffd"  # what a decoder writes for bytes that are no character yet


def pieces_of(tokenizer: Any, ids: Sequence[int], known: dict[int, str] | None = None) -> tuple[str, ...]:
    """The characters of each token: what it adds to the text decoded so far.

    `known` remembers tokens decoded by themselves from call to call: where these join to the text, as those
    of whole characters in byte-level tokenizers do, a context costs one decoding.
    """
    known = {} if known is None else known
    for token in ids:
        if token not in known:
            known[token] = _decode(tokenizer, [token])
    simple = tuple(known[token] for token in ids)
    if not any(HALF in piece for piece in simple) and "".join(simple) == _decode(tokenizer, ids):
        return simple
    return _one_by_one(tokenizer, ids)


def _one_by_one(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """For tokens whose characters depend on those before them."""
    out: list[str] = []
    begin, before = 0, ""  # decoding starts again at a whole character: long texts stay linear
    for at in range(len(ids)):
        if at - begin > 24 and out[-1] and HALF not in (alone := _decode(tokenizer, ids[at - 1 : at])):
            begin, before = at - 1, alone
        now = _decode(tokenizer, ids[begin : at + 1])
        if now.endswith(HALF) and _completes(tokenizer, ids[begin:], at - begin):
            out.append("")
            continue
        # a decoder that rewrites what came before: the token by itself
        own = now[len(before) :] if now.startswith(before) else _decode(tokenizer, ids[at : at + 1])
        half = HALF in own or (not own and now.endswith(HALF))  # two bytes of a character are one sign
        out.append(spelled(tokenizer, ids[at]) if half else own)
        before = now
    return tuple(out)


def spelled(tokenizer: Any, token: int) -> str:
    """One token by itself; bytes that are no character as <0xE2>, so that no two of them look alike."""
    result = _decode(tokenizer, [token])
    if HALF not in result:
        return result
    name = str(tokenizer.convert_ids_to_tokens(int(token)))
    if not all(letter in CHAR_TO_BYTE for letter in name):
        return result
    if name.startswith("<0x"):  # SentencePiece names its bytes so
        return name
    text = bytes(CHAR_TO_BYTE[letter] for letter in name).decode("utf-8", "surrogateescape")
    return "".join(f"<0x{ord(c) - 0xDC00:02X}>" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)


def _completes(tokenizer: Any, ids: Sequence[int], at: int) -> bool:
    """Whether tokens that follow make a character of the bytes that end here (one has four at most)."""
    ends = range(at + 2, min(at + 5, len(ids) + 1))
    return any(not _decode(tokenizer, ids[:end]).endswith(HALF) for end in ends)


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return decoded(tokenizer, list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
