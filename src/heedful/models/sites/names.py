"""Names for the places of a model where activations can be read: what was found, and why the rest was not.

A block adds one part that looks at other positions (attention) and one that does not (the MLP); a decoder's
block adds attention to the encoder between them. Where a block is otherwise, its parts are missing, with the
reason; embed and resid are there for every stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import nn

from heedful.core.errors import HeedfulError
from heedful.modalities.tokenizer_calls import tokenized
from heedful.models.adapter import TokenModel
from heedful.models.backend import Inputs
from heedful.models.contexts import EDITED, attention_of, set_attention, untouched
from heedful.models.sites.residual import BlockRun, ResidualAddition, follow
from heedful.models.sites.stacks import find_stacks

STACKS = ("", "decoder.")  # of an encoder-decoder the encoder runs first


@dataclass(frozen=True, eq=False)
class SiteLocation:
    """Where a site is: what a module gives (or takes), at which of its calls in a pass."""

    site: str
    path: str
    module: nn.Module
    width: int
    call: int = 0
    calls: int = 1  # in a pass: layers that share one module are told apart by the order of its calls
    taken: bool = False
    normed: bool = False  # the sum it is part of goes through a norm


@dataclass(frozen=True, eq=False)
class SiteMap:
    """Every site of a model, and why some are missing."""

    places: dict[str, SiteLocation]
    missing: dict[str, str]


def probe_inputs(model: TokenModel) -> Inputs:
    """A few tokens, and something written after them where a decoder reads it."""
    ids = tokenized(model.tokenizer, "a b c d")["input_ids"] or [0]
    ids = torch.tensor([(ids * 4)[: max(4, len(ids))]])
    inputs = model.padded(ids)
    if inputs.answer is None:
        return inputs
    return replace(inputs, answer=torch.cat([inputs.answer, ids[:, :3]], 1))


def find(model: TokenModel) -> SiteMap:
    """By one pass over a few tokens, and one more for each stack."""
    module = model.module

    def run() -> None:
        run_pass(model, inputs)

    with untouched(module), _unedited(module), torch.inference_mode(False):
        inputs = probe_inputs(model)
        stacks = find_stacks(module, run)
        if not 1 <= len(stacks) <= len(STACKS):
            raise HeedfulError(
                f"{model.name} has no sites",
                f"it has {len(stacks) or 'no'} stacks of layers that hand hidden states (B, T, d) on",
            )
        blocks = [follow(stack, run) for stack in stacks]
    result = SiteMap({}, {})
    for prefix, stack in zip(STACKS, blocks, strict=False):
        _name(prefix, stack, {id(part): path for path, part in module.named_modules()}, result)
    return result


def _unedited(module: nn.Module) -> AbstractContextManager[object]:
    """The model's own attention, also where the first to ask stands in a block that edits heads."""
    edited = attention_of(module).startswith(EDITED)
    return set_attention(module, "eager") if edited else nullcontext()


def run_pass(model: TokenModel, inputs: Inputs) -> None:
    """One pass, in eval mode; also of an encoder that has no head."""
    with untouched(model.module):
        model.backend.runner(inputs)()


def _name(prefix: str, stack: list[BlockRun], paths: Mapping[int, str], site_map: SiteMap) -> None:
    """Puts the places of a stack into `site_map`."""
    modules = [block.module for block in stack]

    def put(site: str, number: int, module: nn.Module, wide: int, **more: bool) -> None:
        own = modules[number]
        site_map.places[site] = SiteLocation(
            site=site,
            path=paths[id(module)],
            module=module,
            width=wide,
            call=modules[:number].count(own),
            calls=modules.count(own),
            **more,
        )

    put(f"{prefix}embed", 0, modules[0], stack[0].width, taken=True)
    for number, block in enumerate(stack):
        name = f"{prefix}blocks.{number}"
        roles, missing = _roles(block, bool(prefix))
        for part, added in roles.items():
            put(f"{name}.{part}", number, added.call.module, block.width, normed=block.normed)
        neurons = roles["mlp"].neurons if "mlp" in roles else None
        if neurons is not None:
            put(f"{name}.neurons", number, neurons.module, neurons.width, taken=True)
        else:
            missing["neurons"] = missing.get("mlp", "its MLP ends in no linear layer on (B, T, hidden)")
        put(f"{name}.resid", number, block.module, block.width)
        site_map.missing.update({f"{name}.{part}": why for part, why in missing.items()})


def _roles(block: BlockRun, decoder: bool) -> tuple[dict[str, ResidualAddition], dict[str, str]]:
    """(part -> what adds it, part -> why it cannot be told)."""
    parts = ("attn", "cross", "mlp") if decoder else ("attn", "mlp")
    if block.reason:
        return {}, dict.fromkeys(parts, block.reason)
    mixing = [one for one in block.added if one.mixes]
    still = [one for one in block.added if not one.mixes]
    expected = 2 if decoder else 1
    result = {"attn": mixing[0]} if len(mixing) == 1 else {}
    if len(still) == expected:
        result |= dict(zip(parts[1:], still, strict=True))
    why = (
        f"{type(block.module).__name__} adds {len(mixing)} parts that look at other positions "
        f"and {len(still)} that do not, where 1 and {expected} were expected"
    )
    missing = {part: result[part].reason if part in result else why for part in parts}
    roles = {part: added for part, added in result.items() if not added.reason}
    return roles, {part: reason for part, reason in missing.items() if part not in roles}
