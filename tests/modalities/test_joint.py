"""A picture with a text as one input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.models.dual_models import SIDE, module, picture, processor

import heedful
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER, Rectangle
from heedful.io.input_codec import input_from_dict, input_to_dict
from heedful.modalities.joint import JointInput, split_raw


@pytest.fixture(scope="module")
def x() -> JointInput:
    model: Any = heedful.load((module("clip"), processor()))
    found = model.encode({"picture": picture(), "text": "a red circle"})
    assert isinstance(found, JointInput)
    return found


def test_atoms_are_pixels_then_tokens(x: JointInput) -> None:
    assert len(x) == SIDE * SIDE + 5  # <bos> a red circle <eos>
    atoms = x.units(x.atom)
    assert len(atoms) == SIDE * SIDE + 3
    assert list(atoms.owner[-5:]) == [NEVER, 1024, 1025, 1026, NEVER]


@pytest.mark.parametrize(
    ("name", "full", "count"),
    [
        ("", "patch+word", 19),
        ("grid:2", "grid:2+word", 7),
        ("token", "patch+token", 19),
        ("grid:4+sentence", "grid:4+sentence", 17),
    ],
)
def test_units_are_those_of_both(x: JointInput, name: str, full: str, count: int) -> None:
    units = x.units(name)
    assert (units.name, len(units)) == (full, count)
    own = x.picture_units(name)
    assert all(isinstance(region, Rectangle) for region in units.regions[:own])
    assert all(len(region) == 2 for region in units.regions[own:])
    sizes = [len(atoms) for atoms in units]
    assert sum(sizes) == len(x) - 2
    assert sum(sizes[:own]) == SIDE * SIDE


def test_sums_over_units_keep_the_total(x: JointInput) -> None:
    scores = np.random.default_rng(0).standard_normal(len(x.units("grid:4")))
    atoms = x.units("grid:4").spread(scores)
    assert np.allclose(x.units("grid:2").sums(atoms).sum(), scores.sum())
    assert np.allclose(x.units("grid:4").sums(atoms), scores)


def test_positions_are_those_of_both_encoders(x: JointInput) -> None:
    places = x.positions
    assert places.atoms == 1 + 16 + 5
    assert len(places) == 16 + 3
    assert places.labels == x.units("patch+token").labels


@pytest.mark.parametrize("name", ["word+token", "grid:2+patch", "grid:0+word", "nonsense"])
def test_unknown_units_are_refused(x: JointInput, name: str) -> None:
    with pytest.raises(HeedfulError, match="unit"):
        x.units(name)


def test_it_is_stored_and_read(x: JointInput) -> None:
    again = input_from_dict(input_to_dict(x))
    assert again == x
    assert again.notes == x.notes
    data = input_to_dict(x)
    data["text"]["ids"] = data["text"]["ids"][:-1]
    with pytest.raises(ValueError, match="do not fit"):
        input_from_dict(data)


def test_content_is_that_of_both(x: JointInput) -> None:
    other = JointInput(x.picture, input_from_dict(input_to_dict(x)).text)  # type: ignore[attr-defined]
    assert other == x
    model: Any = heedful.load((module("clip"), processor()))
    assert model.encode({"picture": picture(), "text": "a red star"}) != x
    assert model.encode({"picture": picture(1), "text": "a red circle"}) != x


@pytest.mark.parametrize(
    "raw", ["a text", {"picture": 1}, {"picture": 1, "text": 2}, {"text": "a", "picture": 1, "b": 1}]
)
def test_what_is_no_picture_with_a_text_is_refused(raw: Any) -> None:
    with pytest.raises(HeedfulError):
        split_raw(raw)
