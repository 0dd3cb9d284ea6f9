"""Brackets: models that are all but perfect attend in different ways, and what they do share is a balance.

Ten two-layer transformers learn the same language of nested brackets from different starts. All close
brackets right, and their attention maps differ from seed to seed. So a map is not the algorithm: many maps do
the same work.

What the work does demand is shown on the second layer alone, given a perfect first one: it reads type and
depth of each bracket. A matched pair is noise to whoever looks for the bracket still open, so what its halves
add must cancel:  a(open) v(open) + a(close) v(close) = 0, for every query. Where it does not, the rest grows
with the length of the text.

    violation   max over pairs |a_o v_o + a_c v_c| / min over stacks |signal|, mean over closing queries
    accuracy    is the type of the next closing bracket told right, at all places where one comes

Models with less violation generalise better to texts far longer than those they learnt. A regulariser lowers
the violation: a balanced prefix must not change the logits (every type and depth once, one pair twice).
Drawn: maps of several seeds on one text; violation against errors on long texts.

Wen, Li, Liu & Risteski, Transformers are uninterpretable with myopic methods: a case study with bounded Dyck
grammars, NeurIPS 2023.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.charts import Heat, Panel, Scatter, Series
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.brackets import (
    Grammar,
    Params,
    Words,
    accuracy,
    counted,
    draw,
    fit,
    maps_of_minimal,
    new_layers,
    new_minimal,
    run_layers,
    run_minimal,
    surprise,
    violation,
)
from heedful.stats.intervals import UNIT, Counts, Interval, bootstrap, mean_of, percentile_interval

WEIGHT = 0.3  # of the regulariser
GROUPS = {"plain": "without regulariser", "regularised": "with regulariser"}  # of one-layer models


@dataclass(frozen=True)
class DyckSizes:
    grammar: Grammar
    length: int  # of the words that are learnt
    long: int  # and of those that measure generalisation
    seeds: int  # two-layer models
    width: int
    steps: int
    batch: int
    minimal: int  # one-layer models, with and without the regulariser
    minimal_steps: int


FULL = DyckSizes(
    grammar=Grammar(2, 4),
    length=28,
    long=450,
    seeds=10,
    width=40,
    steps=1500,
    batch=24,
    minimal=40,
    minimal_steps=1500,
)
FAST = DyckSizes(
    grammar=Grammar(2, 3),
    length=16,
    long=300,
    seeds=6,
    width=32,
    steps=250,
    batch=24,
    minimal=48,
    minimal_steps=600,
)


@lab(
    "dyck",
    title="Almost perfect bracket models: their attention differs, but they share a balance condition",
    minutes=4.0,
    cite="Wen, Li, Liu & Risteski 2023",
)
def dyck(run: LabRun) -> None:
    sizes = FAST if run.fast else FULL
    grammar = sizes.grammar
    run.say(
        f"The models learn to predict the next token of strings with {grammar.types} types of brackets, "
        f"which are nested at most {grammar.depth} deep and cut at {sizes.length} tokens. All models of a "
        "group are trained in one batch; each has its own initial weights and training data."
    )
    two_layers(run, sizes)
    one_layer(run, sizes)


def two_layers(run: LabRun, sizes: DyckSizes) -> None:
    """Everything learnt: all are right, and no two look alike."""
    words, test = (draw(sizes.grammar, n, sizes.length, 10 * run.seed + i) for i, n in enumerate((4000, 200)))

    def loss(p: Params, rng: torch.Generator) -> Tensor:
        rows = torch.randint(len(words.tokens), (sizes.seeds, sizes.batch), generator=rng)
        return surprise(run_layers(p, words.tokens[rows])[0], words.odds[rows])

    start = new_layers(sizes.grammar, sizes.seeds, sizes.width, sizes.length, run.seed)
    model = fit(
        start,
        loss,
        sizes.steps,
        3e-3,
        run.seed,
        lambda step: run.progress(step, sizes.steps, "two-layer models"),
    )
    with torch.no_grad():
        logits, maps = run_layers(model, test.tokens[None])
    right = accuracy(logits, test).numpy()
    value, span = mean_of(right, UNIT)
    run.claim(
        "Two-layer models with different seeds almost always close brackets correctly (number: accuracy on "
        "closing brackets).",
        value=value,
        interval=span,
        holds=span[0] > 0.97,
        against=1 / sizes.grammar.types,
        control="accuracy by guessing",
    )
    result = logits[:, :, :-1, 1::2].argmax(-1)[:, test.tokens % 2 == 1]  # (S, closings)
    looks = [apart(maps[:, layer], test) for layer in (0, 1)]
    same = [float((result[i] == result[j]).double().mean()) for i, j in pairs(sizes.seeds)]
    run.table(
        f"{sizes.seeds} two-layer models: accuracy of each model, and comparison of all pairs",
        ["quantity", "mean", "smallest", "largest"],
        [
            ["accuracy on closing brackets", right.mean(), right.min(), right.max()],
            ["share of closing brackets on which two models agree", np.mean(same), min(same), max(same)],
            *(
                [
                    f"total variation between the maps of two models in layer {n + 1}",
                    m.mean(),
                    m.min(),
                    m.max(),
                ]
                for n, m in enumerate(looks)
            ),
        ],
    )
    different(run, sizes.seeds, looks[1], np.array(same))
    several_maps(run, "maps", maps[:, 1], test, "Second-layer attention of two-layer models")


def one_layer(run: LabRun, sizes: DyckSizes) -> None:
    """The second layer alone: what its maps must have in common."""
    run.say(
        "The one-layer models read states: the type and depth of each bracket, which a perfect first layer "
        "would compute. The balance condition says that a matched pair of brackets must not influence the "
        "prediction, so the contributions of its two brackets must cancel. If they do not, the remaining "
        "error grows with the length of the string. The violation is the size of this remaining error, "
        "relative to the signal. The regulariser penalises a model if a balanced prefix changes its logits."
    )
    test = draw(sizes.grammar, 300, sizes.length, 10 * run.seed + 5)
    long = draw(sizes.grammar, 60, sizes.long, 10 * run.seed + 6)
    results: dict[str, tuple[Params, Floats, Floats, Floats]] = {}
    for name, weight in (("plain", 0.0), ("regularised", WEIGHT)):
        model = minimal(run, sizes, name, weight)
        near, far = (read(model, sizes.grammar, words).numpy() for words in (test, long))
        results[name] = (model, near, far, violation(model, sizes.grammar).double().numpy())
    run.table(
        f"One-layer models that read states: {sizes.minimal} without and {sizes.minimal} with the "
        "regulariser",
        [
            "models",
            f"mean accuracy at {sizes.length} tokens",
            f"mean accuracy at {sizes.long} tokens",
            "smallest",
            "largest",
            "median violation",
        ],
        [
            [GROUPS[n], a.mean(), b.mean(), b.min(), b.max(), np.median(v)]
            for n, (_, a, b, v) in results.items()
        ],
    )
    nearest = min((a for _, a, _, _ in results.values()), key=lambda near: near.mean())
    value, span = mean_of(nearest, UNIT)
    run.claim(
        "One-layer models that read states (the type and depth of each bracket) close brackets correctly "
        "at the training length, with and without the regulariser (number: mean accuracy of the worse "
        "group).",
        value=value,
        interval=span,
        holds=span[0] > 0.97,
        against=1 / sizes.grammar.types,
        control="accuracy by guessing",
    )
    generalising(run, results, sizes)
    maps = maps_of_minimal(results["plain"][0], test.states[:50])
    part = Words(test.tokens[:50], test.states[:50], test.odds[:50], test.top[:50])
    several_maps(run, "minimal-maps", maps, part, "Attention of one-layer models that read states")


def minimal(run: LabRun, sizes: DyckSizes, name: str, weight: float) -> Params:
    """Train on single places: a state that asks, and the counts of the states before it."""
    words = draw(sizes.grammar, 1500, sizes.length, 10 * run.seed + 7)
    query, odds = words.states.flatten(), words.odds.flatten(0, 1)
    counts = counted(sizes.grammar, words).flatten(0, 1)

    def loss(p: Params, rng: torch.Generator) -> Tensor:
        rows = torch.randint(len(query), (sizes.minimal, 64), generator=rng)
        logits = run_minimal(p, query[rows], counts[rows])
        fit_to_odds = surprise(logits, odds[rows])
        if not weight:
            return fit_to_odds
        after = counts[rows] + balanced_prefix(sizes.grammar, rows.shape, rng)
        return fit_to_odds + weight * (run_minimal(p, query[rows], after) - logits).square().mean((1, 2))

    start = new_minimal(sizes.grammar, sizes.minimal, 16, 100 + run.seed)
    steps = sizes.minimal_steps
    return fit(start, loss, steps, 3e-2, run.seed, lambda step: run.progress(step, steps, f"{name} models"))


def balanced_prefix(grammar: Grammar, shape: torch.Size, rng: torch.Generator) -> Tensor:
    """(*shape, states) counts of a prefix that leaves nothing open: every pair once, one of them twice."""
    prefix = torch.ones(*shape, grammar.states)
    prefix[..., 0] = 0
    pair = torch.randint((grammar.states - 1) // 2, shape, generator=rng)[..., None]
    for half in (1, 2):
        prefix.scatter_(-1, 2 * pair + half, 2.0)
    return prefix


def read(p: Params, grammar: Grammar, words: Words) -> Tensor:
    """(S,) accuracy on words of any length."""
    flat = counted(grammar, words).flatten(0, 1)
    logits = run_minimal(p, words.states.flatten()[None], flat[None])
    return accuracy(logits.view(len(logits), *words.states.shape, -1), words)


def generalising(
    run: LabRun, found: dict[str, tuple[Params, Floats, Floats, Floats]], sizes: DyckSizes
) -> None:
    """Violation, and what it costs on long texts."""
    _, _, far, off = found["plain"]
    value, span = rank_correlation(off, far, run.seed)
    run.claim(
        "The more a model violates the balance condition, the worse it generalises to long strings (number: "
        "rank correlation of violation and accuracy).",
        value=value,
        interval=span,
        holds=span[1] < 0,
    )
    value, span = mean_of(np.log(found["regularised"][3] / off))
    run.claim(
        "The regulariser reduces the violation (number: mean logarithm of the violation with the "
        "regulariser divided by the violation without it, for the same initial weights).",
        value=value,
        interval=span,
        holds=span[1] < 0,
    )
    value, span = mean_of(found["regularised"][2] - far)
    here = (
        "The same happens here"
        if span[0] > 0
        else "Here the opposite happens"
        if span[1] < 0
        else "With the short training used here, this result is not reproduced"
    )
    run.say(
        "According to the paper (quoted from memory), the regulariser also improves generalisation to "
        f"longer strings. {here}: accuracy at {sizes.long} tokens changes by {value:+.3f} (95 % interval "
        f"over seeds {span[0]:+.3f} to {span[1]:+.3f})."
    )
    run.figure(
        "balance",
        Scatter(
            [Series(GROUPS[name], _points(v, b)) for name, (_, _, b, v) in found.items()],
            "log10 of balance violation",
            f"error rate on closing brackets at {sizes.long} tokens",
            "Balance violation and length generalisation",
            better="low",
        ),
        f"One mark per model. The models were trained on strings of {sizes.length} tokens, and the error "
        f"rate is measured on strings of {sizes.long} tokens.",
    )


def _points(off: Floats, far: Floats) -> list[tuple[float, float]]:
    return list(zip(np.log10(off).tolist(), (1 - far).tolist(), strict=True))


def rank_correlation(x: Floats, y: Floats, seed: int) -> tuple[float, Interval]:
    """Spearman, with the 95 % of models drawn again with repetition."""
    value = float(spearmanr(x, y)[0])
    models = np.arange(len(x))

    def correlations(counts: Counts) -> Floats:
        chosen = [np.repeat(models, row) for row in counts]
        return np.array([float(spearmanr(x[some], y[some])[0]) for some in chosen])

    draws = bootstrap(correlations, len(x), seed, draws=1000)
    low, high = percentile_interval(draws, finite_only=True)
    return value, (min(low, value), max(high, value))


def pairs(seeds: int) -> Iterator[tuple[int, int]]:
    return combinations(range(seeds), 2)


def apart(maps: Tensor, words: Words) -> Floats:
    """(pairs,) total variation of two models' maps (S, n, T + 1, T + 1), where a bracket closes next."""
    input_row = torch.nn.functional.pad(words.tokens % 2 == 1, (0, 1))  # (n, T + 1): the place before it
    rows = maps[:, input_row]  # (S, places, T + 1)
    return np.array([float((rows[i] - rows[j]).abs().sum(-1).mean()) / 2 for i, j in pairs(len(rows))])


def jackknife(pairwise: Floats, seeds: int) -> tuple[float, Interval]:
    """(mean over pairs of seeds, 95 % over seeds). Pairs share seeds: each seed is left out in turn."""
    kept = [np.array([seed not in two for two in pairs(seeds)]) for seed in range(seeds)]
    without = np.array([pairwise[rest].mean() for rest in kept])
    pseudo_values = seeds * pairwise.mean() - (seeds - 1) * without
    return float(pairwise.mean()), mean_of(pseudo_values, UNIT)[1]


def different(run: LabRun, seeds: int, looks: Floats, same: Floats) -> None:
    """Maps differ, answers do not."""
    value, span = jackknife(looks, seeds)
    run.claim(
        "Attention maps differ between seeds: on average, two models put at least a tenth of the second "
        "layer's attention on different tokens (number: total variation, mean over pairs of models; "
        "jackknife interval over seeds).",
        value=value,
        interval=span,
        holds=span[0] > 0.1,
        against=float(1 - same.mean()),
        control="share of closing brackets for which two models give different answers",
    )


def several_maps(run: LabRun, name: str, maps: Tensor, words: Words, title: str) -> None:
    """Four seeds on one word."""
    text = "".join("([)]"[2 * (t % 2) + t // 2] for t in words.tokens[0].tolist())
    caption = f"{title} on the string {text}. Each row is a query; the first column is the start token."
    panels = [Panel(f"seed {s + 1}", maps[s, 0].tolist()) for s in range(min(4, len(maps)))]
    run.figure(name, Heat(panels, title, columns=4), caption)
