"""What each head is worth: how far the task metric falls without it, text by text.

    drop_h = mean over texts of  metric(all heads) - metric(without h)      > 0: the head helps

Intervals and p hold for all heads together (max-t and sign flips over texts, heedful.stats.intervals), one
metric at a time; the narrower interval beside them is that of one head looked at alone. A head is said to
help, or the model to do better without it, only where the joint interval leaves out 0 and p is at most 0.05
(so never on fewer than six texts); others cannot be told from a head that does nothing, whose drop is 0.
Scale: all heads gone, random sets of heads as large as a layer, and `chance`, the largest |drop| of any head
that signs drawn at random would show.

Cost: texts x (1 + heads + 1 + draws) forwards, many to a pass (heedful.heads.ablation.task_metrics); the
gradient estimate of heedful.heads.ablation.gradient_importance a forward and backward a text more.
Needs: a model with a prediction whose attention can be changed as it runs.
Michel, Levy & Neubig 2019 (Are sixteen heads really better than one?); Kovaleva et al. 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.core.progress import Report, counting
from heedful.core.whole_numbers import check_seed
from heedful.heads.ablation.ablate import Anatomy, Head, Means, anatomy, check_how, every_head, layer_name
from heedful.heads.ablation.gradient_importance import estimates, has_slope
from heedful.heads.ablation.importance_results import Drop, Importance, Reference, Unit
from heedful.heads.ablation.task_metrics import Heads, measure, prepare
from heedful.stats.intervals import max_t, sign_flips, student

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

LEVELS = ("head", "layer")
ROUNDING = 16  # machine epsilons: a smaller change is that of another order of summation


def head_importance(
    model: Loadable,
    texts: Iterable[Any],
    labels: Iterable[Any] | None = None,
    how: str = "zero",
    metric: str | None = None,
    *,
    level: str = "head",
    means: Means | None = None,
    gradient: bool = True,
    draws: int = 5,
    seed: int = 0,
    long: str = "truncate",
    progress: Report | None = None,
) -> Importance:
    """Measure how much worse (or better) a model becomes if one attention head is removed.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    texts
        Texts to measure on.
    labels
        The true labels (for an encoder-decoder: the answers). If `None`, the predictions of the model with
        all heads. A causal language model takes no labels.
    how
        How a head is removed: "zero", "mean" (needs `means`) or "uniform".
    metric
        The metric that ranks the heads. If `None`, the log-probability. All metrics are reported.
    level
        What is removed at a time: one "head" or one "layer".
    means
        For `how="mean"`: the result of `heedful.head_means`.
    gradient
        Also compute the gradient estimate of Michel et al. (2019), and compare its ranking with the measured
        ranking.
    draws
        Number of random sets of heads that are removed for comparison.
    seed
        Random seed.
    long
        What to do with a text that is too long: "error" or "truncate".
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.

    Returns
    -------
    Importance
        One entry per head or layer, with simultaneous 95 % intervals. `to_frame()` gives a table.

    Examples
    --------
    >>> import heedful
    >>> texts = ["The food was great", "The service was bad", "a nice bar", "I hate this place"]
    >>> importance = heedful.head_importance("zoo:sentiment", texts, draws=1)
    >>> len(importance.units)
    16
    >>> importance.metrics
    ('log-probability', 'agreement')
    """
    from heedful.models.load import load_token_model

    check_seed(seed)
    loaded = load_token_model(model, "removing heads")
    check_how(how, means)
    groups, shape = units_of(loaded, level)
    task = prepare(loaded, texts, labels, long)
    names, sets = task.metrics, list(groups.values())
    chosen = checked_metric(metric, names)
    more = references(shape, draws, seed)
    every = [frozenset(), *sets, *(one for drawn in more.values() for one in drawn)]
    count = counting(progress, "removing heads")
    values = measure(task, every, shape, how, means, count)  # (n, 1 + U + R, 2)
    gaps = differences(values, loaded)  # (n, U + R, 2)
    slopes = estimates(task, sets, shape, how, means) if gradient and has_slope(task) else None
    drops = drops_of(gaps[:, : len(sets)], names, seed)
    return Importance(
        model=loaded.name,
        model_kind=loaded.kind,
        how=how,
        level=level,
        metric=chosen,
        metrics=names,
        about=task.about,
        texts=len(task.cases),
        rows=values[..., 0].size,
        seed=seed,
        base=dict(zip(names, values[:, 0].mean(0).tolist(), strict=True)),
        chance={name: sign_flips(gaps[:, : len(sets), m], seed).largest for m, name in enumerate(names)},
        units=tuple(_unit(groups, level, u, drops[u], slopes) for u in range(len(sets))),
        references=_references(more, gaps[:, len(sets) :], names),
        agreement=None if slopes is None else _rank_agreement(slopes, gaps[:, : len(sets), 0]),
        notes=task.notes,
    )


def checked_metric(metric: str | None, names: Sequence[str]) -> str:
    if metric is not None and metric not in names:
        raise HeedfulError(f"there is no metric {metric!r} here", fix=f"Use one of: {', '.join(names)}")
    return metric or names[0]


def units_of(model: TokenModel, level: str) -> tuple[dict[str, Heads], Anatomy]:
    """Groups of heads that are removed together, by name, and the number of heads in each layer of the
    model."""
    if level not in LEVELS:
        raise HeedfulError(f"unknown level {level!r}", fix=f"Use one of: {', '.join(LEVELS)}")
    shape = anatomy(model)
    groups: dict[str, set[Head]] = {}
    for head in every_head(shape):
        name = head.name if level == "head" else layer_name(head.stack, head.layer)
        groups.setdefault(name, set()).add(head)
    return {name: frozenset(heads) for name, heads in groups.items()}, shape


def references(shape: Anatomy, draws: int, seed: int) -> dict[str, list[Heads]]:
    """Sets that are no single head: everything, and heads drawn from anywhere, as many as a layer has."""
    heads = every_head(shape)
    size = round(float(np.median([count for layers in shape.values() for count in layers])))
    rng = np.random.default_rng(seed)
    results = {"all heads": [frozenset(heads)]}
    if draws and size < len(heads):
        drawn = [rng.choice(len(heads), size, replace=False) for _ in range(draws)]
        results[f"random {size} heads" if size > 1 else "a random head"] = [
            frozenset(heads[i] for i in chosen) for chosen in drawn
        ]
    return results


def differences(values: Floats, model: TokenModel) -> Floats:
    """How far values (n, 1 + S, M) drop below their first entry, the value with all heads: (n, S, M).
    Rounding errors count as 0."""
    import torch

    gaps = values[:, :1] - values[:, 1:]
    dtype = next(model.module.parameters()).dtype
    least = ROUNDING * torch.finfo(dtype).eps * np.maximum(1.0, np.abs(values[:, :1]))
    return np.where(np.abs(gaps) < least, 0.0, gaps)


def drops_of(gaps: Floats, names: Sequence[str], seed: int) -> list[dict[str, Drop]]:
    """gaps (n, U, M) -> one mapping a unit; a metric's intervals hold for all units together."""
    results: list[dict[str, Drop]] = [{} for _ in range(gaps.shape[1])]
    for m, name in enumerate(names):
        joint, alone = max_t(gaps[..., m], seed), student(gaps[..., m], claims=1)
        p = sign_flips(gaps[..., m], seed).p
        for u, drops in enumerate(results):
            together = (float(joint.low[u]), float(joint.high[u]))
            drops[name] = Drop(
                float(joint.mean[u]), together, (float(alone.low[u]), float(alone.high[u])), float(p[u])
            )
    return results


def _unit(
    groups: Mapping[str, Heads], level: str, at: int, drops: Mapping[str, Drop], slopes: Floats | None
) -> Unit:
    name, heads = list(groups.items())[at]
    stack, layer, head = min(heads)
    result = None if slopes is None else slopes[:, at]
    return Unit(
        name,
        stack,
        layer,
        head if level == "head" else None,
        drops,
        estimate=None if result is None else float(result.mean()),
        sensitivity=None if result is None else float(np.abs(result).mean()),
    )


def _references(
    more: Mapping[str, Sequence[Heads]], gaps: Floats, names: Sequence[str]
) -> tuple[Reference, ...]:
    """Means over draws, intervals over texts."""
    result, start = [], 0
    for name, sets in more.items():
        band = student(gaps[:, start : start + len(sets)].mean(1), claims=1)  # (M,)
        start += len(sets)
        ends = zip(band.low.tolist(), band.high.tolist(), strict=True)
        means = dict(zip(names, band.mean.tolist(), strict=True))
        result.append(Reference(name, len(sets[0]), means, dict(zip(names, ends, strict=True))))
    return tuple(result)


def _rank_agreement(slopes: Floats, gaps: Floats) -> float | None:
    """Spearman, over units, of mean |estimate| and mean |change| of a text; None if one is constant."""
    from scipy.stats import rankdata

    ranks: list[npt.NDArray[Any]] = [rankdata(np.abs(part).mean(0)) for part in (slopes, gaps)]
    return float(np.corrcoef(ranks)[0, 1]) if all(np.ptp(rank) > 0 for rank in ranks) else None
