"""Heads whose removal helps, and how much of that is the luck of the choice.

    gain_h = mean over texts of  log p(label | without h) - log p(label | all heads)      > 0: better without

A head is disabled as in the paper, by uniform attention 1/T; the full run also zeroes what it adds. Of many
heads, one will always look harmful on the texts at hand. So the head is chosen on some texts and measured on
others. The gain on the texts that chose is the winner's; that on the others is what a user would get.

    luck = gain where it was chosen - gain where it was not            in many small groups of texts, apart

Then heads go one after another, always the one missed least, beside random orders: chosen on one half of the
texts, drawn on the other.

Model: zoo:sentiment, four layers of four heads, on film sentences it never saw. Drawn: each head's gain with
intervals for all heads together; the pruning curve.

Kovaleva et al. 2019 (without some heads, tasks of GLUE improve: MRPC by up to about 1.2 points, without a
layer RTE by 3.2); Michel, Levy & Neubig 2019; Voita et al. 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import heedful
from heedful.heads.importance import differences, units_of
from heedful.heads.pruning import Pruning
from heedful.heads.tasks import measure, prepare
from heedful.intervals import max_t, mean_of
from heedful.labs.frame import LabRun, lab
from heedful.labs.reviews import Review, reviews
from heedful.types import Floats
from heedful.view.charts import Curve, curves
from heedful.view.plots import Line, forest

NONE: frozenset[Any] = frozenset()
SMALL = 0.02  # nats: a head worth less, either way, is worth next to nothing
AFFORDABLE = 0.1  # nats that a pruned model may lose


@dataclass(frozen=True)
class Sizes:
    texts: int
    group: int  # texts that choose, and as many that measure
    hows: tuple[str, ...]
    pruned: int  # texts of the pruning curve
    steps: int
    shortlist: int
    draws: int


FULL = Sizes(1600, 10, ("uniform", "zero"), 400, 12, 8, 8)
FAST = Sizes(160, 2, ("uniform",), 80, 6, 4, 4)


def gains(run: LabRun, model: Any, some: list[Review], how: str) -> tuple[list[str], Floats, Floats]:
    """Heads, and what removing each adds, (texts, heads): log-probability, accuracy."""
    groups, shape = units_of(model, "head")
    task = prepare(model, [one.text for one in some], [one.label for one in some], "truncate")
    told = lambda done, total: run.progress(done, total, f"without each head ({how})")  # noqa: E731
    found = measure(task, [NONE, *groups.values()], shape, how, progress=told)  # (n, 1 + H, 2)
    drops = differences(found, model)  # (n, H, 2), rounding taken out
    return list(groups), -drops[..., 0], -drops[..., 1]


def chosen_elsewhere(gain: Floats, group: int) -> tuple[Floats, Floats]:
    """(groups,) gain of the head chosen on the first texts of each group: on those, and on the others."""
    inside, outside = [], []
    for start in range(0, len(gain) - 2 * group + 1, 2 * group):
        first, second = gain[start : start + group].mean(0), gain[start + group : start + 2 * group]
        best = int(first.argmax())
        inside.append(first[best])
        outside.append(second[:, best].mean())
    return np.array(inside), np.array(outside)


@lab(
    "head-pruning",
    title="Heads whose removal helps, chosen on some texts and measured on others",
    minutes=2.0,
    cite="Kovaleva et al. 2019; Michel, Levy & Neubig 2019",
)
def head_pruning(run: LabRun) -> None:
    sizes = FAST if run.fast else FULL
    held = reviews("held")
    some = [held[i] for i in np.random.default_rng(run.seed).permutation(len(held))[: sizes.texts]]
    model = heedful.load("zoo:sentiment")
    run.say(
        f"zoo:sentiment on {len(some)} film sentences that no embedded model saw; a head is switched off by"
        f" {' or by '.join(sizes.hows)} attention. Gains are in nats of the right label's log-probability."
    )
    for how in sizes.hows:
        names, sure, right = gains(run, model, some, how)
        told(run, how, names, sure, right)
        if how == sizes.hows[0]:
            luck(run, names, sure, sizes.group)
    pruning(run, model, some[: sizes.pruned], sizes)


def told(run: LabRun, how: str, names: list[str], sure: Floats, right: Floats) -> None:
    """Every head, intervals for all together."""
    band, points = max_t(sure, run.seed), max_t(right, run.seed)
    order = np.argsort(-band.mean)
    run.table(
        f"Gain of the right label without each head, by {how} attention; intervals for all heads together",
        ["layer.head", "log-probability", "low", "high", "accuracy", "low", "high"],
        [[names[h], *(part[h] for b in (band, points) for part in (b.mean, b.low, b.high))] for h in order],
    )
    better = [names[h] for h in order if band.low[h] > 0]
    alone = sum(mean_of(sure[:, h])[1][0] > 0 for h in order)
    run.say(
        f"Better without, all heads tried counted in: {', '.join(better) or 'none'} of {len(names)}."
        f" Taken alone, without counting how many were tried: {alone}."
    )
    lines = [Line(names[h], *(float(part[h]) for part in (band.mean, band.low, band.high))) for h in order]
    run.figure(
        f"heads-{how}",
        forest(lines, "gain of log-probability without the head", f"Gain without each head, {how}"),
        f"Gain without each head ({how} attention), 95 % for all heads together. Above zero: better without.",
    )


def luck(run: LabRun, names: list[str], sure: Floats, group: int) -> None:
    """Chosen here, measured there."""
    inside, outside = chosen_elsewhere(sure, group)
    value, span = mean_of(inside)
    run.claim(
        "Among all heads there is always one whose removal helps the texts that chose it.",
        value=value, interval=span, holds=span[0] > 0, against=float(outside.mean()),
        control="the same heads on other texts",
    )  # fmt: skip
    value, span = mean_of(inside - outside)
    run.claim(
        "That gain is luck in part: on texts that did not choose, the same heads gain less.",
        value=value, interval=span, holds=span[0] > 0,
    )  # fmt: skip
    half = len(sure) // 2
    best = int(sure[:half].mean(0).argmax())
    value, span = mean_of(sure[half:, best])
    run.claim(
        "Chosen on one half of all texts and measured on the other, the head that seemed most harmful is"
        " worth next to nothing, either way.",
        value=value, interval=span, holds=span[0] > -SMALL and span[1] < SMALL,
        against=float(sure[:half, best].mean()), control="on the half that chose it",
    )  # fmt: skip
    verdict = "helps" if span[0] > 0 else "hurts" if span[1] < 0 else "cannot be told from doing nothing"
    run.say(
        f"The head is {names[best]}; removing it {verdict} on the half that did not choose. The"
        " published gains are those of the best of many heads: how much of them is left depends on whether"
        " the texts that chose it are those it is reported for."
    )


def pruning(run: LabRun, model: Any, some: list[Review], sizes: Sizes) -> None:
    """One after another."""
    found: Pruning = heedful.prune_heads(
        model, [one.text for one in some], [one.label for one in some], sizes.hows[0],
        steps=sizes.steps, shortlist=sizes.shortlist, draws=sizes.draws, seed=run.seed,
        progress=lambda done, total: run.progress(done, total, "one head after another"),
    )  # fmt: skip
    quarter = found.steps[found.units // 4 - 1]
    run.claim(
        "A quarter of the heads can go, chosen one by one on other texts, for less than a tenth of a nat.",
        value=quarter.drop, interval=quarter.interval, holds=quarter.interval[1] < AFFORDABLE,
        against=found.base - quarter.random, control="as many heads at random",
    )  # fmt: skip
    steps = found.steps
    run.figure(
        "pruning",
        curves(
            [
                Curve(
                    "missed least first",
                    [(s.gone, s.drop) for s in steps],
                    [s.interval[0] for s in steps],
                    [s.interval[1] for s in steps],
                ),
                Curve(
                    "random orders",
                    [(s.gone, found.base - s.random) for s in steps],
                    [found.base - s.random_range[1] for s in steps],
                    [found.base - s.random_range[0] for s in steps],
                ),
            ],
            "heads gone",
            "loss of log-probability",
            "Pruning curve",
        ),
        "Loss on texts that did not choose. Bands: 95 % over texts; lowest and highest random order.",
    )
