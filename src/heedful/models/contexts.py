"""The user's model is touched only inside these context managers, and left exactly as it was.

transformers installs capture hooks on the first `output_attentions=True` call and leaves them behind, so
`untouched` puts hooks, train/eval modes, attention settings and even new attributes back, whatever happens
inside. Parameters are never written, gradients are taken with `torch.autograd.grad`, which stores nothing.

Float64 models of transformers take their softmax in float32, where the mask's -1.8e308 is -inf: a row that
sees nothing (the first of a decoder whose first token is hidden) would be NaN, and with it every answer.
Inside, such scores count as the smallest float32, as in a float32 model; other rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

SOFTMAX = {nn.functional.softmax, torch.softmax, Tensor.softmax}
_HOOK_TABLES = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)


@contextmanager
def untouched(module: nn.Module) -> Iterator[nn.Module]:
    """Eval mode inside; outside, each submodule has its old hooks, mode, attributes and attention setting."""
    parts = [vars(m) for m in module.modules()]  # as dictionaries: nn.Module's own __setattr__ is slow
    before = [
        (part["training"], set(part), {name: dict(part[name]) for name in _HOOK_TABLES if part[name]})
        for part in parts
    ]
    settings = [(config, config._attn_implementation_internal) for config in _attention_configs(module)]
    for part in parts:
        part["training"] = False  # not module.eval(), which a class may override
    first = next(module.parameters(), None)
    double = first is not None and first.dtype == torch.float64
    try:
        with _FiniteSoftmax() if double else nullcontext():
            yield module
    finally:
        for part, (mode, names, hooks) in zip(parts, before, strict=True):
            part["training"] = mode
            for name in part.keys() - names:
                del part[name]
            for name in _HOOK_TABLES:
                if part[name] or name in hooks:
                    part[name].clear()
                    part[name].update(hooks.get(name, {}))
        for config, implementation in settings:
            config._attn_implementation_internal = implementation


class _FiniteSoftmax(TorchFunctionMode):
    """softmax(x, dtype=float32) of float64 scores: what is below the smallest float32 counts as that."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        narrow = func in SOFTMAX and kwargs.get("dtype") == torch.float32
        if narrow and args and args[0].dtype == torch.float64:
            args = (args[0].clamp_min(torch.finfo(torch.float32).min), *args[1:])
        return func(*args, **kwargs)


def _attention_configs(module: nn.Module) -> list[Any]:
    """Every distinct transformers config in the module tree that holds an attention setting."""
    configs: dict[int, Any] = {}
    # in the dictionary: asking a module for what it has not is slow
    queue = [config for m in module.modules() if (config := vars(m).get("config")) is not None]
    while queue:
        config = queue.pop()
        if id(config) in configs or not hasattr(config, "_attn_implementation_internal"):
            continue
        configs[id(config)] = config
        nested = getattr(config, "sub_configs", None) or {}
        queue += [sub for key in nested if (sub := getattr(config, key, None)) is not None]
    return list(configs.values())


EDITED = (
    "heedful-edit-"  # names of attention functions that change what heads do: heedful.models.attention_hooks
)


def attention_of(module: nn.Module) -> str:
    """The attention setting in force, "none" where the module has none."""
    configs = _attention_configs(module)
    return str(configs[0]._attn_implementation_internal) if configs else "none"


@contextmanager
def set_attention(module: nn.Module, implementation: str) -> Iterator[str]:
    """Switch every attention of the module; yields what was set before."""
    configs = _attention_configs(module)
    before = [config._attn_implementation_internal for config in configs]
    for config in configs:
        config._attn_implementation_internal = implementation
    try:
        yield str(before[0]) if before else "none"
    finally:
        for config, earlier in zip(configs, before, strict=True):
            config._attn_implementation_internal = earlier


@contextmanager
def set_generation(module: nn.Module, config: Any) -> Iterator[None]:
    """Generation with these settings alone: transformers fills in what they leave open from the model's."""
    before = vars(module)["generation_config"]
    vars(module)["generation_config"] = config
    try:
        yield
    finally:
        vars(module)["generation_config"] = before


def eager_attention(module: nn.Module) -> AbstractContextManager[str]:
    """Switch to the attention that shows its weights; yields what was set before. Edited attention does."""
    if attention_of(module).startswith(EDITED):
        return nullcontext("eager")
    return set_attention(module, "eager")


@contextmanager
def hooked(module: nn.Module, hook: Callable[[nn.Module, Any, Any], Any]) -> Iterator[None]:
    """One forward hook for the length of the block."""
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def first_broken_layer(module: nn.Module, run: Callable[[], object]) -> str | None:
    """Name of the first submodule, in the order they finish, whose output holds a NaN; runs the model again.

    A child finishes before its parent, so the first report is also the innermost.
    """
    lines: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(_module: nn.Module, _args: Any, output: Any) -> None:
            if not lines and any(bool(tensor.isnan().any()) for tensor in _tensors(output)):
                lines.append(name)

        return look

    with ExitStack() as stack:
        for name, submodule in module.named_modules():
            stack.enter_context(hooked(submodule, watch(name or type(module).__name__)))
        run()
    return lines[0] if lines else None


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's global generator seeded inside, put back outside: for library code that offers no other way."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
