"""The rule of guided backpropagation, for every ReLU of a pass, however it is called.

    h = ReLU(z),   backward: dz = dh * 1[z > 0] * 1[dh > 0]

While `GuidedRelu` is on, each call of a ReLU gets this backward, once: nn.ReLU, torch.nn.functional.relu,
torch.relu, Tensor.relu, clamp(min=0) and clamp_min(0), in place or not. What else cuts at zero is not known
to be a ReLU and keeps its gradient: torch.where, x * (x > 0), maximum, ReLU6; nor is scripted code seen.
"""

from __future__ import annotations

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
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = x.relu()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        return torch.where(out > 0, grad.clamp_min(0), 0.0)


class GuidedRelu(TorchFunctionMode):
    """While it is on, negative gradients are stopped at every ReLU; `calls` counts those with a graph."""

    calls: int = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        in_place = _in_place(func, args, kwargs)
        x = args[0] if args else kwargs.get("input")
        if (
            in_place is None
            or not isinstance(x, Tensor)
            or not x.requires_grad
            or not torch.is_grad_enabled()
        ):
            return func(*args, **kwargs)
        self.calls += 1
        out = _Rule.apply(x)  # type: ignore[no-untyped-call]
        return x.copy_(out) if in_place else out


def _in_place(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
    """Whether a call of a ReLU is in place; None if it is no call of a ReLU."""
    if kwargs.get("out") is not None:
        return None
    if func in RELUS | RELUS_IN_PLACE:
        inplace = func is functional.relu and (args[1] if len(args) > 1 else kwargs.get("inplace", False))
        return bool(inplace) or func in RELUS_IN_PLACE
    if func not in CLAMPS | CLAMPS_IN_PLACE:
        return None
    low, high = (args[i] if len(args) > i else kwargs.get(name) for i, name in ((1, "min"), (2, "max")))
    zero = isinstance(low, int | float) and low == 0
    return func in CLAMPS_IN_PLACE if zero and high is None else None
