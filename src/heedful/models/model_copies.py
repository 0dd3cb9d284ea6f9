"""A copy of a model that may be changed at will; the user's own stays as it is.

    copy = copied(model)      the module, deep-copied: no tensor is shared
    copy.module               to be changed in place
    copy.model()              the heedful model around it, as it is now: what one remembers of a module
                              (its mean embedding, what it can do) is asked anew

A module of the user's own comes with functions that read it (`embed`, `forward`). They are led to the copy:
bound methods, partials, and what a function has closed over. One that finds the module in another way, such
as a global name, would still read the original: a pass is watched, and the copy refused.

Memory: the module once more. Needs: a model that is a torch module.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.modalities.tokenizer_calls import tokenized
from heedful.models.adapter import TokenModel
from heedful.models.backend import Inputs
from heedful.models.dual_encoder import DualEncoder
from heedful.models.hf import HFBackend
from heedful.models.image_model import ImageModel
from heedful.models.load import load_token_model
from heedful.models.torch_module import TorchBackend
from heedful.models.vector_modules import PictureVectors, TextVectors
from heedful.nn.mixing import Mixes


@dataclass(frozen=True)
class Copy:
    """A module of one's own, and the way to explain it."""

    module: nn.Module
    model: Callable[[], Model]


def can_copy(model: Model) -> bool:
    """Whether `copied` works: of a module of the user's own, tried."""
    if isinstance(model, ImageModel):
        return True
    if isinstance(model, DualEncoder):
        return _sides(model) is not None
    if not isinstance(model, TokenModel):
        return False
    if not isinstance(model.backend, TorchBackend):
        return isinstance(model.backend, HFBackend)
    try:
        copied(model)
    except HeedfulError:
        return False
    return True


def copied(model: Model) -> Copy:
    """A deep copy of the torch module of a model."""
    if isinstance(model, ImageModel):
        own = deepcopy(model.module)
        return Copy(own, lambda: ImageModel(own, model.reader, model.labels, model.name))
    if isinstance(model, DualEncoder) and (sides := _sides(model)) is not None:
        return _copied_pair(model, sides)
    if not isinstance(model, TokenModel) or not isinstance(model.backend, HFBackend | TorchBackend):
        raise HeedfulError(f"{model.name} cannot be copied", "it is not a torch module that heedful loaded")
    memo: dict[int, Any] = {}
    module = deepcopy(model.module, memo)
    shared = {p.data_ptr() for p in model.module.parameters()} & {p.data_ptr() for p in module.parameters()}
    assert not shared, "a copy must share no weight with the user's model"
    wrapped = partial(_wrapped, model.backend, model.tokenizer, module, memo)
    if isinstance(model.backend, TorchBackend) and _reads(wrapped(), model.module):
        raise HeedfulError(
            f"{model.name} cannot be copied",
            "its functions read the module by a name that cannot be led elsewhere",
            "Let embed and forward be methods of the module, or close over it",
        )
    return Copy(module, wrapped)


def _sides(model: DualEncoder) -> tuple[PictureVectors, TextVectors] | None:
    """Both encoders, if they are parts of one torch module."""
    seeing, reading = model.picture.module, model.text.module
    if not isinstance(seeing, PictureVectors) or not isinstance(reading, TextVectors):
        return None
    return (seeing, reading) if seeing.model is reading.model else None


def _copied_pair(model: DualEncoder, sides: tuple[PictureVectors, TextVectors]) -> Copy:
    """Both encoders are copied at once, so that the copies have one module, too."""
    seeing, reading = deepcopy(sides)
    backend: Any = reading  # it has what a transformers model has
    tokenizer: Any = getattr(model.text, "tokenizer", None)

    def wrapped() -> DualEncoder:
        words = TokenModel(HFBackend(backend, tokenizer, model.text.name), tokenizer)
        own = ImageModel(seeing, model.picture.reader, name=model.picture.name)
        return DualEncoder(own, words, model.name, model.scale, model.bias)

    return Copy(seeing.model, wrapped)


def _wrapped(
    backend: HFBackend | TorchBackend, tokenizer: Any, module: nn.Module, memo: dict[int, Any]
) -> TokenModel:
    if isinstance(backend, HFBackend):
        return TokenModel(HFBackend(module, backend.tokenizer, backend.name), tokenizer)
    embed, forward = (redirected(function, memo) for function in (backend.embed, backend._forward))
    copy = TorchBackend(
        module,
        backend.tokenizer,
        embed=embed,
        forward=forward,
        labels=backend.labels,
        name=backend.name,
        window=backend.window,
    )
    return TokenModel(copy, tokenizer)


def with_module(model: TokenModel, module: nn.Module) -> TokenModel:
    """Another module behind the tokenizer, labels and name of a model."""
    if not isinstance(module, Mixes):
        return load_token_model((module, model))
    backend = TorchBackend(
        module,
        model.tokenizer,
        forward=lambda embeds, mask: module.attend(inputs_embeds=embeds, attention_mask=mask),
        labels=model.labels,
        name=model.name,
        window=model.window,
    )
    return TokenModel(backend, model.tokenizer)


def sharing_weights(model: Model) -> Model:
    """A transformers model again, its weights shared, so that two threads can hook it; others as they are."""
    if not isinstance(model, TokenModel) or not isinstance(model.backend, HFBackend):
        return model
    kept = {id(t): t for t in (*model.module.parameters(), *model.module.buffers())}
    return deepcopy(model, kept)


def redirected(value: Any, memo: dict[int, Any]) -> Any:
    """What reads the original, reading the copy; `memo` is deepcopy's, from each part to its copy."""
    if isinstance(value, FunctionType):
        cells = tuple(CellType(redirected(cell.cell_contents, memo)) for cell in value.__closure__ or ())
        new = FunctionType(
            value.__code__, value.__globals__, value.__name__, value.__defaults__, cells or None
        )
        new.__kwdefaults__ = value.__kwdefaults__
        return new
    if isinstance(value, nn.Module | MethodType | partial):
        return deepcopy(value, dict(memo))  # of its own: deepcopy adds to it
    return value


def _reads(copy: TokenModel, original: nn.Module) -> bool:
    """Whether an answer makes use of any tensor of the original."""
    ids = torch.tensor([tokenized(copy.tokenizer, "a b")["input_ids"]])
    with torch.no_grad(), TensorWatch() as watch:
        copy.backend.forward(Inputs(ids, torch.ones_like(ids)))
    return any(id(tensor) in watch.seen for tensor in (*original.parameters(), *original.buffers()))


class TensorWatch(TorchFunctionMode):
    """Remembers every tensor that an operation was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[
            int, Tensor
        ] = {}  # the tensors, too: the number of one that is gone may be given again

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= {id(leaf): leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        return func(*args, **(kwargs or {}))
