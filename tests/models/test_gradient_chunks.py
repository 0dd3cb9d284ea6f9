"""Gradients at many points come back in the order the points were given, however they are cut into chunks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from heedful.checks.conventions import chunks_of, question
from heedful.checks.known_models import stack_model


def test_points_keep_their_order_in_chunks_of_any_size() -> None:
    """Integrated gradients would not notice: their weights are the same from both ends."""
    model: Any = stack_model()
    x, target = question(model)
    embeds = model.lookup(x, target)
    points = torch.stack([share * embeds for share in (0.3, 0.7, 1.0, 1.6)])
    alone = [model.gradients(x, target, point[None]) for point in points]
    for tokens in (1, 4 * len(x), 4096):  # one row per chunk, two, all
        with chunks_of(tokens):
            values, grads = model.gradients(x, target, points)
        for i, (value, grad) in enumerate(alone):
            # float64: another batch sums in another order
            torch.testing.assert_close(values[i], value[0], rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(grads[i], grad[0], rtol=1e-12, atol=1e-12)
    assert (grads[0] - grads[3]).abs().max() > 1e-3  # an order that could be mistaken


def test_a_chunk_that_does_not_fit_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """As rows are: the same numbers in the same order, each point counted once."""
    model: Any = stack_model()
    x, target = question(model)
    points = torch.stack([share * model.lookup(x, target) for share in (0.2, 0.4, 0.7, 1.0, 1.3, 1.6, 2.0)])
    expected = model.gradients(x, target, points)
    run, sizes = model.backend.forward_with_grad, []

    def small_machine(inputs: Any) -> Any:
        if len(inputs.ids) > 2:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory"
            )
        sizes.append(len(inputs.ids))
        return run(inputs)

    monkeypatch.setattr(model.backend, "forward_with_grad", small_machine)
    before = model.spent
    found = model.gradients(x, target, points)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert sizes == [1, 2, 2, 2]
    spent = model.spent - before
    assert (spent.forwards, spent.backwards, spent.unique, spent.tokens) == (7, 7, 7, 7 * len(x))


@pytest.mark.parametrize("message", ["a bug", "out of memory"])
def test_other_errors_and_a_point_that_never_fits_are_raised(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = stack_model()
    x, target = question(model)
    points = model.lookup(x, target).repeat(3, 1, 1)

    def broken(inputs: Any) -> Any:
        raise RuntimeError(message)

    monkeypatch.setattr(model.backend, "forward_with_grad", broken)
    with pytest.raises(RuntimeError, match=message):
        model.gradients(x, target, points)
