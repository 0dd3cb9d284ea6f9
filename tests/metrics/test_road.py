"""ROAD against closed forms; its published errors; both orders; the smoothed control."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import heedful
from heedful.checks import linear_model
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.metrics import road as r
from heedful.metrics.score import score_explanations
from heedful.modalities.image_operators import imputed
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader
from heedful.stats.linear_imputation import between, imputed_row

TEXT = "the cat sat on the mat"


def test_one_removed_place_is_the_weighted_mean_of_its_neighbours() -> None:
    picture = np.random.default_rng(1).random((7, 7, 3))
    gone = np.zeros((7, 7), dtype=bool)
    gone[3, 3] = True
    edges = picture[2, 3] + picture[4, 3] + picture[3, 2] + picture[3, 4]
    corners = picture[2, 2] + picture[2, 4] + picture[4, 2] + picture[4, 4]
    np.testing.assert_allclose(imputed(picture, gone)[3, 3], edges / 6 + corners / 12, rtol=1e-12)
    gone[:] = False
    gone[0, 0] = True  # in a corner: two edges and a corner, renormalised
    expected = ((picture[0, 1] + picture[1, 0]) / 6 + picture[1, 1] / 12) / (2 / 6 + 1 / 12)
    np.testing.assert_allclose(imputed(picture, gone)[0, 0], expected, rtol=1e-12)


def test_all_removed_but_one_is_constant() -> None:
    picture = np.random.default_rng(2).random((6, 5, 3))
    gone = np.ones((6, 5), dtype=bool)
    gone[2, 1] = False
    np.testing.assert_allclose(imputed(picture, gone), np.tile(picture[2, 1], (6, 5, 1)), rtol=1e-9)
    vectors = np.random.default_rng(3).normal(size=(6, 4))
    line = np.ones(6, dtype=bool)
    line[4] = False
    np.testing.assert_allclose(between(vectors, line), np.tile(vectors[4], (6, 1)))


def test_one_removed_vector_is_the_mean_of_both_neighbours() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(5, 3))
    gone = np.array([False, False, True, False, False])
    got = imputed_row(vectors, gone, np.zeros(3), np.zeros(3), rng)
    np.testing.assert_allclose(got[2], (vectors[1] + vectors[3]) / 2, rtol=1e-12)
    np.testing.assert_array_equal(got[~gone], vectors[~gone])
    noisy = imputed_row(vectors, gone, np.zeros(3), np.full(3, 0.01), np.random.default_rng(5))
    assert 0 < np.abs(noisy[2] - got[2]).max() < 0.06  # six standard deviations
    again = imputed_row(vectors, gone, np.zeros(3), np.full(3, 0.01), np.random.default_rng(5))
    np.testing.assert_array_equal(noisy, again)


def test_both_orders_and_what_the_authors_call_lerf() -> None:
    scores, rng = np.array([5.0, 4, 3, 2, 1]), np.random.default_rng(0)
    morf, lerf = (r.kept(scores, order, (0.2, 0.4), rng) for order in r.ORDERS)
    assert morf.tolist() == [[False, True, True, True, True], [False, False, True, True, True]]
    assert lerf.tolist() == [[True, True, True, True, False], [True, True, True, False, False]]
    # theirs at p keeps the top p alone; that is ours at 1 - p
    theirs = scores >= np.sort(scores)[-1]  # p = 0.2: the top one of five
    ours = r.kept(scores, "lerf", (1 - 0.2,), rng)[0]
    np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(heedful.HeedfulError, match="unknown order 'linear'"):
        r.kept(scores, "linear", (0.2,), rng)


class Mean(nn.Module):
    """The mean colour of the left half."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        left = pixels[..., :4].mean((1, 2, 3))
        return torch.stack([left, -left], 1)


def picture_model() -> tuple[ImageModel, Any, Any]:
    model = ImageModel(Mean(), ImageReader((8, 8)))
    pixels = np.full((8, 8, 3), 20, dtype=np.uint8)
    pixels[2:4, 0:2] = 240  # one bright cell in the left half
    x = model.encode(pixels)
    return model, x, model.target(x, 0)


def test_a_picture_by_hand() -> None:
    """Removing the bright cell fills it from the dark around it, up to noise of 0.01; the rest is dark."""
    model, x, target = picture_model()
    scores = np.zeros(16)
    scores[4] = 1.0
    keep = r.kept(scores, "morf", (1 / 16,), np.random.default_rng(0))
    assert not keep[0, 4]
    full, out = r.filled_values(Session(model), x, target, np.stack([np.ones(16, bool), keep[0]]), "grid:4")
    assert full == pytest.approx((28 * 20 + 4 * 240) / 32 / 255, rel=1e-6)
    assert out == pytest.approx(20 / 255, abs=4 * 0.01 * 12**0.5 / 96)  # mean of 96 colours, 12 with noise


def test_the_right_scores_win_in_both_orders() -> None:
    model, x, target = picture_model()
    item = run_explainer("occlusion", model, x, target, unit="grid:4")
    scores = score_explanations(model, [item], ["road-morf", "road-lerf"], unit="grid:4")
    table = {score.metric: score for score in scores}
    assert table["road-morf"].value > table["road-morf"].control
    assert table["road-lerf"].value < table["road-lerf"].control


def test_text_is_filled_in_its_embeddings() -> None:
    """f is the sum of first coordinates: without word i it is the rest plus the mean of both neighbours."""
    model = linear_model()
    x = model.encode(TEXT)
    target = model.target(x, 0)
    weights = model.lookup(x, target)[:, 0].double().numpy()
    keep = np.ones((2, 6), dtype=bool)
    keep[1, 1] = False
    full, out = r.filled_values(Session(model), x, target, keep, "word")
    assert full == pytest.approx(weights.sum())
    expected = weights.sum() - weights[1] + (weights[0] + weights[2]) / 2
    assert out == pytest.approx(expected, abs=5 * r.NOISE * weights.std())
    assert out != expected  # the noise is there
    item = run_explainer("occlusion", model, x, target)
    names = {score.metric for score in score_explanations(model, [item], ["road-morf", "road-lerf"])}
    assert names == {"road-morf", "road-lerf"}


def test_a_function_of_texts_has_no_value() -> None:
    model = heedful.load(lambda texts: [float(len(text)) for text in texts])
    x = model.encode("one two three")
    item = run_explainer("occlusion", model, x, model.target(x))
    assert score_explanations(model, [item], ["road-morf"]) == []


def test_over_inputs_with_controls() -> None:
    model, x, target = picture_model()
    truth = run_explainer("occlusion", model, x, target, unit="grid:4").scores
    other = model.encode(255 - x.pixels)
    found = r.road(
        Session(model),
        [x, other],
        {"truth": [truth, -truth], "wrong": [-truth, truth]},
        unit="grid:4",
        labels=[0, 0],
        shares=(0.25, 0.5),
    )
    assert {curve.method for curve in found.curves} == {
        f"{name}{more}" for name in ("truth", "wrong", "random") for more in ("", ", smoothed")
    }
    assert found["truth"].combined > found["random"].combined > found["wrong"].combined
    assert found["truth"].accuracy["lerf"] == (1.0, 1.0)
    assert found["truth"].combined == pytest.approx(-found["wrong"].combined, abs=1e-3)  # orders exchanged
    assert found.tau == 1
    assert "τ = 1.00" in str(found)


def test_the_words_claim_only_what_was_tested() -> None:
    """A control with the highest mean is not called best; smoothing that gains by chance is not told."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 24))
    each = {
        "a": noise[0] + 3,
        "a, smoothed": noise[0] + 4,
        "b": noise[1],
        "b, smoothed": noise[1] + 0.01 * noise[2],
    }
    each |= {"random": noise[2], "random, smoothed": noise[3]}
    better, smoothing = r._shown(each, 0)
    assert (better, smoothing) == (("a",), ("a",))
    few = {name: values[:19] for name, values in each.items()}
    assert r._shown(few, 0) == ((), ())

    def curve(name: str, mean: float) -> r.RoadCurve:
        return r.RoadCurve(name, {}, {}, mean, (mean - 0.1, mean + 0.1))

    curves = tuple(curve(name, mean) for name, mean in (("random, smoothed", 5.0), ("a", 3.0), ("b", 0.0)))
    told = str(r.Road((0.5,), curves, 1.0, 24, better, smoothing))
    assert "Highest mean of both orders on 24 inputs: a, 3 (2.9 to 3.1)." in told
    assert "Better than random scores and smoothed random scores: a." in told
    assert "Not shown better than random scores and smoothed random scores: b." in told
    assert "Shown to be better when smoothed, which adds no information: a." in told
    few_told = str(r.Road((0.5,), curves, 1.0, 5))
    assert "at least 20 inputs are needed" in few_told
    assert "etter than random" not in few_told
    assert "best" not in told


def test_right_answers_are_counted_with_many_classes() -> None:
    """Thirty classes; class 7 leads as long as the bright cell is there, else class 9 does."""

    class Many(nn.Module):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            bright = pixels[:, :, 2:4, 0:2].mean((1, 2, 3))
            others = torch.zeros(len(pixels), 30)
            others[:, 7], others[:, 9] = bright, 0.5
            return others

    model = ImageModel(Many(), ImageReader((8, 8)))
    pixels = np.full((8, 8, 3), 20, dtype=np.uint8)
    pixels[2:4, 0:2] = 240
    truth = np.zeros(16)
    truth[4] = 1.0
    found = r.road(
        Session(model), [model.encode(pixels)], {"truth": [truth]}, unit="grid:4", labels=[7], shares=(0.25,)
    )
    assert found["truth"].accuracy == {"morf": (0.0,), "lerf": (1.0,)}
    assert found["truth"].value["lerf"][0] == pytest.approx(240 / 255, rel=1e-6)
