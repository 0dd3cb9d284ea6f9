"""Two minima of one task: equally right, one of them with attention that never looks at its input.

A one-layer transformer says, for every place of a sequence, how often the letter there occurs. Bound to read
letters, its attention learns to look at the other copies (semantic); bound to read places, it looks at the
same places whatever stands there (positional), and the network behind it sorts out what was mixed. Both count
right: whether attention explains is a property of the minimum one happens to be in, not of the task or the
accuracy. The lab trains both, proves what each looks at, lifts the bounds to see that gradient descent stays,
and asks explainers why the first letter is counted n times rather than n - 1. The true answer is known: for
its copies.

    found    chance that a copy scores above a letter that is no copy; 1/2 knows nothing
    moves    share of the variance of the scores that comes from the sequence and not from the place:
             0 always gives the same scores

Drawn: attention maps, the learning curve, `found` of every method.

Cui, Behrens, Krzakala & Zdeborova, A Phase Transition between Positional and Semantic Learning in a Solvable
Model of Dot-Product Attention, NeurIPS 2024: accuracy .99885 +- .00045 positional, .99894 +- .00117 semantic.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from heedful.intervals import mean_of, student
from heedful.labs.counting import (
    CountConfig,
    Counter,
    Recipe,
    answers,
    apart,
    descend,
    freed,
    moved,
    on_copies,
    sequences,
    spread,
    train,
)
from heedful.labs.counting_explained import explained, found, moves, questions
from heedful.labs.frame import LabRun, lab
from heedful.types import Floats
from heedful.view.charts import Curve, Group, bars, curves
from heedful.view.panels import Panel, heat

KINDS = ("positional", "semantic")
RIGHT = 0.99  # held-out accuracy that counts as solved
ATTENTION = ("attention-avg", "attention-rollout")
REMOVAL = ("occlusion", "lime", "kernel-shap")
METHODS = (*ATTENTION, "chefer", "grad-l2", "grad-x-input", "integrated-gradients", *REMOVAL)
SHAKE, RATE = 1e-3, 1e-3  # noise and rate of the paper's test that the minima are minima


@dataclass(frozen=True)
class Sizes:
    config: CountConfig
    recipe: Recipe
    drawn: int  # sequences, train and test
    runs: int  # of each kind
    further: int  # steps after the bounds are lifted
    texts: int  # explained


FULL = Sizes(CountConfig(), Recipe(steps=1600), 50_400, 2, 600, 45)
FAST = Sizes(CountConfig(length=6, letters=6), Recipe(steps=400, rate=6e-3), 20_000, 1, 40, 18)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model that solves its training sequences, and how it got there."""

    model: Counter
    right: Floats  # (n,) share of places counted right, by held-out sequence
    curve: list[tuple[float, float]]  # (epochs, share of held-out places counted wrong)
    starts: int  # random starts it took


def solved(run: LabRun, kind: str, number: int, sizes: Sizes, x: Tensor, test: Tensor) -> Trained:
    """Train from random starts until one solves the sequences it trains on; held-out ones have no say."""
    config, steps = replace(sizes.config, reads=kind), sizes.recipe.steps
    for start in range(1, 6):
        curve: list[tuple[float, float]] = []

        def told(step: int, model: Counter, curve: list[tuple[float, float]] = curve) -> None:
            if (step + 1) % max(1, steps // 16) == 0:
                epochs = (step + 1) * sizes.recipe.batch / len(x)
                curve.append((epochs, 1 - float(answers(model, test[:1000])[0].double().mean())))
                run.progress(step + 1, steps, f"{kind} model {number + 1}")

        model = train(config, x, sizes.recipe, 10_000 * run.seed + 100 * number + start, told)
        if float(answers(model, x[:10_000])[0].float().mean()) >= RIGHT:
            break
    return Trained(model, answers(model, test)[0].double().mean(1).numpy(), curve, start)


@lab(
    "histogram",
    title="Two minima that count equally well, one with attention that never looks at the input",
    minutes=2.0,
    cite="Cui, Behrens, Krzakala & Zdeborova 2024",
)
def histogram(run: LabRun) -> None:
    sizes = FAST if run.fast else FULL
    rng = torch.Generator().manual_seed(run.seed)
    x, test = sequences(sizes.config, sizes.drawn, rng)
    run.say(
        f"Sequences of {sizes.config.length} letters out of {sizes.config.letters}; for every place, how"
        f" often does its letter occur? {len(x)} to train on, {len(test)} others to test, none twice."
        " Attention may read letters alone (semantic) or places alone (positional); values read both."
    )
    models = {k: [solved(run, k, i, sizes, x, test) for i in range(sizes.runs)] for k in KINDS}
    accuracy(run, models)
    first = {kind: models[kind][0].model for kind in KINDS}
    looking(run, models, test, rng)
    staying(run, first, sizes, x, test)
    explaining(run, first, sizes)


def accuracy(run: LabRun, models: dict[str, list[Trained]]) -> None:
    rows = [
        [kind, i + 1, *_spanned(one.right), one.starts]
        for kind, every in models.items()
        for i, one in enumerate(every)
    ]
    run.table("Held-out accuracy", ["attention", "run", "accuracy", "low", "high", "random starts"], rows)
    for kind, every in models.items():
        worst = min(every, key=lambda one: one.right.mean())
        value, span = mean_of(worst.right)
        run.claim(
            f"The {kind} model counts right at 99 % of the places or more, in its worst run.",
            value=value, interval=span, holds=span[0] > RIGHT,
        )  # fmt: skip
    run.figure(
        "learning",
        curves(
            [Curve(k, every[0].curve) for k, every in models.items()],
            "epochs",
            "places counted wrong",
            "Learning curves",
            log="y",
        ),
        "Held-out error while the models learn. The paper trains for 200 epochs; here Q and K start small,"
        " which makes it short: with attention peaked from the start, the semantic model is slow.",
    )


def looking(run: LabRun, models: dict[str, list[Trained]], test: Tensor, rng: torch.Generator) -> None:
    """Where attention looks, and what that depends on."""
    some, bound = test[:2000], {}
    for kind in KINDS:
        runs = [one.model for one in models[kind]]
        bound[kind] = [spread(m, some) for m in runs], [moved(m, some, rng) for m in runs]
    run.claim(
        "Positional attention has no variance over sequences: not one weight ever changes.",
        value=max(bound["positional"][0]), exact=True, holds=max(bound["positional"][0]) == 0.0,
        against=min(bound["semantic"][0]), control="semantic attention",
    )  # fmt: skip
    run.claim(
        "Semantic attention follows its letters: a permuted sequence has permuted attention, up to rounding.",
        value=max(bound["semantic"][1]), exact=True, holds=max(bound["semantic"][1]) < 1e-5,
        against=min(bound["positional"][1]), control="positional attention",
    )  # fmt: skip
    value, span = mean_of(np.concatenate([on_copies(one.model, some) for one in models["semantic"]]))
    control = np.mean([on_copies(one.model, some).mean() for one in models["positional"]])
    run.claim(
        "Semantic attention gives another copy more than an even share.",
        value=value, interval=span, holds=span[0] > 1.2,
        against=float(control), control="positional attention",
    )  # fmt: skip
    panels = []
    for kind in KINDS:
        for row in some[:3]:
            text = " ".join(string.ascii_lowercase[letter] for letter in row.tolist())
            weights = answers(models[kind][0].model, row[None])[1][0]
            panels.append(Panel(kind, weights.tolist(), text))
    run.figure(
        "attention",
        heat(panels, "Attention maps of both models on the same three sequences", columns=3),
        "Attention of both models on the same three sequences, query by row. Above, one map three times.",
    )


def staying(run: LabRun, models: dict[str, Counter], sizes: Sizes, x: Tensor, test: Tensor) -> None:
    """Let go of the bounds, shake, and descend: does it leave?"""
    some, maps, rows = test[:2000], {}, []
    for kind, model in models.items():
        free, rng = freed(model, SHAKE, run.seed), torch.Generator().manual_seed(run.seed)
        optimiser = torch.optim.SGD(free.parameters(), lr=RATE)
        for step in range(sizes.further):
            descend(free, x, sizes.recipe.batch, optimiser, rng)
            run.progress(step + 1, sizes.further, f"the {kind} model without its bounds")
        right, after = answers(free, some)
        maps[kind] = answers(model, some)[1], after
        rows.append([kind, *_spanned(right.double().mean(1).numpy()), *_spanned(apart(*maps[kind]))])
    run.table(
        f"Attention free to read both, noise {SHAKE:g}, then {sizes.further} steps of plain gradient descent",
        ["started from", "accuracy", "low", "high", "attention moved", "low", "high"],
        rows,
    )
    gone = np.concatenate([apart(*maps[kind]) for kind in KINDS])
    value, span = mean_of(gone)
    between = float(apart(maps["positional"][0], maps["semantic"][0]).mean())
    run.claim(
        "Free to read both, neither model's attention leaves: it moves by a tenth, or less, of what lies"
        " between the two (total variation).",
        value=value, interval=span, against=between, control="between the two models",
        holds=span[1] < between / 10,
    )  # fmt: skip
    run.say(
        "The paper goes on for 100 epochs at this rate; here it is a few. That the models stay shows that it"
        " is not the bounds that hold them, not that no other optimiser could leave."
    )


def explaining(run: LabRun, models: dict[str, Counter], sizes: Sizes) -> None:
    """Which methods find the copies, and whose scores are the same whatever is asked."""
    x = questions(sizes.config, sizes.texts, run.seed)
    copy = (x[:, 1:] == x[:, :1]).numpy()
    right = np.all(
        [answers(model, x)[0][:, 0].numpy() for model in models.values()], 0
    )  # both count it right
    scores = {}
    for kind, model in models.items():
        told = partial(run.progress, total=int(right.sum()), what=f"explaining the {kind} model")
        scores[kind] = explained(model, x[right], METHODS, run.seed, told)
    aucs = {
        kind: np.array([[found(s, c) for s, c in zip(rows[m], copy[right], strict=True)] for m in rows]).T
        for kind, rows in scores.items()
    }  # (n, methods)
    names = list(scores["semantic"])
    bands = {kind: student(values, len(names)) for kind, values in aucs.items()}
    for kind, band in bands.items():
        run.table(
            f"The {kind} model, {int(right.sum())} sequences; intervals for all methods together",
            ["method", "found", "low", "high", "moves"],
            [
                [name, band.mean[m], band.low[m], band.high[m], moves(scores[kind][name])]
                for m, name in enumerate(names)
            ],
        )
    run.say(
        "found: chance that a copy scores above another letter. moves: share of the variance of the scores"
        " that comes from the sequence; at zero, a method says the same whatever it is shown."
    )
    who_notices(run, names, aucs, scores)
    shown = [
        Group(
            name,
            *([float(getattr(bands[kind], part)[m]) for kind in KINDS] for part in ("mean", "low", "high")),
        )
        for m, name in enumerate(names)
    ]
    run.figure(
        "found",
        bars(shown, series=list(KINDS), up="copies found (1/2: chance)", title="Copies found by each method"),
        "Chance that a copy of the asked letter scores above another letter, by method and model.",
    )


def who_notices(
    run: LabRun, names: Sequence[str], aucs: dict[str, Floats], scores: dict[str, dict[str, Floats]]
) -> None:
    """The claims about explainers."""
    still = max(moves(scores["positional"][name]) for name in ATTENTION)
    run.claim(
        "On the positional model, methods that read attention alone give every sequence the same scores.",
        value=still, exact=True, holds=still == 0.0,
        against=min(moves(scores["semantic"][name]) for name in ATTENTION), control="on the semantic model",
    )  # fmt: skip
    rows = zip(*(scores["positional"][name] for name in ("grad-l2", "attention-avg")), strict=True)
    uneven = [float(np.ptp(norms / seen) / (norms / seen).max()) for norms, seen in rows]
    run.claim(
        "On the positional model the norm of the gradient is attention times one number a sequence: it"
        " knows no more about the letters.",
        value=max(uneven), exact=True, holds=max(uneven) < 1e-4,
    )  # fmt: skip
    run.say(
        "Where attention does not depend on the input, every place after the first sends its value through"
        " the same matrix: df/de_j = A_0j V'g, with one g for all. So the gradient alone cannot tell a copy"
        " from another letter; times the input, or along a path to it, it can."
    )
    gap = (
        aucs["semantic"][:, names.index("attention-avg")]
        - aucs["positional"][:, names.index("attention-avg")]
    )
    value, span = mean_of(gap)
    run.claim(
        "Attention finds the copies better in the semantic model than in the positional one, which counts as"
        " well.",
        value=value, interval=span, holds=span[0] > 0.25,
    )  # fmt: skip
    for kind in KINDS:
        weakest = min(
            (aucs[kind][:, names.index(name)] for name in REMOVAL), key=lambda values: values.mean()
        )
        value, span = mean_of(weakest)
        run.claim(
            f"Methods that remove letters find the copies in the {kind} model, the weakest of them included.",
            value=value, interval=span, holds=span[0] > 0.9,
            against=float(aucs[kind][:, names.index("random")].mean()), control="random scores",
        )  # fmt: skip


def _spanned(values: Floats) -> list[float]:
    value, span = mean_of(values)
    return [value, *span]
