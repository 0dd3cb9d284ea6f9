"""Do the scores stay the same if the text changes very little? In embedding space; phi is one score per unit.

    local-lipschitz    max_k (|phi(x_k) - phi(x)| / |phi(x)|) / (|x_k - x| / |x|),  x_k = x + Gaussian noise
    max-sensitivity    max_k  |phi(x_k) - phi(x)| / |phi(x)|,  x_k = x + noise uniform in a box of radius r

Low is good, 0 the best. Both are maxima over a few samples: lower bounds of what an adversary would find.
Norms are Euclidean. Both have no unit, so methods with scores of different size, and models with embeddings
of different size, can be compared; random scores change by about 1.4 in every sample. The noise is RADIUS
times the root mean square of the text's own embeddings (as the standard deviation of a coordinate, or as r).
Special tokens do not change, and neither does the seed, so sampling noise is not counted (`consistency`
measures it). Of a picture with a text, only the picture changes.

Scores that ignore the model never change, so robustness alone does not make an explanation good. The value is
nan if all scores are zero, or if the model has no token embeddings (functions).

Quantus' local Lipschitz estimate is the same ratio without the two norms in the middle (`lipschitz` with
unit norms); the max-sensitivity of Quantus and captum divides as here (captum's `norm_ord` is over the whole
tensor).

Cost: SAMPLES explanations. Alvarez-Melis & Jaakkola 2018; Yeh et al. 2019.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.registry import MetricRows, metric
from heedful.metrics.embedding_noise import movable, nudged
from heedful.metrics.metric_input import MetricInput

SAMPLES = 8
RADIUS = 0.1

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


@metric(
    "local-lipschitz",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Alvarez-Melis & Jaakkola 2018",
    expensive=True,
    rows=lambda model, x, target, unit: MetricRows(again=SAMPLES * (x,)),
)
def local_lipschitz(subject: MetricInput, rng: np.random.Generator) -> float:
    """The largest change of the scores relative to the change of the input, under Gaussian noise.

    Limitations: For text, embeddings are changed, and embeddings with noise are not words. Constant scores
    have the best value.
    """
    arrays = neighbours(subject, rng, lambda draw, shape: draw.standard_normal(shape))
    if arrays is None:
        return float("nan")
    scores, distances, size = arrays
    return lipschitz(subject.scores, scores, distances / size) / float(np.linalg.norm(subject.scores))


@metric(
    "max-sensitivity",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Yeh et al. 2019",
    expensive=True,
    rows=lambda model, x, target, unit: MetricRows(again=SAMPLES * (x,)),
)
def max_sensitivity(subject: MetricInput, rng: np.random.Generator) -> float:
    """The largest relative change of the scores when the input changes a little (within a small box).

    Limitations: For text, embeddings are changed, and moved embeddings are not words. Constant scores have
    the best value.
    """
    arrays = neighbours(subject, rng, lambda draw, shape: draw.uniform(-1, 1, shape))
    return float("nan") if arrays is None else largest_change(subject.scores, arrays[0])


def lipschitz(scores: Floats, others: Floats, distances: Floats) -> float:
    """max_k |others_k - scores| / distances_k."""
    return float((np.linalg.norm(others - scores, axis=1) / distances).max())


def largest_change(scores: Floats, others: Floats) -> float:
    """max_k |others_k - scores| / |scores|."""
    return float(np.linalg.norm(others - scores, axis=1).max() / np.linalg.norm(scores))


def neighbours(
    subject: MetricInput, rng: np.random.Generator, draw: Draw, samples: int = SAMPLES, radius: float = RADIUS
) -> tuple[Floats, Floats, float] | None:
    """(scores (n, d) at n texts nearby, how far each is, the text's own norm); None: nothing can be said."""
    item, model = subject.item, subject.model
    if not subject.scores.any() or not movable(model, item.x, item.target):
        return None
    embeds = model.lookup(item.x, item.target).double()  # (T, d)
    moved = model.moved_part(item.x, embeds)
    size, scale = float(moved.norm()), radius * float(moved.square().mean().sqrt())
    scores, distances = [], []
    for _ in range(samples):
        shift = torch.from_numpy(scale * draw(rng, tuple(embeds.shape)))
        result, distance = explained_nearby(subject, shift)
        scores.append(result)
        distances.append(distance)
    return np.array(scores), np.array(distances), size


def explained_nearby(subject: MetricInput, shift: Tensor) -> tuple[Floats, float]:
    """(scores (d,) of the text with its embeddings moved by `shift` (T, d), the distance)."""
    item = subject.item
    with nudged(subject.model, item.x, item.target, shift) as (moved, distance):
        again = subject.again(subject.model, moved, item.target, own_seed(subject))
    return again.unit_scores(subject.units.name), distance


def own_seed(subject: MetricInput) -> int:
    """The seed the explanation was drawn with."""
    return int(subject.item.params.get("seed", 0))
