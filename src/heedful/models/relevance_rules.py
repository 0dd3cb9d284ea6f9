"""Relevance in place of gradients: while `RelevanceRules` is on, what autograd sends back through the model
is relevance, so the user's own forward needs no rewriting.

    linear               R_x = x+ (S W+) + x- (S W-),  S = R / (x+ W+^T + x- W-^T)     alpha = 1, no bias
    matmul Z = A B       R_A = A * (S B^T) / 2,  R_B = B * (A^T S) / 2,  S = R / Z     halves keep the sum
    add Z = a + b        a S and b S, scaled so that they share sum R as |sum a S| : |sum b S|
    sum over positions   R_x = x S                                                     a pooling layer
    norm, activation, softmax, dropout, times a constant    R unchanged (zero where the constant is)
    views, transposes, selections                           as gradients
    convolution of a picture into patches                   relevance starts there: it goes no further down

Any other operation on the way is refused by name: no rule is invented. R / 0 counts as 0.

Chefer, Gur & Wolf, Transformer Interpretability Beyond Attention Visualization, CVPR 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from heedful.core.errors import HeedfulError

EPS = 1e-9  # of the largest denominator of a layer: less is never divided by
SAME = {"layer_norm", "gelu", "relu", "tanh", "softmax", "dropout"}
TIMES = {"mul", "__mul__", "__rmul__", "div", "__truediv__"}
PLUS = {"add", "__add__", "__radd__"}
STARTS = {"conv2d"}
ROUTES = {
    *("view", "reshape", "transpose", "permute", "contiguous", "flatten", "squeeze", "unsqueeze", "expand"),
    *("__getitem__", "split", "chunk", "cat", "clone", "to", "requires_grad_", "embedding"),
}


def safe_divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b, nothing where b is zero, and never by less than EPS of the largest b: b may have any unit."""
    least = EPS * b.abs().max()
    return torch.where(b == 0, 0.0, a / (b + torch.where(b >= 0, least, -least)))


class _Same(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, out: Tensor, used: Tensor | None) -> Tensor:
        ctx.used = used
        return out.clone()

    @staticmethod
    def backward(ctx: Any, r: Tensor) -> tuple[Tensor, None, None]:
        return (r if ctx.used is None else r * ctx.used), None, None


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, r: Tensor) -> tuple[Tensor, None, None]:
        x, weight = ctx.saved_tensors
        up, down = weight.clamp_min(0), weight.clamp_max(0)
        more, less = x.clamp_min(0), x.clamp_max(0)
        s = safe_divide(r, more @ up.T + less @ down.T)
        return more * (s @ up) + less * (s @ down), None, None


class _MatMul(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        out = a @ b
        ctx.save_for_backward(a, b, out)
        return out

    @staticmethod
    def backward(ctx: Any, r: Tensor) -> tuple[Tensor, Tensor]:
        a, b, out = ctx.saved_tensors
        s = safe_divide(r, out)
        return a * (s @ b.mT) / 2, b * (a.mT @ s) / 2


class _Add(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a + b

    @staticmethod
    def backward(ctx: Any, r: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        s = safe_divide(r, a + b)
        parts = [(x * s).sum_to_size(x.shape) for x in (a, b)]
        sums = [part.sum() for part in parts]
        whole = sums[0].abs() + sums[1].abs()
        first, second = (
            part * safe_divide(safe_divide(total.abs(), whole) * r.sum(), total)
            for part, total in zip(parts, sums, strict=True)
        )
        return first, second


class _Sum(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, out: Tensor, dim: Any) -> Tensor:
        ctx.save_for_backward(x, out)
        ctx.dim = dim
        return out.clone()

    @staticmethod
    def backward(ctx: Any, r: Tensor) -> tuple[Tensor, None, None]:
        x, out = ctx.saved_tensors
        s = safe_divide(r, out)
        return x * (s if s.ndim == x.ndim else s.unsqueeze(ctx.dim)), None, None


class RelevanceRules(TorchFunctionMode):
    """While it is on, operations send relevance back."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        felt = [a for a in (*args, *kwargs.values()) if _carries(a)]
        if name in STARTS:
            return func(*args, **kwargs).detach().requires_grad_(True)
        if name == "linear" and _carries(args[0]):
            return _Linear.apply(*args, *kwargs.values(), *([None] if len(args) + len(kwargs) == 2 else []))  # type: ignore[no-untyped-call]
        if name in ("matmul", "__matmul__", "bmm") and len(felt) == 2:
            return _MatMul.apply(*args)  # type: ignore[no-untyped-call]
        if name in PLUS and len(felt) == 2 and not kwargs:
            return _Add.apply(*args)  # type: ignore[no-untyped-call]
        out = func(*args, **kwargs)
        if not _has_graph(out) or name in ROUTES:
            return out
        return self._unary(name, args, felt, out)

    @staticmethod
    def _unary(name: str, args: tuple[Any, ...], felt: list[Tensor], out: Tensor) -> Tensor:
        """Operations of one tensor that relevance goes through; the others are constants or parameters."""
        x = args[0] if _carries(args[0]) else felt[0]
        if name in SAME:
            return _Same.apply(x, out.detach(), None)  # type: ignore[no-untyped-call, no-any-return]
        if name in (PLUS | TIMES) and len(felt) == 1 and x.shape == out.shape:
            others = [a for a in args if isinstance(a, Tensor) and a is not x]
            used = (others[0] != 0).to(out) if others and name in TIMES else None
            return _Same.apply(x, out.detach(), used)  # type: ignore[no-untyped-call, no-any-return]
        if name == "sum" and len(args) == 2 and isinstance(args[1], int):
            return _Sum.apply(x, out.detach(), args[1])  # type: ignore[no-untyped-call, no-any-return]
        raise HeedfulError(f"there is no relevance rule for the operation {name!r}, which the model uses")


def _carries(value: Any) -> bool:
    """Whether relevance flows through it; parameters are constants here, frozen or not."""
    return isinstance(value, Tensor) and value.requires_grad and not isinstance(value, nn.Parameter)


def _has_graph(out: Any) -> bool:
    members = out if isinstance(out, tuple | list) else (out,)
    return any(isinstance(member, Tensor) and member.requires_grad for member in members)


def relevances(
    logits: Tensor, maps: tuple[Tensor, ...], score: Callable[[Tensor], Tensor]
) -> tuple[Tensor, ...]:
    """(H, T, T) a layer: relevance of each attention weight for the target.

    One start a logit the target reads, summed with the target's signs: "A rather than B" is the relevance for
    A less that for B. Started together, +1 and -1 sum to nothing, and the rule for add would lose them.
    """
    leaf = logits.detach().requires_grad_(True)
    (signs,) = torch.autograd.grad(score(leaf), leaf)
    total = [torch.zeros_like(layer[0]) for layer in maps]
    for place in signs.nonzero().tolist():
        start = torch.zeros_like(signs)
        start[tuple(place)] = 1.0
        values = torch.autograd.grad(logits, maps, start, retain_graph=True)
        sign = signs[tuple(place)]
        total = [kept + sign * layer[0] for kept, layer in zip(total, values, strict=True)]
    return tuple(layer.detach() for layer in total)
