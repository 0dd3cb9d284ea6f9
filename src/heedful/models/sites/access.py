"""Places in a model by name, where activations (B, T, d) are read and changed while it runs.

    embed               what enters the first block
    blocks.L.attn       what attention adds to the residual stream, after its output projection
    blocks.L.mlp        what the MLP adds
    blocks.L.neurons    hidden activations of the MLP: what its last linear layer takes
    blocks.L.resid      the residual stream after block L

Encoder-decoders have these for the encoder; their decoder has decoder.embed, decoder.blocks.L.attn, .cross
(what attention to the encoder adds), .mlp, .neurons and .resid. In post-norm blocks (BERT) attn and mlp are
what is added before the norm that follows: blocks.L.resid is then a norm of their sum, not the sum.

Sites are found by running the model on a few tokens (heedful.models.sites.names): no list of classes. A part
that cannot be told is missing from `site_names`, and asking for it says why. Hooks live as long as the
block of the `with`; changes nest, the inner one sees what the outer one left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.models.adapter import TokenModel, token_model
from heedful.models.backend import Inputs
from heedful.models.sites.names import SiteLocation, SiteMap, find, run_pass
from heedful.models.sites.stacks import first, taken_by

Change = Callable[[Tensor], Tensor]  # (B, T, d) -> (B, T, d)


class _Enough(BaseException):
    """Ends a pass when all that is wanted was seen; no `except Exception` of a model may catch it."""


_site_maps: WeakKeyDictionary[Any, SiteMap] = WeakKeyDictionary()  # backend -> what its module has


def site_names(model: Model) -> list[str]:
    """Names of all sites, in the order in which the model passes them."""
    return list(sites(model).places)


def width(model: Model, site: str) -> int:
    """Numbers a token has at a site."""
    return place(model, site).width


def place(model: Model, site: str) -> SiteLocation:
    """Where a site is; refuses names that are none, and says why a site is missing."""
    result = sites(model)
    if site in result.places:
        return result.places[site]
    if site in result.missing:
        raise HeedfulError(f"{site} cannot be identified in {model.name}", result.missing[site])
    raise HeedfulError(f"{model.name} has no site {site!r}", fix=f"It has: {_short(result.places)}")


def _short(names: Mapping[str, SiteLocation]) -> str:
    shown = [name for name in names if ".blocks." not in f".{name}" or "blocks.0." in name]
    return ", ".join(shown) + ", and so on for each block"


def sites(model: Model) -> SiteMap:
    """Found once for each model, by two passes over a few tokens."""
    if not isinstance(model, TokenModel):
        raise HeedfulError(
            f"{model.name} has no sites", "it is a function of texts: nothing inside it can be read"
        )
    if model.backend not in _site_maps:
        _site_maps[model.backend] = find(model)
    return _site_maps[model.backend]


# --- reading and changing --------------------------------------------------------------------------


@contextmanager
def reading(model: Model, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """What the sites hold in the last pass of the block, (B, T, d) each.

    With gradients on, these are the tensors of the graph; without, copies that no later layer overwrites.
    """
    tensors: dict[str, Tensor] = {}

    def keep(site: str) -> Change:
        def look(activations: Tensor) -> Tensor:
            tensors[site] = activations if torch.is_grad_enabled() else activations.clone()
            return activations

        return look

    with ExitStack() as stack:
        for name in names:
            stack.enter_context(changing(model, name, keep(name)))
        yield tensors


@contextmanager
def changing(model: Model, site: str, edit: Change) -> Iterator[None]:
    """`edit` takes a site's activations (B, T, d) and gives what goes on instead, in every pass inside."""
    where = place(model, site)
    calls = 0

    def restart(*_: Any) -> None:
        nonlocal calls
        calls = 0

    def here() -> bool:
        nonlocal calls
        calls += 1
        return (calls - 1) % where.calls == where.call

    with ExitStack() as hooks:
        if where.calls > 1:  # a pass may have been cut short
            hooks.callback(token_model(model).module.register_forward_pre_hook(restart).remove)
        hooks.callback(_hook(where, edit, here).remove)
        yield


def read(model: TokenModel, inputs: Inputs, names: Sequence[str]) -> dict[str, Tensor]:
    """The sites' activations (B, T, d) of one pass that ends where the last of them is seen: no copies."""
    tensors: dict[str, Tensor] = {}

    def take(name: str) -> Change:
        def look(activations: Tensor) -> Tensor:
            tensors[name] = activations
            if len(tensors) == len(set(names)):
                raise _Enough
            return activations if len(names) == 1 else activations.clone()

        return look

    with ExitStack() as stack:
        for name in names:
            stack.enter_context(changing(model, name, take(name)))
        try:
            run_pass(model, inputs)
        except _Enough:
            return tensors
    raise HeedfulError(f"a pass of {model.name} did not come by {', '.join(set(names) - set(tensors))}")


def _hook(where: SiteLocation, edit: Change, here: Callable[[], bool]) -> Any:
    def changed(before: Tensor) -> Tensor:
        after = edit(before)
        if not isinstance(after, Tensor) or after.shape != before.shape:
            given = tuple(after.shape) if isinstance(after, Tensor) else type(after).__name__
            raise HeedfulError(
                f"the edit at {where.site} gave {given}", f"the site contains {tuple(before.shape)}"
            )
        return after.to(before.dtype)

    def taken(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        at, hidden = taken_by(args, kwargs)
        if hidden is None or not here():
            return None
        after = changed(hidden)
        if isinstance(at, int):
            return (*args[:at], after, *args[at + 1 :]), kwargs
        return args, kwargs | {at: after}

    def given(_module: nn.Module, _args: Any, output: Any) -> Any:
        if not here():
            return None
        after = changed(first(output))
        return type(output)((after, *output[1:])) if isinstance(output, tuple | list) else after

    if where.taken:
        return where.module.register_forward_pre_hook(taken, with_kwargs=True)
    return where.module.register_forward_hook(given)
