"""LIME for text: the linear function that is nearest to f on texts with removed words.

    s ~ U{1..d}, remove s words;  pi(z) = exp(-(1 - sqrt(1 - s/d))^2 / (2 bandwidth^2))
    b = argmin E[pi(z) (f(z) - b_0 - sum_j b_j z_j)^2]

variant="published" works like the `lime` package: independent samples, the text itself first, ridge
regression with alpha 1 on `features` words, chosen by greedy selection (up to 6 words) or by highest weight
(the other words get 0); 5,000 samples by default. The package deletes words, all places of a word at once:
this is operator="delete", bag=True. Its bandwidth is kernel_width / 100.
variant="adjusted" estimates the same b without ridge and selection, with far fewer samples: complementary
pairs (independent samples below six per word), stratified by the number of removed words, weighted least
squares, and regression adjustment (heedful.stats.control_variates). The number of samples is doubled until
the relative standard error |stderr| / |scores| is at most `precision`, or until `samples` are run. If 2^d
samples are allowed, the result is exact.
Words that were written after the text are removed and scored like those of the text.
A note says "interval not reliable" if the residuals do not allow an interval
(heedful.stats.interval_reliability). With bag=True a word is removed at all its places, and its score is
shared among them.
Cost: as many model inputs as the precision needs. Needs: values.

Ribeiro, Singh & Guestrin 2016; Mardaoui & Garreau 2021 (the limit).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER, Units
from heedful.core.registry import explainer, sampled, sampled_over
from heedful.engine.question import Question
from heedful.stats import control_variates, lime_limit, mask_sampling
from heedful.stats.lime_limit import Floats, Masks
from heedful.stats.mask_sampling import Estimate

ROWS = {"adjusted": 256, "published": 5000}


@explainer(
    "lime",
    needs={"values"},
    takes=("unit", "operator", "seed"),
    cite="Ribeiro, Singh & Guestrin 2016; Mardaoui & Garreau 2021",
    properties=("linear", "symmetric"),
    rows=lambda x, target, p: sampled_over(
        len(x.units(p["unit"])), target, lambda d: sampled(d, p["samples"], ROWS.get(p["variant"], 0))
    ),
)
def lime(
    q: Question,
    *,
    variant: str = "adjusted",
    samples: int | None = None,
    precision: float = 0.1,
    bandwidth: float = lime_limit.PUBLISHED,
    features: int = 10,
    bag: bool = False,
) -> Attribution:
    """The coefficient of each unit in a linear approximation of the model near this input.

    Limitations: It explains a linear model that is fitted to the real model; the fit says how near the two
    models are. Bandwidth and feature selection change the scores. The seed changes them within the standard
    errors.
    """
    if variant not in ROWS:
        raise HeedfulError(f"unknown variant {variant!r}", fix=f"Use one of: {', '.join(ROWS)}")
    places = _places(q) if bag else [[unit] for unit in range(len(q.units))]
    d = len(places)
    rows = samples if samples is not None else max(ROWS[variant], 9 * d // 4)
    rows = mask_sampling.rows_allowed(q.left, rows, d, "lime")
    ask = partial(_ask, q, places)
    if variant == "published":
        values, stderr, output, notes = _published(ask, d, rows, bandwidth, features, q.seed)
    else:
        pairs = mask_sampling.pairs_for(d, rows, bandwidth, q.seed, q.planned) if d > 1 else None
        values, stderr, output, notes = _adjusted(ask, pairs, d, rows, precision, bandwidth)
    over = ""
    if len(values) < len(q.units):  # some units read alike
        together, over = _merged(q.units, places), q.x.atom
        values, stderr = together.spread(values), together.spread(stderr)
    return q.answer(values, stderr, over=over, params={"samples": rows}, output=output, notes=notes)


def _places(q: Question) -> list[list[int]]:
    """The units that go together because they read alike, in order of first appearance. One of the input and
    one that was written never go together."""
    count, same = len(q.x.units(q.unit)), dict[tuple[bool, str], list[int]]()
    for unit, label in enumerate(q.units.labels):
        same.setdefault((unit >= count, label.strip()), []).append(unit)
    return list(same.values())


def _merged(units: Units, places: list[list[int]]) -> Units:
    """Units that go together as one."""
    home = {unit: number for number, together in enumerate(places) for unit in together}
    owner = np.array([home.get(unit, NEVER) for unit in units.owner.tolist()], dtype=np.intp)
    labels = tuple(units.labels[together[0]] for together in places)
    return Units(units.name, labels, tuple(units.regions[together[0]] for together in places), owner)


def _ask(q: Question, places: list[list[int]], keep: Masks) -> Floats:
    each = np.empty((len(keep), sum(map(len, places))), dtype=bool)
    for j, units in enumerate(places):
        each[:, units] = keep[:, [j]]
    return q.values(each)


Answer = tuple[Floats, Floats, float, tuple[str, ...]]  # scores, standard errors, f(x), notes


def _adjusted(
    ask: mask_sampling.Ask,
    pairs: mask_sampling.MaskPairs | None,
    d: int,
    rows: int,
    precision: float,
    nu: float,
) -> Answer:
    everything, nothing = ask(np.repeat([[True], [False]], d, axis=1)).tolist()
    if pairs is None:  # a line through two points
        return np.full(d, everything - nothing), np.zeros(d), everything, ()
    read = mask_sampling.growing(ask)
    most = min((rows - 2) // 2, pairs.total)

    def estimated(count: int) -> Estimate:
        keep, drawn = pairs.first(count)
        return estimate(keep, read(keep), nothing, drawn, nu)

    start = max(32, 2 * d) if precision else most
    result = mask_sampling.until_precise(estimated, start, most, precision)
    return result.values, result.stderr, everything, mask_sampling.notes(result, precision, most)


def estimate(
    keep: Masks, values: Floats, nothing: float, drawn: Floats, nu: float = lime_limit.PUBLISHED
) -> Estimate:
    """LIME's limit from pairs of rows (n, d), their values, the value with no word, and the share of its
    stratum each pair's stratum has drawn."""
    d, pairs = keep.shape[1], keep
    keep = np.concatenate([pairs, np.zeros((1, d), dtype=bool)])  # s = d: one row, always run
    values = np.append(values, nothing) - nothing  # a constant in f would only cost digits
    law = lime_limit.size_law(d, nu)
    law[d] = 0.0  # LIME never draws the text itself
    weights = mask_sampling.law_weights(keep, law)
    design, controls = np.column_stack([np.ones(len(keep)), keep]), None
    if (drawn < 1).any():
        controls = control_variates.controls(
            keep, values, weights, drawn, partial(control_variates.lime_lines, nu=nu)
        )
    result = mask_sampling.fit(design, values, weights, drawn, controls)
    return mask_sampling.estimate_of(result, result.coefficients[1:], result.stderr[1:], pairs, drawn)


def _published(ask: mask_sampling.Ask, d: int, rows: int, nu: float, features: int, seed: int) -> Answer:
    keep = published_masks(d, rows, np.random.default_rng(seed))
    values = ask(keep)
    scores, stderr = published_fit(keep, values, features, nu)
    left_out = f"; {d - features} units were not selected and got 0" if d > features else ""
    note = f"standard errors are of the ridge coefficients, given the selected units{left_out}"
    return scores, stderr, float(values[0]), (note,)


def published_masks(d: int, rows: int, rng: np.random.Generator) -> Masks:
    """(rows, d): the text itself, then s ~ U{1..d} words removed uniformly."""
    removed = rng.integers(1, d + 1, rows - 1) if d else np.zeros(rows - 1, dtype=np.int64)
    order = rng.random((rows - 1, d)).argsort(1).argsort(1)
    return np.concatenate([np.ones((1, d), dtype=bool), order >= removed[:, None]])


def published_fit(
    keep: Masks, values: Floats, features: int, nu: float = lime_limit.PUBLISHED
) -> tuple[Floats, Floats]:
    """(coefficients, standard errors), each (d,), of the lime package: select words, then Ridge(alpha=1)."""
    weights = lime_limit.row_weights(keep, nu) if keep.shape[1] else np.ones(len(keep))
    data, values = keep.astype(np.float64), values - values[0]  # a constant in f would only cost digits
    chosen = _selected(data, values, weights, features)
    scores, stderr = np.zeros(keep.shape[1]), np.zeros(keep.shape[1])
    scores[chosen], stderr[chosen] = _ridge(data[:, chosen], values, weights, 1.0)
    return scores, stderr


def _selected(data: Floats, values: Floats, weights: Floats, features: int) -> list[int]:
    """Up to 6 words: greedy by R^2 of least squares. More: the largest coefficients of Ridge(alpha=0.01)."""
    if features > 6:
        weight = np.abs(_ridge(data, values, weights, 0.01)[0] * data[0])
        return [int(j) for j in np.argsort(-weight, kind="stable")[:features]]
    chosen: list[int] = []
    for _ in range(min(features, data.shape[1])):
        rest = [j for j in range(data.shape[1]) if j not in chosen]
        losses = [_loss(data[:, [*chosen, j]], values, weights) for j in rest]
        chosen.append(rest[int(np.argmin(losses))])
    return chosen


def _loss(data: Floats, values: Floats, weights: Floats) -> float:
    """Weighted sum of squares left by least squares with intercept."""
    x, y, root = _centred(data, values, weights)
    slopes = np.linalg.lstsq(x * root, y * root[:, 0], rcond=None)[0]
    return float(weights @ np.square(y - x @ slopes))


def _centred(data: Floats, values: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Data and values less their weighted means, and sqrt(weights) as a column."""
    share = weights / weights.sum()
    return data - share @ data, values - share @ values, np.sqrt(weights)[:, None]


def _ridge(data: Floats, values: Floats, weights: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Coefficients of ridge regression, the intercept free of penalty, and their sandwich standard errors."""
    x, y, root = _centred(data, values, weights)
    if not x.shape[1]:
        return np.zeros(0), np.zeros(0)
    bread = np.linalg.inv((x * root).T @ (x * root) + alpha * np.eye(x.shape[1]))
    slopes = bread @ (x.T @ (weights * y))
    scores = x * (weights * (y - x @ slopes))[:, None]
    free = len(x) / max(len(x) - x.shape[1] - 1, 1)
    return slopes, np.sqrt(free * np.square(scores @ bread).sum(0))
