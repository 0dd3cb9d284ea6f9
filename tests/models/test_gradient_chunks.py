"""Gradients at many points come back in the order the points were given, however they are cut into chunks."""

from __future__ import annotations

from typing import Any

import torch

from heedful.checks.conventions import chunks_of, question
from heedful.checks.models import stack_model


def test_points_keep_their_order_in_chunks_of_any_size() -> None:
    """Integrated gradients would not notice: their weights are the same from both ends."""
    model: Any = stack_model()
    x, target = question(model)
    embeds = model.lookup(x, target)
    points = torch.stack([share * embeds for share in (0.3, 0.7, 1.0, 1.6)])
    alone = [model.gradients(x, target, point[None]) for point in points]
    for tokens in (1, 4 * len(x), 4096):  # one row a chunk, two, all
        with chunks_of(tokens):
            values, grads = model.gradients(x, target, points)
        for i, (value, grad) in enumerate(alone):
            # float64: another batch sums in another order
            torch.testing.assert_close(values[i], value[0], rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(grads[i], grad[0], rtol=1e-12, atol=1e-12)
    assert (grads[0] - grads[3]).abs().max() > 1e-3  # an order that could be mistaken
