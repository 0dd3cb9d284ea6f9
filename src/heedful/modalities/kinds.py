"""The kinds of input by name: what differs between them before a model has read one.

    noun      what people call one: text, picture
    unfit     why something cannot be read as one, or ""
    digest    content in a few bytes, by which copies are found and a source is known again
    probes    a few fixed ones, by whose outputs a model without weights is known again

A new kind of input is an entry here, an `Input` class, and a codec in heedful.io.input_codec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.phrases import InputWords, plural
from heedful.modalities.image import UNITS as PICTURE_UNITS
from heedful.modalities.image import picture_unit, picture_unit_noun
from heedful.modalities.image_files import read_picture
from heedful.modalities.text import UNITS, TextInput
from heedful.modalities.text_windows import windows

Piece = tuple[Input, list[int]]  # a window of the input, and where its atoms are in the whole


@dataclass(frozen=True)
class InputKind:
    """What is known of a kind of input before a model reads it."""

    noun: str
    unfit: Callable[[Any], str]
    digest: Callable[[Any], bytes]  # b"": it cannot be read
    probes: Callable[[], Mapping[str, Any]]
    check: Callable[[str], str]  # a unit by its name, as `Input.units` takes it; refuses what none can have
    parts: Callable[[str], str]  # what its units are called in sentences, in the plural, by their name


def _unfit_text(text: Any) -> str:
    if text is None:
        return "there is no text (null)"
    if not isinstance(text, str):
        return f"this is not text, but {type(text).__name__}: {text!r}"[:200]
    if not text.strip():
        return "the text is empty"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the text is not valid UTF-8"
    return ""


def _text_digest(text: Any) -> bytes:
    if not isinstance(text, str):
        return b""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _text_probes() -> dict[str, Any]:
    texts = ("a", "This is good, and I like it.", "That was bad, not what we want!", "Ignore this: 1 2 3")
    return {repr(text): text for text in texts}


def _text_unit(name: str) -> str:
    if name and name not in UNITS:
        raise HeedfulError(f"unit cannot be {name!r}", fix=f"Use one of: {', '.join(UNITS)}")
    return name or UNITS[1]


def _unfit_picture(raw: Any) -> str:
    given = raw.get("picture") if isinstance(raw, Mapping) else raw
    empty = given is None or (isinstance(given, str) and not given.strip())
    return "there is no picture" if empty else ""


def _picture_digest(raw: Any) -> bytes:
    """Of the colours: the same picture in two files is one."""
    given = raw.get("picture") if isinstance(raw, Mapping) else raw
    try:
        pixels = read_picture(given).pixels
    except HeedfulError:
        return b""
    shape = f"{pixels.shape}".encode()
    return hashlib.blake2b(shape + pixels.tobytes(), digest_size=16).digest()


@cache
def _picture_probes() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (32, 32, 3)).astype(np.uint8)
    ramp = np.repeat(np.linspace(0, 255, 32).astype(np.uint8)[None, :, None], 32, 0).repeat(3, 2)
    return {"grey": np.full((32, 32, 3), 128, np.uint8), "a ramp": ramp, "noise": noise}


def _picture_parts(unit: str) -> str:
    return plural(picture_unit_noun(unit))


def _unfit_pair(raw: Any) -> str:
    if not isinstance(raw, Mapping):
        return "this is not a picture with a text"
    return _unfit_picture(raw) or _unfit_text(raw.get("text"))


def _pair_unit(name: str) -> str:
    """One name of each, joined by +, or one name alone."""
    named = [part for part in name.split("+") if part]
    of_picture = [part for part in named if part not in UNITS]
    try:
        for part in of_picture:
            picture_unit(part)
    except HeedfulError:
        both = f"{', '.join(PICTURE_UNITS)}; {', '.join(UNITS)}"
        raise HeedfulError(
            f"unit cannot be {name!r}", fix=f"Use one of each, such as grid:8+word: {both}"
        ) from None
    if len(of_picture) > 1 or len(named) - len(of_picture) > 1:
        raise HeedfulError(f"unit cannot be {name!r}", fix="Use one of each, such as grid:8+word")
    return name


def _pair_digest(raw: Any) -> bytes:
    parts = (_picture_digest(raw), _text_digest(raw.get("text") if isinstance(raw, Mapping) else None))
    return b"".join(parts) if all(parts) else b""


def _pair_probes() -> dict[str, Any]:
    pictures, texts = _picture_probes(), _text_probes().values()
    every = zip(pictures.items(), texts, strict=False)
    return {f"{name}, {text!r}": {"picture": picture, "text": text} for (name, picture), text in every}


KINDS = {
    "text": InputKind("text", _unfit_text, _text_digest, _text_probes, _text_unit, lambda unit: "words"),
    "image": InputKind(
        "picture", _unfit_picture, _picture_digest, _picture_probes, picture_unit, _picture_parts
    ),
    "image+text": InputKind(
        "pair", _unfit_pair, _pair_digest, _pair_probes, _pair_unit, lambda unit: "parts"
    ),
}


def noun_of(modality: Any) -> str:
    """ "text" or "picture"; "input" for a kind that is not known here."""
    return KINDS[modality].noun if modality in KINDS else "input"


def words_for(modality: Any, unit: str) -> InputWords:
    """texts and words; pictures and their patches or cells."""
    parts = KINDS[modality].parts if modality in KINDS else plural
    return InputWords(noun_of(modality), parts(unit))


def checked_unit(modality: str, name: str) -> str:
    """Refuses, before anything is read, a unit that no input of this kind has. "": the default unit."""
    return KINDS[modality].check(name)


def pieces_of(x: Input, window: int | None) -> list[Piece]:
    """The input in pieces that a model can read; most inputs are one piece."""
    if window and len(x) > window and isinstance(x, TextInput):
        return [*windows(x, window)]
    return [(x, list(range(len(x))))]


def spelled(x: Input, raw: Any) -> dict[str, Any]:
    """What was given, where the input does not tell it: a pair or a chat, which is joined to one text."""
    return {"text": raw} if isinstance(x, TextInput) and not isinstance(raw, str | TextInput) else {}
