"""Labs on maps of pictures: their measures by hand, and claims that fail where nothing is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from heedful.core.lab_report import Claim, Paragraph
from heedful.labs import clip_saliency, gradcam_contrast, image_roar, saliency_sanity
from heedful.labs.base.registry import LabRun
from heedful.labs.data import photo_stamps, planted_cells
from heedful.labs.data.shape_scenes import shape_scenes
from heedful.labs.models import quick_mlp
from heedful.labs.models.picture_nets import SIDE, digit_cnn, pairs, recognised, single, wrapped
from heedful.metrics.pointing import mass
from heedful.retraining.roar_stats import RetrainingCurve, RightAnswers, Roar


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def test_pairs_are_two_digits_with_their_masks() -> None:
    data = pairs("test", 40, np.random.default_rng(0))
    assert data.pictures.shape == (40, SIDE, 2 * SIDE, 3)
    assert (data.labels[:, 0] != data.labels[:, 1]).all()
    assert not data.masks[:, 0, :, SIDE:].any()
    assert not data.masks[:, 1, :, :SIDE].any()
    assert (data.masks.any(1) == (data.pictures[..., 0] > 127)).all()


def test_recognised_needs_every_digit() -> None:
    data = pairs("test", 30, np.random.default_rng(0))

    class Knows(torch.nn.Module):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(pixels), 10).scatter_(1, torch.from_numpy(data.labels), 1.0)

    assert recognised(Knows(), data).all()
    missing = replace(data, labels=(data.labels + np.array([0, 1])) % 10)  # the second digit is another one
    assert recognised(Knows(), missing).mean() < 0.2
    half = single("test", 30, np.random.default_rng(0))
    assert recognised(digit_cnn(0), half).mean() < 0.6  # untrained


def test_mass_and_hit_by_hand() -> None:
    scores = np.zeros((SIDE, 2 * SIDE))
    assert mass(scores, gradcam_contrast.half_mask(0)) == 0.5
    scores[3, 4], scores[5, SIDE + 1], scores[0, 0] = 3.0, 1.0, -7.0
    assert mass(scores, gradcam_contrast.half_mask(0)) == 0.75
    assert mass(scores, gradcam_contrast.half_mask(1)) == 0.25
    assert gradcam_contrast.hit_in_half(scores, 0) == 1.0
    scores[5, SIDE + 1] = 3.0
    assert gradcam_contrast.hit_in_half(scores, 1) == 0.5


def test_edges_do_not_follow_the_class() -> None:
    data = pairs("test", 1, np.random.default_rng(0))
    model = wrapped(digit_cnn(0), 2 * SIDE)
    found = gradcam_contrast.measured(model, data.pictures[0], data.labels[0], ["edges"])["edges"]
    assert found == pytest.approx((0.5, 0.5, 0.0))


def test_maps_at_chance_hold_no_claim() -> None:
    rng = np.random.default_rng(0)
    found = {name: np.full((20, 3), 0.5) + rng.normal(0, 0.01, (20, 3)) for name in gradcam_contrast.METHODS}
    for numbers in found.values():
        numbers -= numbers.mean(0) - 0.5
    run = LabRun()
    gradcam_contrast.claims(run, found)
    assert held(run) == [False] * 5


def test_two_things_lie_in_their_halves_and_masks_say_where() -> None:
    """A white square and a red one with a transparent half, on gravel, which stays as it is elsewhere."""
    white = photo_stamps.Stamp("w", "", np.full((30, 30, 3), 255, np.uint8), np.ones((30, 30)), (3, 4))
    alpha = np.ones((40, 20))
    alpha[:20] = 0
    red = photo_stamps.Stamp("r", "", np.full((40, 20, 3), (255, 0, 0), np.uint8), alpha, (5,))
    for swapped in (False, True):
        picture, (first, second) = photo_stamps.side_by_side(white, red, np.random.default_rng(1), swapped)
        stones = photo_stamps.gravel(np.random.default_rng(1))
        left, right = (second, first) if swapped else (first, second)
        assert picture.shape == (224, 224, 3)
        assert not left[:, 112:].any()
        assert not right[:, :112].any()
        assert first.sum() == 112 * 112
        assert second.sum() == 56 * 56  # half of 112 x 56
        assert (picture[first] == 255).all()
        assert (np.abs(picture[second].astype(int) - (255, 0, 0)) < 140).all()  # its upper rim is mixed
        near = np.zeros_like(first)
        near[:, 112 * (not swapped) : 112 * (not swapped) + 112] = True  # the half of the red thing
        assert (picture[~near & ~first] == stones[~near & ~first]).all()
    assert photo_stamps.likeliest(np.array([9.0, 0, 0, 1, 2, 7]), white) == 4


def test_the_cat_and_the_stamp_of_a_dog(tmp_path: Path) -> None:
    labels = ["tench", "dingo, warrigal", "tabby, tabby cat", "Egyptian cat"]
    cat = photo_stamps.cat(labels)
    assert cat.classes == (2, 3)
    assert cat.colours.shape[:2] == cat.alpha.shape
    whole = np.zeros((60, 80, 4), np.uint8)
    whole[10:30, 20:60] = (200, 100, 50, 255)
    path = tmp_path / photo_stamps.DINGO
    path.parent.mkdir(parents=True)
    Image.fromarray(whole).save(path)
    dog = photo_stamps.dog(tmp_path, labels)
    assert dog.classes == (1,)
    assert dog.colours.shape == (20, 40, 3)
    assert (dog.alpha == 1).all()
    Image.fromarray(whole[..., :3]).save(path)
    assert photo_stamps.read_stamp(path, "", "", ()) is None  # no mask


def test_without_the_model_or_the_dog_one_sentence_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for pictures, weights in ((False, True), (True, False), (False, False)):
        monkeypatch.setattr(gradcam_contrast, "stamp_folder", lambda here=pictures: Path() if here else None)
        monkeypatch.setattr(gradcam_contrast, "pulled", lambda name, here=weights: here)
        run = LabRun()
        gradcam_contrast.photographs(run, 2)
        (said,) = run.parts
        assert isinstance(said, Paragraph)
        assert ("heedful zoo pull mobilenet" in said.text) == (not weights)
        assert ("tuxpaint-stamps-default" in said.text) == (not pictures)


def test_a_map_that_ignores_the_animal_holds_no_claim() -> None:
    """It has more on the large cat whichever is asked for; one that follows the question holds all."""
    rng = np.random.default_rng(0)
    blind = np.broadcast_to(rng.uniform(0.1, 0.3, (8, 1, 2)) + np.array([0.0, 0.3]), (8, 2, 2))
    assert gradcam_contrast.gain(blind) == pytest.approx(0)
    follows = blind + 0.2 * np.eye(2)
    assert gradcam_contrast.gain(follows) == pytest.approx(0.2)
    for shares, wanted in ((blind, False), (follows, True), (-follows, False)):
        run = LabRun()
        gradcam_contrast.photo_claims(run, {"gradcam": shares, "edges": blind})
        assert held(run) == [wanted] * 3


def test_similarities_of_equal_and_of_other_maps() -> None:
    rng = np.random.default_rng(0)
    picture = np.full((SIDE, SIDE, 3), 9, dtype=np.uint8)
    one, other = rng.random(SIDE * SIDE), rng.random(SIDE * SIDE)
    assert saliency_sanity.similarities(one, 3 * one, picture) == pytest.approx([1.0] * 4)
    assert max(map(abs, saliency_sanity.similarities(one, other, picture))) < 0.3
    assert saliency_sanity.similarities(one, np.ones_like(one), picture) == [0.0] * 4


def test_maps_that_all_forget_hold_no_claim() -> None:
    layers = ["top", "fourth", "third", "second", "first"]
    left = np.random.default_rng(0).normal(0, 0.02, (5, 5, 4, 6))
    left -= left.mean(3, keepdims=True)
    run = LabRun()
    saliency_sanity.of_cnn(run, saliency_sanity.OF_CNN[:-1], layers, left)
    assert held(run) == [False] * 6
    vit = LabRun()
    saliency_sanity.of_vit(vit, saliency_sanity.OF_VIT, layers, 0.9 + left)
    assert held(vit) == [False, False]


def test_share_and_lift_of_a_named_thing_by_hand() -> None:
    thing, other = np.zeros((4, 5), dtype=bool), np.zeros((4, 5), dtype=bool)
    thing[0, :2], other[3, :4] = True, True
    assert clip_saliency.on_thing(np.full((4, 5), -1.0), thing, other) == (0.5, 1.0)
    assert clip_saliency.on_thing(np.ones((4, 5)), thing, other) == pytest.approx((1 / 3, 1.0))
    scores = np.zeros((4, 5))
    scores[0, 0], scores[3, 3], scores[2, 2], scores[1, 1] = 3.0, 1.0, 2.0, -9.0
    assert clip_saliency.on_thing(scores, thing, other) == pytest.approx((3 / 4, 3 / 6 / 0.1))


def test_a_scene_is_chosen_if_both_captions_are_known_and_share_no_word() -> None:
    scenes = shape_scenes(40, count=2, seed=3)
    apart = [s for s in scenes if len({word for label in s.labels for word in label.split()}) == 4]
    assert 0 < len(apart) < 40

    class Knows:
        def encode(self, picture: Any) -> Any:
            return next(s for s in scenes if s.picture is picture)

        def predict(self, scene: Any, k: int) -> Any:
            texts = clip_saliency.named(scene)
            return [(text, 1.0) for text in (texts[:1] if scene is apart[1] else texts)]

    model: Any = Knows()
    assert clip_saliency.chosen(model, scenes, 3) == [apart[0], apart[2], apart[3]]


def test_a_map_that_ignores_the_caption_holds_no_claim() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, (20, 2))
    noise -= noise.mean(0)
    found = {name: noise + np.array([0.5, 1.0]) for name in (*clip_saliency.METHODS, clip_saliency.RATHER)}
    run = LabRun()
    clip_saliency.claims(run, found, noise[:, [0, 1, 0]])
    assert held(run) == [False] * 6


def test_the_planted_cell_has_the_stripes_and_the_chessboard_follows_the_class() -> None:
    data, labels = planted_cells.planted_pictures(30, np.random.default_rng(0))
    assert set(labels) == {0, 1}
    size = SIDE // planted_cells.CELLS
    rows = zip(data.pictures, labels, data.scores[planted_cells.TRUE], strict=True)
    for number, (x, label, true) in enumerate(rows):
        cells = x.pixels[..., 0].reshape(planted_cells.CELLS, size, planted_cells.CELLS, size).swapaxes(1, 2)
        spread = cells.reshape(-1, size * size).astype(float).std(1)
        place = int(true.argmax())
        assert place == spread.argmax()
        assert place in planted_cells.PLACES
        cell = cells.reshape(-1, size, size)[place]
        assert (cell.std(0).max() == 0) == bool(label)  # upright stripes do not change downwards
        assert data.scores[planted_cells.REVERSED][number].argmin() == place
        fields = np.argsort(-data.scores[planted_cells.LEAKING][number])[1:24]
        assert set((fields % 2 == 0).tolist()) == {bool(label)}


def test_a_planted_cell_falls_and_a_leak_is_flagged() -> None:
    run = LabRun(fast=True)
    image_roar.planted(run, (100, 120), 4)
    assert held(run) == [True] * 6


def test_scores_that_do_not_know_the_planted_cell_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of another cell, and a chessboard that does not follow the class."""
    right = planted_cells.planted_pictures

    def wrong(count: int, rng: np.random.Generator) -> Any:
        data, labels = right(count, rng)
        true = [np.roll(own, 1) for own in data.scores[planted_cells.TRUE]]
        scores = {
            planted_cells.TRUE: true,
            planted_cells.REVERSED: true,
            planted_cells.LEAKING: data.scores[planted_cells.TRUE],
        }
        return type(data)(data.pictures, data.unit, scores), labels

    monkeypatch.setattr(image_roar, "planted_pictures", wrong)
    run = LabRun(fast=True)
    image_roar.planted(run, (100, 120), 4)
    assert [held(run)[k] for k in (0, 1, 2, 3, 5)] == [False] * 5


def flat(leaks: bool, accuracy: float) -> Roar:
    """Every method as random: the same accuracy, no fall."""
    names = (*image_roar.METHODS, image_roar.EDGES, "random, smoothed", "random")
    right = np.random.default_rng(0).random((len(names), 1, 3, 100)) < accuracy
    span = accuracy - 0.05, accuracy + 0.05
    curves = tuple(
        RetrainingCurve(name, (accuracy,), (span,), (0.1,), ((0.05, 0.15),), leaks, 0.0, (-0.1, 0.1))
        for name in names
    )
    return Roar(
        shares=(image_roar.HALF,),
        curves=curves,
        whole=0.9,
        whole_interval=(0.85, 0.95),
        chance=0.1,
        imputer="mean colour",
        seeds=3,
        n=100,
        lead=(),
        behind=(),
        not_faster=names[:-1],
        slower=(),
        what="picture",
        part="cell",
        answers=RightAnswers(names, (image_roar.HALF,), right, None, right[0, 0], right[0, 0, 0]),
    )


def test_digits_on_which_all_is_random_hold_no_claim() -> None:
    for leaks in (False, True):
        run = LabRun()
        image_roar.digit_claims(run, flat(leaks, 0.6), flat(leaks, 0.6), image_roar.METHODS)
        assert held(run) == [False] * 5


def test_as_many_of_each_digit() -> None:
    even = single("test", 57, np.random.default_rng(1), even=True)
    assert sorted(np.bincount(even.labels[:, 0])) == [5] * 3 + [6] * 7
    uneven = single("test", 57, np.random.default_rng(1))
    assert np.bincount(uneven.labels[:, 0], minlength=10).max() > 6
    masks = even.pictures[..., 0] > 127
    np.testing.assert_array_equal(masks, even.masks[:, 0])


def test_the_gradients_of_the_quick_network_are_those_of_torch() -> None:
    rng = np.random.default_rng(0)
    weights = quick_mlp.untrained(12, 5, 3, rng)
    x, truth = rng.normal(size=(7, 12)).astype(np.float32), rng.integers(3, size=7)
    leaves = [torch.tensor(each, requires_grad=True) for each in weights]
    z = torch.relu(torch.tensor(x) @ leaves[0] + leaves[1]) @ leaves[2] + leaves[3]
    torch.nn.functional.cross_entropy(z, torch.tensor(truth)).backward()  # type: ignore[no-untyped-call]
    for own, leaf in zip(quick_mlp.gradients(weights, x, truth), leaves, strict=True):
        assert leaf.grad is not None
        np.testing.assert_allclose(own, leaf.grad.numpy(), atol=1e-6)


def test_the_quick_network_learns_and_its_seed_says_all() -> None:
    """Digits: above 0.6 after 80 steps; without labels that fit, at chance."""
    train, test = (single(split, 200, np.random.default_rng(0)) for split in ("train", "test"))
    seen, asked, labels = list(train.tensors().numpy()), list(test.tensors().numpy()), train.labels[:, 0]
    fit = quick_mlp.quick_mlp()
    scores = fit(seen, labels.tolist(), 3)(asked)
    assert np.mean(scores.argmax(1) == test.labels[:, 0]) > 0.6
    np.testing.assert_array_equal(scores, fit(seen, labels.tolist(), 3)(asked))
    assert np.abs(scores - fit(seen, labels.tolist(), 4)(asked)).max() > 0.1
    shuffled = np.random.default_rng(1).permutation(labels)
    assert np.mean(fit(seen, shuffled.tolist(), 3)(asked).argmax(1) == test.labels[:, 0]) < 0.25


def test_rankings_by_chance_by_hand() -> None:
    """Three in all orders: tau is 1, 1/3, 1/3, -1/3, -1/3, -1."""
    assert image_roar.random_reach(3) == 1.0
    assert image_roar.random_reach(6) == pytest.approx(11 / 15)  # 5.6 % are beyond 0.6, 1.7 % beyond 0.733
