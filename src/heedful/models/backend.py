"""The torch side of a model: what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heedful.core.errors import HeedfulError

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


class Backend:
    """The torch side of a model: lookup, forward, and nothing that outlives the call. What a backend does not
    offer is refused here; heedful.models.adapter asks for it only where `offers` says so."""

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    window: int | None = None

    @property
    def module(self) -> nn.Module:
        raise self.refusal("a torch module")

    @property
    def one_row_at_a_time(self) -> bool:
        """The model cannot tell padding from text."""
        return False

    @property
    def has_mean(self) -> bool:
        """A mean token embedding is known, so the operator "mean" is defined."""
        return False

    @property
    def shares_prefixes(self) -> bool:
        """Rows that begin alike can be begun once: `begun` and `forward_after` work."""
        return False

    @property
    def vocabulary(self) -> int:
        """How many tokens it has embeddings for."""
        raise self.refusal("a vocabulary to write with")

    @property
    def token_table(self) -> nn.Module | None:
        """The module that looks up the tokens of the text, if one is known."""
        return None

    def refusal(self, what: str) -> HeedfulError:
        return HeedfulError(f"{self.name} does not offer {what}", f"See: heedful doctor {self.name}")

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits with the user's own (fast) attention."""
        raise self.refusal("a forward pass")

    def traced(self, inputs: Inputs, hidden: bool = False) -> TraceOutput:
        """One pass with a graph from embeddings and attention weights to the logits."""
        raise self.refusal("gradients")

    def attention_only(self, inputs: Inputs) -> AttentionOutput:
        """The attention weights of one pass, and nothing else."""
        raise self.refusal("attention weights")

    def lookup(self, inputs: Inputs) -> Tensor:
        """(B, T, d) embeddings the model would read."""
        raise self.refusal("token embeddings")

    def lookup_written(self, ids: Tensor, blank: Sequence[int] = ()) -> Tensor:
        """(B, A, d) embeddings that a decoder of its own would read, those at `blank` set to their mean."""
        raise self.refusal("a decoder")

    def forward_with_grad(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Logits with a graph from the embeddings on, and those embeddings; the user's own attention."""
        raise self.refusal("gradients")

    def begun(self, ids: Sequence[int]) -> Any:
        """Keys and values of a text, for rows that begin like it; None where they cannot be shared."""
        return None

    def forward_after(self, inputs: Inputs, past: Any) -> Tensor:
        """Logits of what follows tokens whose keys and values are given."""
        raise self.refusal("a key-value cache")

    def relevances(self, inputs: Inputs, score: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        """Relevance of each layer's attention weights, (H, T, T)."""
        raise self.refusal("relevance rules")

    def runner(self, inputs: Inputs) -> Callable[[], Any]:
        """A plain pass, for those who look inside by hooks."""
        return lambda: self.forward(inputs)

    def attending(self, edit: Edit) -> AbstractContextManager[None]:
        """`edit` reads and changes every head of the passes inside; see heedful.models.attention_hooks."""
        raise self.refusal("attention that can be changed")

    def generate(self, inputs: Inputs, strategy: str = "greedy", seed: int = 0, **options: Any) -> list[int]:
        """New token ids."""
        raise self.refusal("text generation")

    def find_nan(self, inputs: Inputs) -> str | None:
        """The first layer whose output holds a NaN."""
        return None

    def offers(self) -> frozenset[str]:
        """What was found to work, of heedful.core.model.CAPABILITIES."""
        return frozenset()

    def special_id(self, name: str) -> int | None:
        """Id of the mask, unk, pad, bos, eos or decoder_start token, None where there is none."""
        return None

    def facts(self) -> dict[str, Any]:
        return {}
