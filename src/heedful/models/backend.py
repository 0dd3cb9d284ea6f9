"""The torch side of a model: what goes in, what comes out, what was spent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from heedful.core.attribution import Cost

if TYPE_CHECKING:
    from torch import Tensor, nn

    from heedful.models.attention_hooks import Edit


@dataclass(frozen=True)
class Inputs:
    """A padded batch. `embeds`, when given, stands in for the looked-up token embeddings."""

    ids: Tensor  # (B, T) long
    mask: Tensor  # (B, T) long, 0 = hidden from attention
    type_ids: Tensor | None = None  # (B, T)
    answer: Tensor | None = None  # (B, A) decoder side of encoder-decoders
    embeds: Tensor | None = None  # (B, T, d)
    blank: tuple[tuple[int, int], ...] = ()  # (row, position) set to the mean embedding
    keep_positions: tuple[int, ...] | None = None  # causal LMs: sorted positions whose logits are wanted
    answer_mask: Tensor | None = None  # (B, A) long, 0 = hidden; None: nothing is
    answer_embeds: Tensor | None = None  # (B, A, d)
    answer_blank: tuple[tuple[int, int], ...] = ()  # (row, position) of the answer set to the mean embedding


@dataclass(frozen=True)
class TraceOutput:
    """What a traced pass returns; its tensors are part of one graph."""

    logits: Tensor  # (B, C) classifiers, (B, P, V) causal LMs at keep_positions, (B, A, V) encoder-decoders
    embeds: Tensor  # (B, T, d)
    last_hidden: Tensor | None = None  # (B, Q, d), decoder side for encoder-decoders
    attentions: tuple[Tensor, ...] = ()  # (B, H, Q, T) a layer
    cross: tuple[Tensor, ...] = ()  # (B, H, A, T)
    decoder_attentions: tuple[Tensor, ...] = ()  # (B, H, A, A)
    hidden: tuple[Tensor, ...] = ()  # (B, T, d) a layer
    notes: tuple[str, ...] = ()
    answer_embeds: Tensor | None = None  # (B, A, d) of an encoder-decoder's decoder


@dataclass(frozen=True)
class AttentionOutput:
    """Attention weights alone, of a pass without a graph: what an encoder without a head shows, too."""

    attentions: tuple[Tensor, ...] = ()  # (B, H, Q, T) a layer
    cross: tuple[Tensor, ...] = ()  # (B, H, A, T)
    decoder_attentions: tuple[Tensor, ...] = ()  # (B, H, A, A)
    notes: tuple[str, ...] = ()


@runtime_checkable
class Backend(Protocol):
    """The torch side of a model: lookup, forward, and nothing that outlives the call."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def window(self) -> int | None: ...
    @property
    def module(self) -> nn.Module: ...
    @property
    def one_row_at_a_time(self) -> bool:
        """The model cannot tell padding from text."""

    @property
    def has_mean(self) -> bool:
        """A mean token embedding is known, so the operator "mean" is defined."""

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits with the user's own (fast) attention."""

    def traced(self, inputs: Inputs, hidden: bool = False) -> TraceOutput:
        """One pass with a graph from embeddings and attention weights to the logits."""

    def attention_only(self, inputs: Inputs) -> AttentionOutput:
        """The attention weights of one pass, and nothing else."""

    def lookup(self, inputs: Inputs) -> Tensor:
        """(B, T, d) embeddings the model would read."""

    def forward_with_grad(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Logits with a graph from the embeddings on, and those embeddings; the user's own attention."""

    def attending(self, edit: Edit) -> AbstractContextManager[None]:
        """`edit` reads and changes every head of the passes inside; see heedful.models.attention_hooks."""

    def find_nan(self, inputs: Inputs) -> str | None: ...
    def offers(self) -> frozenset[str]: ...
    def special_id(self, name: str) -> int | None: ...
    def facts(self) -> dict[str, Any]: ...


@dataclass
class Meter:
    """Running totals behind `Model.spent`."""

    forwards: int = 0
    backwards: int = 0
    unique: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def read(self) -> Cost:
        return Cost(self.forwards, self.backwards, self.unique, self.tokens, self.seconds)

    @contextmanager
    def counted(
        self, *, forwards: int = 0, backwards: int = 0, unique: int = 0, tokens: int = 0
    ) -> Iterator[None]:
        """Count what is run inside, and its time, once it is done: what fails or is interrupted is not."""
        started = time.perf_counter()
        yield
        self.forwards += forwards
        self.backwards += backwards
        self.unique += unique
        self.tokens += tokens
        self.seconds += time.perf_counter() - started
