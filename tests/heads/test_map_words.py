"""From tokens to words: sums to, means from, rows that sum to one; special tokens and their mass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heedful
from heedful.heads.maps import MapAxis, Maps
from heedful.heads.word_maps import groups, merged_maps, special_mass, summed_shares, uniform, word_side

# words of one to three tokens, each perhaps after a special one: (special before, tokens) a word
EDGES = st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=5)
# any stack: queries, keys (None: the same text), causal, seed. Maps are made in the test: beartype draws
STACKS = st.tuples(EDGES, st.none() | EDGES, st.booleans(), st.integers(0, 10_000))


def side_of(edge: list[tuple[bool, int]]) -> MapAxis:
    words: list[int] = []
    for number, (marked, pieces) in enumerate(edge):
        words += [-1] * marked + [number] * pieces
    labels = tuple(f"t{i}" for i in range(len(words)))
    special = tuple(word < 0 for word in words)
    return MapAxis(labels, special, tuple(words), tuple(-1 if flag else 0 for flag in special))


def maps_of(drawn: Any) -> Maps:
    first, second, causal, seed = drawn
    queries = side_of(first)
    keys = queries if causal or second is None else side_of(second)
    rng = np.random.default_rng(seed)
    raw = rng.gamma(0.4, size=(2, 2, len(queries), len(keys))) + 1e-4
    raw = np.tril(raw) if causal else raw
    weights = (raw / raw.sum(-1, keepdims=True)).astype(np.float32)
    grads = rng.normal(size=raw.shape).astype(np.float32)
    return Maps("self" if keys is queries else "cross", weights, queries, keys, causal, grads)


@given(STACKS)
def test_rows_still_sum_to_one(drawn: Any) -> None:
    maps = maps_of(drawn)
    found = merged_maps(maps)
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)
    assert found.weights.dtype == np.float32
    assert found.weights.shape[2:] == (len(groups(maps.queries)), len(groups(maps.keys)))


@given(STACKS)
def test_to_a_split_word_is_the_sum_and_from_it_the_mean(drawn: Any) -> None:
    maps = maps_of(drawn)
    found = merged_maps(maps)
    for i, rows in enumerate(groups(maps.queries)):
        for j, columns in enumerate(groups(maps.keys)):
            block = maps.weights[:, :, rows][..., columns].astype(np.float64)
            np.testing.assert_allclose(found.weights[:, :, i, j], block.sum(-1).mean(-1), atol=1e-6)


@given(STACKS)
def test_gradient_times_weight_is_what_the_tokens_add_up_to(drawn: Any) -> None:
    maps = maps_of(drawn)
    found = merged_maps(maps)
    assert maps.grads is not None
    assert found.grads is not None
    effect = maps.weights.astype(np.float64) * maps.grads
    for i, rows in enumerate(groups(maps.queries)):
        for j, columns in enumerate(groups(maps.keys)):
            total = effect[:, :, rows][..., columns].sum((-1, -2))
            product = found.weights[:, :, i, j].astype(np.float64) * found.grads[:, :, i, j]
            np.testing.assert_allclose(product, total, atol=1e-5)


@given(STACKS)
def test_a_causal_map_of_words_looks_at_no_later_word(drawn: Any) -> None:
    maps = maps_of(drawn)
    found = merged_maps(maps)
    if maps.causal:
        assert not np.triu(found.weights[0, 0], 1).any()
        assert (np.diagonal(found.weights, axis1=2, axis2=3) > 0).all()  # a word may look at itself


@given(EDGES)
def test_special_tokens_stay_single(edge: Any) -> None:
    side = side_of(edge)
    merged_side = word_side(side)
    assert sum(merged_side.special) == sum(side.special)
    assert [w for w in merged_side.words if w >= 0] == sorted({w for w in side.words if w >= 0})
    assert summed_shares((1.0,) * len(side), side) == tuple(float(len(part)) for part in groups(side))


def test_words_are_read_as_in_the_text(shared: Any) -> None:
    atlas = heedful.attention(shared("bert").model, "naïve café, hello login!")
    assert len(atlas.x) > len(atlas.words().stacks[0].keys)
    labels = atlas.words().stacks[0].keys.labels
    assert labels == ("[CLS]", "naïve", "café", ",", "hello", "login", "!", "[SEP]")
    assert any(label.startswith("##") for label in atlas.stacks[0].keys.labels)


def test_words_of_words_are_the_same(shared: Any) -> None:
    words = heedful.attention(shared("bert").model, "hello login").words()
    assert words.words() is words
    assert words.unit == "word"


def test_the_readout_goes_with_its_word(shared: Any) -> None:
    atlas = heedful.attention(shared("mean-pool").model, "hello login stop")
    words = atlas.words()
    assert sum(words.readout) == pytest.approx(1.0)
    part = groups(atlas.stacks[0].queries)[1]
    assert len(part) > 1
    assert words.readout[1] == pytest.approx(sum(atlas.readout[t] for t in part))


# --- special tokens -------------------------------------------------------------------------------------


@given(STACKS)
def test_special_mass_is_a_mean_over_words(drawn: Any) -> None:
    maps = maps_of(drawn)
    rows = [q for q, flag in enumerate(maps.queries.special) if not flag]
    columns = [k for k, flag in enumerate(maps.keys.special) if flag]
    expected = [
        [np.mean([sum(float(head[q, k]) for k in columns) for q in rows]) for head in layer]
        for layer in maps.weights
    ]
    np.testing.assert_allclose(special_mass(maps), expected, atol=1e-6)


@given(STACKS)
def test_a_uniform_head_looks_everywhere_it_may(drawn: Any) -> None:
    maps = maps_of(drawn)
    flat = uniform(maps).weights
    assert flat.shape == maps.weights.shape
    for q in range(len(maps.queries)):
        reach = q + 1 if maps.causal else len(maps.keys)
        np.testing.assert_allclose(flat[:, :, q, :reach], 1 / reach, rtol=1e-6)
        assert not flat[:, :, q, reach:].any()


def test_the_control_of_words_is_made_of_tokens(shared: Any) -> None:
    """A head that looks everywhere alike gives a word of two tokens twice as much."""
    atlas = heedful.attention(shared("bert").model, "the login")
    flat = atlas.words().uniform()
    part = len(atlas.x)
    np.testing.assert_allclose(
        flat.maps[0, 0, 1], [1 / part, 1 / part, (part - 3) / part, 1 / part], rtol=1e-6
    )
    assert part > 4
    assert atlas.words().special_share() == pytest.approx(2 / part)


def test_special_mass_is_the_same_by_words_where_no_word_is_split(shared: Any) -> None:
    atlas = heedful.attention(shared("bert").model, "the cat sat on the mat")
    np.testing.assert_allclose(atlas.special_mass(), atlas.words().special_mass(), atol=1e-6)
    assert atlas.special_share() == pytest.approx(2 / 8)
