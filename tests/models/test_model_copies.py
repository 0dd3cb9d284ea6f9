"""Copies share nothing, their doors read them, and functions that cannot be led to a copy are told."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import checks
from heedful.checks.known_models import reader_model, textbook_model
from heedful.checks.module_state import changes, noticed
from heedful.models.model_copies import can_copy, copied

TEXT = "the cat sat on the mat"


def value(model: Any, x: Any, target: Any) -> float:
    return float(model.values(x, target, np.ones((1, len(x.units("word"))), dtype=bool))[0])


def check_own(model: Any) -> None:
    """The copy answers alike, and otherwise once it is changed; the original never does."""
    x = model.encode(TEXT)
    target = checks.conventions.target_of(model, x)
    state, before = noticed(model.module), value(model, x, target)
    copy = copied(model)
    assert value(copy.model(), x, target) == before
    with torch.no_grad():
        for p in copy.module.parameters():
            p.mul_(1.5)
    assert value(copy.model(), x, target) != pytest.approx(before)
    assert value(model, x, target) == before
    assert not changes(state, noticed(model.module))


def test_every_family(family: Any) -> None:
    check_own(family.model)


@pytest.mark.parametrize("build", [checks.linear_model, reader_model, textbook_model])
def test_modules_of_ones_own(build: Any) -> None:
    check_own(build())


@pytest.mark.parametrize("way", ["method", "partial", "nested"])
def test_functions_are_led_to_the_copy(way: str) -> None:
    plain: Any = reader_model()
    module = plain.module

    def pass_on(owner: Any, embeds: Any, mask: Any) -> Any:
        return owner(embeds, mask)

    def inner(embeds: Any, mask: Any) -> Any:
        return module(embeds, mask)

    ways = {"method": module.forward, "partial": partial(pass_on, module), "nested": lambda e, m: inner(e, m)}
    settings = {"tokenizer": plain.tokenizer, "embed": module.embed, "labels": plain.labels}
    check_own(heedful.load(module, forward=ways[way], **settings))


KEPT: dict[str, Any] = {}


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("hidden", [("embed", "forward"), ("forward",), ("embed",)])
def test_a_module_found_by_a_global_name_is_told(hidden: tuple[str, ...], frozen: bool) -> None:
    plain: Any = reader_model()
    module = deepcopy(plain.module).requires_grad_(not frozen)
    KEPT["module"] = module
    by_name = {
        "embed": lambda ids: KEPT["module"].table(ids),
        "forward": lambda embeds, mask: KEPT["module"](embeds, mask),
    }
    functions = {name: by_name[name] for name in hidden}
    model = heedful.load(module, tokenizer=plain.tokenizer, labels=plain.labels, **functions)
    with pytest.raises(heedful.HeedfulError, match="by a name that cannot be led elsewhere"):
        copied(model)
    assert not can_copy(model)
    assert can_copy(plain)


def test_functions_cannot_be_copied() -> None:
    model = heedful.load(lambda texts: [float(len(text)) for text in texts])
    assert not can_copy(model)
    with pytest.raises(heedful.HeedfulError, match="cannot be copied"):
        copied(model)
