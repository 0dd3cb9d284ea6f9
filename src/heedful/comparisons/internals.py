"""What a run saw while it explained: none of it costs a model input of its own.

    removals   what the model did when words were really removed, from rows that were run anyway:
               alone_i = f(x) - f(x less i), and f along each method's order, its best words first
    looked     a_l(t) = mean over heads of sum_q readout(q) A_l[h, q, t]: where layer l looked from where the
               answer was read, from the one trace
    fired      the features of a dictionary that are active, where one was given (this does cost rows)

A row that was never run is nan, not run and not guessed. A value that differs from f(x) by no more than the
rounding of the model's numbers is f(x): its effect is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.defaults import CONTROL
from heedful.core.input import NEVER, Units
from heedful.core.internals import ActiveFeatures, AttentionSummary, FeatureEffect, Internals, Removal
from heedful.modalities.text import TextInput
from heedful.stats.rounding import rounding_step

if TYPE_CHECKING:
    from heedful.core.model import Model
    from heedful.core.trace import Trace
    from heedful.engine.session import Session
    from heedful.features.reading.explain_features import FeatureExplanation
    from heedful.features.sae.autoencoder import SAE

WORDS = 3  # of a feature: where it is strongest


@dataclass(frozen=True)
class Explained:
    """What was explained, and by what."""

    items: Sequence[Attribution]
    unit: str
    seed: int


def internals_of(session: Session, explained: Explained) -> Internals:
    """From the memory of a session whose text was read in one piece."""
    x, target = explained.items[0].x, explained.items[0].target
    trace = session.known_trace(x, target)
    attention = None if trace is None else _attention_summary(trace, x.units(explained.unit))
    return Internals(tuple(_removals(session, explained)), attention)


def _removals(session: Session, explained: Explained) -> list[Removal]:
    """One an operator under which any word was removed alone; that of the evidence first."""
    from heedful.comparisons.single_text import operator_of

    d = len(explained.items[0].x.units(explained.unit))
    if "values" not in session.model.capabilities or not d:
        return []
    first = operator_of(session.model, explained.items)
    removals = []
    fitted = (name for item in explained.items for name in item.fitted_by or ())
    used = dict.fromkeys((*session.model.operators, *fitted))  # one that was named, too
    for operator in sorted(used, key=lambda name: name != first):
        full = _known(session, explained, operator, [np.ones(d, bool)])[0]
        leave_one_out = full - np.array(_known(session, explained, operator, ~np.eye(d, dtype=bool)))
        if np.isfinite(leave_one_out).any():
            gone, kept = (_curves(session, explained, operator, keeping) for keeping in (False, True))
            removals.append(Removal(operator, tuple(leave_one_out.tolist()), *gone, *kept))
    return removals


def _known(session: Session, explained: Explained, operator: str, keep: Any) -> list[float]:
    """Values that were run; those that are f(x) but for rounding are f(x)."""
    first, keep = explained.items[0], np.asarray(keep)
    whole = np.ones((1, keep.shape[1]), bool)
    (full, *_), values = (
        session.known_values(first.x, first.target, rows, operator, explained.unit) for rows in (whole, keep)
    )
    step = rounding_step(session.model, np.array([v for v in (full, *values) if np.isfinite(v)]))
    return [full if abs(value - full) <= step else value for value in values]


def _curves(
    session: Session, explained: Explained, operator: str, keeping: bool
) -> tuple[dict[str, tuple[tuple[float, float], ...]], tuple[tuple[float, float, float], ...]]:
    """By method, (share removed, f) at the steps that were run; and (share, least, most) of random orders.
    `keeping`: the share is kept, and all else removed."""
    from heedful.comparisons.single_text import DRAWS
    from heedful.metrics.faithfulness import bin_counts, ranked, tops
    from heedful.metrics.random_orders import control_rng, random_scores

    groups = explained.items[0].x.units(explained.unit)
    d = len(groups)
    counts = sorted({0, *bin_counts(d), d})
    least = min(4, len(counts))  # the ends and one step are no curve

    def along(scores: Any) -> list[float]:
        order = ranked(scores, np.random.default_rng(explained.seed))
        return _known(session, explained, operator, tops(order, counts) ^ (not keeping))

    curves = {}
    for item in explained.items:
        steps = [(k / d, v) for k, v in zip(counts, along(item.unit_scores(groups.name)), strict=True)]
        known = tuple((share, value) for share, value in steps if np.isfinite(value))
        if item.method != CONTROL and len(known) >= least:
            curves[item.method] = known
    chance = np.array([along(scores) for scores in random_scores(control_rng(explained.seed), d, DRAWS)])
    whole = np.isfinite(chance).all(0)
    band = tuple(
        (k / d, float(low), float(high))
        for k, low, high, ok in zip(counts, chance.min(0), chance.max(0), whole, strict=True)
        if ok
    )
    return curves, band if len(band) >= least else ()


def _attention_summary(trace: Trace, groups: Units) -> AttentionSummary | None:
    """Layers by units; what special tokens get is told apart."""
    from heedful.explainers.raw_attention import answer_rows

    layers = trace.cross or trace.attentions
    if not layers or not groups:
        return None
    rows = np.stack([answer_rows(trace, at).mean(0).numpy() for at in range(len(layers))])  # (L, T)
    places = trace.x.positions
    if places.atoms == groups.atoms:  # attention runs over the atoms themselves
        weights = np.stack([rows[:, positions].sum(1) for positions in groups], axis=1)  # (L, units)
    else:
        finer = trace.x.units(places.name)
        weights = np.stack([groups.sums(finer.spread(places.sums(row))) for row in rows])
    special = rows[:, places.owner == NEVER].sum(1)
    return AttentionSummary(
        tuple(tuple(layer) for layer in weights.tolist()), tuple(special.tolist()), bool(trace.cross)
    )


def with_features(comparison: Comparison, model: Model, sae: SAE, k: int = 8) -> Comparison:
    """The comparison with the k strongest features of a dictionary, each with its measured effect."""
    from heedful.features.reading.explain_features import explain_features
    from heedful.models.adapter import token_model

    seed = int(comparison.settings.get("seed", 0))
    feature_explanation = explain_features(
        token_model(model, "a dictionary of features"), sae, comparison.x, comparison.target, k, seed=seed
    )
    return replace(
        comparison, internals=replace(comparison.internals, features=active_features(feature_explanation))
    )


def active_features(explanation: FeatureExplanation) -> ActiveFeatures:
    """In plain numbers, without the dictionary."""
    effects = [
        FeatureEffect(f.index, f.effect, f.estimate, f.strength, _words(explanation.x, f.activations))
        for f in explanation.features
    ]
    return ActiveFeatures(
        site=explanation.site,
        features=tuple(effects),
        active=explanation.active,
        together=explanation.together,
        everything=explanation.everything,
        band=explanation.band,
        control=tuple(f.effect for f in explanation.control),
        notes=explanation.notes,
    )


def _words(x: TextInput, activations: Sequence[float]) -> tuple[str, ...]:
    """Where a feature is strongest, a word once."""
    order = sorted(range(len(activations)), key=lambda t: -activations[t])
    active = [t for t in order if activations[t] > 0]
    names = [x.tokens[t] if x.words[t] < 0 else x.word_text(x.words[t]) for t in active]
    return tuple(dict.fromkeys(names))[:WORDS]
