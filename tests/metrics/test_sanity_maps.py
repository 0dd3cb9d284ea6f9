"""SSIM and HOG of maps, against both formulas written out."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.core.errors import HeedfulError
from heedful.metrics.sanity_maps import likeness, oriented_gradients, structural_similarity

BINS = 9
pytest.importorskip("skimage")


def ssim_by_hand(a: np.ndarray, b: np.ndarray, side: int = 7) -> float:
    """Wang et al. 2004, equation 13, in every window that lies inside, each place with the same weight;
    variances over n - 1, K1 = 0.01, K2 = 0.03, L = 1."""
    c1, c2 = 0.01**2, 0.03**2
    values = []
    for top in range(a.shape[0] - side + 1):
        for left in range(a.shape[1] - side + 1):
            x, y = (each[top : top + side, left : left + side].ravel() for each in (a, b))
            mx, my = x.mean(), y.mean()
            vx, vy = ((x - mx) ** 2).sum() / (len(x) - 1), ((y - my) ** 2).sum() / (len(y) - 1)
            both = ((x - mx) * (y - my)).sum() / (len(x) - 1)
            light = (2 * mx * my + c1) / (mx**2 + my**2 + c1)
            values.append(light * (2 * both + c2) / (vx + vy + c2))
    return float(np.mean(values))


def hog_by_hand(one: np.ndarray, cell: int) -> np.ndarray:
    """Dalal & Triggs 2005: central differences (0 at the border), nine directions of 20 degrees without a
    sign, sums of lengths per place, then L2-Hys: scaled, cut at 0.2, scaled again."""
    down, along = np.zeros_like(one), np.zeros_like(one)
    down[1:-1] = one[2:] - one[:-2]
    along[:, 1:-1] = one[:, 2:] - one[:, :-2]
    length, angle = np.sqrt(down**2 + along**2), np.degrees(np.arctan2(down, along)) % 180
    parts = []
    for top in range(0, one.shape[0] // cell * cell, cell):
        for left in range(0, one.shape[1] // cell * cell, cell):
            counts = np.zeros(BINS)
            for r in range(top, top + cell):
                for c in range(left, left + cell):
                    counts[int(angle[r, c] // (180 / BINS)) % BINS] += length[r, c]
            counts /= cell * cell
            for most in (0.2, np.inf):
                counts = np.minimum(counts / np.sqrt((counts**2).sum() + 1e-10), most)
            parts.append(counts)
    return np.concatenate(parts)


def maps(seed: int, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.random(shape)
    return a, 0.6 * a + 0.4 * rng.random(shape)


@pytest.mark.parametrize("shape", [(9, 11), (14, 14), (20, 16)])
def test_ssim_is_the_formula(shape: tuple[int, int]) -> None:
    a, b = maps(1, shape)
    assert structural_similarity(a, b) == pytest.approx(ssim_by_hand(a, b), abs=1e-9)
    assert likeness(a, b)[0] == structural_similarity(a, b)


def test_small_maps_have_smaller_windows() -> None:
    a, b = maps(2, (6, 9))
    assert structural_similarity(a, b) == pytest.approx(ssim_by_hand(a, b, 5), abs=1e-9)
    with pytest.raises(HeedfulError, match="too small for SSIM"):
        structural_similarity(a[:2], b[:2])


@pytest.mark.parametrize(("shape", "cell"), [((8, 8), 2), ((14, 14), 7), ((13, 17), 4)])
def test_hog_is_the_formula(shape: tuple[int, int], cell: int) -> None:
    one = maps(3, shape)[0]
    np.testing.assert_allclose(oriented_gradients(one, cell), hog_by_hand(one, cell), atol=1e-6)


def test_the_value_of_hog_is_the_correlation_of_both() -> None:
    a, b = maps(4, (28, 30))
    expected = np.corrcoef(hog_by_hand(a, 2), hog_by_hand(b, 2))[0, 1]  # 28 // 14 places per cell
    assert likeness(a, b)[1] == pytest.approx(expected, abs=1e-6)
    assert 0.1 < expected < 0.9  # neither end, where a wrong formula would pass


def test_the_same_map_is_like_itself() -> None:
    a = maps(5, (15, 15))[0]
    assert likeness(a, a) == pytest.approx((1.0, 1.0))


def test_the_inverted_map_has_the_same_edges_and_the_opposite_structure() -> None:
    """1 - a has the covariance -var(a): each window is light * (c2 - 2 v) / (2 v + c2). Its gradients point
    the other way, which directions without a sign do not show."""
    a = maps(6, (15, 15))[0]
    ssim, hog = likeness(a, 1 - a)
    assert ssim == pytest.approx(ssim_by_hand(a, 1 - a), abs=1e-9)
    assert ssim < -0.8
    assert hog == pytest.approx(1.0)


def test_two_constants_have_the_closed_form() -> None:
    """No structure: (2 x y + c1) / (x^2 + y^2 + c1)."""
    x, y = 0.3, 0.8
    expected = (2 * x * y + 1e-4) / (x**2 + y**2 + 1e-4)
    got = structural_similarity(np.full((9, 9), x), np.full((9, 9), y))
    assert got == pytest.approx(expected, abs=1e-9)


def test_a_map_without_differences_is_like_none() -> None:
    a = maps(7, (15, 15))[0]
    assert likeness(np.zeros((15, 15)), a) == (0.0, 0.0)
    assert likeness(a, np.zeros((15, 15))) == (0.0, 0.0)
    assert likeness(a, np.full((15, 15), 0.4))[1] == 0.0  # no edges
