"""Which modules add to the residual stream of a model, found by following the sums of one small pass.

    pre-norm block    out = in + attn + mlp                          (GPT-2, Llama, T5)
    post-norm block   out = norm2(mid + mlp), mid = norm1(in + attn)    (BERT, BART)

No list of architectures. Each block runs with a graph that begins at its input; from its output the additions
are followed back to that input: of two summands the stream is the one the other was computed from, and where
the trail ends in a module that took a sum (a norm), it goes on behind it. What is added belongs to attention
if its last position depends on earlier positions of the stream, to the MLP if not. The sums are then checked
in numbers. What does not fit is reported in words, never guessed.

Needs one pass over a few tokens for each stack, with a graph of one block at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from heedful.models.sites.stacks import first, taken_by

SAME = ("View", "UnsafeView", "ReshapeAlias", "Alias", "Clone", "ToCopy")  # nodes that change no value


class NotTraceable(Exception):
    """Why a part of a block cannot be told."""


@dataclass(frozen=True, eq=False)
class BlockCall:
    """A module that ran inside a block: what it took and gave, as it was then."""

    name: str  # within the block
    module: nn.Module
    taken: Tensor | None  # its first tensor
    given: Tensor
    took: Any  # nodes of the graph
    gave: Any

    @property
    def width(self) -> int:
        """Of what it took."""
        return 0 if self.taken is None else self.taken.shape[-1]


@dataclass(frozen=True, eq=False)
class ResidualAddition:
    """What a module added to the stream."""

    call: BlockCall
    mixes: bool  # it brought information from other positions
    neurons: BlockCall | None  # the last linear layer on its way, which takes (B, T, hidden)
    reason: str = ""  # why it cannot be read as (B, T, d)


@dataclass(frozen=True, eq=False)
class BlockRun:
    """One run of one block."""

    module: nn.Module
    width: int
    added: tuple[ResidualAddition, ...] = ()  # in the order in which they are added
    normed: bool = False  # post-norm: the stream passes through norms
    reason: str = ""  # why `added` is empty


def follow(blocks: list[nn.Module], run: Callable[[], object]) -> list[BlockRun]:
    """What each block adds to the stream, in the order of their calls."""
    block_runs: list[BlockRun] = []
    with ExitStack() as hooks, torch.inference_mode(False), torch.enable_grad():
        for block in {id(block): block for block in blocks}.values():
            hooks.enter_context(_watched(block, block_runs))
        run()
    return block_runs


@contextmanager
def _watched(block: nn.Module, found: list[BlockRun]) -> Iterator[None]:
    """While it runs, its parts are recorded; when it is done, the record is read and forgotten."""
    start: list[Tensor] = []
    record: list[BlockCall] = []

    def begin(_block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        at, hidden = taken_by(args, kwargs)
        assert hidden is not None
        start[:] = [hidden.detach().requires_grad_(True).clone()]  # a graph of this block alone
        record.clear()
        if isinstance(at, int):
            return (*args[:at], start[0], *args[at + 1 :]), kwargs
        return args, kwargs | {at: start[0]}

    def note(name: str) -> Callable[..., None]:
        def remember(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            given, (_, taken) = first(output), taken_by(args, kwargs)
            if isinstance(given, Tensor) and given.grad_fn is not None:  # copies: sums may be made in place
                took, gave = None if taken is None else taken.grad_fn, given.grad_fn
                kept = None if taken is None else taken.detach().clone()
                record.append(
                    BlockCall(
                        name=name, module=part, taken=kept, given=given.detach().clone(), took=took, gave=gave
                    )
                )

        return remember

    def finish(_block: nn.Module, _args: Any, output: Any) -> None:
        found.append(_read(block, start[0], first(output), record))

    with ExitStack() as hooks:
        hooks.callback(block.register_forward_pre_hook(begin, with_kwargs=True).remove)
        hooks.callback(block.register_forward_hook(finish).remove)
        for name, part in block.named_modules():
            if part is not block:
                hooks.callback(part.register_forward_hook(note(name), with_kwargs=True).remove)
        yield


def _read(block: nn.Module, start: Tensor, end: Tensor, record: list[BlockCall]) -> BlockRun:
    width = end.shape[-1]
    try:
        return _Trail(block, start, end, record).read()
    except NotTraceable as why:
        return BlockRun(block, width, reason=str(why))
    except RuntimeError as error:
        return BlockRun(block, width, reason=f"its graph cannot be followed ({str(error).splitlines()[0]})")


@dataclass(eq=False)
class _Trail:
    """The way back from a block's output to its input."""

    block: nn.Module
    start: Tensor  # (B, T, d)
    end: Tensor
    record: list[BlockCall]
    stream: list[Any] = field(default_factory=list)  # nodes, the last first
    parts: list[Any] = field(default_factory=list)  # nodes of what is added, the last first
    normed: bool = False

    def read(self) -> BlockRun:
        self.givers: dict[Any, list[BlockCall]] = defaultdict(list)
        for call in self.record:
            self.givers[call.gave].append(call)
        self._walk()
        added = tuple(self._added(node) for node in self.parts[::-1])
        return BlockRun(self.block, self.end.shape[-1], added, self.normed)

    def _added(self, node: Any) -> ResidualAddition:
        call = self._giver(node)
        source = next(known for known in self.stream if known is not node and _reaches(node, known))
        reason = ""
        if sum(other.module is call.module for other in self.record) > 1:
            reason = f"{call.name} runs more than once in a block"
        elif call.given.shape != self.end.shape:
            reason = f"{call.name} gives {tuple(call.given.shape)}, not {tuple(self.end.shape)}"
        return ResidualAddition(call, self._mixes(call, source), self._last_linear(call, source), reason)

    def _walk(self) -> None:
        node, begin, goal = self.end.grad_fn, self.end, self.start.grad_fn
        since: list[Any] = []  # added since the last norm
        while True:
            node = _plain(node, goal)
            self.stream.append(node)
            if node is goal:
                self._check(begin, self.start, since)
                return
            if _is_sum(node):
                node, more = self._split(node)
                since += more
                self.parts += more
                continue
            norm = self._norm(node)
            self._check(begin, norm.given, since)
            assert norm.taken is not None
            begin, node, since, self.normed = norm.taken, norm.took, [], True

    def _split(self, node: Any) -> tuple[Any, list[Any]]:
        """(the stream, what is added to it): one summand was computed from the other."""
        left, right = (child for child, _ in node.next_functions)
        if left is None or right is None:
            raise NotTraceable("a constant is added to the residual stream")
        if _reaches(left, right):
            left, right = right, left
        elif not _reaches(right, left) and not _is_sum(left):
            left, right = right, left  # parallel: (in + attention) + MLP, both computed from in
        more = [right]
        if _is_sum(right) and right not in self.givers:  # parallel: (attention + MLP) + in
            more = [child for child, _ in right.next_functions]
        return left, more

    def _norm(self, node: Any) -> BlockCall:
        """The module that took a sum and gave this."""
        for call in self.givers.get(node, ()):
            if call.took is not None and _is_sum(_plain(call.took)):
                return call
        name = node.name().removesuffix("0").removesuffix("Backward") if node is not None else "nothing"
        raise NotTraceable(f"the residual stream is lost where it comes from {name}, not from a sum")

    def _check(self, end: Tensor, start: Tensor, parts: list[Any]) -> None:
        total = start.detach().double()
        for node in parts:
            total = total + self._giver(node).given.reshape(total.shape).double()
        close = torch.finfo(end.dtype).eps ** 0.75
        wide = close * float(total.abs().max())
        if not torch.allclose(end.detach().double(), total, rtol=close, atol=wide):
            raise NotTraceable("what its parts add does not sum to what it gives")

    def _giver(self, node: Any) -> BlockCall:
        """The outermost module that gave this."""
        givers = self.givers.get(node) or self.givers.get(_plain(node), [])
        givers = [call for call in givers if call.given.numel() == self.end.numel()]
        if not givers:
            raise NotTraceable(
                "what is added to the residual stream is scaled, or made outside of any module"
            )
        return min(givers, key=lambda call: call.name.count("."))

    def _mixes(self, call: BlockCall, source: Any) -> bool:
        """Whether its last position depends on other positions of the stream it was computed from."""
        generator = torch.Generator().manual_seed(0)  # any direction: a norm's outputs have a fixed sum
        along = torch.zeros_like(call.given)
        along[..., -1, :] = torch.randn(call.given.shape[-1], generator=generator).to(call.given)
        ends, begins = GradientEdge(call.gave, 0), GradientEdge(source, 0)
        (grad,) = torch.autograd.grad(ends, begins, grad_outputs=along, retain_graph=True)
        return bool((grad[0, :-1] != 0).any())

    def _last_linear(self, adder: BlockCall, source: Any) -> BlockCall | None:
        """The last module with one matrix of weights on the way from the stream to what is added."""
        for call in reversed(self.record):
            weight = getattr(call.module, "weight", None)
            if not isinstance(weight, Tensor) or call.taken is None or call.taken.ndim != 3:
                continue
            sizes = (call.width, self.end.shape[-1])
            if tuple(weight.shape) not in (sizes, sizes[::-1]) or call.given.shape != self.end.shape:
                continue
            if _reaches(adder.gave, call.gave) and _reaches(call.gave, source):
                return call
        return None


def _is_sum(node: Any) -> bool:
    return node is not None and node.name().startswith("AddBackward")


def _plain(node: Any, goal: Any = None) -> Any:
    """The node behind those that change no value."""
    while node is not None and node is not goal and node.name().startswith(SAME):
        behind = node.next_functions[0][0]
        if behind is None:
            return node
        node = behind
    return node


def _reaches(node: Any, goal: Any) -> bool:
    """Whether `node` was computed from `goal`."""
    observed, queue = {node}, [node]
    while queue:
        here = queue.pop()
        if here is goal:
            return True
        new = [child for child, _ in here.next_functions if child is not None and child not in observed]
        observed.update(new)
        queue += new
    return False
