"""LIME: the published variant against the lime package, the default one against the exact limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import heedful
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.explainers.lime import estimate, published_fit, published_masks
from heedful.nn import OneLayerClassifier, OneLayerConfig
from heedful.stats import lime_limit, ratio_game
from heedful.stats.mask_sampling import Estimate, MaskPairs

TEXT = "the cat sat on the mat. hello world! don't stop, a dog ran to the low house"  # 20 words
SHORT = "the cat sat on"


class Heads:
    """A one-layer model over d words, as the mean of its heads' ratio games."""

    def __init__(self, d: int, sharpness: float, seed: int, heads: int = 3) -> None:
        rng = np.random.default_rng(seed)
        self.d, self.games = d, []
        for _ in range(heads):
            s, u, unknown = rng.standard_normal((3, d + 2))
            unknown_s, unknown_u = unknown[0] + 0.1 * unknown, unknown[1] + 0.1 * unknown[::-1]
            scores = (sharpness * s, sharpness * unknown_s)
            groups = [[j + 1] for j in range(d)]
            self.games.append(ratio_game.from_scores(scores, (u, unknown_u), groups))

    def __call__(self, keep: np.ndarray) -> np.ndarray:
        return np.mean([game(keep) for game in self.games], axis=0)


def sampled(f: Callable[[np.ndarray], np.ndarray], d: int, rows: int, seed: int) -> Estimate:
    keep, drawn = MaskPairs(d, np.ones(d // 2), seed).first((rows - 2) // 2)
    return estimate(keep, f(keep), float(f(np.zeros((1, d), dtype=bool))[0]), drawn)


def one_layer(tokenizer: Any, sharpness: float = 1.0) -> Any:
    config = OneLayerConfig(len(tokenizer), heads=3, width=12, d_att=6, d_out=5, context=64, pad_id=3)
    module = OneLayerClassifier(config, 0).double()
    with torch.no_grad():
        module.query *= 10 * sharpness
        module.key *= 10
        module.readout *= 10
    return heedful.load(module, tokenizer=tokenizer)


@pytest.fixture(params=[1.0, 4.0], ids=["diffuse", "peaked"])
def model(request: pytest.FixtureRequest, tokenizer_of: Callable[[str], Any]) -> Any:
    return one_layer(tokenizer_of("wordpiece"), request.param)


def run(model: Any, name: str = "lime", text: str = TEXT, **params: Any) -> Any:
    x = model.encode(text)
    return run_explainer(name, model, x, model.target(x), **params)


# --- published ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [25, 8, 75])
@pytest.mark.parametrize("features", [1, 4, 6, 7, 10, 30])
def test_published_fit_is_the_lime_packages(features: int, width: int) -> None:
    from lime.lime_base import LimeBase
    from sklearn.metrics import pairwise_distances

    f = Heads(14, 2.0, seed=2)  # greedy selection and highest weights choose other words here
    keep = published_masks(14, 300, np.random.default_rng(0))
    keep[7] = False  # the empty document, whose cosine distance is 0/0
    data, values = keep.astype(float), f(keep)
    distances = pairwise_distances(data, data[:1], metric="cosine").ravel() * 100
    base = LimeBase(lambda dist: np.sqrt(np.exp(-(dist**2) / width**2)), random_state=0)
    _, pairs, _, _ = base.explain_instance_with_data(data, values[:, None], distances, 0, features)
    want = np.zeros(14)
    for j, weight in pairs:
        want[j] = weight
    found, stderr = published_fit(keep, values, features, width / 100)
    np.testing.assert_allclose(found, want, atol=1e-6)
    np.testing.assert_array_equal(found != 0, stderr > 0)


def test_published_on_the_lime_packages_own_rows() -> None:
    from lime.lime_text import LimeTextExplainer

    words = [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "mu",
    ]
    f = Heads(len(words), 2.0, seed=2)
    seen: list[np.ndarray] = []

    def classifier(texts: list[str]) -> np.ndarray:
        keep = np.array([[word in text.split() for word in words] for text in texts])
        seen.append(keep)
        return np.column_stack([-f(keep), f(keep)])

    theirs = LimeTextExplainer(random_state=0).explain_instance(" ".join(words), classifier, num_samples=400)
    want = np.zeros(len(words))
    for j, weight in theirs.as_map()[1]:
        want[j] = weight
    np.testing.assert_allclose(published_fit(seen[0], f(seen[0]), 10)[0], want, atol=1e-6)


REPEATED = "not bad not good not dull but bad in parts and good in others or not bad at all they say"
WEIGHTS = {"not": -1.0, "bad": -2.0, "good": 1.5, "dull": -0.5, "all": 0.3}


def counted(texts: list[str]) -> np.ndarray:
    """Two classes; words count, and "not" turns what "bad" adds."""
    words = [text.split() for text in texts]
    score = np.array([sum(WEIGHTS.get(word, 0.1) for word in w) for w in words])
    score = score + np.array([3.0 * ("not" in w and "bad" in w) for w in words])
    return np.column_stack([-score, score])


@pytest.mark.parametrize(("features", "width"), [(10, 25), (5, 25), (8, 60)])
def test_published_explainer_is_the_lime_package_on_repeated_words(
    monkeypatch: pytest.MonkeyPatch, features: int, width: int
) -> None:
    """One indicator a distinct word, all places of it removed at once: the package's bow=True."""
    from lime.lime_text import LimeTextExplainer

    words = list(dict.fromkeys(REPEATED.split()))
    seen: list[list[str]] = []

    def classifier(texts: list[str]) -> np.ndarray:
        seen.append([text.split() for text in texts])
        return counted(texts)

    theirs = LimeTextExplainer(kernel_width=width, random_state=0).explain_instance(
        REPEATED, classifier, num_features=features, num_samples=300
    )
    want = dict(theirs.as_list())
    keep = np.array([[word in text for word in words] for text in seen[0]])
    monkeypatch.setattr("heedful.explainers.lime.published_masks", lambda *_: keep)
    model = heedful.load(counted)
    x = model.encode(REPEATED)
    assert len(x.units("word")) > len(words)
    found = run_explainer(
        "lime",
        model,
        x,
        model.target(x, 1),
        variant="published",
        samples=300,
        features=features,
        bandwidth=width / 100,
        bag=True,
        operator="delete",
    )
    total: dict[str, float] = dict.fromkeys(words, 0.0)
    for word in found.words():
        total[word.text] += word.score
    np.testing.assert_allclose([total[w] for w in words], [want.get(w, 0.0) for w in words], atol=1e-6)


def test_a_bag_removes_every_place_of_a_word() -> None:
    model = heedful.load(counted)
    x = model.encode(REPEATED)
    found = run_explainer("lime", model, x, model.target(x, 1), bag=True, operator="delete", precision=0.01)
    not_ = [word.score for word in found.words() if word.text == "not"]
    assert len(not_) == 4
    assert len(set(not_)) == 1  # shared alike
    dull = [word.score for word in found.words() if word.text == "dull"]
    assert dull == pytest.approx([-0.5], abs=0.05)


@pytest.mark.parametrize("bandwidth", [0.15, 0.25, 1.0, float("inf")])
def test_every_bandwidth_has_its_exact_limit(model: Any, bandwidth: float) -> None:
    exact = run(model, "lime-exact", bandwidth=bandwidth)
    found = run(model, operator="unk", bandwidth=bandwidth, precision=0.0, samples=400)
    assert (np.abs(found.scores - exact.scores) <= 5 * found.stderr + 1e-12).all()
    size = np.linalg.norm(exact.scores)
    assert np.linalg.norm(found.scores - exact.scores) < 2 * np.linalg.norm(found.stderr) < 0.6 * size
    if bandwidth != 0.25:  # or the test could not tell
        assert np.linalg.norm(run(model, "lime-exact").scores - exact.scores) > 1e-4 * size
    if bandwidth != 1.0:
        return
    many = run(model, operator="unk", bandwidth=bandwidth, variant="published", samples=4000, features=20)
    assert np.linalg.norm(many.scores - exact.scores) < 0.3 * size  # ridge shrinks, rows are few


def test_published_rows_are_drawn_as_published() -> None:
    keep = published_masks(8, 20_001, np.random.default_rng(3))
    assert keep[0].all()
    removed = 8 - keep[1:].sum(1)
    counts = np.bincount(removed, minlength=9)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 1e-3  # sizes uniform on 1..8
    of_three = ~keep[1:][removed == 3]
    assert stats.chisquare(of_three.sum(0)).pvalue > 1e-3  # words alike


def test_published_explainer(model: Any) -> None:
    found = run(model, variant="published", samples=2000, operator="unk")
    words = np.array([word.score for word in found.words()])
    assert (words != 0).sum() == 10
    exact = np.array([word.score for word in run(model, "lime-exact").words()])
    top = np.argsort(-np.abs(exact))[:3]
    errors = np.array([word.stderr for word in found.words()])
    assert (np.abs(words - exact)[top] < 6 * errors[top] + 0.1 * np.abs(exact[top])).all()  # ridge, selection
    assert "not selected" in found.notes[0]


# --- the default ----------------------------------------------------------------------------------------


def test_default_is_near_the_exact_limit_and_says_how_near(model: Any) -> None:
    found, exact = run(model, operator="unk", precision=0.02, samples=400), run(model, "lime-exact")
    gap = np.abs(found.scores - exact.scores)
    assert (gap <= 5 * found.stderr + 1e-12).all()
    assert found.output == pytest.approx(exact.output)
    assert np.linalg.norm(gap) < 2 * np.linalg.norm(found.stderr) < 0.5 * np.linalg.norm(exact.scores)


def test_few_words_are_enumerated(model: Any) -> None:
    found = run(model, operator="unk", text=SHORT, precision=0.0)
    np.testing.assert_allclose(found.scores, run(model, "lime-exact", SHORT).scores, atol=1e-10)
    np.testing.assert_array_equal(found.stderr, 0)
    assert "no sampling error" in found.notes[0]


@pytest.mark.parametrize("d", [2, 5, 17, 40])
def test_linear_functions_are_recovered(d: int) -> None:
    slopes = np.random.default_rng(d).standard_normal(d)
    found = sampled(lambda z: 3 + z @ slopes, d, min(2**d, 4 * d + 20), seed=1)
    np.testing.assert_allclose(found.values, slopes, atol=1e-10)
    assert found.stderr.max() < 1e-10


def test_adjustment_keeps_the_limit_of_a_product() -> None:
    """z_0 z_1: coefficients known from alpha_2 and alpha_3, found from rows within their errors."""
    pairs = np.zeros((15, 15))
    pairs[0, 1] = pairs[1, 0] = 1
    found = sampled(lambda z: (z[:, 0] & z[:, 1]).astype(float), 15, 200, seed=0)
    want = lime_limit.limit_of_pairs(pairs, 0.25)[1]
    assert (np.abs(found.values - want) < 5 * found.stderr).all()
    assert np.abs(found.values - want).max() < 0.05


def test_precision_and_samples_stop_it(model: Any) -> None:
    loose, tight = run(model, precision=0.5), run(model, precision=0.01, samples=500)
    counted = heedful.explain(model, TEXT, "lime", params={"lime": {"precision": 0.01, "samples": 500}})
    assert counted["lime"].cost.forwards <= 500
    np.testing.assert_array_equal(counted["lime"].scores, tight.scores)  # the seed decides
    assert np.linalg.norm(loose.stderr) > np.linalg.norm(tight.stderr)
    assert np.linalg.norm(loose.stderr) <= 0.5 * np.linalg.norm(loose.scores)
    assert "not the 0.01" in tight.notes[0] or np.linalg.norm(tight.stderr) <= 0.01 * np.linalg.norm(
        tight.scores
    )
    assert (run(model, seed=1).scores != run(model, seed=2).scores).any()


def test_a_budget_is_kept(model: Any) -> None:
    found = heedful.explain(model, TEXT, "lime", budget=80, params={"lime": {"precision": 0.0}})
    assert found["lime"].cost.unique <= 80
    assert "lime" in heedful.explain(model, TEXT, ["lime", "grad-l2"], budget=20).skipped


@pytest.mark.parametrize("unit", ["token", "sentence"])
def test_units_and_operators(model: Any, unit: str) -> None:
    found = run(model, unit=unit, operator="delete")
    assert found.params["operator"] == "delete"
    assert len({float(found.scores[group].sum()) for group in found.x.units(unit)}) > 1
    assert not found.scores[list(found.x.special)].any()


@pytest.mark.parametrize("variant", ["adjusted", "published"])
@pytest.mark.parametrize("text", ["cat", "cat sat", "the cat sat"])
def test_short_texts(model: Any, text: str, variant: str) -> None:
    found = run(model, text=text, variant=variant, samples=50)
    assert np.isfinite(found.scores).all()
    assert found.scores.any()
    if text == "cat" and variant == "adjusted":
        drop = model.values(found.x, found.target, np.array([[True], [False]]))
        assert found.scores.sum() == pytest.approx(drop[0] - drop[1])


def test_wrong_wishes_are_refused(model: Any) -> None:
    with pytest.raises(HeedfulError, match="variant"):
        run(model, variant="classic")
    with pytest.raises(HeedfulError, match="at least 50 model inputs for 20 units"):
        run(model, samples=30)
