"""What a model is to the rest of heedful: a few methods and a set of capabilities. No list of model classes.

A method declares what it needs; it is offered where the model has it, and refused with a sentence elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.core.types import Cost, Encoded, Floats, Progress, Target, Trace
from heedful.engine.perturbation import Memory

if TYPE_CHECKING:
    from torch import Tensor, nn

    from heedful.models.attention_hooks import Edit

Masks = npt.NDArray[np.bool_]  # (n, d): row by row, which units are kept

# capability -> what is missing when a model lacks it
CAPABILITIES = {
    "rows": "a prediction for a text with words removed",
    "gradients": "gradients with respect to the token embeddings",
    "attentions": "attention weights",
    "generate": "text generation",
    "relu": "ReLUs",
    "values": "one stack of layers whose attention goes through transformers' attention switch",
    "edits": "an attention whose weights can be changed as it runs: transformers' attention switch",
    "relevance": "a classifier built of operations that have relevance rules, as BERT and its kin are",
    "one-layer": "a single layer of attention with a linear read-out (heedful.nn.OneLayerClassifier)",
}


@runtime_checkable
class Model(Protocol):
    """The one door. `heedful.load` returns something of this shape, whatever went in."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str:
        """classifier, multi-label, regression, causal-lm, encoder-decoder, encoder or function"""

    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def operators(self) -> tuple[str, ...]:
        """How a unit can be removed; the first is the default."""

    @property
    def window(self) -> int | None:
        """Most tokens it reads."""

    @property
    def module(self) -> nn.Module | None:
        """The user's own module; a function has none."""

    @property
    def spent(self) -> Cost:
        """Running total; a method's cost is the difference over its run."""

    @property
    def capabilities(self) -> frozenset[str]: ...
    def encode(self, text: Any, long: str = "error") -> Encoded: ...
    def target(self, x: Encoded, spec: Any = None) -> Target: ...
    def predict(self, x: Encoded, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        """Labels (next tokens) with their values, highest first; `given`: tokens written after the text."""

    def written(self, target: Target) -> Encoded | None:
        """What was written before the token that is explained, as a text of its own; None: nothing."""

    def trace(self, x: Encoded, target: Target) -> Trace: ...
    def rows(
        self,
        x: Encoded,
        target: Target,
        keep: Masks,
        operator: str | None = None,
        unit: str = "word",
        progress: Progress | None = None,
        memory: Memory | None = None,
    ) -> Floats:
        """Target value of each row of `keep` (n, d). d counts the units of x, and behind them, if wished,
        those of what was written."""

    def lookup(self, x: Encoded, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor: ...
    def lookup_written(self, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """The same of what was written, where something was."""

    def gradients(self, x: Encoded, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]: ...
    def facts(self) -> dict[str, Any]: ...


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
class Output:
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
class Attended:
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

    def traced(self, inputs: Inputs, hidden: bool = False) -> Output:
        """One pass with a graph from embeddings and attention weights to the logits."""

    def attended(self, inputs: Inputs) -> Attended:
        """The attention weights of one pass, and nothing else."""

    def lookup(self, inputs: Inputs) -> Tensor:
        """(B, T, d) embeddings the model would read."""

    def graded(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
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


def require(model: Model, needs: Sequence[str] | frozenset[str], method: str) -> None:
    """Refuse, in a sentence, a method that needs what the model lacks."""
    if why := missing(model, needs):
        raise HeedfulError(f"{method} cannot explain {model.name}", why, f"See: heedful doctor {model.name}")


def missing(model: Model, needs: Sequence[str] | frozenset[str]) -> str:
    """ "" when the model has everything, else a clause naming what it lacks."""
    lacks = [need for need in sorted(needs) if need not in model.capabilities]
    if lacks and model.kind == "encoder":
        return "it makes no prediction: it is an encoder that returns hidden states, without a head"
    return "; ".join(
        f"it needs {CAPABILITIES.get(need, need)}, which this model does not offer" for need in lacks
    )
