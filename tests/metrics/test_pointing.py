"""Pointing metrics against values by hand, their controls against chance, the grid game by closed forms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import heedful
from heedful.core.attribution import Attribution
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.explainers.picture_controls import centre_bump
from heedful.metrics import pointing as p
from heedful.metrics.grid_pointing import cell_mask, grid_picture, grid_pointing
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.score import ScoreInputs, score_explanations
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader

MASK = np.array([1, 1, 0, 0, 0, 0, 0, 0], dtype=bool)


def test_hits_are_shared_by_ties() -> None:
    assert p.hit(np.array([3.0, 0, 1, 0, 0, 0, 0, 0]), MASK) == 1
    assert p.hit(np.array([3.0, 0, 9, 0, 0, 0, 0, 0]), MASK) == 0
    assert p.hit(np.array([3.0, 0, 3, 3, 0, 0, 0, 0]), MASK) == pytest.approx(1 / 3)
    assert p.hit(np.array([3.0, 0, 3 + 1e-12, 3, 0, 0, 0, 0]), MASK) == pytest.approx(1 / 3)  # rounding
    assert p.hit(np.full(8, 5.0), MASK) == 0.25  # a constant map has chance by area
    assert p.hit(np.array([-1.0, -2, -3, -4, -5, -6, -7, -8]), MASK) == 0.25  # nothing speaks for the class


def test_mass_counts_positive_scores() -> None:
    assert p.mass(np.array([1.0, 2, 3, -5, 0, 0, 0, 0]), MASK) == 0.5
    assert p.mass(np.array([-1.0, -2, 3, 0, 0, 0, 0, 0]), MASK) == 0
    assert p.mass(np.zeros(8), MASK) == 0.25


def test_overlap_by_hand() -> None:
    assert p.overlap(np.array([5.0, 4, 3, 2, 1, 0, 0, 0]), MASK) == 1
    assert p.overlap(np.array([5.0, 0, 4, 2, 1, 0, 0, 0]), MASK) == pytest.approx(1 / 3)
    assert p.overlap(np.array([0.0, 0, 4, 5, 1, 0, 0, 0]), MASK) == 0
    # two of three that tie at the border are wanted one more: of atom 1, 2, 3 a third is in the mask
    both = 1 + 1 / 3
    assert p.overlap(np.array([5.0, 4, 4, 4, 0, 0, 0, 0]), MASK) == pytest.approx(both / (4 - both))


def test_chance_is_what_random_scores_get() -> None:
    """40 atoms of 400 are in the mask: the means of random maps are within four standard errors of chance."""
    rng = np.random.default_rng(5)
    mask = np.zeros(400, dtype=bool)
    mask[rng.permutation(400)[:40]] = True
    maps = rng.standard_normal((4000, 400))
    subject: Any = SimpleNamespace(mask=mask, item=SimpleNamespace(x=SimpleNamespace(mask_length=400)))
    for value, expected, slack in (
        (p.hit, p.area(subject), 0.0),
        (p.mass, p.area(subject), 0.0),
        (p.overlap, p.area_iou(subject), 2e-3),  # the mean of a ratio is not the ratio of means
    ):
        results = np.array([value(scores, mask) for scores in maps])
        assert abs(results.mean() - expected) < 4 * results.std() / len(results) ** 0.5 + slack


class Corner(nn.Module):
    """Only the lower right quarter speaks for class 1."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        value = pixels[:, :, 8:, 8:].mean((1, 2, 3))
        return torch.stack([-value, value], 1)


def asked() -> tuple[ImageModel, Any, Target]:
    model = ImageModel(Corner(), ImageReader((16, 16)))
    x = model.encode(np.random.default_rng(1).integers(60, 200, (16, 16, 3)).astype(np.uint8))
    return model, x, model.target(x, 1)


def test_scores_beside_chance_random_scores_and_the_centre() -> None:
    model, x, target = asked()
    items = [
        run_explainer("grad-x-input", model, x, target),
        run_explainer("centre", model, x, target),
        run_explainer("occlusion", model, x, target, unit="grid:4"),
    ]
    mask = np.zeros((16, 16), dtype=bool)
    mask[8:, 8:] = True
    names = ["pointing", "pointing-mass", "pointing-iou"]
    scores = score_explanations(model, items, names, known=ScoreInputs(mask=mask.ravel()))
    table = {(s.metric, s.method): s for s in scores}
    assert len(table) == 9
    for name in names:
        assert table[name, "grad-x-input"].value == pytest.approx(1)
        chance = 0.25 if name != "pointing-iou" else 0.25 / 1.75
        assert [s.control for s in scores if s.metric == name] == pytest.approx([chance] * 3)
        assert len(table[name, "centre"].orders) == 8  # random scores stand beside it too
    assert table["pointing", "centre"].value == 0.25  # four equal atoms in the middle, one of them inside
    assert table["pointing-mass", "centre"].value == pytest.approx(0.25)
    assert table["pointing", "occlusion"].value == 1


def test_without_a_mask_there_is_no_value_and_a_wrong_mask_is_refused() -> None:
    model, x, target = asked()
    item = run_explainer("grad-x-input", model, x, target)
    assert score_explanations(model, [item], ["pointing"]) == []
    for empty in (np.zeros(256, dtype=bool), np.ones(256, dtype=bool)):
        assert score_explanations(model, [item], ["pointing"], known=ScoreInputs(mask=empty)) == []
    with pytest.raises(heedful.HeedfulError, match="the mask has 9 places: the input has 256 pixels"):
        score_explanations(model, [item], ["pointing"], known=ScoreInputs(mask=np.ones(9, dtype=bool)))


def test_units_are_painted_whole() -> None:
    """Scores of cells of unlike size: the cell with the highest score is hit, however large it is."""
    model, x, target = asked()
    units = x.units("grid:3")  # cells of 5 and 6 atoms per side
    scores = np.zeros(9)
    scores[4], scores[0] = 1.0, 0.9  # in the middle a cell that is larger, so its atoms have less each
    item = Attribution(x, target, scores, over="grid:3")
    inside = units.owner == 4
    subject = MetricInput(model, item, lambda *_: item, mask=inside)
    rng = np.random.default_rng(0)
    assert p.pointing(subject, rng) == 1
    assert p.pointing_mass(subject, rng) == pytest.approx(1 / 1.9)
    assert p.pointing_iou(subject, rng) == 1


def test_the_bump_is_highest_in_the_middle() -> None:
    bump = centre_bump(9, 5)
    assert np.unravel_index(bump.argmax(), bump.shape) == (4, 2)
    np.testing.assert_allclose(bump, bump[::-1, ::-1], rtol=1e-12)
    assert bump[0, 2] == pytest.approx(np.exp(-2))  # two standard deviations away


class Brightness(nn.Module):
    """Class k is the mean of channel k; class 3 the negative sum."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        means = pixels.mean((2, 3))
        return torch.cat([means, -means.sum(1, keepdim=True)], 1)


def test_grid_game_by_hand() -> None:
    model = ImageModel(Brightness(), ImageReader((16, 16)))
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200), (0, 0, 0)]
    four = [np.full((16, 16, 3), colour, dtype=np.uint8) for colour in colours]
    whole = grid_picture(four, (16, 16))
    assert whole.shape == (16, 16, 3)
    assert whole[0, 0].tolist() == [200, 0, 0]
    assert whole[15, 0].tolist() == [0, 0, 200]
    # gradient × input of class k is the colour k: all of it in cell k. Black has none: chance
    np.testing.assert_allclose(grid_pointing(model, four, range(4), "grad-x-input"), [1, 1, 1, 0.25])
    # what does not depend on the class has a mean of 1/4
    assert grid_pointing(model, four, range(4), "edges").mean() == pytest.approx(0.25)
    assert grid_pointing(model, four, range(4), "centre") == pytest.approx(np.full(4, 0.25))
    covered = sum(cell_mask(cell, 16, 16).astype(int) for cell in range(4))
    assert (np.asarray(covered) == 1).all()


def test_grid_game_refuses_what_it_cannot_ask() -> None:
    model = ImageModel(Brightness(), ImageReader((16, 16)))
    four = [np.zeros((8, 8, 3), dtype=np.uint8)] * 4
    with pytest.raises(heedful.HeedfulError, match="four different classes"):
        grid_pointing(model, four, [0, 1, 2, 2], "edges")
    with pytest.raises(heedful.HeedfulError, match="four cells"):
        grid_pointing(model, four[:3], [0, 1, 2, 3], "edges")
