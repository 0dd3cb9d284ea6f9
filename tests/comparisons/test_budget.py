"""What a run has spent is taken off its budget, row by row, whatever the model had run before."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.checks import linear_model
from heedful.checks.conventions import question
from heedful.engine.session import Session
from heedful.models.passes import BudgetSpentError


def test_rows_are_taken_off_until_nothing_is_left() -> None:
    model = linear_model()
    x, target = question(model)
    size = len(x.units("word"))
    without_one = ~np.eye(size, dtype=bool)
    run = Session(model, budget=5)
    assert run.left == 5  # not what the model ran to tell its target
    run.values(x, target, without_one[:3], "delete")
    assert run.left == 2
    run.values(x, target, without_one[:3], "delete")  # remembered, so free
    assert run.left == 2
    with pytest.raises(BudgetSpentError, match="has 2 model inputs left and this method needs 3"):
        run.values(x, target, without_one[3:], "delete")
    run.values(x, target, without_one[3:5], "delete")
    assert run.left == 0
    with pytest.raises(BudgetSpentError):
        run.trace(x, target)
