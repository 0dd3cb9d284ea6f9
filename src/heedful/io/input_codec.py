"""An input as JSON and back, whatever its kind. A file without a kind holds a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heedful.core.input import Input
from heedful.io.json_codec import from_jsonable, to_jsonable
from heedful.modalities import image_codec
from heedful.modalities.joint import JointInput
from heedful.modalities.text import TextInput


def _text_from_dict(data: Mapping[str, Any]) -> TextInput:
    x = from_jsonable(TextInput, data)
    lengths = {len(x.tokens), len(x.offsets), len(x.special), len(x.words), len(x.segments), len(x.ids)}
    if len(lengths) > 1 or any(not -1 <= word < len(x.word_spans) for word in x.words):
        raise ValueError("the parts of the encoded text do not fit together")
    return x


def _text_to_dict(x: TextInput, keep: str) -> Any:
    return to_jsonable(x)


def _pair_to_dict(x: JointInput, keep: str) -> dict[str, Any]:
    picture = image_codec.to_dict(x.picture, keep)
    return {"modality": x.modality, "picture": picture, "text": to_jsonable(x.text)}


def _pair_from_dict(data: Mapping[str, Any]) -> JointInput:
    return JointInput(image_codec.from_dict(data["picture"]), _text_from_dict(data["text"]))


# kind -> (to JSON, from JSON, which raises ValueError for what does not fit)
CODECS: dict[str, tuple[Callable[[Any, str], Any], Callable[[Mapping[str, Any]], Input]]] = {
    "text": (_text_to_dict, _text_from_dict),
    "image": (image_codec.to_dict, image_codec.from_dict),
    "image+text": (_pair_to_dict, _pair_from_dict),
}


def input_to_dict(x: Input, keep: str = "png") -> Any:
    """keep: what is stored of a picture, itself ("png") or its path ("path")."""
    return CODECS[x.modality][0](x, keep)


def input_from_dict(data: Mapping[str, Any]) -> Input:
    kind = data.get("modality", "text")
    if kind not in CODECS:
        raise ValueError(f"inputs of the kind {kind!r:.40} are not known here")
    return CODECS[kind][1](data)
