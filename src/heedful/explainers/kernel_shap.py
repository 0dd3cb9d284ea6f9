"""Shapley values by weighted least squares (KernelSHAP): f(text) - f(empty) is divided among the words.

    phi = argmin sum_z w(z) (f(z) - f(0) - sum_j phi_j z_j)^2    subject to    sum_j phi_j = f(1) - f(0)
    w(z) = (d - 1) / (C(d,|z|) |z| (d - |z|))

The d players are the words of the text and the words that were written after it. With all 2^d masks this is
exactly the Shapley value; up to `exact` words all masks are run. For longer texts, masks are sampled in
complementary pairs, which cancel interactions of even order. With fewer than six model inputs per word, the
masks are independent. The samples are stratified by size, with regression adjustment
(heedful.stats.control_variates). `lime` uses the same masks, so both methods together run them once. Pairs
drawn by the kernel's own weights mostly remove one or two words; they had up to twice the error variance of
these masks. The sum of the scores is exact in any case. The number of samples is doubled until the relative
standard error |stderr| / |scores| is at most `precision`, or until `samples` are run. A note says "interval
not reliable" if the residuals do not allow an interval (heedful.stats.interval_reliability). Cost: 2^d model
inputs, or as many as the precision needs. Needs: values.

`shapley_law` is the kernel by the number of words that stay; `estimate` fits samples from any law.

Lundberg & Lee 2017; Covert & Lee 2021 (pairs, convergence).
"""

from __future__ import annotations

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.registry import explainer, sampled, sampled_over
from heedful.engine.question import Question
from heedful.stats import control_variates, lime_limit, mask_sampling
from heedful.stats.lime_limit import Floats, Masks
from heedful.stats.mask_sampling import Estimate

ROWS = 256


@explainer(
    "kernel-shap",
    needs={"values"},
    takes=("unit", "operator", "seed"),
    cite="Lundberg & Lee 2017; Covert & Lee 2021",
    properties=("linear", "complete", "unused", "symmetric"),
    rows=lambda x, target, p: sampled_over(
        len(x.units(p["unit"])), target, lambda d: sampled(d, p["samples"], ROWS, p["exact"])
    ),
)
def kernel_shap(
    q: Question, *, exact: int = 10, samples: int | None = None, precision: float = 0.1
) -> Attribution:
    """Shapley values: each unit's share of the difference between the input and the empty input.

    Limitations: Inputs with removed units are unlike the training data, and the values are means over many
    such inputs. Redundant units share the credit: if either of two is enough, each looks half as important.
    """
    d = len(q.units)
    rows = max(ROWS, 9 * d // 4) if samples is None else samples
    if d <= exact:
        rows, precision = 2**d, 0.0
    rows = mask_sampling.rows_allowed(q.left, rows, d, "kernel-shap")
    everything, nothing = q.values(np.repeat([[True], [False]], d, axis=1)).tolist()
    pairs = None
    if d > 1:
        pairs = mask_sampling.pairs_for(d, rows, lime_limit.PUBLISHED, q.seed, q.planned)
    shares, notes = _solve(q.values, pairs, (everything, nothing), rows, precision, d)
    return q.answer(
        shares.values,
        shares.stderr,
        params={"samples": rows},
        output=everything,
        base=nothing,
        notes=notes,
    )


def _solve(
    ask: mask_sampling.Ask,
    pairs: mask_sampling.MaskPairs | None,
    ends: tuple[float, float],
    rows: int,
    precision: float,
    d: int,
) -> tuple[Estimate, tuple[str, ...]]:
    """The estimate and notes on how sampling ended; ends are f(1) and f(0)."""
    if pairs is None:
        result = Estimate(np.full(d, ends[0] - ends[1]), np.zeros(d), 0)
        return result, mask_sampling.notes(result, precision, 0)
    read = mask_sampling.growing(ask)
    most = min((rows - 2) // 2, pairs.total)

    def estimated(count: int) -> Estimate:
        keep, drawn = pairs.first(count)
        return estimate(keep, read(keep), ends, drawn)

    start = most if precision == 0 else max(32, 2 * d)
    result = mask_sampling.until_precise(estimated, start, most, precision)
    return result, mask_sampling.notes(result, precision, most)


def shapley_law(d: int) -> Floats:
    """Weight of the kernel for each number of kept words, (d + 1,). The weight is 0 for 0 words and for d
    words, because these two cases are constraints of the fit."""
    kept = np.arange(1, d)
    return np.concatenate([[0.0], (d - 1) / (kept * (d - kept)), [0.0]])


def estimate(keep: Masks, values: Floats, ends: tuple[float, float], drawn: Floats) -> Estimate:
    """Shapley values from pairs of rows (n, d), their values, f(1) and f(0), and the share of its stratum
    each pair's stratum has drawn."""
    d, gap = keep.shape[1], ends[0] - ends[1]
    weights = mask_sampling.law_weights(keep, shapley_law(d))
    share = keep.mean(1)
    design = keep - share[:, None]  # its columns sum to zero, so the fit of least norm does, too
    values = values - ends[1]
    rest = values - gap * share  # what an even split leaves over
    controls = None
    if (drawn < 1).any():
        controls = control_variates.controls(keep, values, weights, drawn, control_variates.shapley_lines)
    result = mask_sampling.fit(design, rest, weights, drawn, controls)
    return mask_sampling.estimate_of(result, result.coefficients + gap / d, result.stderr, keep, drawn)
