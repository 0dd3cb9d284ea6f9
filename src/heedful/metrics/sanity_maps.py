"""Sanity checks of maps of pictures by how alike they look: SSIM and HOG beside the rank correlation.

    map    |scores| on the places of the picture, from 0 to 1
    ssim   structural similarity: means, spreads and correlation in windows of seven by seven places
    hog    Pearson correlation of histograms of oriented gradients; the distance is 1 - hog

    sanity-ssim, sanity-hog   mean over cascading stages of |ssim|, |hog| of the maps of the trained network
                              and of one with random weights (heedful.metrics.sanity): low is good

A map may keep the look of the picture while the order of its places changes, and the other way round: a
method passes if all three are low. What edges alone would keep is seen by the same metrics of `edges`, which
does not change at all. With a constant map of the random network, both are 0. Words beside the picture are
left out.

Cost: one explanation per stage. Needs: a picture, and scikit-image. Adebayo et al. 2018; Wang et al. 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import metric
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.pointing import painted
from heedful.metrics.sanity import MAX_STAGES, explained_at_stages, randomised
from heedful.modalities.joint import picture_of
from heedful.models.model_copies import can_copy

WINDOW = 7  # places per side of SSIM's window
CELLS = 14  # per side, of HOG: 16 places each in a picture of 224


@dataclass(frozen=True)
class MapLikeness:
    """How alike two maps look; 1 is the same."""

    name: str  # the layer that was drawn last
    ssim: float
    hog: float


def likeness_curve(
    subject: MetricInput, mode: str = "cascading", seed: int = 0, most: int | None = MAX_STAGES
) -> tuple[MapLikeness, ...]:
    """SSIM and HOG with the trained network's map, the top layer first; mode: cascading or independent."""
    trained = map_of(subject.item)
    stages = randomised(subject, mode, seed, most)
    return tuple(MapLikeness(name, *likeness(trained, map_of(again))) for name, again in stages)


@metric(
    "sanity-ssim",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Adebayo et al. 2018",
    needs={"picture"},
    expensive=True,
    spoiled_by="stuck",
    rows=lambda model, x, target, unit: explained_at_stages(model, x),
)
def sanity_ssim(subject: MetricInput, rng: np.random.Generator) -> float:
    """How alike the maps of the trained network and of one with random weights look (SSIM).

    Limitations: Passing shows that the map depends on the weights, not that it is right. Noise passes.
    """
    return _mean(subject, "ssim", rng)


@metric(
    "sanity-hog",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Adebayo et al. 2018",
    needs={"picture"},
    expensive=True,
    spoiled_by="stuck",
    rows=lambda model, x, target, unit: explained_at_stages(model, x),
)
def sanity_hog(subject: MetricInput, rng: np.random.Generator) -> float:
    """How alike the edges in the maps of the trained network and of one with random weights are (HOG).

    Limitations: Passing shows that the map depends on the weights, not that it is right. Noise passes.
    """
    return _mean(subject, "hog", rng)


def _mean(subject: MetricInput, name: str, rng: np.random.Generator) -> float:
    constant = not np.ptp(np.abs(subject.item.scores)) or not map_of(subject.item).any()
    if constant or not can_copy(subject.model):
        return float("nan")
    curve = likeness_curve(subject, seed=int(rng.integers(2**31)))
    return float(np.mean([abs(getattr(stage, name)) for stage in curve]))


def map_of(item: Attribution) -> Floats:
    """(H, W) sizes of the scores, from 0 to 1; all 0 where they are all equal."""
    x = picture_of(item.x)
    sizes = np.abs(painted(item)[: len(x)]).reshape(x.height, x.width)
    room = np.ptp(sizes)
    return np.asarray((sizes - sizes.min()) / room if room else np.zeros_like(sizes))


def likeness(a: Floats, b: Floats) -> tuple[float, float]:
    """(SSIM, HOG correlation) of two maps (H, W) from 0 to 1."""
    if not a.any() or not b.any():
        return 0.0, 0.0
    cell = max(2, min(a.shape) // CELLS)
    first, second = (oriented_gradients(one, cell) for one in (a, b))
    alike = float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else 0.0
    return structural_similarity(a, b), alike


def structural_similarity(a: Floats, b: Floats) -> float:
    """SSIM of two maps (H, W) from 0 to 1: mean over windows of seven by seven places, or what fits."""
    side = min(a.shape)
    window = min(WINDOW, side - 1 + side % 2)
    if window < 3:
        raise HeedfulError(f"maps of {a.shape[1]} × {a.shape[0]} places are too small for SSIM")
    return float(_scikit_image()[0](a, b, data_range=1.0, win_size=window))


def oriented_gradients(one: Floats, cell: int) -> Floats:
    """(cells * 9,) histogram of the directions of the gradient in each cell of cell x cell places, normalised
    by itself."""
    return np.asarray(_scikit_image()[1](one, pixels_per_cell=(cell, cell), cells_per_block=(1, 1)))


def _scikit_image() -> tuple[Any, Any]:
    try:
        from skimage.feature import hog
        from skimage.metrics import structural_similarity
    except ImportError:
        raise HeedfulError(
            "SSIM and HOG need scikit-image", "it is not installed", "pip install 'heedful[images]'"
        ) from None
    return structural_similarity, hog
