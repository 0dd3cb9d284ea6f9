"""The rule of guided backpropagation, for every ReLU of a pass, however it is called.

    h = min(max(z, 0), top),   backward: dz = dh * 1[0 < z < top] * 1[dh > 0]

`top` is infinite for ReLU and 6 for ReLU6. While `GuidedRelu` is on, each call gets this backward, once:
nn.ReLU, nn.ReLU6, torch.nn.functional.relu, relu6 and hardtanh from 0, torch.relu, Tensor.relu, clamp(min=0)
with or without a maximum, and clamp_min(0), in place or not. What else cuts at zero is not known to be a ReLU
and keeps its gradient: torch.where, x * (x > 0), maximum; nor is scripted code seen.
"""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional
from torch.overrides import TorchFunctionMode

RELUS = {functional.relu, torch.relu, Tensor.relu}
RELUS_IN_PLACE = {functional.relu_, torch.relu_, Tensor.relu_}
CLAMPS = {torch.clamp, Tensor.clamp, torch.clip, Tensor.clip, torch.clamp_min, Tensor.clamp_min}
CLAMPS_IN_PLACE = {
    *(torch.clamp_, Tensor.clamp_, torch.clip_, Tensor.clip_, torch.clamp_min_, Tensor.clamp_min_),
}


class _Rule(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, top: float) -> Tensor:
        ctx.save_for_backward((x > 0) & (x < top))
        return x.clamp(0, top)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (open_,) = ctx.saved_tensors
        return torch.where(open_, grad.clamp_min(0), 0.0), None


class GuidedRelu(TorchFunctionMode):
    """While it is on, negative gradients are stopped at every ReLU; `calls` counts those with a graph."""

    calls: int = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        call = _relu_call(func, args, kwargs)
        x = args[0] if args else kwargs.get("input")
        if call is None or not isinstance(x, Tensor) or not x.requires_grad or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        self.calls += 1
        top, in_place = call
        out = _Rule.apply(x, top)  # type: ignore[no-untyped-call]
        return x.copy_(out) if in_place else out


def _relu_call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[float, bool] | None:
    """(where it is cut above, whether it is in place) of a call of a ReLU; None for any other call."""
    if kwargs.get("out") is not None:
        return None

    def given(position: int, name: str, default: Any = None) -> Any:
        return args[position] if len(args) > position else kwargs.get(name, default)

    if func in RELUS | RELUS_IN_PLACE:
        inplace = func is functional.relu and given(1, "inplace", False)
        return inf, bool(inplace) or func in RELUS_IN_PLACE
    if func is functional.relu6:
        return 6.0, bool(given(1, "inplace", False))
    low: Any
    top: Any
    if func in CLAMPS | CLAMPS_IN_PLACE:
        low, top, in_place = given(1, "min"), given(2, "max"), func in CLAMPS_IN_PLACE
        top = inf if top is None else top
    elif func in (functional.hardtanh, functional.hardtanh_):
        low, top = given(1, "min_val", -1.0), given(2, "max_val", 1.0)
        in_place = func is functional.hardtanh_ or bool(given(3, "inplace", False))
    else:
        return None
    numbers = isinstance(low, int | float) and isinstance(top, int | float)
    return (float(top), in_place) if numbers and low == 0 < top else None
