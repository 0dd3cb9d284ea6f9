"""Dual encoders from what a user has: (model, processor), a pair of functions; and captions as classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.models.adapter import TokenModel
from heedful.models.dual_encoder import DualEncoder, check_lengths
from heedful.models.function import FunctionModel
from heedful.models.hf import HFBackend
from heedful.models.image_function import ImageFunction
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader, reader_of
from heedful.models.picture_model import PictureModel
from heedful.models.vector_modules import PictureVectors, TextVectors, ZeroShot


def reads_both(given: Any) -> bool:
    """A processor of pictures and of texts."""
    return hasattr(given, "image_processor") and hasattr(given, "tokenizer")


def dual_encoder(module: nn.Module, processor: Any, name: str = "") -> DualEncoder:
    """A module with `get_image_features` and `get_text_features`, and a processor of both."""
    name = name or getattr(getattr(module, "config", None), "_name_or_path", "") or type(module).__name__
    own = processor.image_processor
    reader = own if isinstance(own, ImageReader) else reader_of(own)
    side: Any = TextVectors(module, processor.tokenizer)
    return DualEncoder(
        ImageModel(PictureVectors(module), reader, name=name),
        TokenModel(HFBackend(side, processor.tokenizer, name), processor.tokenizer),
        name,
        _number(module, "logit_scale", np.exp, 1.0),
        _number(module, "logit_bias", float, 0.0),
    )


def _number(module: nn.Module, name: str, read: Callable[[float], float], default: float) -> float:
    """A learned number of the module, where it has one."""
    value = getattr(module, name, None)
    return default if value is None else float(read(torch.as_tensor(value).item()))


def of_functions(pictures: Any, texts: Any, reader: ImageReader | None = None) -> DualEncoder:
    """Two functions: list of (H, W, 3) 8-bit arrays -> vectors (n, d), list of strings -> vectors (n, d)."""
    if not (callable(pictures) and callable(texts)):
        raise HeedfulError(
            "two encoders are needed",
            fix="Give a pair: a function of pictures and a function of texts, both to vectors (n, d)",
        )
    name = f"{getattr(pictures, '__name__', 'pictures')} and {getattr(texts, '__name__', 'texts')}"
    return DualEncoder(ImageFunction(pictures, reader or ImageReader()), FunctionModel(texts), name)


def zero_shot(model: DualEncoder, labels: Sequence[str]) -> PictureModel:
    """The captions as classes: an ordinary classifier of pictures, logits scale · cos + bias."""
    if len(labels) < 2:
        raise HeedfulError(
            "zero-shot classes need at least two captions", fix="Or give the text with the picture"
        )
    if twice := [label for label, count in Counter(labels).items() if count > 1]:
        raise HeedfulError(
            f"a caption is given twice: {twice[0]!r}", "each is one class", "Give each caption once"
        )
    vectors = np.stack([model.vector_of(label) for label in labels])  # (C, d)
    picture = model.picture
    check_lengths(len(picture.labels), vectors.shape[1])  # the outputs of a picture's encoder are its vector
    if isinstance(picture, ImageModel) and model.module is not None:
        first = next(model.module.parameters())
        captions = torch.from_numpy(vectors).to(first)
        network = ZeroShot(model.module, captions, model.scale, model.bias)
        return ImageModel(network, picture.reader, labels, model.name)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    function = picture.function if isinstance(picture, ImageFunction) else None
    if function is None:
        raise HeedfulError(f"{model.name} cannot choose between captions")

    def scores(pictures: list[Any]) -> Floats:
        made = np.asarray(function(pictures), dtype=np.float64)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True) @ unit.T)

    return ImageFunction(scores, picture.reader, labels, model.name)
