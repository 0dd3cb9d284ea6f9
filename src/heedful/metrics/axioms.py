"""Two axioms that an explanation should satisfy for every model, as metrics, and an example for one of them.

    completeness        |sum of scores - (f(x) - f(base))| / |f(x) - f(base)|             low, 0 the best
    sensitivity-axiom   share of units that break it: removing them changes f under every operator, but they
                        score zero (missed); or removing them changes f under no operator, but they have a
                        score (dummy)    low

A change counts if it is above a millionth of the largest change and above rounding; a score counts if it is
above a millionth of the largest score. `completeness` sums the scores of all tokens, including special
tokens and tokens that were written before. It has a value for methods that name their base or declare that
they are complete. For the control, and for methods that declare completeness but name no base, the base is
the text with every word removed. For all other methods the value is nan. `completeness` is the only metric
here that depends on the size of the scores.

Random scores are never zero: they cannot miss a unit, so they pass the first half of the sensitivity axiom.
So this axiom is necessary for a good explanation, but not sufficient.

The example: f(x) = 1 - ReLU(1 - x) at x = 2, from the base 0. f rises from 0 to 1, so x must get a score; but
f is flat at 2, and its gradient there is 0. Integrated gradients give 1. (`sensitivity_case`)

Cost: none for completeness; one model input per unit and operator for sensitivity.
Sundararajan, Taly & Yan 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.defaults import CONTROL
from heedful.core.model import Model
from heedful.core.registry import MetricRows, metric
from heedful.engine.question import run_explainer
from heedful.metrics.faithfulness import NEGLIGIBLE_SHARE
from heedful.metrics.metric_input import MetricInput, inputs_per_mask
from heedful.models.load import load
from heedful.stats.rounding import rounding_step


@metric(
    "completeness",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Sundararajan, Taly & Yan 2017",
    scale_free=False,
    rows=lambda model, x, target, unit: MetricRows(inputs_per_mask(model, x, target, None, unit)),
)
def completeness(subject: MetricInput, rng: np.random.Generator) -> float:
    """Distance between the sum of the scores and the change of the output, relative to that change.

    Limitations: The sum can be right although the scores are on the wrong units.
    """
    item = subject.item
    base = item.base
    if base is None and (item.method == CONTROL or "complete" in _properties(item.method)):
        base = float(subject.session.values(item.x, item.target, _all_out(subject), unit=subject.unit)[0])
    if base is None or not np.isfinite(item.output):
        return float("nan")
    return incompleteness(np.array(item.total), item.output - base)


def _properties(method: str) -> frozenset[str]:
    known = registry.explainers()
    return known[method].properties if method in known else frozenset()


def _all_out(subject: MetricInput) -> Any:
    item = subject.item
    units = subject.units.followed_by(None if item.written is None else item.written.x.units(subject.unit))
    return np.zeros((1, len(units)), dtype=bool)


def incompleteness(scores: Floats, rise: float) -> float:
    """|sum - rise| / |rise|; nan where nothing rises."""
    return abs(float(scores.sum()) - rise) / abs(rise) if rise else float("nan")


@metric(
    "sensitivity-axiom",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Sundararajan, Taly & Yan 2017",
    spoiled_by="silent",
    rows=lambda model, x, target, unit: MetricRows(
        sum(inputs_per_mask(model, x, target, name, unit) for name in _removing(model))
        * (1 + len(x.units(unit)))
    ),
)
def sensitivity_axiom(subject: MetricInput, rng: np.random.Generator) -> float:
    """Share of units that matter but have score zero, or that never matter but have another score.

    Limitations: Whether a unit matters is measured by removing it alone. If another unit says the same thing,
    an important unit seems not to matter.
    """
    missed, dummy = violations(subject.scores, *effects(subject))  # what operators differ about is not judged
    return float(np.mean(missed | dummy)) if len(missed) else float("nan")


def effects(subject: MetricInput) -> tuple[Floats, float]:
    """((operators, d) the change when a unit goes, the largest change that counts as none)."""
    item, d = subject.item, len(subject.scores)
    keep = np.concatenate([np.ones((1, d), dtype=bool), ~np.eye(d, dtype=bool)])
    values = np.array(
        [
            subject.session.values(item.x, item.target, keep, name, subject.unit)
            for name in _removing(subject.model)
        ]
    )
    changes = np.abs(values[:, 1:] - values[:, :1])
    return changes, max(
        NEGLIGIBLE_SHARE * float(changes.max(initial=0.0)), rounding_step(subject.model, values)
    )


def _removing(model: Model) -> list[str]:
    """Not by swap: a new word has an effect of its own."""
    return [name for name in model.operators if name != "swap"]


def violations(scores: Floats, changes: Floats, least: float) -> tuple[Any, Any]:
    """Two masks (d,): units that always change the output and score zero, units that never do and score."""
    silent = np.abs(scores) <= NEGLIGIBLE_SHARE * np.abs(scores).max(initial=0.0)
    idle = changes <= least  # (operators, d)
    return ~idle.any(0) & silent, idle.all(0) & ~silent


# --- the case of the paper ---------------------------------------------------------------------------------


class Saturated(nn.Module):
    """f = 1 - ReLU(1 - x), x the sum of one-dimensional embeddings: "two" is 2, anything else 0."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 1)
        with torch.no_grad():
            self.table.weight.copy_(torch.tensor([[0.0], [0.0], [2.0]]))

    def embed(self, ids: Tensor) -> Tensor:
        return self.table(ids)  # type: ignore[no-any-return]

    def forward(self, inputs_embeds: Tensor, attention_mask: Tensor) -> Tensor:
        x = (inputs_embeds[..., 0] * attention_mask).sum(-1)
        f = 1 - (1 - x).relu()
        return torch.stack([f, -f], -1)


def saturated_model() -> Model:
    """The example f(x) = 1 - ReLU(1 - x) as a heedful model. The text "two" is x = 2."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "two": 2}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=8, **special)
    return load(Saturated().double(), tokenizer=tokenizer, labels=("f", "minus f"))


def sensitivity_case(method: str) -> float:
    """The score that a method gives to x = 2: 0 for gradients, 1 for integrated gradients and for
    occlusion."""
    model, entry = saturated_model(), registry.get(method)
    x = model.encode("two")
    wish = {"baseline": "zero", "tolerance": 1e-6, "operator": "delete", "seed": 0}
    attribution = run_explainer(
        entry, model, x, model.target(x, "f"), **{k: v for k, v in wish.items() if k in entry.params}
    )
    return float(attribution.scores[0])
