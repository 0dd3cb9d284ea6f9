"""The two sides of a dual encoder as networks whose outputs are vectors, and both as a zero-shot classifier.

    PictureVectors   pixels -> the vector of the picture: an `ImageModel` runs it, as if it had d classes
    TextVectors      token ids -> the vector of the text: a `TokenModel` runs it, likewise
    ZeroShot         pixels -> scale · cos(picture, caption) + bias, one output per caption

Any module with `get_image_features(pixel_values)` and `get_text_features(input_ids, attention_mask)` will do.
What they return is a tensor (B, d), or an object whose `pooler_output` is one. The user's module becomes a
part of these, and is not changed.

Some text encoders read their answer at the last position (SigLIP): they were trained on texts that are padded
to one length, with padding that they attend to. `length` pads to it, inside, so that nobody else sees it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.modalities.tokenizer_calls import tokenized
from heedful.models.contexts import hooked, untouched


class Encoded(NamedTuple):
    """What a side returns, named as transformers names it."""

    logits: Tensor  # (B, d)
    attentions: Any = None
    hidden_states: Any = None


class PictureVectors(nn.Module):
    """(B, 3, H, W) -> (B, d)"""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.config = model, getattr(model, "config", None)

    def forward(
        self, pixel_values: Tensor, output_attentions: bool = False, output_hidden_states: bool = False
    ) -> Encoded:
        flags = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        return _encoded(self.model, "get_image_features", {"pixel_values": pixel_values}, flags)


class ZeroShot(PictureVectors):
    """(B, 3, H, W) -> (B, captions)"""

    captions: Tensor  # (C, d), of length one

    def __init__(self, model: nn.Module, captions: Tensor, scale: float, bias: float) -> None:
        super().__init__(model)
        self.scale, self.bias = scale, bias
        self.register_buffer("captions", captions / captions.norm(dim=-1, keepdim=True))

    def forward(
        self, pixel_values: Tensor, output_attentions: bool = False, output_hidden_states: bool = False
    ) -> Encoded:
        out = super().forward(pixel_values, output_attentions, output_hidden_states)
        vectors = out.logits / out.logits.norm(dim=-1, keepdim=True)
        return out._replace(logits=self.scale * vectors @ self.captions.to(vectors).T + self.bias)


class TextVectors(nn.Module):
    """(B, T) token ids -> (B, d)"""

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        super().__init__()
        self.model, self.length = model, 0
        self._table = [token_table(model, tokenizer)]  # in a list: it is a part of the model already
        self.config = _text_config(model)
        ids = tokenized(tokenizer, "a b")["input_ids"]
        self.pad = next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if i is not None), 0)
        with untouched(model), torch.inference_mode():
            alone, width = self._vector(ids), len(ids)
            self.config.num_labels = alone.shape[-1]
            padded = self._vector([*ids, self.pad, self.pad], width)
        if not torch.allclose(alone, padded, rtol=1e-3, atol=1e-5 * float(alone.abs().max())):
            self.length = int(getattr(self.config, "max_position_embeddings", 0) or 0)

    def _vector(self, ids: list[int], shown: int | None = None) -> Tensor:
        tensor = torch.tensor([ids], device=next(self.model.parameters()).device)
        mask = (torch.arange(len(ids)) < (shown or len(ids))).long()[None].to(tensor.device)
        return self.forward(tensor, mask).logits[0]

    @property
    def base_model(self) -> nn.Module:
        """What is below the head: a network with a head is a classifier."""
        return self.model

    def get_input_embeddings(self) -> nn.Module:
        return self._table[0]

    def get_output_embeddings(self) -> None:
        """It writes nothing."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> Encoded:
        flags = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        with ExitStack() as stack:
            if self.length > 0:
                input_ids, attention_mask = self._filled(input_ids, attention_mask, stack)
            wish = {"input_ids": input_ids, "attention_mask": attention_mask}
            return _encoded(self.model, "get_text_features", wish, flags)

    def _filled(self, ids: Tensor, mask: Tensor | None, stack: ExitStack) -> tuple[Tensor, Tensor]:
        """Padded to `length` with padding that is attended to. What follows the last token that is shown is
        padding already. Embeddings are looked up before, so that those that were put in their place stay."""
        mask = torch.ones_like(ids) if mask is None else mask
        places = torch.arange(ids.shape[1], device=ids.device)
        behind = places > (mask * places).amax(1, keepdim=True)  # (B, T)
        table = self._table[0]
        embeds = table(ids)
        rest = ids.new_full((len(ids), max(0, self.length - ids.shape[1])), self.pad)
        filler = table(torch.full_like(ids[:1, :1], self.pad))  # (1, 1, d)
        whole = torch.cat([torch.where(behind[..., None], filler, embeds), table(rest)], 1)
        stack.enter_context(hooked(table, lambda *_: whole))
        ids = torch.cat([torch.where(behind, self.pad, ids), rest], 1)
        return ids, torch.cat([torch.where(behind, 1, mask), torch.ones_like(rest)], 1)


def is_dual_encoder(module: Any) -> bool:
    return all(callable(getattr(module, f"get_{side}_features", None)) for side in ("image", "text"))


def token_table(model: nn.Module, tokenizer: Any) -> nn.Module:
    """The table that looks up the tokens of the text, found by watching which one is given their ids."""
    ids = torch.tensor([tokenized(tokenizer, "a b")["input_ids"]])
    ids = ids.to(next(model.parameters()).device)
    seen: list[nn.Module] = []

    def watch(module: nn.Module, args: Any, _output: Any) -> None:
        if args and isinstance(args[0], Tensor) and torch.equal(args[0], ids):
            seen.append(module)

    with untouched(model), torch.inference_mode(), ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                stack.enter_context(hooked(module, watch))
        _encoded(model, "get_text_features", {"input_ids": ids}, {})
    if not seen:
        raise HeedfulError(f"{type(model).__name__} looks up the tokens of a text in no nn.Embedding")
    return seen[0]


def _encoded(model: nn.Module, name: str, wish: dict[str, Any], flags: dict[str, bool]) -> Encoded:
    """What a module's own function returns, its vector first."""
    function: Callable[..., Any] = getattr(model, name)
    takes = inspect.signature(function).parameters
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values())
    asked = {name: flag for name, flag in flags.items() if flag and (open_ended or name in takes)}
    given = {name: value for name, value in wish.items() if open_ended or name in takes}
    out = function(**given, **asked)
    vector = out if isinstance(out, Tensor) else getattr(out, "pooler_output", None)
    if not isinstance(vector, Tensor) or vector.ndim != 2:
        raise HeedfulError(
            f"{type(model).__name__}.{name} gives no vectors", "their shape must be (inputs, width)"
        )
    return Encoded(vector, getattr(out, "attentions", None), getattr(out, "hidden_states", None))


def _text_config(model: nn.Module) -> Any:
    """A copy of the text's config, which says how long texts may be."""
    from transformers import PretrainedConfig

    config = getattr(model, "config", None)
    if config is not None:
        return copy.deepcopy(getattr(config, "text_config", config))
    return PretrainedConfig(attn_implementation="eager")  # it has no attention that could be switched
