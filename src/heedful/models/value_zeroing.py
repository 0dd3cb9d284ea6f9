"""Layers run again with one token's value vector set to zero, through the attention-function switch.

One plain pass remembers what each layer was called with; then each layer alone is called again on copies of
its own input, in copy j of which the value vectors of token j, in all heads, are zero. That is what L x T
passes of the whole model would show, at the price of T.

Needs a transformers model that is one stack of layers (a `ModuleList`), each of which asks
`ALL_ATTENTION_FUNCTIONS` for its attention exactly once. Anything else is refused, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError, out_of_memory
from heedful.models.attention_hooks import own_eager
from heedful.models.contexts import EDITED, attention_of, eager_attention, set_attention, untouched
from heedful.models.passes import CHUNK_TOKENS
from heedful.models.run_errors import RUN_ERRORS

NAME = "heedful-zeroing"


@dataclass(frozen=True)
class Call:
    """A layer, what it was called with, and what it gave."""

    layer: nn.Module
    hidden: Any  # (1, T, d), if it is a layer
    args: tuple[Any, ...]  # after the hidden states
    kwargs: dict[str, Any]
    output: Any  # (1, T, d)

    @property
    def whole(self) -> bool:
        """Hidden states in, hidden states out."""
        return (
            isinstance(self.hidden, Tensor)
            and self.hidden.ndim == 3
            and self.hidden.shape == self.output.shape
        )

    def again(self, hidden: Tensor) -> Tensor:
        """The layer on other hidden states (n, T, d)."""
        out: Tensor = _first(self.layer(hidden, *self.args, **self.kwargs))
        return out


def _first(output: Any) -> Any:
    return output[0] if isinstance(output, tuple | list) and output else output


def stacked_layers(model: nn.Module) -> list[nn.Module]:
    """Members of every outermost ModuleList."""
    names = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    outer = [name for name in names if not any(name.startswith(other + ".") for other in names)]
    return [layer for name in outer for layer in model.get_submodule(name).children()]


def layer_calls(model: nn.Module, run: Callable[[], object]) -> list[Call]:
    """One pass in eager attention; the calls of its layers, in order."""
    calls: list[Call] = []

    def remember(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        rest = dict(kwargs)
        hidden, *more = args if args else (rest.pop("hidden_states", None),)
        calls.append(Call(layer, hidden, tuple(more), rest, _first(output)))

    with ExitStack() as stack, eager_attention(model):
        for layer in stacked_layers(model):
            stack.callback(layer.register_forward_hook(remember, with_kwargs=True).remove)
        run()
    return calls


@contextmanager
def zeroed_values(model: nn.Module, tokens: Tensor) -> Iterator[list[nn.Module]]:
    """Attention in which row n of the batch has the values of token tokens[n] at zero; yields a list that
    fills with the attention modules that asked."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if attention_of(model).startswith(EDITED):
        raise HeedfulError(
            "values cannot be zeroed while heads are edited", fix="Leave the block that edits them"
        )
    modules: list[nn.Module] = []

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *more: Any, **kwargs: Any
    ) -> Any:
        modules.append(module)
        value = value.clone()  # (n, heads, T, d)
        value[torch.arange(len(tokens)), :, tokens] = 0
        return own_eager(module)(module, query, key, value, *more, **kwargs)

    ALL_ATTENTION_FUNCTIONS[NAME] = attend
    try:
        with set_attention(model, NAME):
            yield modules
    finally:
        del ALL_ATTENTION_FUNCTIONS[NAME]


def moved(call: Call, model: nn.Module, tokens: Tensor) -> Tensor:
    """(T, n): cosine distance of each token's output from its own when the value of tokens[n] is zero."""
    with zeroed_values(model, tokens) as requested:
        other = call.again(call.hidden.repeat(len(tokens), 1, 1))
    if len(requested) != 1:
        raise HeedfulError(
            f"{type(call.layer).__name__} is not a layer with one attention",
            f"it called the attention switch {len(requested)} times",
        )
    a, b = (torch.nn.functional.normalize(h.double(), dim=-1) for h in (call.output, other))
    return ((a - b) ** 2).sum(-1).T / 2  # 1 - cos, without its cancellation


def value_maps(model: nn.Module, run: Callable[[], object], layers: int) -> list[Tensor]:
    """(T, T) for each of so many layers: entry (i, j) is how far zeroing token j's value moves token i."""
    with untouched(model), torch.inference_mode():
        calls = layer_calls(model, run)
        if len(calls) != layers or not all(call.whole for call in calls):
            raise HeedfulError(f"{type(model).__name__} is not one stack of layers")
        return [_all_tokens(call, model) for call in calls]


def can_zero(model: nn.Module, run: Callable[[], object], layers: int) -> bool:
    """Whether it works: tried, not looked up."""
    try:
        value_maps(model, run, layers)
    except (HeedfulError, *RUN_ERRORS):
        return False
    return True


def _all_tokens(call: Call, model: nn.Module) -> Tensor:
    length = call.hidden.shape[1]
    every = torch.arange(length, device=call.hidden.device)
    queue = list(torch.split(every, max(1, CHUNK_TOKENS // length)))
    results = []
    while queue:
        tokens = queue.pop(0)
        try:
            results.append(moved(call, model, tokens))
        except (MemoryError, RuntimeError) as error:
            if len(tokens) == 1 or not out_of_memory(error):
                raise
            queue[:0] = tokens.chunk(2)
    return torch.cat(results, 1)
