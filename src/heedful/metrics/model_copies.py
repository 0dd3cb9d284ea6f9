"""A copy of a model that may be changed at will; the user's own stays as it is.

    copy = copied(model)      the module, deep-copied: no tensor is shared
    copy.module               to be changed in place
    copy.model()              heedful's door around it, as it is now: what a door remembers of a module
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
from heedful.engine.cached_model import CachedModel
from heedful.models.adapter import TokenModel
from heedful.models.backend import Inputs
from heedful.models.hf import HFBackend
from heedful.models.torch_module import TorchBackend


@dataclass(frozen=True)
class Copy:
    """A module of one's own, and the way to explain it."""

    module: nn.Module
    model: Callable[[], Model]


def bare(model: Model) -> Model:
    """Without the memory of a run: it knows rows and traces by the text alone, whatever the model is now."""
    while isinstance(model, CachedModel):
        model = model.model
    return model


def can_copy(model: Model) -> bool:
    """Whether `copied` works: of a module of the user's own, tried."""
    backend = getattr(bare(model), "backend", None)
    if not isinstance(backend, TorchBackend):
        return isinstance(backend, HFBackend)
    try:
        copied(model)
    except HeedfulError:
        return False
    return True


def copied(model: Model) -> Copy:
    """A deep copy of the module behind a model."""
    plain: Any = bare(model)
    if not isinstance(getattr(plain, "backend", None), HFBackend | TorchBackend):
        raise HeedfulError(f"{plain.name} cannot be copied", "it is not a torch module that heedful loaded")
    memo: dict[int, Any] = {}
    module = deepcopy(plain.module, memo)
    shared = {p.data_ptr() for p in plain.module.parameters()} & {p.data_ptr() for p in module.parameters()}
    assert not shared, "a copy must share no weight with the user's model"
    door = partial(_door, plain.backend, plain.tokenizer, module, memo)
    if isinstance(plain.backend, TorchBackend) and _reads(door().backend, plain.module):
        raise HeedfulError(
            f"{plain.name} cannot be copied",
            "its functions read the module by a name that cannot be led elsewhere",
            "Let embed and forward be methods of the module, or close over it",
        )
    return Copy(module, door)


def _door(backend: Any, tokenizer: Any, module: nn.Module, memo: dict[int, Any]) -> Any:
    if isinstance(backend, HFBackend):
        return TokenModel(HFBackend(module, backend.tokenizer, backend.name), tokenizer)
    embed, forward = (redirected(function, memo) for function in (backend.embed, backend._forward))
    settings = {"labels": backend.labels, "name": backend.name, "window": backend.window}
    return TokenModel(
        TorchBackend(module, backend.tokenizer, embed=embed, forward=forward, **settings), tokenizer
    )


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


def _reads(backend: TorchBackend, original: nn.Module) -> bool:
    """Whether an answer makes use of any tensor of the original."""
    ids = torch.tensor([backend.tokenizer("a b", verbose=False)["input_ids"]])
    with torch.no_grad(), TensorWatch() as watch:
        backend.forward(Inputs(ids, torch.ones_like(ids)))
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
