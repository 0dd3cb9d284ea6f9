"""Attention hooks: every head's weights and output, read or changed while the model runs.

    head output (B, H, Q, d) = weights (B, H, Q, T) @ values (B, H, T, d), before the output projection

transformers looks its attention up by name, so a function of our own is put there for the length of a block:
it calls the model's own eager attention, hands what it found to `edit`, and passes on what comes back. Which
layer of which stack a call belongs to is found once, by comparing with what `output_attentions` returns: no
list of classes, and layers that share one module (ALBERT) are told apart by the order of their calls.
Edits nest: the inner one sees what the outer one left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.models.contexts import EDITED, attention_of, set_attention

STACKS = {  # name of the stack -> where transformers returns its maps, encoder-decoders first
    "self": ("encoder_attentions", "attentions"),
    "decoder": ("decoder_attentions",),
    "cross": ("cross_attentions",),
}


@dataclass(frozen=True)
class Site:
    """A layer of a stack: "self", and of encoder-decoders also "decoder" and "cross"."""

    stack: str
    layer: int


@dataclass(frozen=True, eq=False)
class AttentionState:
    """One layer's attention in a running pass; tensors are part of the graph, where there is one."""

    site: Site
    weights: Tensor  # (B, H, Q, T)
    values: Tensor  # (B, H, T, d)
    heads: Tensor  # (B, H, Q, d)
    allowed: Tensor  # (B or 1, H or 1, Q or 1, T) bool: keys a query may look at

    def reweighed(self, weights: Tensor) -> AttentionState:
        """The same values mixed by other weights, by which a trace can differentiate."""
        if torch.is_grad_enabled() and not weights.requires_grad:
            weights = weights.detach().requires_grad_(True)
        return replace(self, weights=weights, heads=weights.to(self.values.dtype) @ self.values)


Edit = Callable[[AttentionState], AttentionState]
Sites = Mapping[int, Sequence[Site]]  # id of an attention module -> its places, in the order of its calls

_numbers = count()
_chains: dict[str, tuple[Edit, ...]] = {}  # implementation name -> the edits it makes, the outermost first


def uniform(state: AttentionState) -> Tensor:
    """(B, H, Q, T): uniform attention."""
    allowed = state.allowed.expand_as(state.weights).to(state.weights.dtype)
    return allowed / allowed.sum(-1, keepdim=True).clamp_min(1)


@contextmanager
def attending(model: nn.Module, sites: Sites, edit: Edit) -> Iterator[None]:
    """`edit` is called at every attention of a transformers model, for the length of the block."""
    outer = _chains.get(attention_of(model), ())
    edits, calls = (*outer, edit), dict.fromkeys(sites, 0)

    def attend(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        mixed, weights = own_eager(module)(module, *args, **kwargs)
        if id(module) not in sites:
            return mixed, weights
        places = sites[id(module)]
        site = places[calls[id(module)] % len(places)]
        calls[id(module)] += 1
        value: Tensor = args[2]  # after query and key; several heads may share one
        values = value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
        mask = kwargs.get("attention_mask", args[3] if len(args) > 3 else None)
        first = state = AttentionState(site, weights, values, mixed.transpose(1, 2), _allowed(mask, weights))
        for change in edits:
            state = change(state)
        if state is first:
            return mixed, weights
        return state.heads.transpose(1, 2).contiguous(), state.weights

    with registered(attend, edits) as name, set_attention(model, name):
        yield


@contextmanager
def registered(attend: Callable[..., Any], edits: tuple[Edit, ...]) -> Iterator[str]:
    """A name under which transformers finds the function, and masks made as for eager attention."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as MASKS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    name = f"{EDITED}{next(_numbers)}"
    _chains[name] = edits
    ALL_ATTENTION_FUNCTIONS[name] = attend
    MASKS._global_mapping[name] = MASKS["eager"]  # transformers looks nowhere else
    try:
        yield name
    finally:
        del _chains[name], ALL_ATTENTION_FUNCTIONS[name], MASKS._global_mapping[name]


def own_eager(module: nn.Module) -> Callable[..., Any]:
    """The eager attention of the file that defines the module."""
    function = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if function is None:
        raise HeedfulError(f"{type(module).__name__} has no eager attention to fall back on")
    return function  # type: ignore[no-any-return]


def _allowed(mask: Any, weights: Tensor) -> Tensor:
    """Keys a query may look at, from transformers' additive mask."""
    if not isinstance(mask, Tensor):
        return torch.ones(1, 1, 1, weights.shape[-1], dtype=torch.bool, device=weights.device)
    shown: Tensor = mask[..., : weights.shape[-1]]
    return shown if shown.dtype == torch.bool else shown > torch.finfo(shown.dtype).min / 2


def find_sites(model: nn.Module, run: Callable[[], Any]) -> dict[int, list[Site]]:
    """Every attention module with its places, {} if some are hidden; `run` returns attentions."""
    results: list[tuple[nn.Module, Tensor]] = []

    def attend(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        mixed, weights = own_eager(module)(module, *args, **kwargs)
        results.append((module, weights))
        return mixed, weights

    with registered(attend, ()) as name, set_attention(model, name):
        out = run()
    shown: dict[int, Site] = {}
    for stack, fields in STACKS.items():
        maps = next((result for field in fields if (result := getattr(out, field, None))), ())
        shown |= {id(weights): Site(stack, layer) for layer, weights in enumerate(maps)}
    if {id(weights) for _, weights in results} != set(shown):
        return {}
    sites: dict[int, list[Site]] = {}
    for module, weights in results:
        sites.setdefault(id(module), []).append(shown[id(weights)])
    return sites
