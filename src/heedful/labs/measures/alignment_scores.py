"""How methods point from a target word to source words, for a trained nn.Transformer and a known alignment.

    attention in layer l weights of cross-attention in the row where the word is predicted, heads averaged
    mean attention       the mean over layers
    attention-rollout    all layers multiplied, encoder included (heedful.explainers.attention_rollout)
    chefer               attention times gradient through all layers, by the rules for encoder-decoders
                         (heedful.explainers.chefer), of the word's logit
    removal              fall of the word's log-probability when a source word is hidden from all attention
    diagonal             nearness of relative places: what one knows without a model
    random               a draw

Scores are (S, T): target words by source words; the end mark, which aligns with nothing, is no candidate.

    right   the best source word is the one that was translated (`links`)
    AER     alignment error rate, 1 - (|A & S| + |A & P|) / (|A| + |S|): A the best word of each target word,
            S the words translated (sure), P those and the words that decide an ending (possible)
    AP      average precision of the one word that is right: 1 / its rank, with ties shared
    ending  of target words whose ending another source word decides: the best word, the translated one left
            out, is that one

Och & Ney, A Systematic Comparison of Various Statistical Alignment Models, Computational Linguistics 2003.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.explainers.attention_rollout import roll
from heedful.explainers.chefer import relevance
from heedful.labs.data.toy_language import PAD, Language, Pair, rows
from heedful.metrics.plausibility import average_precision
from heedful.modalities.text import TextInput
from heedful.nn.transformer import AttentionMaps, Transformer

ROLLOUT, CHEFER, REMOVAL = "attention-rollout", "chefer", "removal"
MEAN, DIAGONAL, RANDOM = "mean attention", "diagonal", "random"
METRICS = ("translated word found", "AER", "AP", "ending word found")


def layer_name(layer: int) -> str:
    return f"attention in layer {layer + 1}"


def exact(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """(n,) whether the greedy translation is the target: every next word is right after the right ones."""
    with torch.no_grad():
        best: Tensor = model(source, target[:, :-1], source != PAD).argmax(-1)  # (n, S)
    wanted = target[:, 1:]
    return ((best == wanted) | (wanted == PAD)).all(1)


def explained(model: Transformer, words: Language, pair: Pair, rng: np.random.Generator) -> dict[str, Floats]:
    """Method -> scores (S, T) of one sentence."""
    source, target = rows([pair], words.vocabulary)
    many, long = len(pair.target), len(pair.source)
    traces = traced(model, source, target, many)
    cross = [layer.mean(1)[torch.arange(many), torch.arange(many)] for layer in _maps(traces, "cross")]
    results = {layer_name(number): weights for number, weights in enumerate(cross)}
    results[MEAN] = torch.stack(cross).mean(0)
    results[ROLLOUT] = torch.stack([roll(trace) for trace in traces])
    results[CHEFER] = torch.stack([relevance(trace) for trace in traces])
    results[REMOVAL] = removal(model, source, target, many, long)
    scores = {name: value[:, :long].double().numpy() for name, value in results.items()}
    scores[DIAGONAL] = diagonal(many, long)
    scores[RANDOM] = rng.random((many, long))
    return scores


def _maps(traces: Sequence[Trace], name: str) -> list[Tensor]:
    """One entry per layer: (target words, H, S, T)."""
    return [torch.stack(layer) for layer in zip(*(getattr(trace, name) for trace in traces), strict=True)]


def traced(model: Transformer, source: Tensor, target: Tensor, many: int) -> list[Trace]:
    """Per target word: all attention weights, and the gradient of the word's logit with respect to them.

    The sentence is read once per word, as one batch: row j asks for word j, whose logit stands at position j.
    """
    maps, place = AttentionMaps([], [], []), torch.arange(many)
    given = target[:, : many + 1].expand(many, -1)  # start and all words but the last are needed
    logits = model(source.expand(many, -1), given[:, :-1], None, None, maps)  # (S, S, vocab)
    requested = logits[place, place, given[0, 1:]]  # (S,)
    layers = len(maps.cross)
    flat = [*maps.encoder, *maps.decoder, *maps.cross]
    grads = torch.autograd.grad(requested.sum(), flat)
    traces = []
    for j in range(many):
        a = [weights[j].detach() for weights in flat]
        g = [grad[j] for grad in grads]
        own, dec, cross = (slice(i * layers, (i + 1) * layers) for i in range(3))
        traces.append(
            Trace(
                x=_encoded(source[0]),
                target=Target("token", int(given[0, j + 1])),
                output=float(requested[j].detach()),
                embeds=torch.zeros(1),
                grad_embeds=torch.zeros(1),
                attentions=tuple(a[own]),
                grad_attentions=tuple(g[own]),
                readout=tuple(float(i == j) for i in range(many)),
                cross=tuple(a[cross]),
                grad_cross=tuple(g[cross]),
                decoder_attentions=tuple(a[dec]),
                grad_decoder_attentions=tuple(g[dec]),
            )
        )
    return traces


def _encoded(ids: Tensor) -> TextInput:
    """Ids as a text of heedful; the toy has one token per word."""
    row = tuple(ids.tolist())
    names, zero = tuple(map(str, row)), ((0, 0),) * len(row)
    return TextInput(
        text="",
        ids=row,
        tokens=names,
        offsets=zero,
        special=(False,) * len(row),
        words=tuple(range(len(row))),
        word_spans=zero,
        segments=(0,) * len(row),
    )


def removal(model: Transformer, source: Tensor, target: Tensor, many: int, long: int) -> Tensor:
    """(S, T): log p(word) - log p(word without source word i), the words before it as they are."""
    values = torch.ones(long + 1, source.shape[1], dtype=torch.long)
    values[torch.arange(long), torch.arange(long)] = 0  # row i hides word i, the last row nothing
    with torch.no_grad():
        logits: Tensor = model(source.expand(long + 1, -1), target[:, :many].expand(long + 1, -1), values)
    logp = logits.log_softmax(-1)[:, torch.arange(many), target[0, 1 : many + 1]]  # (long + 1, S)
    return (logp[-1:] - logp[:-1]).T


def diagonal(many: int, long: int) -> Floats:
    """-|relative place in the target - relative place in the source|"""
    places = [(np.arange(n) + 0.5) / n for n in (many, long)]
    return -np.abs(places[0][:, None] - places[1][None])


def measured(scores: Floats, pair: Pair, rng: np.random.Generator) -> tuple[float, ...]:
    """METRICS of one sentence; ties are broken at random. `ending` is nan where no word owes its ending."""
    right = possible = precision = 0.0
    endings = []
    for row, sure, form in zip(scores, pair.links, pair.forms, strict=True):
        best = _best(row, rng)
        right += best == sure
        possible += best in (sure, form)
        precision += average_precision(row, np.arange(len(row)) == sure)
        if form != sure:
            others = np.where(np.arange(len(row)) == sure, -np.inf, row)
            endings.append(_best(others, rng) == form)
    many = len(pair.links)
    shares = right / many, 1 - (right + possible) / (2 * many), precision / many
    return *shares, float(np.mean(endings)) if endings else float("nan")


def _best(row: Floats, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(row == row.max())))
