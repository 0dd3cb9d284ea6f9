"""An input whose embeddings are moved a little, for any method: also for those that remove units.

    e_t' = e_t + shift_t        for the tokens of the text; special tokens stay

A method reads token ids, and a row without some words has lost the places of the others. So every moved
token gets an id of its own, beyond the vocabulary, and for the length of a context manager the model's
token table answers such an id with the old token's embedding plus its shift. Masks, deletions, traces and
gradients then need not know. What arrives is measured (`lookup` of the new text less that of the old), not
assumed; a model that looks tokens up in a second place, or without calling its table, is refused.

Where a moved input is again an input (`Model.nudged`), none of this is needed.

Cost: nothing. Needs: a torch module with one token table that it calls, or a model whose inputs can be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.target import Target
from heedful.modalities.text import text_of


def token_table(model: Model) -> nn.Module | None:
    """The module that looks up the tokens of the text, if one is known."""
    table = model.token_table
    return table if hasattr(table, "num_embeddings") else None


def movable(model: Model, x: Input, target: Target) -> bool:
    """Whether `nudged` works: tried with no move at all."""
    if "gradients" not in model.capabilities:  # no embeddings to move
        return False
    try:
        with nudged(model, x, target, torch.zeros_like(model.lookup(x, target))):
            return True
    except HeedfulError:
        return False


@contextmanager
def nudged(model: Model, x: Input, target: Target, shift: Tensor) -> Iterator[tuple[Input, float]]:
    """(the moved input, how far it was moved) inside; `shift` is (T, d), special tokens stay."""
    if (whole := model.nudged(x, target, shift)) is not None:
        yield whole, float((model.lookup(whole, target) - model.lookup(x, target)).double().norm())
        return
    x = text_of(x)
    table: Any = token_table(model)
    if table is None:
        raise HeedfulError(
            f"{model.name} has no token table of its own", "so no noise can be added to embeddings"
        )
    size = int(table.num_embeddings)
    ids = tuple(
        i if special else size + t for t, (i, special) in enumerate(zip(x.ids, x.special, strict=True))
    )
    moved = replace(x, ids=ids)
    before = model.lookup(x, target)
    with _answering(model.module, table, size, torch.tensor(x.ids), shift):
        try:
            distance = float((model.lookup(moved, target) - before).double().norm())
        except IndexError:
            raise HeedfulError(
                f"{model.name} looks its tokens up without calling its table",
                "so no noise can be added to embeddings",
            ) from None
        yield moved, distance


@contextmanager
def _answering(module: Any, table: nn.Module, size: int, old: Tensor, shift: Tensor) -> Iterator[None]:
    """Inside, the table knows the ids size .. size + T - 1: those of `old`, moved. Tables of a decoder that
    reads the text, too, know them unmoved: it is the encoder's reading that is explained."""
    others = [part for part in module.modules() if getattr(part, "num_embeddings", None) == size]
    with ExitStack() as stack:
        for part in {table: None, **dict.fromkeys(others)}:
            stack.enter_context(_replaced(part, _known(part.forward, size, old, shift * (part is table))))
        yield


def _known(look: Callable[[Tensor], Tensor], size: int, old: Tensor, shift: Tensor) -> Callable[..., Tensor]:
    def forward(input: Tensor) -> Tensor:
        new = input >= size
        place = (input - size).clamp_min(0)
        out = look(torch.where(new, old.to(input.device)[place], input))
        return torch.where(new[..., None], out + shift.to(out)[place], out)

    return forward


@contextmanager
def _replaced(part: nn.Module, forward: Callable[..., Tensor]) -> Iterator[None]:
    own = vars(part).get("forward")  # others may have put one there
    vars(part)["forward"] = forward
    try:
        yield
    finally:
        del vars(part)["forward"]
        if own is not None:
            vars(part)["forward"] = own
