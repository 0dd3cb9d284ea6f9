"""Head kinds on maps made to be of each kind, with noise; scores against the formula written as loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.core.errors import HeedfulError
from heedful.heads import kinds as k
from heedful.heads.maps import MapAxis, Maps

WORDS = [
    "the",
    "cat",
    "sat",
    ",",
    "on",
    "the",
    "mat",
    ".",
    "a",
    "dog",
    "ran",
    ",",
    "far",
    "away",
    ".",
    "it",
    "was",
    "late",
]
LABELS = ["[CLS]", *WORDS[:8], "[SEP]", *WORDS[8:], "[SEP]"]
SPECIAL = tuple(label.startswith("[") for label in LABELS)
SEGMENTS = tuple(-1 if flag else int(i > 9) for i, flag in enumerate(SPECIAL))
SIZE = len(LABELS)


def side(labels: Any = LABELS, special: Any = SPECIAL, segments: Any = SEGMENTS) -> MapAxis:
    numbers = iter(range(len(labels)))
    return MapAxis(
        tuple(labels), tuple(special), tuple(-1 if f else next(numbers) for f in special), segments
    )


def maps_of(weights: Any, causal: bool = False, edge: MapAxis | None = None, stack: str = "self") -> Maps:
    """One layer and head from (Q, K), or more."""
    edge = edge or side()
    shaped = np.asarray(weights, dtype=np.float32).reshape(-1, 1, *np.shape(weights)[-2:])
    queries = edge if shaped.shape[2] == len(edge) else side(["answer"], [False], (-1,))
    return Maps(stack, shaped, queries, edge, causal)


def pattern(kind: str, causal: bool) -> Any:
    """(T, T) a head of this kind and no other; a query that cannot follow looks everywhere alike."""
    allowed = np.tril(np.ones((SIZE, SIZE))) if causal else np.ones((SIZE, SIZE))
    wanted = np.zeros((SIZE, SIZE))
    stops = [label in (".", ",") for label in LABELS]
    for q in range(SIZE):
        places = {
            "previous": [q - 1],
            "next": [q + 1],
            "self": [q],
            "first": [0],
            "delimiter": [i for i, flag in enumerate(SPECIAL) if flag and i],
            "period": [i for i, flag in enumerate(stops) if flag and i != q],
            "vertical": [2],
            "block": [i for i in range(SIZE) if SEGMENTS[i] == SEGMENTS[q] >= 0],
            "broad": range(SIZE),
        }[kind]
        for key in places:
            if 0 <= key < SIZE:
                wanted[q, key] = allowed[q, key]
    wanted[wanted.sum(1) == 0] = allowed[wanted.sum(1) == 0]
    return wanted / wanted.sum(1, keepdims=True)


def noisy(matrix: Any, share: float, seed: int, causal: bool, sharp: float = 1.0) -> Any:
    """With so large a share of each row spread at random."""
    noise = np.random.default_rng(seed).gamma(sharp, size=matrix.shape)
    noise = np.tril(noise) if causal else noise
    return (1 - share) * matrix + share * noise / noise.sum(1, keepdims=True)


CASES = [(kind, causal) for kind in k.SCORES for causal in (False, True) if (kind, causal) != ("next", True)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("kind", "causal"), CASES)
def test_each_kind_is_known_through_noise(kind: str, causal: bool, seed: int) -> None:
    made = noisy(pattern(kind, causal), 0.25, seed, causal)
    (found,) = k.kinds(maps_of(made, causal))
    assert found.kind == kind, found.scores


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_scattered_attention_is_heterogeneous(seed: int, causal: bool) -> None:
    made = noisy(pattern("broad", causal), 1.0, seed, causal, sharp=0.15)
    (found,) = k.kinds(maps_of(made, causal))
    assert found.kind == "heterogeneous", found.scores


@pytest.mark.parametrize("causal", [False, True])
def test_looking_everywhere_alike_is_the_zero_of_every_score(causal: bool) -> None:
    found = k.scores(maps_of(pattern("broad", causal), causal))
    assert found.pop("broad") == pytest.approx(1.0, abs=1e-6)
    assert set(found) == {*k.SCORES} - {"broad"} - ({"next"} if causal else set())
    for name, score in found.items():
        assert score == pytest.approx(0.0, abs=1e-6), name


@pytest.mark.parametrize(("kind", "causal"), [case for case in CASES if case[0] != "broad"])
def test_a_pure_head_scores_one(kind: str, causal: bool) -> None:
    assert k.scores(maps_of(pattern(kind, causal), causal))[kind] == pytest.approx(1.0, abs=1e-6)


# --- the formula, written out ---------------------------------------------------------------------------


def slow(weights: Any, causal: bool) -> dict[str, float]:
    """Scores by loops over queries and keys."""
    stops = {i for i, label in enumerate(LABELS) if label in (".", ",")}
    marks = {i for i, flag in enumerate(SPECIAL) if flag and i}
    queries = [q for q in range(SIZE) if not SPECIAL[q] and (q > 0 or not causal)]

    def named(q: int) -> dict[str, set[int]]:
        found = {"previous": {q - 1}, "next": {q + 1}, "self": {q}, "first": {0} - {q}}
        own = {i for i in range(SIZE) if SEGMENTS[i] == SEGMENTS[q]}
        return found | {"delimiter": marks - {q}, "period": stops - {q}, "block": own}

    def rule(keys: Any) -> float | None:
        over = under = 0.0
        followers = 0
        for q in queries:
            reach = set(range(q + 1)) if causal else set(range(SIZE))
            there = keys(q) & reach
            if there:
                control = len(there) / len(reach)
                over += sum(weights[q, j] for j in there) - control
                under += 1 - control
                followers += 1
        return over / under if followers and followers >= 0.25 * len(queries) else None

    scores = {name: rule(lambda q, name=name: named(q)[name]) for name in named(1)}
    columns = [j for j in range(1, SIZE) if j not in stops | marks]
    verticals = [rule(lambda q, j=j: {j} - {q}) for j in columns]
    scores["vertical"] = max(v for v in verticals if v is not None)
    entropy = sum(-sum(p * np.log(p) for p in weights[q] if p > 0) for q in queries)
    most = sum(np.log(q + 1 if causal else SIZE) for q in queries)
    return {name: v for name, v in (scores | {"broad": entropy / most}).items() if v is not None}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_scores_are_the_formula(seed: int, causal: bool) -> None:
    made = noisy(pattern("broad", causal), 1.0, seed, causal, sharp=0.4).astype(np.float32)
    expected = slow(made.astype(np.float64), causal)
    found = k.scores(maps_of(made, causal))
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name][0, 0] == pytest.approx(value, abs=1e-6), name


def test_every_head_gets_its_own_score() -> None:
    edge, names = side(), ("previous", "next", "first", "period", "self", "block")
    weights = np.stack([pattern(name, False) for name in names]).reshape(2, 3, SIZE, SIZE).astype(np.float32)
    found = k.kinds(Maps("self", weights, edge, edge))
    assert [(h.layer, h.head, h.kind) for h in found] == [(i // 3, i % 3, n) for i, n in enumerate(names)]


# --- where kinds compete --------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("more", "less"),
    [(a, b) for a in k.RULES for b in ("previous", "first", "period", "block", "broad") if a != b],
)
def test_of_two_kinds_the_stronger_wins(more: str, less: str, causal: bool) -> None:
    if causal and "next" in (more, less):
        return  # a causal head cannot
    made = 0.65 * pattern(more, causal) + 0.35 * pattern(less, causal)
    (found,) = k.kinds(maps_of(noisy(made, 0.05, 3, causal), causal))
    assert found.kind == more, found.scores


def test_block_stands_back_for_a_pointed_head_and_before_a_broad_one() -> None:
    (pointed,) = k.kinds(maps_of(pattern("previous", False)))
    assert pointed.scores["block"] > k.MIN_BLOCK
    assert pointed.kind == "previous"
    half = 0.6 * pattern("block", False) + 0.4 * pattern("broad", False)
    (both,) = k.kinds(maps_of(half))
    assert both.scores["broad"] > k.MIN_BROAD_ENTROPY
    assert both.kind == "block"


def test_two_equal_kinds_make_neither() -> None:
    made = 0.5 * pattern("previous", False) + 0.5 * pattern("next", False)
    (found,) = k.kinds(maps_of(noisy(made, 0.1, 0, False)))
    assert found.kind == "heterogeneous"


def test_of_equal_scores_a_column_comes_before_a_place() -> None:
    """In a text of one word, what is before it is the first, and what is after it the end."""
    edge = side(["[CLS]", "cat", "[SEP]"], [True, False, True], (-1, 0, -1))
    for row, kind, equal in (([0.8, 0.1, 0.1], "first", "previous"), ([0.1, 0.1, 0.8], "delimiter", "next")):
        (found,) = k.kinds(maps_of(np.tile(row, (3, 1)), edge=edge))
        assert found.scores[kind] == pytest.approx(found.scores[equal])
        assert found.kind == kind
    assert set(k.TIES) == {*k.RULES, *k.PATCH_RULES}
    assert len(set(k.TIES)) == len(k.TIES)
    assert k.kind_of({"previous": 0.7 + 1e-12, "first": 0.7}) == "first"  # rounding decides nothing
    assert k.kind_of({"previous": 0.71, "first": 0.7}) == "previous"


def test_a_column_with_a_name_is_not_vertical() -> None:
    """All on one comma is a head of commas; all on one [SEP], of delimiters."""
    for label, kind in ((",", "period"), ("[SEP]", "delimiter")):
        made = np.zeros((SIZE, SIZE))
        made[:, LABELS.index(label)] = 1
        (found,) = k.kinds(maps_of(made))
        assert found.kind == kind


@pytest.mark.parametrize("causal", [False, True])
def test_a_full_stop_that_looks_at_itself_makes_no_head_of_full_stops(causal: bool) -> None:
    (found,) = k.kinds(maps_of(pattern("self", causal), causal))
    assert found.kind == "self"
    assert found.scores["period"] <= 0
    labels = ["a", "b", "c", "."]  # only the last could look at the stop, and it is the stop
    edge = side(labels, [False] * 4, (0,) * 4)
    (alone,) = k.kinds(maps_of(np.eye(4), True, edge))
    assert "period" not in alone.scores


def test_a_rule_few_could_follow_is_not_scored() -> None:
    labels = [*"abcdefgh", ".", "i"]  # one query of nine comes after the stop
    edge = side(labels, [False] * 10, (0,) * 10)
    made = np.tril(np.ones((10, 10)))
    (found,) = k.kinds(maps_of(made / made.sum(1, keepdims=True), True, edge))
    assert "period" not in found.scores
    assert "block" not in found.scores  # one segment
    assert "delimiter" not in found.scores  # no special token


def test_cross_attention_has_no_neighbours() -> None:
    weights = np.full((1, 1, SIZE, SIZE), 1 / SIZE, dtype=np.float32)
    found = k.scores(Maps("cross", weights, side(), side()))
    assert set(found) == {"first", "delimiter", "period", "vertical", "broad"}


def test_a_pooling_query_may_look_at_the_first_token() -> None:
    weights = np.zeros((1, SIZE))
    weights[0, 0] = 1
    (found,) = k.kinds(maps_of(weights))
    assert found.kind == "first"
    assert set(found.scores) == {"first", "delimiter", "period", "vertical", "broad"}


@given(st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_any_short_text_has_a_kind(size: int, causal: bool, seed: int) -> None:
    edge = side([f"w{i}" for i in range(size)], [False] * size, (0,) * size)
    raw = np.random.default_rng(seed).random((size, size)) + 1e-3
    raw = np.tril(raw) if causal else raw
    (found,) = k.kinds(maps_of(raw / raw.sum(1, keepdims=True), causal and size > 1, edge))
    assert found.kind in k.KINDS
    assert all(np.isfinite(score) and score <= 1 + 1e-6 for score in found.scores.values())


# --- over texts -----------------------------------------------------------------------------------------


@dataclass
class Text:
    maps: Maps

    def stack(self, name: str) -> Maps:
        return self.maps


def test_means_over_texts_and_their_intervals() -> None:
    rng = np.random.default_rng(0)
    texts = [Text(maps_of(noisy(pattern("previous", False), s, 1, False))) for s in rng.uniform(0.1, 0.5, 40)]
    (found,) = k.kinds_over(texts, seed=1)
    single = np.array([k.scores(text.maps)["previous"][0, 0] for text in texts])
    assert found.kind == "previous"
    assert found.texts == 40
    assert found.stable == 1.0
    assert found.scores["previous"] == pytest.approx(single.mean())
    low, high = found.intervals["previous"]
    error = single.std(ddof=1) / np.sqrt(40)
    assert low == pytest.approx(single.mean() - 1.96 * error, abs=0.4 * error)
    assert high == pytest.approx(single.mean() + 1.96 * error, abs=0.4 * error)
    assert found.to_dict()["intervals"]["previous"] == [low, high]


def test_a_head_that_is_two_things_is_unstable() -> None:
    texts = [Text(maps_of(pattern(name, False))) for name in ("previous", "next") * 5]
    (found,) = k.kinds_over(texts, seed=1)
    assert found.stable is not None
    assert found.stable < 0.8
    assert found.scores["previous"] == pytest.approx(0.5, abs=0.05)


def test_a_rule_is_averaged_over_the_texts_it_applies_to() -> None:
    bare = side([f"w{i}" for i in range(SIZE)], [False] * SIZE, (0,) * SIZE)
    texts = [Text(maps_of(pattern("period", False))), Text(maps_of(pattern("broad", False), edge=bare))]
    (found,) = k.kinds_over(texts)
    assert found.scores["period"] == pytest.approx(1.0, abs=1e-6)
    assert found.scores["broad"] < 1


def test_one_text_has_no_interval() -> None:
    (found,) = k.kinds_over([Text(maps_of(pattern("self", True), True))])
    assert (found.texts, found.intervals, found.stable) == (1, {}, None)


def test_atlases_of_different_models_are_refused() -> None:
    two = np.stack([pattern("self", False)] * 2)
    with pytest.raises(HeedfulError, match="one model"):
        k.kinds_over([Text(maps_of(pattern("self", False))), Text(maps_of(two))])
    with pytest.raises(HeedfulError, match="none of these"):
        k.kinds_over([])
