"""How many heads can go: a curve of the task metric as heads are taken away one after another.

    greedy     at each step the head whose removal hurts least, given those already gone; tried are the
               `shortlist` heads that hurt least when last tried (None: every head left, exact greedy)
    one-shot   the order of single-head importance, measured once
    random     orders drawn at random, what taking just any heads loses: mean, lowest and highest draw

Choosing heads and measuring the loss on the same texts is too hopeful: the luck of the choice is measured
with it. So texts are cut in two halves at random: heads are chosen on one, and all curves are of the other.
The metric on the half that chose is kept beside it. Intervals are over the texts that did not choose, for all
steps of the greedy curve together.

Cost, n texts, H heads, S steps: n/2 (1 + H + S shortlist) forwards to choose, n/2 S (2 + draws) to report.
Needs: what heedful.heads.ablation.importance needs.
Michel, Levy & Neubig 2019; Voita et al. 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.core.progress import Report, counting
from heedful.core.whole_numbers import check_seed
from heedful.heads.ablation.ablate import Anatomy, Means, check_how
from heedful.heads.ablation.importance import checked_metric, differences, units_of
from heedful.heads.ablation.pruning_results import Pruning, PruningStep
from heedful.heads.ablation.task_metrics import Heads, Task, measure, prepare
from heedful.stats.intervals import max_t

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

NONE: Heads = frozenset()


def prune_heads(
    model: Loadable,
    texts: Iterable[Any],
    labels: Iterable[Any] | None = None,
    how: str = "zero",
    metric: str | None = None,
    *,
    level: str = "head",
    shortlist: int | None = 8,
    steps: int | None = None,
    draws: int = 10,
    means: Means | None = None,
    seed: int = 0,
    long: str = "truncate",
    progress: Report | None = None,
) -> Pruning:
    """Remove attention heads one by one, the least important head first.

    The heads are chosen on one half of the texts, and the result is measured on the other half.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    texts
        Texts to choose and measure on.
    labels
        The true labels, as in `heedful.head_importance`. If `None`, the predictions of the model with all
        heads.
    how
        How a head is removed: "zero", "mean" (needs `means`) or "uniform".
    metric
        The metric that ranks the heads. If `None`, the log-probability.
    level
        What is removed at a time: one "head" or one "layer".
    shortlist
        Number of heads that are tried in each step. If `None`, all heads that are left.
    steps
        Number of heads to remove. If `None`, all heads.
    draws
        Number of random orders. They are the control.
    means
        For `how="mean"`: the result of `heedful.head_means`.
    seed
        Random seed.
    long
        What to do with a text that is too long: "error" or "truncate".
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.

    Returns
    -------
    Pruning
        One step per removed head, with the metric after the step and the metric of random orders.

    Examples
    --------
    >>> import heedful
    >>> texts = ["The food was great", "The service was bad", "a nice bar", "I hate this place"]
    >>> pruning = heedful.prune_heads("zoo:sentiment", texts, steps=2, draws=1, shortlist=2)
    >>> len(pruning.steps)
    2
    """
    from heedful.models.load import load_token_model

    check_seed(seed)
    loaded = load_token_model(model, "removing heads")
    check_how(how, means)
    groups, shape = units_of(loaded, level)
    task = prepare(loaded, texts, labels, long)
    at = task.metrics.index(checked_metric(metric, task.metrics))
    halves = split(task, seed)
    count = checked_steps(steps, shortlist, draws, len(groups))
    total_progress = _TotalProgress(progress, _rows(halves, len(groups), count, shortlist, draws))
    run = _Runner(shape, how, means, at, total_progress)
    chosen, values, order = greedy(halves[0], groups, run, count, shortlist)
    rng = np.random.default_rng([seed, 1])
    orders = [chosen, order[:count]]
    orders += [[list(groups)[i] for i in rng.permutation(len(groups))[:count]] for _ in range(draws)]
    curves = _curves(halves[1], groups, orders, run)  # (2 + D, n, 1 + S)
    total_progress.end()
    return Pruning(
        model=loaded.name,
        how=how,
        level=level,
        metric=task.metrics[at],
        about=task.about,
        units=len(groups),
        texts=(len(halves[0].cases), len(halves[1].cases)),
        draws=draws,
        seed=seed,
        shortlist=shortlist,
        base=float(curves[0, :, 0].mean()),
        base_chosen=values[0],
        one_shot=tuple(order),
        steps=_steps(chosen, values[1:], curves, loaded, seed),
        notes=task.notes,
    )


def split(task: Task, seed: int) -> tuple[Task, Task]:
    """Two halves at random: the first chooses, the second, larger by one if they are odd, measures."""
    n = len(task.cases)
    if n < 4:
        raise HeedfulError(
            f"{n} texts are too few to prune by",
            "half of them choose the heads, the others measure what is lost",
            "Give at least 4; use 50 or more for a useful result",
        )
    mixed = np.random.default_rng([seed, 0]).permutation(n)
    parts = (sorted(mixed[: n // 2]), sorted(mixed[n // 2 :]))
    first, second = (replace(task, cases=tuple(task.cases[i] for i in part)) for part in parts)
    return first, second


def checked_steps(steps: int | None, shortlist: int | None, draws: int, units: int) -> int:
    """How many steps there will be."""
    for name, value, least in (("steps", steps, 1), ("shortlist", shortlist, 1), ("draws", draws, 1)):
        if value is not None and value < least:
            raise HeedfulError(f"{name} cannot be {value}", f"it is {least} or more")
    return min(steps or units, units)


class _TotalProgress:
    """Progress over several measurements."""

    def __init__(self, progress: Report | None, total: int) -> None:
        self.count, self.total, self.before = counting(progress, "removing heads"), total, 0

    def more(self, done: int, of: int) -> None:
        self.count(min(self.before + done, self.total), self.total)
        if done == of:
            self.before += of

    def end(self) -> None:
        self.count(self.total, self.total)


@dataclass(frozen=True, eq=False)
class _Runner:
    """What stays the same in every measurement."""

    shape: Anatomy
    how: str
    means: Means | None
    metric: int
    told: _TotalProgress

    def __call__(self, task: Task, sets: Sequence[Heads]) -> Floats:
        """(n, S) of the chosen metric."""
        result = measure(task, sets, self.shape, self.how, self.means, self.told.more)
        return np.asarray(result[..., self.metric])


def _rows(halves: tuple[Task, Task], units: int, steps: int, shortlist: int | None, draws: int) -> int:
    """Model inputs in all, at most: sets that two curves share are run once."""
    tried = sum(min(shortlist or units, units - done) for done in range(1, steps))
    return len(halves[0].cases) * (1 + units + tried) + len(halves[1].cases) * (1 + steps * (2 + draws))


def greedy(
    task: Task, groups: dict[str, Heads], run: _Runner, steps: int, shortlist: int | None
) -> tuple[list[str], list[float], list[str]]:
    """(names in the order they go, metric after each with that of all heads first, one-shot order)."""
    names = list(groups)
    start = run(task, [NONE, *groups.values()]).mean(0)
    last = dict(zip(names, start[1:].tolist(), strict=True))  # the metric without it, when last tried
    order = sorted(names, key=lambda name: -last[name])
    chosen, values, gone = [order[0]], [float(start[0]), last[order[0]]], groups[order[0]]
    while len(chosen) < steps:
        left = sorted((name for name in order if name not in chosen), key=lambda name: -last[name])
        tried = left[:shortlist]
        result = run(task, [gone | groups[name] for name in tried]).mean(0)
        last |= dict(zip(tried, result.tolist(), strict=True))
        best = max(tried, key=last.__getitem__)
        chosen.append(best)
        values.append(last[best])
        gone |= groups[best]
    return chosen, values, order


def _curves(task: Task, groups: dict[str, Heads], orders: Sequence[Sequence[str]], run: _Runner) -> Floats:
    """(orders, n, 1 + S): the metric as heads go one after another; sets that orders share are run once."""
    paths = []
    for names in orders:
        path = [NONE]
        for name in names:
            path.append(path[-1] | groups[name])
        paths.append(path)
    unique = list(dict.fromkeys(one for path in paths for one in path))
    result = run(task, unique)  # (n, U)
    place = {one: at for at, one in enumerate(unique)}
    return np.stack([result[:, [place[one] for one in path]] for path in paths])


def _steps(
    names: Sequence[str], chosen: Sequence[float], curves: Floats, model: TokenModel, seed: int
) -> tuple[PruningStep, ...]:
    """curves (2 + D, n, 1 + S): greedy, one-shot, random."""
    means = curves.mean(1)  # (2 + D, 1 + S)
    band = max_t(differences(curves[0][..., None], model)[..., 0], seed)
    return tuple(
        PruningStep(
            name=name,
            gone=s + 1,
            chosen=chosen[s],
            value=float(means[0, s + 1]),
            drop=float(band.mean[s]),
            interval=(float(band.low[s]), float(band.high[s])),
            one_shot=float(means[1, s + 1]),
            random=float(means[2:, s + 1].mean()),
            random_range=(float(means[2:, s + 1].min()), float(means[2:, s + 1].max())),
        )
        for s, name in enumerate(names)
    )
