"""Distances between heads against scipy's Jensen-Shannon, and the plane against points that lie in one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, jensenshannon

import heedful
from heedful.core.errors import HeedfulError
from heedful.heads import head_distance as d
from heedful.heads.maps import MapAxis, Maps


def drawn(layers: int, heads: int, size: int, seed: int = 0, causal: bool = False) -> Maps:
    raw = np.random.default_rng(seed).gamma(0.3, size=(layers, heads, size, size)).astype(np.float32) + 1e-6
    raw = np.tril(raw) if causal else raw
    edge = MapAxis(tuple(f"w{i}" for i in range(size)), (False,) * size, tuple(range(size)), (0,) * size)
    return Maps("self", raw / raw.sum(-1, keepdims=True), edge, edge, causal)


class Text:
    def __init__(self, maps: Maps) -> None:
        self.maps = maps

    def stack(self, name: str) -> Maps:
        return self.maps


def slow(maps: Maps) -> Any:
    heads = maps.weights.reshape(-1, *maps.weights.shape[2:]).astype(np.float64)
    smooth = 0.999 * heads + 0.001 / heads.shape[-1]
    return [
        [sum(jensenshannon(p, r) ** 2 for p, r in zip(a, b, strict=True)) for b in smooth] for a in smooth
    ]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block", [1, 100, d.BLOCK_NUMBERS])
def test_divergences_are_those_of_scipy(causal: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = drawn(2, 3, 7, causal=causal)
    monkeypatch.setattr(d, "BLOCK_NUMBERS", block)
    np.testing.assert_allclose(d.divergences(maps), slow(maps), atol=1e-10)


def test_texts_add_up() -> None:
    texts = [Text(drawn(2, 2, 5, 0)), Text(drawn(2, 2, 8, 1))]
    expected = np.array(slow(texts[0].maps)) + slow(texts[1].maps)
    np.testing.assert_allclose(d.head_distance(texts), expected, atol=1e-10)
    np.testing.assert_allclose(d.head_distance(texts[0]), slow(texts[0].maps), atol=1e-10)


def test_the_root_is_a_euclidean_distance() -> None:
    """No eigenvalue below rounding: nothing of the root is lost by classical scaling in all dimensions."""
    distance = np.sqrt(d.head_distance(Text(drawn(3, 4, 6))))
    points, kept = d.classical_scaling(distance, 12)
    np.testing.assert_allclose(cdist(points, points), distance, atol=1e-6)
    assert kept == pytest.approx(1.0)


@given(st.integers(3, 8), st.integers(0, 1000))
def test_points_in_the_plane_are_found_again(n: int, seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n, 2))
    found, kept = d.classical_scaling(cdist(points, points))
    np.testing.assert_allclose(cdist(found, found), cdist(points, points), atol=1e-6)
    assert kept == pytest.approx(1.0)


def test_a_cloud_without_a_plane_is_kept_by_chance_only() -> None:
    n = 40
    corners = np.sqrt(2) * (1 - np.eye(n))  # all equally far: no plane is better than another
    _, kept = d.classical_scaling(corners)
    assert kept == pytest.approx(2 / (n - 1))


def test_heads_that_look_alike_lie_together() -> None:
    rng = np.random.default_rng(0)
    centres = drawn(2, 1, 10, 5).weights  # two ways of looking, one per layer
    noise = rng.gamma(0.3, size=(2, 4, 10, 10)) + 1e-6
    weights = 0.9 * centres + 0.1 * noise / noise.sum(-1, keepdims=True)
    edge = drawn(1, 1, 10).keys
    layout = d.heads_layout([Text(Maps("self", weights.astype(np.float32), edge, edge))])
    assert layout.layers == (0, 0, 0, 0, 1, 1, 1, 1)
    assert layout.heads == (0, 1, 2, 3, 0, 1, 2, 3)
    between = cdist(layout.points, layout.points)
    assert between[:4, 4:].min() > 3 * between[:4, :4].max()
    assert layout.kept > 2 * layout.by_chance


def test_equal_heads_are_one_point() -> None:
    weights = np.repeat(drawn(1, 1, 6).weights, 3, axis=1)
    edge = drawn(1, 1, 6).keys
    layout = d.heads_layout(Text(Maps("self", weights, edge, edge)))
    np.testing.assert_allclose(layout.points, 0, atol=1e-6)


def test_a_single_head_has_a_place() -> None:
    layout = d.heads_layout(Text(drawn(1, 1, 4)))
    assert layout.points.tolist() == [[0.0, 0.0]]


def test_memory_does_not_grow_with_the_square_of_heads_and_tokens() -> None:
    maps = drawn(6, 6, 128)  # all pairs of rows at once: 36 * 36 * 128 * 128 * 8 bytes, 170 MB
    tracemalloc.start()
    d.divergences(maps)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6


def test_atlases_of_different_models_are_refused(shared: Any) -> None:
    with pytest.raises(HeedfulError, match="different models"):
        d.head_distance([Text(drawn(1, 2, 4)), Text(drawn(2, 2, 4))])
    with pytest.raises(HeedfulError, match="no atlas"):
        d.head_distance([])


def test_an_atlas_will_do(shared: Any) -> None:
    atlas = heedful.attention(shared("bert").model, "the cat sat")
    assert d.heads_layout(atlas).points.shape == (8, 2)
