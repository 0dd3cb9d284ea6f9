"""Maps made small: what is decoded is what was put in, up to half a quantum; what is left out is counted."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from heedful.core.errors import HeedfulError
from heedful.heads.maps import MapAxis, Maps
from heedful.reports.atlas_data import MIN_ROW_WEIGHTS, Opened, Packed, decode, pack, pack_one


def side(n: int) -> MapAxis:
    return MapAxis(tuple(f"t{i}" for i in range(n)), (False,) * n, tuple(range(n)), (0,) * n)


def maps(heads: int, queries: int, keys: int, *, seed: int = 0, causal: bool = False) -> Maps:
    """Heads from sharp to broad."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(1, heads, queries, keys)) * np.linspace(0.1, 6, heads)[None, :, None, None]
    if causal:
        logits = np.where(np.tri(queries, keys, dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
    return Maps("self", weights, side(queries), side(keys), causal)


def quantum(rows: np.ndarray, top: float = 1.0) -> np.ndarray:
    """(Q, 1): a 255th of the row's largest weight, that rounded up to a 65535th of the top."""
    return np.ceil(rows.max(1, keepdims=True).astype(float) / top * 65535) / 65535 * top / 255


def check(found: Opened, rows: np.ndarray, packed: Packed) -> None:
    step = quantum(rows, packed.top)
    off = np.abs(found.weights - rows)
    assert (off[found.kept] <= np.broadcast_to(step / 2 * (1 + 1e-6), rows.shape)[found.kept]).all()
    assert off[found.kept].max(initial=0.0) <= packed.error
    for row, kept, half in zip(rows, found.kept, step[:, 0] / 2, strict=True):
        assert sorted(row[kept]) == sorted(row)[len(row) - kept.sum() :], "not the largest of the row"
        # whatever is missing is below the threshold and beyond the few kept anyway, or rounds to nothing
        left = row[~kept]
        assert (left <= max(packed.threshold, half * (1 + 1e-6))).all()
        worth = (row > half * (1 + 1e-6)).sum()
        assert kept.sum() >= min(packed.least, worth)
    true = 1 - np.where(found.kept, rows, 0).sum(1, dtype=float) / rows.sum(1, dtype=float)
    assert np.abs(found.rest - np.maximum(true, 0)).max() <= 0.5 / 255 + 1e-6


@settings(phases=(Phase.explicit, Phase.generate), max_examples=60)  # a smaller map tells no more
@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(1, 330),
    st.booleans(),
    st.integers(0, 9),
    st.floats(0.02, 2),
)
def test_decoded_is_within_half_a_quantum_and_holds_the_largest(
    heads: int, queries: int, keys: int, causal: bool, seed: int, share: float
) -> None:
    made = maps(heads, queries, keys, seed=seed, causal=causal)
    packed = pack_one(made, int(share * made.weights.size))
    for head in range(heads):
        found = decode(packed, head)
        if packed.dense:
            assert found.kept.all()
            assert (
                np.abs(found.weights - made.weights[0, head])
                <= quantum(made.weights[0, head]) / 2 * (1 + 1e-6)
            ).all()
        else:
            check(found, made.weights[0, head], packed)


def test_mass_left_out_is_right_and_told_by_head() -> None:
    made = maps(6, 64, 300)
    packed = pack_one(made, 12_000)
    assert not packed.dense
    for head in range(6):
        rows, kept = made.weights[0, head], decode(packed, head).kept
        assert packed.left[head] == pytest.approx(
            1 - rows[kept].sum(dtype=float) / rows.sum(dtype=float), abs=1e-6
        )
    assert packed.left[0] > packed.left[5], "a broad head loses more than a sharp one"
    assert packed.left.max() > 0.5


@pytest.mark.parametrize("share", [1_500, 6_000, 20_000, 40_000, 10**7])
def test_size_stays_in_its_share_and_uses_it(share: int) -> None:
    packed = pack_one(maps(8, 64, 300), share)
    size = sum(map(len, packed.blobs))
    assert size <= share
    assert packed.dense == (share == 10**7)
    if share in (20_000, 40_000):
        assert size > 0.7 * share


def test_smaller_share_means_larger_threshold_and_fewer_weights_kept() -> None:
    made = maps(8, 64, 300)
    large, small, least = (pack_one(made, share) for share in (40_000, 12_000, 1_500))
    assert large.threshold < small.threshold < least.threshold
    assert large.least == MIN_ROW_WEIGHTS > least.least
    assert large.left.mean() < small.left.mean() < least.left.mean()


def test_wide_gaps_take_three_bytes() -> None:
    weights = np.zeros((1, 1, 2, 70_00), np.float32)
    weights[0, 0, 0, [0, 254, 510, 766, 6999]] = [0.2, 0.2, 0.2, 0.2, 0.2]  # gaps 0, 253, 255, 255, 6232
    weights[0, 0, 1, 6999] = 1
    packed = pack_one(Maps("self", weights, side(2), side(7000)), 200)
    assert not packed.dense
    found = decode(packed, 0)
    assert np.flatnonzero(found.weights[0]).tolist() == [0, 254, 510, 766, 6999]
    assert np.flatnonzero(found.weights[1]).tolist() == [6999]
    raw = zlib.decompress(packed.blobs[0])
    assert raw[2 * 5 + 6 :] == bytes(
        [0, 253, 255, 255, 0, 255, 255, 0, 255, 6232 & 255, 6232 >> 8, 255, 6999 & 255, 6999 >> 8]
    )


def test_stacks_share_the_budget_by_rows() -> None:
    self_, cross = maps(4, 200, 200), maps(4, 50, 200, seed=1)
    found = pack([self_, cross], 20_000)
    assert sum(map(len, found[0].blobs)) <= 16_000
    assert sum(map(len, found[1].blobs)) <= 4_000
    assert [each.shape for each in found] == [(1, 4, 200, 200), (1, 4, 50, 200)]


def test_weights_over_one_get_their_own_top() -> None:
    weights = np.full((1, 1, 2, 2), 1.5, np.float32)
    packed = pack_one(Maps("self", weights, side(2), side(2)), 10_000)
    assert packed.top == 1.5
    assert np.abs(decode(packed, 0).weights - 1.5).max() <= packed.error


def test_empty_rows_stay_empty() -> None:
    weights = np.zeros((1, 1, 3, 900), np.float32)
    weights[0, 0, 1] = 1 / 900
    for share in (50, 10**6):
        found = decode(pack_one(Maps("self", weights, side(3), side(900)), share), 0)
        assert not found.weights[[0, 2]].any()
        assert found.rest[[0, 2]].tolist() == [0, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_what_is_no_weight_is_refused(bad: float) -> None:
    made = maps(1, 3, 3)
    made.weights[0, 0, 1, 1] = bad
    with pytest.raises(HeedfulError, match="negative or not numbers"):
        pack_one(made, 1000)
