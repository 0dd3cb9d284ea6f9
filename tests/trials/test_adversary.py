"""The adversary against closed forms and brute force: found where one exists, not found where none can be."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.cost import Cost
from heedful.models.contexts import attention_of
from heedful.stats.divergence import LN2, jsd
from heedful.trials.adversary_search import BestCandidates, Search, SearchProblem
from heedful.trials.attention_scores import shown
from heedful.trials.examples import prepare
from heedful.trials.tests.adversary import Adversary, _layers, adversary, searched

EPSILON = 0.01


def words_of(toy: Any) -> tuple[np.ndarray, float]:
    """(which tokens are words, the weight they share)"""
    words = np.array([token not in ("[CLS]", "[SEP]") for token in toy.tokens])
    return words, float(toy.weights[words].sum())


def with_words(toy: Any, shares: np.ndarray) -> np.ndarray:
    """(n, words) distributions over words -> (n, T) weights; special tokens keep theirs."""
    words, mass = words_of(toy)
    weights = np.repeat(toy.weights[None], len(shares), 0)
    weights[:, words] = shares * mass
    return weights


def brute(toy: Any, shares: np.ndarray) -> float:
    """The largest JSD of all these distributions over words that keep the answer."""
    words, mass = words_of(toy)
    change = np.abs(toy.answer(with_words(toy, shares)) - toy.answer(toy.weights))
    own = np.broadcast_to(toy.weights[words] / mass, shares.shape)
    return float(jsd(own, shares)[change <= EPSILON].max())


def test_found_where_it_must_exist(by_hand: Any) -> None:
    """All values alike: weights mean nothing, so all weight may go to the word that had least."""
    toy = by_hand(
        {"cat": (2.0, 0.7), "dog": (0.0, 0.7), "sat": (-1.0, 0.7), "ran": (1.0, 0.7)}, "cat dog sat ran"
    )
    found = adversary(toy.cases, seed=1, search=Search(steps=30))
    words, mass = words_of(toy)
    own = toy.weights[words] / mass
    corner = np.eye(4)[own.argmin()]
    assert found.largest[0, 0] == pytest.approx(float(jsd(own, corner)), rel=1e-5)
    assert found.distance[0, 0] == pytest.approx(found.largest[0, 0], rel=1e-3)
    assert found.change[0, 0] < 1e-6
    assert found.reached[0, 0] == 1
    assert found.words[0, 0] == pytest.approx(mass, rel=1e-6)
    assert found.random[0, 0] <= found.distance[0, 0]


@pytest.mark.parametrize("gap", [0.2, 1.0, 8.0])
def test_two_words_are_pinned_as_the_closed_form_says(by_hand: Any, gap: float) -> None:
    """One free number: the largest JSD is read off a fine grid. Values far apart leave next to none."""
    toy = by_hand({"cat": (0.1, gap), "dog": (0.0, -gap)}, "cat dog")
    grid = np.linspace(0, 1, 200_001)
    expected = brute(toy, np.stack([grid, 1 - grid], 1))
    found = adversary(toy.cases)
    rounding = 1e-5  # a JSD of weights in float32
    assert 0.97 * expected - rounding <= found.distance[0, 0] <= expected * 1.001 + rounding
    assert found.change[0, 0] <= EPSILON
    if gap == 8.0:
        assert expected < 0.01  # cannot exist
        assert found.findings()[0].extra["share of texts with an adversary"] == 0


@pytest.mark.parametrize(
    ("values", "scores"),
    [
        ((1.0, -1.0, 0.3), (0.0, 1.0, -1.0)),
        ((3.0, 2.0, -3.0), (2.0, 0.0, 0.0)),
        ((0.5, 0.0, -2.0), (0.0, 0.0, 0.0)),
    ],
)
def test_three_words_against_all_of_the_simplex(by_hand: Any, values: Any, scores: Any) -> None:
    toy = by_hand(
        dict(zip(("cat", "dog", "sat"), zip(scores, values, strict=True), strict=True)), "cat dog sat"
    )
    side = np.linspace(0, 1, 1001)
    a, b = (axis.ravel() for axis in np.meshgrid(side, side))
    inside = a + b <= 1 + 1e-12
    grid = np.stack([a, b, np.maximum(1 - a - b, 0)], 1)[inside]
    expected = brute(toy, grid)
    case = toy.cases.cases[0]
    said = shown(toy.cases, case)
    layers, answer = _layers(toy.cases, case, said)
    best, chance, _ = searched(
        SearchProblem(toy.cases, case, said.stack, layers, answer), Search(), torch.Generator().manual_seed(0)
    )
    assert best.distance[0] >= 0.97 * expected
    assert chance.distance[0] <= best.distance[0]
    weights = best.weights[0][0, 0].double().numpy()
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    words, mass = words_of(toy)
    np.testing.assert_allclose(weights[~words], toy.weights[~words], rtol=1e-5)
    change = abs(toy.answer(weights) - toy.answer(toy.weights))  # by hand, not by the model
    assert change <= EPSILON + 1e-6
    assert best.change[0] == pytest.approx(change, abs=1e-5)
    assert best.distance[0] == pytest.approx(
        float(jsd(toy.weights[words] / mass, weights[words] / mass)), abs=1e-5
    )


def test_what_rounding_let_pass_is_drawn_back(by_hand: Any) -> None:
    """Verification does not trust the search: an infeasible find goes back, or is dropped."""
    toy = by_hand({"cat": (0.1, 1.0), "dog": (0.0, -1.0)}, "cat dog")
    case = toy.cases.cases[0]
    said = shown(toy.cases, case)
    layers, answer = _layers(toy.cases, case, said)
    for share in (0.05, 1.0):  # a little too far, and much too far for small steps back
        best = BestCandidates(SearchProblem(toy.cases, case, said.stack, layers, answer), EPSILON)
        far = layers[0].farthest()
        best.weights[0] = layers[0].own + share * (far - layers[0].own)
        with torch.no_grad():
            best.verify()
        change = abs(toy.answer(best.weights[0][0, 0].double().numpy()) - toy.answer(toy.weights))
        assert change <= EPSILON + 1e-6
        assert best.change[0] == pytest.approx(change, abs=1e-5)
        assert (best.distance[0] > 0) == (share < 1)


def test_every_layer_of_a_transformer_alone_and_its_rows(shared: Any) -> None:
    """In the last layer only the rows the answer is read from count and move, below all; layers that are
    searched together find what is feasible by itself."""
    family = shared("bert")
    cases = prepare(family.model, ["the cat sat on the mat", "hello world"])
    found = adversary(cases, search=Search(steps=15, starts=3, draws=6))
    assert found.distance.shape == (2, 2)
    assert (found.change <= EPSILON).all()
    assert (found.distance <= found.largest + 1e-6).all()
    assert (found.distance >= found.random).all()
    assert (found.distance > 0).all()
    case = cases.cases[0]
    layers, _ = _layers(cases, case, shown(cases, case))
    rows = [layer.free.any(-1).any(0) for layer in layers]
    assert rows[0].all()
    assert rows[1].tolist() == [True] + [False] * (len(case.x) - 1)  # [CLS]
    assert not any(layer.free[..., [0, -1]].any() for layer in layers)  # special tokens keep their weight
    assert attention_of(family.hf) == "sdpa"


def test_far_from_feasible_at_first(shared: Any) -> None:
    """330 probabilities must stay, and no random weights keep them: all that is found is the search's."""
    cases = prepare(shared("gpt2").model, ["hello world not bad at all"])
    found = adversary(cases, search=Search(starts=2, steps=80))
    assert (found.random == 0).all()
    assert (found.distance > 0.3 * found.largest).all()
    assert (found.change <= EPSILON).all()
    assert (found.late < 0.2).all()


@pytest.mark.slow
def test_a_longer_search_hardly_finds_more(shared: Any) -> None:
    """Three times the steps must not find much more than the default."""
    cases = prepare(shared("gpt2").model, ["hello world not bad at all"])
    found, longer = (adversary(cases, search=search) for search in (Search(), Search(steps=480)))
    assert (found.distance >= 0.9 * longer.distance).all()


def test_patience_waits_for_a_feasible_candidate(by_hand: Any) -> None:
    toy = by_hand({"cat": (0.1, 1.0), "dog": (0.0, -1.0)}, "cat dog")
    case = toy.cases.cases[0]
    said = shown(toy.cases, case)
    layers, answer = _layers(toy.cases, case, said)
    best = BestCandidates(SearchProblem(toy.cases, case, said.stack, layers, answer), EPSILON)
    same, far = layers[0].own[None], layers[0].farthest()[None]
    for _ in range(30):
        best.offer([far], [torch.tensor([0.5])])  # never keeps the answer
    assert not best.over(1)
    best.offer([same], [torch.tensor([0.0])])
    assert best.over(1)
    assert not best.over(2)
    best.offer([far], [torch.tensor([0.0])])
    assert not best.over(1)


def test_what_counts_as_an_adversary_and_what_came_late() -> None:
    """Above the best random weights, and above a tenth of the highest JSD: both, not one."""
    distance = np.array([[0.3], [0.3], [0.05], [np.nan]])
    random = np.array([[0.1], [0.3], [0.0], [np.nan]])
    rest = {name: np.zeros((4, 1)) for name in ("change", "reached", "words", "shown")}
    late = np.array([[0.2], [0.4], [0.0], [np.nan]])
    told = Adversary(
        distance=distance,
        random=random,
        largest=np.full((4, 1), 0.6),
        late=late,
        search=Search(),
        cost=Cost(),
        **rest,
    )
    (line,) = told.findings()
    assert line.extra["share of texts with an adversary"] == pytest.approx(1 / 3)
    assert line.extra["gained in the last quarter of the search"] == pytest.approx(0.2)
    assert line.n == 3


def test_late_is_the_last_quarter_of_the_steps(by_hand: Any) -> None:
    toy = by_hand({"cat": (0.1, 1.0), "dog": (0.0, -1.0)}, "cat dog")
    case = toy.cases.cases[0]
    said = shown(toy.cases, case)
    layers, answer = _layers(toy.cases, case, said)
    best = BestCandidates(SearchProblem(toy.cases, case, said.stack, layers, answer), EPSILON)
    best.history = [[0.1], [0.2], [0.3], [0.3], [0.3], [0.3], [0.35], [0.4]]
    best.distance = [0.4]
    assert best.late() == pytest.approx([0.25])  # 0.3 after six of eight steps
    best.distance = [0.0]
    assert best.late() == [0.0]


def test_a_single_word_has_nothing_to_deal_out(by_hand: Any) -> None:
    toy = by_hand({"cat": (1.0, 1.0)}, "cat")
    found = adversary(toy.cases, search=Search(steps=3))
    assert np.isnan(found.distance).all()
    (line,) = found.findings()
    assert (line.n, line.extra["texts left out"]) == (0, 1.0)
    json.dumps(found.to_dict(), allow_nan=False)


def test_causal_models_move_only_what_lies_behind(shared: Any) -> None:
    cases = prepare(shared("gpt2").model, ["the cat sat on"])
    case = cases.cases[0]
    layers, _ = _layers(cases, case, shown(cases, case))
    size = len(case.x)
    expected = torch.ones(size, size).tril().bool()
    expected[0] = False  # the first row sees one key: nothing to deal out
    assert torch.equal(layers[0].free[0], expected)
    found = adversary(cases, search=Search(steps=5, starts=2, draws=4))
    assert (found.change <= EPSILON).all()
    assert (found.distance <= LN2).all()


def test_models_that_take_one_row_at_a_time(shared: Any) -> None:
    """GPT-2's classifier without padding: the same search, pass by pass."""
    cases = prepare(shared("gpt2-classifier").model, ["the cat sat on"])
    assert cases.model.backend.one_row_at_a_time
    found = adversary(cases, search=Search(steps=4, starts=2, draws=2))
    assert (found.distance > 0).all()
    assert (found.change <= EPSILON).all()


def test_the_same_seed_finds_the_same_and_says_it_in_json(by_hand: Any) -> None:
    toy = by_hand({"cat": (1.0, 1.0), "dog": (0.0, -1.0), "sat": (0.0, 0.5)}, "cat dog sat")
    search, state = Search(steps=10), torch.get_rng_state()
    some, again, other = (adversary(toy.cases, seed=seed, search=search) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(some.distance, again.distance)
    assert not np.array_equal(some.random, other.random)
    read = json.loads(json.dumps(some.to_dict(), allow_nan=False))
    assert read["distance"] == some.distance.tolist()
    assert read["findings"][0]["test"] == "adversary"
    assert some.cost.forwards > some.cost.backwards > 0
