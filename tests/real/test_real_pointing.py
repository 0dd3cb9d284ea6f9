"""The pointing benchmark on real stamps: GradCAM on MobileNetV2 against its controls."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from bench import pointing, stamps

import heedful
from heedful.models.zoo import resolve
from heedful.models.zoo.cache import cache_dir

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="the stamps come in a Debian package"),
]


@pytest.fixture(scope="module")
def model() -> Any:
    resolve.pull("mobilenet")
    return heedful.load("zoo:mobilenet")


@pytest.fixture(scope="module")
def things(model: Any) -> list[Any]:
    return stamps.usable(stamps.fetch(cache_dir() / "carriers"), model.labels)


def test_stamps_have_masks_and_classes(things: list[Any], model: Any) -> None:
    assert len(things) >= 100
    for stamp in things:
        assert stamp.colours.shape[:2] == stamp.alpha.shape
        assert stamps.last_word(stamp.caption) in {
            stamps.last_word(name) for index in stamp.classes for name in model.labels[index].split(",")
        }


def test_gradcam_points_at_things_more_often_than_its_controls(model: Any, things: list[Any]) -> None:
    """All things. The bound is that of a paired sign test at 2.5 %."""
    from scipy.stats import binomtest

    results = pointing.one_thing(model, things, ("gradcam", "centre", "edges"))
    known = results["area"][:, 3] > 0
    for control in ("centre", "edges"):
        difference = results["gradcam"][known, 0] - results[control][known, 0]
        wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
        assert binomtest(wins, wins + losses, alternative="greater").pvalue < 0.025, (control, wins, losses)


def test_the_class_decides_which_thing_lights_up(model: Any, things: list[Any]) -> None:
    results = pointing.two_things(model, things, 12, ("gradcam",))["gradcam"]
    assert results[:, 0].mean() > results[:, 1].mean() + 0.2


def test_a_dog_and_a_cat_light_up_when_they_are_asked_for(model: Any, things: list[Any]) -> None:
    """GradCAM never points at the other animal; edges do not know which is asked for."""
    results = pointing.dog_and_cat(model, things, 8, ("gradcam", "edges"))
    gradcam, edges = (results[name].reshape(2, -1, 2).mean(1) for name in ("gradcam", "edges"))
    assert (gradcam[:, 0] > gradcam[:, 1] + 0.2).all()
    assert edges[0, 0] == edges[1, 1]  # one map, whatever is asked for
