"""The Gini index by hand, against its other definition, and what must not change it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful import checks
from heedful.core.attribution import Attribution
from heedful.metrics.compactness import gini
from heedful.metrics.score import score_explanations

VECTORS = st.lists(st.floats(-100, 100).map(lambda v: round(v, 3)), min_size=2, max_size=12).filter(any)


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([1.0, 1.0, 1.0, 1.0], 0.0),
        ([0.0, 0.0, 0.0, 5.0], 0.75),
        ([0.0, -5.0], 0.5),
        ([1.0, 2.0, 3.0, 4.0], 0.25),
        ([0.0, 0.0, 0.0], 0.0),
    ],
)
def test_by_hand(scores: list[float], wanted: float) -> None:
    assert gini(np.array(scores)) == pytest.approx(wanted)


def test_one_unit_says_nothing() -> None:
    assert np.isnan(gini(np.array([2.0])))


@given(VECTORS)
def test_it_is_half_the_mean_difference_over_the_mean(scores: list[float]) -> None:
    size = np.abs(scores)
    wanted = np.abs(size[:, None] - size).mean() / (2 * size.mean())
    assert gini(np.array(scores)) == pytest.approx(wanted, abs=1e-9)


@given(VECTORS, st.floats(0.1, 50))
def test_what_does_not_change_it(scores: list[float], factor: float) -> None:
    own = gini(np.array(scores))
    for same in (factor * np.array(scores), -np.array(scores), np.array(scores[::-1]), np.array(scores * 3)):
        assert gini(same) == pytest.approx(own, abs=1e-9)


@given(VECTORS)
def test_taking_from_the_rich_lowers_it(scores: list[float]) -> None:
    size = np.sort(np.abs(scores))
    gap = size[-1] - size[0]
    if gap > 0.01:
        size[[0, -1]] += np.array([0.25, -0.25]) * gap
        assert gini(size) < gini(np.abs(scores))


def test_it_is_weighed_beside_random_scores() -> None:
    model: Any = checks.linear_model()
    x = model.encode("the cat sat on the mat the sat on mat")
    one, flat = np.zeros(len(x)), np.ones(len(x))
    one[1] = 1.0
    items = [Attribution(x, model.target(x), s, method=m) for m, s in (("one", one), ("flat", flat))]
    found = {score.method: score for score in score_explanations(model, items, ["compactness"])}
    assert found["one"].value == pytest.approx(0.9)
    assert all(found["one"].value > order for order in found["one"].orders)
    assert found["flat"].value == pytest.approx(0.0)
    assert 0.2 < found["flat"].control < 0.6  # sizes of normal scores: 0.41 in the limit
