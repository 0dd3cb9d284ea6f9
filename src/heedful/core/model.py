"""What a model is to the rest of heedful: a few methods and a set of capabilities. No list of model classes.

A method declares what it needs; it is offered where the model has it, and refused with a sentence elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.attribution import Cost
from heedful.core.errors import HeedfulError
from heedful.core.input import Encoded
from heedful.core.progress import Progress
from heedful.core.target import Target
from heedful.core.trace import Trace

if TYPE_CHECKING:
    from torch import Tensor, nn

    from heedful.models.passes import RowCache


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
        memory: RowCache | None = None,
    ) -> Floats:
        """Target value of each row of `keep` (n, d). d counts the units of x, and behind them, if wished,
        those of what was written."""

    def lookup(self, x: Encoded, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor: ...
    def lookup_written(self, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """The same of what was written, where something was."""

    def gradients(self, x: Encoded, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]: ...
    def facts(self) -> dict[str, Any]: ...


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
