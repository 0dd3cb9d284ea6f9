"""A claim about a mean holds when its whole interval is beyond the bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from heedful.labs.frame import LabRun
from heedful.labs.means import claim_mean
from heedful.labs.report import Claim


def claimed(values: list[float], **bounds: float) -> Claim:
    run = LabRun()
    claim_mean(run, "The mean is beyond.", values, **bounds)
    (made,) = run.parts
    assert isinstance(made, Claim)
    return made


def test_interval_is_students() -> None:
    values = np.random.default_rng(0).normal(1, 1, 12)
    found = claimed(values.tolist(), above=0.0)
    want = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    assert found.interval == pytest.approx(want)
    assert found.value == pytest.approx(values.mean())


@pytest.mark.parametrize(
    ("bounds", "holds"),
    [
        ({"above": 0.0}, True),
        ({"above": 0.95}, False),
        ({"below": 1.05}, False),
        ({"above": 0.0, "below": 2.0}, True),
    ],
)
def test_the_whole_interval_counts(bounds: dict[str, float], holds: bool) -> None:
    assert claimed([0.9, 1.0, 1.1], **bounds).holds is holds  # 0.75 to 1.25


def test_a_claim_that_cannot_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot fail"):
        claimed([1.0, 2.0])


def test_an_interval_of_shares_stays_within_them() -> None:
    values = [1.0, 1.0, 0.9, 1.0]
    run = LabRun()
    claim_mean(run, "A share.", values, above=0.5, limits=(0.0, 1.0))
    (made,) = run.parts
    assert isinstance(made, Claim)
    assert made.interval is not None
    assert made.interval[1] == 1.0 < stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))[1]
