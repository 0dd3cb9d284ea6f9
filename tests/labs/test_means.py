"""A claim about a mean holds when its whole interval is beyond the bound, one about all when the worst is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from heedful.core.lab_report import Claim
from heedful.labs.base.claims import claim_all, claim_mean
from heedful.labs.base.registry import LabRun


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


def every(values: list[float], **bounds: float) -> Claim:
    run = LabRun()
    claim_all(run, "None is beyond.", values, **bounds)
    (made,) = run.parts
    assert isinstance(made, Claim)
    return made


def test_one_value_too_far_fails_whatever_the_mean() -> None:
    """The mean of a hundred and its interval are far below the bound; one value is not."""
    values = [*np.random.default_rng(3).uniform(0.0, 0.001, 99).tolist(), 0.011]
    assert claimed(values, below=0.01).holds
    worst = every(values, below=0.01)
    assert not worst.holds
    assert worst.value == 0.011
    assert worst.interval == (min(values), 0.011)
    assert every(values, below=0.012).holds


@pytest.mark.parametrize(
    ("bounds", "holds", "worst"),
    [({"above": 0.5}, True, 0.9), ({"above": 0.9}, False, 0.9), ({"above": 0.5, "below": 1.2}, True, 1.1)],
)
def test_the_worst_is_the_one_nearest_to_a_bound(bounds: dict[str, float], holds: bool, worst: float) -> None:
    found = every([0.9, 1.0, 1.1], **bounds)
    assert (found.holds, found.value) == (holds, worst)


def test_a_claim_about_all_that_cannot_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot fail"):
        every([1.0, 2.0])
