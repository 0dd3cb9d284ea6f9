"""Optimus: of all ways to turn attention maps into scores, the one that best predicts the effect of removals.

    maps       layers {mean, product (last layer leftmost), each} x heads {mean, each}          (Q, T) each
    readings   from: the read-out's row    to: the read-out's column    mean and max of each column
    weights    w over the removable tokens, min-max scaled to [1e-7, 1]
    RFT        sum_t sign(w_t) delta_t / rank_t,  delta_t = f(x) - f(x without t),  rank 1 = largest |w_t|,
               ties share the larger rank; a zero weight counts -|delta_t| / rank_t
    score      w of the configuration with the largest RFT for this text and this target (mode "label")

delta is on the scale of the target (the logit). BERT has 14 x 13 x 4 = 728 configurations. If the queries are
not the tokens (cross-attention, a pooling query), there are no columns and no product. In causal maps the
column of the last token contains only itself and is left out.
Special tokens are never removed, so they have no effect to predict and score zero.

The method is circular by construction: removals choose the configuration, so metrics that remove words
overestimate the method. A note says so.

Cost: the trace, and T + 1 model inputs for all configurations together. Needs: attentions, values.

Mylonas, Mollas & Tsoumakas, An Attention Matrix for Every Decision, DMKD 2023.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor
from torch.nn.functional import pad

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.core.trace import Trace
from heedful.engine.question import POSITION, Question
from heedful.stats.rounding import merged, rounding_step

LOWEST = 1e-7  # of the scaled weights: no token counts as unused
HARMONIC = 8  # above sum 1 / rank of 1,000 tokens: rounding of an RFT in roundings of an output
CIRCULAR = "chosen because it predicts removals best: judge it by another measure than removal"


@dataclass(frozen=True)
class Configuration:
    """One way to read the maps, and the scores it gives."""

    layers: str
    heads: str
    reading: str
    scores: Tensor  # (T,)


def configurations(trace: Trace) -> Iterator[Configuration]:
    """All of them; the first is the plain baseline (mean, mean, from)."""
    maps = [layer.double() for layer in trace.cross or trace.attentions]  # (H, Q, T) a layer
    readout = torch.tensor(trace.readout, dtype=torch.float64, device=maps[0].device)  # (Q,)
    shared = min(len(layer) for layer in maps)  # heads every layer has
    tokens = not trace.cross and all(layer.shape[1] == layer.shape[2] for layer in maps)  # queries are tokens
    for head in [None, *range(shared)]:
        picked = [layer.mean(0) if head is None else layer[head] for layer in maps]
        for name, joined in _over_layers(picked, tokens):
            for reading, scores in _readings(joined, readout, tokens):
                text = pad(scores[: len(trace.x)], (0, max(0, len(trace.x) - len(scores))))
                yield Configuration(name, "mean" if head is None else str(head), reading, text)


def _over_layers(maps: list[Tensor], tokens: bool) -> Iterator[tuple[str, Tensor]]:
    yield "mean", torch.stack(maps).mean(0)
    if tokens:
        yield "product", reduce(lambda below, above: above @ below, maps)
    yield from ((str(index), layer) for index, layer in enumerate(maps))


def _readings(joined: Tensor, readout: Tensor, tokens: bool) -> Iterator[tuple[str, Tensor]]:
    """(Q, T) -> (T,) in each of the ways that are defined for it."""
    yield "from", readout @ joined
    if tokens and bool(joined.triu(1).any()):
        yield "to", joined @ readout
    yield "mean of columns", joined.mean(0)
    yield "max of columns", joined.amax(0)


def scaled(scores: Floats) -> Floats:
    """Min-max to [1e-7, 1]; scores that are all the same become all one."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return np.maximum((scores - low) / (high - low), LOWEST) if high > low else np.ones_like(scores)


def rft(weights: Floats, deltas: Floats) -> float:
    """Ranked faithful truthfulness of weights (n,) for the drops (n,) that removal really causes."""
    ranks = rankdata(-np.abs(weights), method="max")
    gains = np.where(weights == 0, -np.abs(deltas), np.sign(weights) * deltas)
    return float((gains / ranks).sum())


@explainer(
    "attention-optimus",
    needs={"attentions", "values", "one-encoder"},
    takes=("operator",),
    default_operator="unk",
    cite="Mylonas, Mollas & Tsoumakas 2023",
    signed=False,
    expensive=True,
    properties=("symmetric",),
    rows=lambda x, target, p: len(x.positions) + 2,
)
def attention_optimus(q: Question) -> Attribution:
    """The choice of layers, heads and kind of attention that best predicts the effect of removing each token.

    Limitations: The configuration is chosen by the effect of removing tokens from this same text. So metrics
    that remove words are circular for this method. On short texts it fits noise.
    """
    units = q.x.positions
    q, trace = replace(q, unit=units.name), q.trace()
    places = [atoms[0] for atoms in units]
    keep = np.ones((len(places) + 1, len(places)), dtype=bool)
    np.fill_diagonal(keep[1:], False)
    values = q.values(keep)
    ways = list(configurations(trace))
    weights = [scaled(way.scores.cpu().numpy()[places]) for way in ways]
    merits = [rft(row, values[0] - values[1:]) for row in weights]
    best = int(np.argmax(merged(np.array(merits), HARMONIC * rounding_step(q.model, values))))
    scores = np.zeros(units.atoms)
    scores[places] = weights[best]
    chosen = {name: getattr(ways[best], name) for name in ("layers", "heads", "reading")}
    text = f"best of {len(ways)} readings by RFT: {merits[best]:.3g}, plain mean attention {merits[0]:.3g}"
    return q.answer(
        scores,
        over=POSITION,
        params=chosen,
        output=float(values[0]),
        notes=(*trace.notes, text, CIRCULAR),
    )
