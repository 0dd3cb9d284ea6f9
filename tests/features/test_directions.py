"""Difference of means: by hand, and beside shuffled labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.features.steering.directions import Direction, difference, random_direction
from heedful.features.steering.steer import steer
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading

A, B = ["the cat sat on the mat", "a cat"], ["hello world!", "not bad at all", "the dog"]


def mean_of(model: Any, text: str, site: str) -> torch.Tensor:
    x = model.encode(text)
    ids = torch.tensor([x.ids])
    with reading(model, [site]) as seen, torch.inference_mode():
        model.backend.forward(Inputs(ids, torch.ones_like(ids)))
    own = [t for t, special in enumerate(x.special) if not special]
    return seen[site][0, own].mean(0)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_definition(name: str, shared: Callable[[str], Any]) -> None:
    model, site = shared(name).model, "blocks.1.resid"
    found = difference(model, site, A, B)
    means = [torch.stack([mean_of(model, text, site) for text in side]).mean(0) for side in (A, B)]
    assert torch.allclose(found.vector, means[0] - means[1], atol=1e-5)
    assert found.texts == (2, 3)
    assert found.site == site
    other = difference(model, site, B, A)
    assert torch.allclose(other.vector, -found.vector, atol=1e-6)


def test_steering_by_it_adds_it(shared: Callable[[str], Any]) -> None:
    model, site = shared("bert").model, "blocks.1.resid"
    found = difference(model, site, A, B)
    before = mean_of(model, A[0], site)
    with steer(model, found, 2.5) as applied:
        after = mean_of(model, A[0], site)
    assert torch.allclose(after - before, 2.5 * found.vector, atol=1e-5)
    assert applied.size == pytest.approx(2.5 * found.length, rel=1e-5)


def test_shuffled_labels_are_shorter_where_labels_mean_something(shared: Callable[[str], Any]) -> None:
    """Texts of the same words on each side, against words that have nothing to do with the side."""
    model = shared("bert").model
    told = difference(
        model, "embed", ["the cat", "a cat", "cat cat", "cat"], ["dog", "a dog", "the dog", "dog dog"]
    )
    assert told.length > 1.3 * told.chance
    same = difference(model, "embed", ["the cat", "dog"], ["dog", "the cat"])
    assert same.length == pytest.approx(0, abs=1e-6)
    assert same.chance > 0.1
    with pytest.raises(HeedfulError, match="no length"):
        Direction(torch.zeros(4), "embed").unit()


def test_lengths(shared: Callable[[str], Any]) -> None:
    one = random_direction(32, "embed", seed=3)
    assert one.length == pytest.approx(1, abs=1e-6)
    assert one.scaled(7.0).length == pytest.approx(7, abs=1e-5)
    assert torch.equal(one.vector, random_direction(32, "embed", seed=3).vector)
    assert not torch.equal(one.vector, random_direction(32, "embed", seed=4).vector)


def test_both_sides_are_needed(shared: Callable[[str], Any]) -> None:
    for a, b in (([], B), (A, []), ("text", B)):
        with pytest.raises(HeedfulError, match="both sides"):
            difference(shared("bert").model, "embed", a, b)


def test_texts_that_are_cut_are_told(shared: Callable[[str], Any]) -> None:
    found = difference(shared("bert").model, "embed", ["the cat " * 60], B)
    assert "1 texts were longer" in found.notes[0]
