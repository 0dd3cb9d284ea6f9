"""Glass boxes against scikit-learn and scipy; gold recall on a corpus whose deciding words are planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import heedful
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.retraining import glassbox_models
from heedful.retraining.gold_features import (
    GoldSettings,
    Recall,
    function_of,
    gold_recall,
    interval,
    recall,
    words_of,
)

POLAR = [f"polar{j}" for j in range(6)]


def corpus(count: int, seed: int = 0, words: int = 1500, length: int = 120) -> tuple[list[str], list[int]]:
    """Words drawn by Zipf's law; polar ones are there more often under one label than under the other."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, words + 1)
    labels = rng.integers(2, size=count)
    texts = []
    for label in labels:
        plain = [f"w{j}" for j in rng.choice(words, size=length, p=share / share.sum())]
        odd = [w for j, w in enumerate(POLAR) if rng.random() < (0.5 if (j % 2 == 1) == bool(label) else 0.1)]
        texts.append(" ".join(rng.permutation([*plain, *odd])))
    return texts, labels.tolist()


TEXTS, LABELS = corpus(400)
SETS = [frozenset(text.split()) for text in TEXTS]
VOCABULARY = glassbox_models.common(SETS, 300)
X = glassbox_models.presence(SETS, VOCABULARY)
Y = np.array(LABELS, dtype=np.float64)


def test_presence_by_hand() -> None:
    found = glassbox_models.presence([frozenset({"b", "z"}), frozenset(), frozenset({"a", "b"})], ["a", "b"])
    assert found.toarray().tolist() == [[0, 1], [0, 0], [1, 1]]


def test_common_words_are_counted_by_text() -> None:
    texts = [frozenset("ab"), frozenset("b"), frozenset("bca")]
    assert glassbox_models.common(texts, 9, least=2) == ["b", "a"]
    assert glassbox_models.common(texts, 1, least=1) == ["b"]


def test_the_first_choice_is_pearsons_chi_square() -> None:
    """With a constant alone, Rao's test of a word is the chi-square test of its table with the labels."""
    p = np.full(len(Y), Y.mean())
    found = glassbox_models.score_test(X, Y, np.ones((len(Y), 1)), p)
    for j in range(1, 300, 7):
        there = X[:, [j]].toarray()[:, 0]
        if there.all():  # a word of every text
            assert found[j] == 0
            continue
        table = [[np.sum((there == a) & (b == Y)) for b in (0, 1)] for a in (0, 1)]
        assert found[j] == pytest.approx(stats.chi2_contingency(table, correction=False).statistic)


def test_later_choices_discount_what_is_known() -> None:
    """A chosen word adds nothing more; another adds what the joint score statistic of all words says."""
    z = np.column_stack([np.ones(len(Y)), X[:, [3]].toarray()])
    p = 1 / (1 + np.exp(-z @ glassbox_models.newton(z, Y, ridge=0.0)))
    found = glassbox_models.score_test(X, Y, z, p)
    assert found[3] == 0
    extended = np.column_stack([z, X[:, [8]].toarray()])
    information = extended.T @ (extended * (p * (1 - p))[:, None])
    slope = extended.T @ (Y - p)
    assert found[8] == pytest.approx(slope @ np.linalg.solve(information, slope), rel=1e-6)


SOLVER = "newton-cholesky"  # the default stops some 1e-5 off, more on some machines than on others


@pytest.mark.parametrize("ridge", [1.0, 0.1])
def test_coefficients_are_scikit_learns(ridge: float) -> None:
    dense = X[:, list(range(12))].toarray()
    found = glassbox_models.newton(np.column_stack([np.ones(len(Y)), dense]), Y, ridge)
    model = LogisticRegression(C=1 / ridge, tol=1e-12, max_iter=10_000, solver=SOLVER).fit(dense, Y)
    np.testing.assert_allclose(found, [*model.intercept_, *model.coef_[0]], atol=1e-5)


def test_the_regression_is_sparse_and_finds_what_was_planted() -> None:
    made = glassbox_models.fit_logistic(X, Y, VOCABULARY, 6)
    assert set(made.words) == set(POLAR)
    assert all(
        (weight > 0) == (int(word[-1]) % 2 == 1)
        for word, weight in zip(made.words, made.weights, strict=True)
    )
    columns = [VOCABULARY.index(word) for word in made.words]
    model = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(X[:, columns].toarray(), Y)
    wanted = model.predict_proba(X[:, columns].toarray())[:, 1]
    np.testing.assert_allclose(made.probability(SETS), wanted, atol=1e-5)


def test_words_that_add_nothing_are_not_taken() -> None:
    """One of two words is in every text: the second tells what the first has told, a third is everywhere."""
    texts = [frozenset({"fine" if i % 2 else "poor", "film"}) for i in range(40)]
    vocabulary = ["film", "fine", "poor"]
    made = glassbox_models.fit_logistic(
        glassbox_models.presence(texts, vocabulary), np.arange(40) % 2.0, vocabulary
    )
    assert made.words in (("fine",), ("poor",))


@pytest.mark.parametrize(("depth", "leaf"), [(1, 5), (3, 5), (4, 20)])
def test_the_tree_is_scikit_learns(depth: int, leaf: int) -> None:
    """Same predictions: unless two words split alike, the greedy tree is one and the same."""
    made = glassbox_models.fit_tree(X, Y, VOCABULARY, depth, leaf)
    model = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=leaf, random_state=0).fit(X.toarray(), Y)
    wanted = model.predict_proba(X.toarray())[:, 1]
    if depth < 4:  # the splits near the root are of many texts, and without ties
        np.testing.assert_allclose(made.probability(SETS), wanted)
    impurity = [np.mean(p * (1 - p)) for p in (made.probability(SETS), wanted)]
    assert impurity[0] == pytest.approx(impurity[1], rel=0.02)  # a tie may be broken otherwise further down


def test_a_tree_asks_no_more_than_it_may() -> None:
    made = glassbox_models.fit_tree(X, Y, VOCABULARY, 10)
    assert max(len(made.path(text)) - 1 for text in SETS) <= 10
    shares = {id(made.path(text)[-1]): made.path(text)[-1].share for text in SETS}
    for text_node, share in shares.items():
        here = [y for text, y in zip(SETS, Y, strict=True) if id(made.path(text)[-1]) == text_node]
        assert len(here) >= glassbox_models.MIN_LEAF_TEXTS
        assert share == pytest.approx(np.mean(here))


def test_what_decides_about_a_text() -> None:
    tree = glassbox_models.Tree(
        0.5,
        "a",
        glassbox_models.Tree(0.2, "b", glassbox_models.Tree(0.1), glassbox_models.Tree(0.3)),
        glassbox_models.Tree(0.9),
    )
    assert tree.deciding(frozenset("abc")) == {"a"}, "b is never asked about"
    assert tree.deciding(frozenset("bc")) == {"b"}
    assert tree.deciding(frozenset("c")) == frozenset()
    assert tree.probability([frozenset("abc"), frozenset("bc"), frozenset("c")]).tolist() == [0.9, 0.3, 0.1]
    line = glassbox_models.Logistic(("a", "b"), np.array([1.0, -2.0]), 0.5)
    assert line.deciding(frozenset("bc")) == {"b"}
    assert line.probability([frozenset("b")])[0] == pytest.approx(1 / (1 + np.exp(1.5)))


def test_words_of_a_text() -> None:
    assert words_of("Don't STOP -- don't, I say: 1.5 stop!") == ["don't", "stop", "i", "say", "1.5"]


def test_recall_by_hand() -> None:
    model: Any = heedful.load(function_of(glassbox_models.Logistic(("b", "d"), np.ones(2), 0.0)))
    x = model.encode("a b c d e")
    item = Attribution(x, model.target(x), np.array([0.0, -3.0, 2.0, 1.0, 0.0]))
    rng = np.random.default_rng(0)
    gold = frozenset("bd")
    assert [recall(item, gold, top, rng) for top in (1, 2, 3)] == [0.5, 0.5, 1.0]


def test_equal_scores_find_no_more_than_chance() -> None:
    model: Any = heedful.load(function_of(glassbox_models.Logistic(("a",), np.ones(1), 0.0)))
    x = model.encode("a b c d e")
    item = Attribution(x, model.target(x), np.zeros(5))
    rng = np.random.default_rng(0)
    found = np.mean([recall(item, frozenset("a"), 2, rng) for _ in range(2000)])
    assert found == pytest.approx(0.4, abs=0.04)  # four standard errors


def test_the_interval_is_of_the_mean() -> None:
    values = np.random.default_rng(0).random(200)
    low, high = interval(values, 0)
    wanted = stats.norm.interval(0.95, values.mean(), stats.sem(values))
    np.testing.assert_allclose([low, high], wanted, atol=0.01)  # 2,000 draws: a few per cent of the width
    assert np.isnan(interval(values[:1], 0)).all()


@pytest.mark.parametrize("box", ["logistic", "tree"])
def test_methods_that_remove_words_find_what_decides(box: str) -> None:
    found = gold_recall(["occlusion", "random"], TEXTS, LABELS, GoldSettings(box=box, explained=25))
    by_name = {item.method: item for item in found}
    # one word out of a tree may leave the answer as it is: two leaves can say the same
    assert by_name["occlusion"].recall > (0.95 if box == "logistic" else 0.6)
    assert by_name["occlusion"].interval[0] > by_name["random"].random
    assert by_name["random"].recall == pytest.approx(by_name["random"].random, abs=0.2)
    assert by_name["random"].random == pytest.approx(10 / 80, abs=0.05)  # some 80 distinct words a text
    assert by_name["occlusion"].accuracy > 0.7
    assert "random order 0." in str(by_name["occlusion"])


def test_lime_finds_what_decides() -> None:
    (found,) = gold_recall(["lime"], TEXTS, LABELS, GoldSettings(explained=5))
    assert isinstance(found, Recall)
    assert found.recall > 0.9
    assert found.n == 5


def test_held_out_texts_are_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    fit = glassbox_models.fit_logistic

    def spy(x: Any, *rest: Any) -> Any:
        seen.append(x.shape[0])
        return fit(x, *rest)

    monkeypatch.setattr("heedful.retraining.gold_features.BOXES", {"logistic": spy})
    gold_recall(["random"], TEXTS, LABELS, GoldSettings(explained=3))
    assert seen == [320]


def test_the_same_seed_gives_the_same_recall() -> None:
    first, again = (
        gold_recall(["random"], TEXTS, LABELS, GoldSettings(explained=20), seed=4) for _ in range(2)
    )
    assert first == again


def test_mistakes_are_told() -> None:
    with pytest.raises(HeedfulError, match="unknown glass box"):
        gold_recall(["random"], TEXTS, LABELS, GoldSettings(box="forest"))
    with pytest.raises(HeedfulError, match="label 0 or 1"):
        gold_recall(["random"], TEXTS, [0] * len(TEXTS))
    with pytest.raises(HeedfulError, match="no held-out text"):
        gold_recall(["random"], [f"only{i}" for i in range(40)], [0, 1] * 20)


@pytest.mark.slow
@pytest.mark.parametrize("box", ["logistic", "tree"])
def test_the_classic_setting(box: str) -> None:
    """A long corpus by Zipf's law: LIME above 0.9, by default and as published."""
    texts, labels = corpus(1000, seed=1, words=8000, length=150)
    published = {"lime": {"variant": "published", "operator": "delete", "samples": 1000}}
    for params in (None, published):
        (found,) = gold_recall(["lime"], texts, labels, GoldSettings(box=box, explained=40), params=params)
        assert found.n == 40
        assert found.recall > 0.9
        assert found.interval[0] > 3 * found.random
        assert found.random < 0.2
