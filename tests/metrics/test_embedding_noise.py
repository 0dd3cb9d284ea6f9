"""Moved embeddings: what arrives is what was asked for, in every family and for every way to read a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import checks
from heedful.checks.known_models import WEIGHTS, reader_model, textbook_model
from heedful.checks.module_state import changes, noticed
from heedful.core import registry
from heedful.engine.question import run_explainer
from heedful.metrics.embedding_noise import movable, nudged, token_table


def question(model: Any, text: str = "the cat sat on the mat") -> Any:
    x = model.encode(text)
    return x, checks.conventions.target_of(model, x)


def a_shift(model: Any, x: Any, target: Any, size: float = 0.01) -> torch.Tensor:
    embeds = model.lookup(x, target)
    return size * torch.randn(embeds.shape, generator=torch.Generator().manual_seed(0)).to(embeds)


def test_every_family_reads_the_moved_text(family: Any) -> None:
    """The lookup is moved by the shift, special tokens stay, and a pass sees what `gradients` sees there."""
    model = family.model
    x, target = question(model)
    shift = a_shift(model, x, target)
    before, state = model.lookup(x, target), noticed(model.module)
    kept = ~torch.tensor(x.special)[:, None]
    with nudged(model, x, target, shift) as (moved, distance):
        found = model.lookup(moved, target)
        rows = model.values(moved, target, np.ones((1, len(x.units("word"))), dtype=bool))
        output = model.trace(moved, target).output
    torch.testing.assert_close(found, before + shift * kept)
    assert distance == pytest.approx(float((shift * kept).norm()), rel=1e-4)
    (there,), _ = model.gradients(x, target, (before + shift * kept)[None])
    scale = 1e-5 * max(1.0, abs(float(there)))
    assert output == pytest.approx(float(there), abs=scale)
    assert rows[0] == pytest.approx(float(there), abs=scale)
    assert not changes(state, noticed(model.module))


@pytest.mark.parametrize("operator", ["delete", "mask", "pad", "unk", "mean"])
def test_a_moved_word_keeps_its_move_when_others_go(operator: str) -> None:
    """On a sum of word weights: what is left counts with its own move, wherever it now stands."""
    model = checks.linear_model()
    if operator not in model.operators:
        operator = "delete"
    x, target = question(model)
    shift = torch.zeros(len(x), 2, dtype=torch.float64)
    shift[:, 0] = torch.tensor([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    keep = np.array([[True, False, True, False, True, True], [False, True, False, False, False, True]])
    with nudged(model, x, target, shift) as (moved, _):
        found = model.values(moved, target, keep, operator)
    weight = np.array([WEIGHTS[word] for word in x.tokens]) + shift[:, 0].numpy()
    sign = 1 if target.label == "up" else -1
    base = model.values(x, target, np.zeros((1, len(x)), dtype=bool), operator)[0]  # mean rows are not zero
    plain = model.values(x, target, keep, operator)
    still = keep @ np.array([WEIGHTS[word] for word in x.tokens])
    np.testing.assert_allclose(found - plain, sign * (keep @ weight - still), atol=1e-12)
    assert np.isfinite(base)


@pytest.mark.parametrize("method", ["occlusion", "grad-x-input", "integrated-gradients", "lime"])
def test_methods_that_are_exact_on_a_sum_are_so_at_a_moved_text(method: str) -> None:
    model = checks.linear_model()
    x, target = question(model)
    shift = a_shift(model, x, target, 0.5)
    entry = registry.get(method)
    wish = {"operator": "delete", "baseline": "zero", "seed": 0}
    with nudged(model, x, target, shift) as (moved, _):
        found = run_explainer(
            entry, model, moved, target, **{k: v for k, v in wish.items() if k in entry.params}
        )
    sign = 1 if target.label == "up" else -1
    wanted = sign * (np.array([WEIGHTS[word] for word in x.tokens]) + shift[:, 0].numpy())
    np.testing.assert_allclose(found.scores, wanted, atol=1e-9)


@pytest.mark.parametrize("build", [reader_model, textbook_model])
def test_a_module_of_ones_own(build: Any) -> None:
    model = build()
    x, target = question(model)
    shift = a_shift(model, x, target, 0.3)
    with nudged(model, x, target, shift) as (moved, distance):
        output = model.trace(moved, target).output
    kept = ~torch.tensor(x.special)[:, None]
    (there,), _ = model.gradients(x, target, (model.lookup(x, target) + shift * kept)[None])
    assert output == pytest.approx(float(there), rel=1e-12)
    assert output != pytest.approx(model.trace(x, target).output, rel=1e-3)
    assert distance > 0


def test_a_table_that_is_not_called_is_told() -> None:
    model = checks.linear_model()
    module: Any = model.module
    module.embed = lambda ids: module.table.weight[ids]
    stubborn = heedful.load(module, tokenizer=model.tokenizer, labels=("up", "down"))  # type: ignore[attr-defined]
    x, target = question(stubborn)
    with (
        pytest.raises(heedful.HeedfulError, match="without calling its table"),
        nudged(stubborn, x, target, torch.zeros(len(x), 2)),
    ):
        pass
    assert not movable(stubborn, x, target)
    assert movable(reader_model(), *question(reader_model()))


def test_a_function_has_no_table() -> None:
    model = heedful.load(lambda texts: [float(len(text)) for text in texts])
    assert token_table(model) is None
    x = model.encode("a b")
    with (
        pytest.raises(heedful.HeedfulError, match="no token table"),
        nudged(model, x, model.target(x), torch.zeros(2, 2)),
    ):
        pass


def test_an_error_inside_leaves_the_table_as_it_was() -> None:
    model = checks.linear_model()
    x, target = question(model)
    table: Any = token_table(model)
    vars(table)["forward"] = other = table.forward  # as accelerate does
    with pytest.raises(ZeroDivisionError), nudged(model, x, target, torch.zeros(len(x), 2)):
        _ = 1 / 0
    assert vars(table)["forward"] is other
