"""Agreement against scipy, against values worked out by hand, and where there is no ranking."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from heedful.comparisons.agreement import MEASURES, MOST_PAIRWISE, chance, chance_band, kendall
from heedful.comparisons.result import Comparison, matrix
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.modalities.text import TextInput


def compare(*methods: tuple[list[float], bool]) -> Comparison:
    """One token a word, no special tokens; methods m0, m1, ... with their scores and signedness."""
    n = len(methods[0][0])
    spans = tuple((2 * i, 2 * i + 1) for i in range(n))
    x = TextInput(
        text="w " * n,
        ids=tuple(range(n)),
        tokens=("w",) * n,
        offsets=spans,
        special=(False,) * n,
        words=tuple(range(n)),
        word_spans=spans,
        segments=(0,) * n,
    )
    return Comparison(
        tuple(
            Attribution(x, Target("class"), np.array(scores, dtype=np.float64), f"m{i}", signed=signed)
            for i, (scores, signed) in enumerate(methods)
        )
    )


def test_kendall_by_hand() -> None:
    # 1 2 3 4 against 1 2 4 3: five pairs in order, one reversed: (5 - 1) / 6
    assert matrix(compare(([1, 2, 3, 4], True), ([1, 2, 4, 3], True)))[1][0, 1] == pytest.approx(4 / 6)


def test_kendall_ties_by_hand() -> None:
    # 1 1 2 against 1 2 3: two pairs in order, one tied in the first: 2 / sqrt(2 * 3), which tau-a calls 2 / 3
    value = matrix(compare(([1, 1, 2], True), ([1, 2, 3], True)))[1][0, 1]
    assert value == pytest.approx(2 / math.sqrt(6))
    assert value != pytest.approx(2 / 3)


def test_a_reversed_ranking_is_minus_one_when_signed_and_plus_one_in_size() -> None:
    up, down = [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]
    assert matrix(compare((up, True), (down, True)))[1][0, 1] == pytest.approx(-1)
    assert matrix(compare((up, False), (down, True)))[1][0, 1] == pytest.approx(1)


def test_unsigned_compares_sizes() -> None:
    signed, size = [3.0, -2.0, 1.0, -4.0], [3.0, 2.0, 1.0, 4.0]
    assert matrix(compare((signed, True), (size, False)))[1][0, 1] == pytest.approx(1)
    assert matrix(compare((signed, True), (size, True)))[1][0, 1] < 0.5


numbers = st.floats(-100, 100).map(lambda value: round(value, 1))


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=30))
def test_equals_scipy(pairs: list[tuple[float, float]]) -> None:
    a, b = ([pair[i] for pair in pairs] for i in (0, 1))
    both = compare((a, True), (b, True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns about constant input, which we must answer with nan
        kendall, spearman = stats.kendalltau(a, b).statistic, stats.spearmanr(a, b).statistic
    np.testing.assert_allclose(matrix(both, "kendall")[1][0, 1], kendall, atol=1e-12)
    np.testing.assert_allclose(matrix(both, "spearman")[1][0, 1], spearman, atol=1e-12)


@pytest.mark.parametrize("words", [MOST_PAIRWISE - 1, MOST_PAIRWISE, MOST_PAIRWISE + 1])
@pytest.mark.parametrize("ties", [2, 7, 1000])
def test_kendall_is_the_same_by_pairs_and_by_sorting(words: int, ties: int) -> None:
    rng = np.random.default_rng([words, ties])
    a, b = rng.integers(0, ties, (2, words)).astype(float)
    np.testing.assert_allclose(kendall(a, b), stats.kendalltau(a, b).statistic, rtol=0, atol=1e-14)


def test_top_k_counts_shared_words_by_size() -> None:
    a, b = [9.0, -8.0, 1.0, 0.0, 0.0], [0.0, 8.0, 0.0, 7.0, 1.0]  # tops of two: {0, 1} and {1, 3}
    assert matrix(compare((a, True), (b, True)), "top-k", 2)[1][0, 1] == 0.5
    assert matrix(compare((a, True), (b, True)), "top-k", 99)[1][0, 1] == 1.0


@pytest.mark.parametrize("measure", ["kendall", "spearman", "top-k"])
def test_no_ranking_is_nan_and_never_a_warning(measure: str) -> None:
    names, values = matrix(
        compare(([1, 2, 3], True), ([5, 5, 5], True), ([1, math.nan, 2], True), ([1, -1, 1], False)), measure
    )
    assert names == ["m0", "m1", "m2", "m3"]
    assert np.isnan(values[1]).all()
    assert np.isnan(values[:, 1]).all()
    assert np.isnan(values[2]).all()
    assert np.isnan(values[3]).all()  # one size for every word
    assert values[0, 0] == pytest.approx(1)


def test_one_word_has_no_ranking() -> None:
    assert np.isnan(matrix(compare(([1.0], True), ([2.0], True)))[1]).all()


def test_symmetric_and_labelled() -> None:
    rng = np.random.default_rng(0)
    _, values = matrix(compare(*((list(rng.normal(size=12)), bool(i % 2)) for i in range(4))))
    np.testing.assert_array_equal(values, values.T)
    np.testing.assert_allclose(np.diag(values), 1)


def test_unknown_measure_names_the_known() -> None:
    with pytest.raises(HeedfulError, match="kendall, spearman, top-k"):
        matrix(compare(([1, 2], True)), "pearson")
    with pytest.raises(HeedfulError, match="at least 1"):
        matrix(compare(([1, 2], True)), "top-k", 0)


@pytest.mark.parametrize("words", [8, 20, 60])
def test_chance_band_holds_95_of_100_unrelated_rankings(words: int) -> None:
    rng = np.random.default_rng(1)
    taus = [stats.kendalltau(rng.random(words), rng.random(words)).statistic for _ in range(2000)]
    inside = np.mean(np.abs(taus) <= chance_band(words))
    assert (
        0.93 <= inside <= 0.97
    )  # the normal approximation at n = 8 is a percent off; sampling error is 0.5 %


def test_chance_band_is_withheld_for_a_handful_of_words() -> None:
    assert math.isnan(chance_band(4))


def test_sentences_are_ranked_as_sentences(shared: Any) -> None:
    import heedful
    from heedful.comparisons.result import ranked_count

    text = "the cat sat. a dog ran to the low house! hello world."
    found = heedful.explain(shared("bert").model, text, ["occlusion", "grad-l2"], unit="sentence")
    count = len(found.x.units("sentence"))
    assert ranked_count(found) == count < 5
    assert np.isnan(chance_band(ranked_count(found)))
    methods, values = matrix(found, "kendall")
    pairs = count * (count - 1) / 2
    tau = values[methods.index("occlusion"), methods.index("grad-l2")]
    assert abs(tau * pairs - round(float(tau * pairs))) < 1e-9, "a multiple of one over three pairs"


def test_all_measures_at_once_and_in_the_json() -> None:
    rng = np.random.default_rng(0)
    found = compare(*((rng.normal(size=12).tolist(), bool(i % 2)) for i in range(3)), ([1.0] * 12, True))
    data = json.loads(found.to_json())["agreement"]
    assert (data["unit"], data["k"], data["methods"]) == ("word", 5, ["m0", "m1", "m2", "m3"])
    for measure in MEASURES:
        expected = matrix(found, measure)[1].tolist()
        assert data[measure] == [[None if math.isnan(v) else v for v in row] for row in expected]
    assert data["kendall"][3] == [None] * 4  # no ranking
    assert data["kendall"] != data["spearman"] != data["top-k"]


@pytest.mark.parametrize("measure", ["kendall", "spearman"])
def test_unrelated_rankings_stay_within_the_band(measure: str) -> None:
    """95 % of 2,000 pairs, within the four standard errors of that share (0.02)."""
    rng = np.random.default_rng(1)
    found = compare(*((rng.normal(size=20).tolist(), True) for _ in range(64)))
    values = matrix(found, measure)[1][np.triu_indices(64, 1)]
    assert np.mean(np.abs(values) <= chance(measure, 20)) == pytest.approx(0.95, abs=0.02)


def test_unrelated_tops_overlap_by_chance() -> None:
    rng = np.random.default_rng(2)
    found = compare(*((rng.normal(size=20).tolist(), True) for _ in range(64)))
    values = matrix(found, "top-k")[1][np.triu_indices(64, 1)]
    assert values.mean() == pytest.approx(chance("top-k", 20), abs=0.02)  # four standard errors
    assert chance("top-k", 3) == 1.0
    assert all(math.isnan(chance(measure, 0)) for measure in MEASURES)
