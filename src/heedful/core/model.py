"""What a model is to the rest of heedful. No list of model classes: what an instance can do is probed.

A class implements what it can and says so in `capabilities`; the rest is refused here, in a sentence. A
method declares what it needs (`@explainer(needs=...)`); it is offered where the model has it.

    every model            encode, target, predict, values, facts
    gradients              trace, gradients, lookup
    attentions             attention_only; edits: attending
    generate               answer, generate, written
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.cost import Cost, Meter
from heedful.core.defaults import DEFAULT_METHODS
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER, Input, Rectangle, Units
from heedful.core.progress import Progress
from heedful.core.target import Target
from heedful.core.trace import Trace

if TYPE_CHECKING:
    from torch import Tensor, nn

    from heedful.models.attention_hooks import Edit
    from heedful.models.backend import AttentionOutput
    from heedful.models.passes import RowCache


Masks = npt.NDArray[np.bool_]  # (n, d): row by row, which units are kept


@dataclass(frozen=True)
class FeatureMap:
    """The output of a layer over places, and the gradient of the target with respect to it."""

    layer: str
    maps: Tensor  # (C, h, w)
    grads: Tensor  # (C, h, w)
    output: float


@dataclass(frozen=True)
class HeadStates:
    """What one attention layer computes with, the heads side by side, and how the target reacts to it.

    Positions are those of `places`, an input's `positions`; N of them, or more where padding follows."""

    places: Units
    query: Tensor  # (N, H·d)
    key: Tensor  # (N, H·d)
    value: Tensor  # (N, H·d)
    grads: Tensor  # (N, H·d): of the target with respect to the heads' outputs, before the output projection


# capability -> what is missing when a model lacks it
CAPABILITIES = {
    "values": "a prediction for an input with units removed",
    "gradients": "gradients with respect to its input",
    "attentions": "attention weights",
    "generate": "text generation",
    "relu": "ReLUs",
    "value-maps": "one stack of layers whose attention goes through transformers' attention switch",
    "edits": "an attention whose weights can be changed as it runs: transformers' attention switch",
    "relevance": "a classifier built of operations that have relevance rules, as BERT and its kin are",
    "feature-map": "a layer whose output is a map over places",
    "picture": "a picture",
    "text": "a text",
    "crops": "an input of which parts can be cut out and enlarged",
    "head-states": "attention whose queries, keys and values can be read: transformers' attention switch",
    "one-encoder": "one encoder",
    "one-layer": "a single layer of attention with a linear read-out (heedful.nn.OneLayerClassifier)",
}
TWO_ENCODERS = "dual-encoder"
# kinds whose target is no class where none is named -> what can be named instead
NO_CLASS = {
    "regression": "",
    "function": "",
    TWO_ENCODERS: "text (--contrast)",
    "encoder-decoder": "target, such as a token (--target)",
}


class Model:
    """What `heedful.load` returns, whatever went in. Everything that is not offered is refused here."""

    name: str
    kind: str  # classifier, multi-label, regression, causal-lm, encoder-decoder, encoder or function
    window: int | None = None  # most tokens it reads
    some_input: Any = "a"  # what it can read, for a look at its layers
    modality: str = "text"  # of its inputs: a key of heedful.modalities.kinds.KINDS
    meter: Meter

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @property
    def operators(self) -> tuple[str, ...]:
        """How a unit can be removed; the first is the default."""
        return ()

    @property
    def named_operators(self) -> tuple[str, ...]:
        """Those that run when they are named; the last may not fit every unit."""
        return self.operators

    @property
    def default_methods(self) -> tuple[str, ...]:
        """What runs when no method is named, as far as the model supports it."""
        return DEFAULT_METHODS

    @property
    def baselines(self) -> tuple[str, ...]:
        """Where a path of integrated gradients may start; the first is the default."""
        return ("mask", "pad", "zero", "mean") if "mask" in self.operators else ("mean", "pad", "zero")

    @property
    def capabilities(self) -> frozenset[str]:
        """What was found to work, of CAPABILITIES."""
        return frozenset()

    @property
    def module(self) -> nn.Module | None:
        """The user's own module; a function has none."""
        return None

    @property
    def size(self) -> int:
        """Number of parameters; 0 where it is not known."""
        return 0 if self.module is None else sum(p.numel() for p in self.module.parameters())

    @property
    def token_table(self) -> nn.Module | None:
        """The module that looks up the tokens of the text, if one is known."""
        return None

    @property
    def spent(self) -> Cost:
        """Running total; a method's cost is the difference over its run."""
        return self.meter.read()

    def __repr__(self) -> str:
        return f"<heedful model {self.name}: {self.kind}>"

    def lacks(self, needs: Collection[str]) -> str:
        """ "" when the model has everything, else a clause that names what it lacks."""
        offered = self.capabilities | (frozenset() if "picture" in self.capabilities else {"text"})
        offered |= frozenset() if self.kind == TWO_ENCODERS else {"one-encoder"}
        lacking = [need for need in sorted(needs) if need not in offered]
        if lacking and self.kind == "encoder":
            return "it makes no prediction: it is an encoder that returns hidden states, without a head"
        return "; ".join(
            f"it needs {CAPABILITIES.get(need, need)}, which this model does not offer" for need in lacking
        )

    def lacks_class(self) -> str:
        """ "" when what is explained by default is a predicted class, else a clause that says so."""
        several = self.kind != "function" or len(self.labels) > 1
        if several and self.kind not in NO_CLASS:
            return ""
        other = f": name another {NO_CLASS[self.kind]}" if NO_CLASS.get(self.kind) else ""
        return f"it needs a predicted class, which this model does not offer{other}"

    def require(self, needs: Collection[str], method: str) -> None:
        """Refuse, in a sentence, a method that needs what the model lacks."""
        if why := self.lacks(needs):
            raise HeedfulError(
                f"{method} cannot explain {self.name}", why, f"See: heedful doctor {self.name}"
            )

    def _not_offered(self, capability: str) -> HeedfulError:
        return HeedfulError(
            f"{self.name}, a {self.kind}, cannot do this",
            f"that needs {CAPABILITIES[capability]}",
            f"See what it offers: heedful doctor {self.name}",
        )

    # --- every model -------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        raise NotImplementedError

    def encode(self, raw: Any, long: str = "error") -> Input:
        """What the user gave, as the model reads it."""
        raise NotImplementedError

    def truth_mask(self, raw: Any, given: Any) -> npt.NDArray[np.bool_]:
        """(atoms,) where the thing is that must be found, from a mask of what the user gave."""
        raise HeedfulError(f"{self.name} reads no masks", f"its inputs are of the kind {self.modality!r}")

    def target(self, x: Input, spec: Any = None) -> Target:
        """Which number is explained; None: the prediction."""
        raise NotImplementedError

    def predict(self, x: Input, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        """Labels (next tokens) with their values, highest first; `given`: tokens written after the text."""
        raise NotImplementedError

    def rows(
        self, x: Input, target: Target, keep: Masks, operator: str | None = None, unit: str = ""
    ) -> list[Any]:
        """The model input of each row of `keep` (n, d): what `values` runs, and what a cache knows it by."""
        raise self._not_offered("values")

    def values(
        self,
        x: Input,
        target: Target,
        keep: Masks,
        operator: str | None = None,
        unit: str = "",
        progress: Progress | None = None,
        cache: RowCache | None = None,
    ) -> Floats:
        """Target value of each row of `keep` (n, d). d counts the units of x, and behind them, if wished,
        those of what was written."""
        raise self._not_offered("values")

    # --- gradients ---------------------------------------------------------------------------------

    def trace(self, x: Input, target: Target, hidden: bool = False) -> Trace:
        """One forward and backward."""
        raise self._not_offered("gradients")

    def gradients(self, x: Input, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """Target value (n,) and its gradient (n, T, d) at n points (n, T, d) in embedding space."""
        raise self._not_offered("gradients")

    def embed_parts(self, x: Input, embeds: Tensor) -> list[Tensor]:
        """Points (..., rows, width) in embedding space as parts (..., atoms, d), together all atoms of the
        input in their order. Most inputs are one part; where atoms differ in width there are several. Parts
        are views."""
        return [embeds]

    def lookup(self, x: Input, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """(T, d) embeddings of the tokens, those in `replaced` by the token (or mean embedding) `by`."""
        raise self._not_offered("gradients")

    def lookup_written(self, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """(W, d) the same of what was written, where something was."""
        raise self._not_offered("gradients")

    def nudged(self, x: Input, target: Target, shift: Tensor) -> Input | None:
        """The input with its embeddings moved by `shift` (T, d), if that is again an input; else None."""
        return None

    def moved_part(self, x: Input, embeds: Tensor) -> Tensor:
        """(n, d) what noise moves of the embeddings (T, d) of an input: all but special tokens."""
        return embeds[x.units(x.atom).owner != NEVER]

    def feature_map(self, x: Input, target: Target) -> FeatureMap:
        """The last layer whose output is a map over places, and the target's gradient there."""
        raise self._not_offered("feature-map")

    def crop_values(self, x: Input, target: Target, boxes: Sequence[Rectangle]) -> Floats:
        """Target value of each part that is cut out of the input and enlarged to its size."""
        raise self._not_offered("crops")

    # --- attention ---------------------------------------------------------------------------------

    def attention_only(self, x: Input, target: Target | None = None) -> AttentionOutput:
        """Attention weights of one pass, without gradients."""
        raise self._not_offered("attentions")

    def attending(self, edit: Edit) -> AbstractContextManager[None]:
        """Inside the block `edit` reads and changes every head."""
        raise self._not_offered("edits")

    def head_states(self, x: Input, target: Target) -> list[list[HeadStates]]:
        """Queries, keys, values and gradients of every attention layer, one list per encoder."""
        raise self._not_offered("head-states")

    def value_maps(self, x: Input, target: Target, layers: int) -> list[Tensor]:
        """(N, N) per layer: how far each token's state turns when another token's value is zeroed."""
        raise self._not_offered("value-maps")

    def relevances(self, x: Input, target: Target) -> tuple[Tensor, ...]:
        """(H, T, T) per layer: relevance of the attention weights."""
        raise self._not_offered("relevance")

    # --- text --------------------------------------------------------------------------------------

    def written(self, target: Target) -> Input | None:
        """What was written before the token that is explained, as a text of its own; None: nothing."""
        return None

    def answer(self, x: Input, max_new_tokens: int = 32, **options: Any) -> list[int]:
        """Ids of what the model writes after the text, greedily unless a strategy is named."""
        raise self._not_offered("generate")

    def generate(self, prompt: Any, strategy: str = "greedy", **options: Any) -> str:
        """The continuation of a prompt."""
        raise HeedfulError(f"{self.name} cannot write text", f"it is a {self.kind}", "Use a language model")

    def special_id(self, name: str) -> int | None:
        """Id of the mask, unk, pad, bos, eos or decoder_start token; None where there is none."""
        return None


# what `heedful.load` takes: a name, a folder, (model, tokenizer), a module, a function, or a Model
Loadable = Any
