"""Two minima of one task: equally right, one of them with attention that never looks at its input.

A one-layer transformer says, for every place of a sequence, how often the letter there occurs. Bound to read
letters, its attention learns to look at the other copies (semantic); bound to read places, it looks at the
same places whatever stands there (positional), and the network behind it sorts out what was mixed. Both count
right: whether attention explains is a property of the minimum one happens to be in, not of the task or the
accuracy. The lab trains both, proves what each looks at, lifts the bounds and trains on to see whether they
stay, and asks explainers why the first letter is counted n times rather than n - 1. The true answer is known:
for its copies.

    moved    total variation of attention before and after; control: the same models, taken early in training
    found    chance that a copy scores above a letter that is no copy; 1/2 knows nothing
    moves    share of the variance of the scores that comes from the sequence and not from the place:
             0 always gives the same scores

Drawn: attention maps, the learning curve, `found` of every method.

Cui, Behrens, Krzakala & Zdeborova, A Phase Transition between Positional and Semantic Learning in a Solvable
Model of Dot-Product Attention, NeurIPS 2024: accuracy .99885 +- .00045 positional, .99894 +- .00117 semantic.
"""

from __future__ import annotations

import copy
import string
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.charts import Curve, Curves, Heat, Panel
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.measures.counting_explained import KINDS, explaining
from heedful.labs.models.counting import (
    CountConfig,
    Counter,
    Recipe,
    answers,
    apart,
    further,
    moved,
    on_copies,
    sequences,
    spread,
    train,
)
from heedful.stats.intervals import UNIT, Interval, bootstrap_ratio, mean_of

SOLVED_ACCURACY = 0.99  # held-out accuracy that counts as solved
SHAKE, RATE = 1e-3, 1e-3  # noise and rate of the paper's test that the minima are minima
EARLY = 16  # the control of that test is the model after a sixteenth of its training
MAX_MOVED_RATIO = 1 / 3  # of what the control moves
OPTIMISERS = {"plain gradient descent": torch.optim.SGD, "Adam": torch.optim.Adam}


@dataclass(frozen=True)
class HistogramSizes:
    config: CountConfig
    recipe: Recipe
    drawn: int  # sequences, train and test
    runs: int  # of each kind
    further: int  # steps after the bounds are lifted
    texts: int  # explained


FULL = HistogramSizes(
    config=CountConfig(), recipe=Recipe(steps=1600), drawn=50_400, runs=2, further=300, texts=45
)
FAST = HistogramSizes(
    config=CountConfig(length=6, letters=6),
    recipe=Recipe(steps=400, rate=6e-3),
    drawn=20_000,
    runs=1,
    further=40,
    texts=24,
)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model that solves its training sequences, and how it got there."""

    model: Counter
    early: Counter  # the same after a sixteenth of its training
    right: Floats  # (n,) share of places counted right, by held-out sequence
    curve: list[tuple[float, float]]  # (epochs, share of held-out places counted wrong)
    starts: int  # random starts it took


def solved(run: LabRun, kind: str, number: int, sizes: HistogramSizes, x: Tensor, test: Tensor) -> Trained:
    """Train from random starts until one solves the sequences it trains on; held-out ones have no say."""
    config, steps = replace(sizes.config, reads=kind), sizes.recipe.steps
    for start in range(1, 6):
        curve: list[tuple[float, float]] = []
        early: list[Counter] = []

        def told(step: int, model: Counter, curve: list[Any] = curve, early: list[Counter] = early) -> None:
            if step + 1 == steps // EARLY:
                early.append(copy.deepcopy(model).eval())
            if (step + 1) % max(1, steps // 16) == 0:
                epochs = (step + 1) * sizes.recipe.batch / len(x)
                curve.append((epochs, 1 - float(answers(model, test[:1000])[0].double().mean())))
                run.progress(step + 1, steps, f"{kind} model {number + 1}")

        model = train(config, x, sizes.recipe, 10_000 * run.seed + 100 * number + start, told)
        if float(answers(model, x[:10_000])[0].float().mean()) >= SOLVED_ACCURACY:
            break
    return Trained(model, early[0], answers(model, test)[0].double().mean(1).numpy(), curve, start)


@lab(
    "histogram",
    title="Two solutions that count equally well, one with attention that ignores the input",
    minutes=3.0,
    cite="Cui, Behrens, Krzakala & Zdeborova 2024",
)
def histogram(run: LabRun) -> None:
    sizes = FAST if run.fast else FULL
    rng = torch.Generator().manual_seed(run.seed)
    x, test = sequences(sizes.config, sizes.drawn, rng)
    run.say(
        f"The inputs are sequences of {sizes.config.length} letters from an alphabet of "
        f"{sizes.config.letters}. The task: for every position, how often does its letter occur in the "
        f"sequence? There are {len(x)} sequences for training and {len(test)} for testing, all different. "
        "In the semantic model attention reads only the letters, in the positional model only the "
        "positions. The values, of which attention takes the weighted mean, contain both."
    )
    models = {k: [solved(run, k, i, sizes, x, test) for i in range(sizes.runs)] for k in KINDS}
    accuracy(run, models)
    looking(run, models, test, rng)
    staying(run, {kind: models[kind][0] for kind in KINDS}, sizes, x, test)
    explaining(run, {kind: models[kind][0].model for kind in KINDS}, sizes.texts)


def accuracy(run: LabRun, models: dict[str, list[Trained]]) -> None:
    rows = [
        [kind, i + 1, *_flat(mean_of(one.right, UNIT)), one.starts]
        for kind, every in models.items()
        for i, one in enumerate(every)
    ]
    run.table(
        "Accuracy on test sequences",
        ["model", "run", "accuracy", "low", "high", "random starts needed"],
        rows,
    )
    for kind, every in models.items():
        worst = min(every, key=lambda one: one.right.mean())
        value, span = mean_of(worst.right, UNIT)
        run.claim(
            f"Even in its worst run, the {kind} model counts correctly at more than 99 % of the positions.",
            value=value,
            interval=span,
            holds=span[0] > SOLVED_ACCURACY,
        )
    run.figure(
        "learning",
        Curves(
            [Curve(k, every[0].curve) for k, every in models.items()],
            "epochs",
            "share of positions counted wrong",
            "Learning curves",
            log="y",
            better="low",
        ),
        "Error on test sequences during training. The paper trains for 200 epochs. Here the query and key "
        "matrices start with small values, which makes training shorter: if attention is peaked at the "
        "start, the semantic model learns slowly.",
    )


def looking(run: LabRun, models: dict[str, list[Trained]], test: Tensor, rng: torch.Generator) -> None:
    """Where attention looks, and what that depends on."""
    some, bound = test[:2000], {}
    for kind in KINDS:
        runs = [one.model for one in models[kind]]
        bound[kind] = [spread(m, some) for m in runs], [moved(m, some, rng) for m in runs]
    run.claim(
        "Positional attention is the same for all sequences (value: largest variance of an attention weight "
        "over sequences).",
        value=max(bound["positional"][0]),
        exact=True,
        holds=max(bound["positional"][0]) == 0.0,
        against=min(bound["semantic"][0]),
        control="variance of semantic attention",
    )
    run.claim(
        "Semantic attention follows the letters: if a sequence is permuted, its attention is permuted in the "
        "same way, up to rounding (value: largest difference of an attention weight).",
        value=max(bound["semantic"][1]),
        exact=True,
        holds=max(bound["semantic"][1]) < 1e-5,
        against=min(bound["positional"][1]),
        control="value for positional attention",
    )
    least = min((on_copies(one.model, some) for one in models["semantic"]), key=lambda values: values.mean())
    value, span = mean_of(least)
    control = np.mean([on_copies(one.model, some).mean() for one in models["positional"]])
    run.claim(
        "Even in its worst run, semantic attention gives another copy of the letter more weight than "
        "uniform attention would (value: attention on a copy, divided by uniform attention).",
        value=value,
        interval=span,
        holds=span[0] > 1.2,
        against=float(control),
        control="value for positional attention",
    )
    panels = []
    for kind in KINDS:
        for row in some[:3]:
            text = " ".join(string.ascii_lowercase[letter] for letter in row.tolist())
            weights = answers(models[kind][0].model, row[None])[1][0]
            panels.append(Panel(kind, weights.tolist(), text))
    run.figure(
        "attention",
        Heat(panels, "Attention maps of both models on the same three sequences", columns=3),
        "Attention of both models on the same three sequences, one query per row. The upper three maps, of "
        "the positional model, are identical.",
    )


def staying(run: LabRun, models: dict[str, Trained], sizes: HistogramSizes, x: Tensor, test: Tensor) -> None:
    """Let go of the bounds, shake, and train on: does it leave? And does a model that has not arrived?"""
    some, rows = test[:2000], []
    moved: dict[tuple[str, str, str], Floats] = {}
    for name, optimiser in OPTIMISERS.items():
        for kind, one in models.items():
            for when, model in (("early", one.early), ("solved", one.model)):
                run.progress(len(moved), 8, f"further training of the {kind} model")
                free = further(
                    model, x, sizes.recipe.batch, partial(optimiser, lr=RATE), sizes.further, SHAKE, run.seed
                )
                (before, old), (after, new) = answers(model, some), answers(free, some)
                gone = moved[name, kind, when] = apart(old, new)
                stage = {"early": "early in training", "solved": "trained"}[when]
                rows.append([name, kind, stage, *(float(r.double().mean()) for r in (before, after))])
                rows[-1] += _flat(mean_of(gone, UNIT))
    run.table(
        f"Further training with attention that may read both letters and positions (noise {SHAKE:g}, then "
        f"{sizes.further} steps with learning rate {RATE:g})",
        [
            "optimiser",
            "model",
            "stage",
            "accuracy before",
            "accuracy after",
            "change of attention",
            "low",
            "high",
        ],
        rows,
    )
    stays(run, moved)


def stays(run: LabRun, moved: dict[tuple[str, str, str], Floats]) -> None:
    """moved: (optimiser, kind, early or solved) -> (n,) of the same sequences."""
    ratios = {
        name: max(moved[name, kind, "solved"].mean() / moved[name, kind, "early"].mean() for kind in KINDS)
        for name in OPTIMISERS
    }
    spans = [
        bootstrap_ratio(moved["Adam", kind, "solved"], moved["Adam", kind, "early"], run.seed)
        for kind in KINDS
    ]
    low, high = max(spans, key=lambda span: span[1])
    run.claim(
        "Training continues with Adam, and attention may now read both letters and positions. Then the "
        "attention of a trained model changes less than a third as much as the attention of the same "
        "model early in its training (value: ratio of the two changes).",
        value=float(ratios["Adam"]),
        interval=(low, high),
        holds=high < MAX_MOVED_RATIO,
        against=float(ratios["plain gradient descent"]),
        control="ratio with plain gradient descent",
    )
    blind = (
        "With so few steps of plain gradient descent at the paper's learning rate, even the early model "
        "changes little: less than three times as much as the trained model. So plain gradient descent "
        "alone would not show that the trained model keeps its attention."
        if ratios["plain gradient descent"] > MAX_MOVED_RATIO
        else "Plain gradient descent at the paper's learning rate also separates the early model from the "
        "trained model."
    )
    run.say(
        "The change of attention is the total variation distance between attention before and after. The "
        "ratio is computed for the positional and for the semantic model. The claim uses the larger of "
        f"these two ratios, with an interval over sequences. {blind} The paper continues for 100 epochs. "
        "So the attention of trained models stays nearly the same, even when attention may read every "
        "input. But another optimiser might still leave these solutions."
    )


def _flat(found: tuple[float, Interval]) -> list[float]:
    return [found[0], *found[1]]
