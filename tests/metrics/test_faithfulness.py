"""Each metric on games small enough to count by hand, against captum where it has the same definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from heedful.metrics import faithfulness as f
from heedful.metrics.faithfulness import Ends, Probe

Game = Callable[[np.ndarray], np.ndarray]
METRICS = (
    f.comprehensiveness,
    f.sufficiency,
    f.aopc,
    f.insertion,
    f.monotonicity,
    f.non_sensitivity,
    f.effective_complexity,
    f.infidelity,
)


def value(metric: Callable[..., Probe], scores: list[float], game: Game, seed: int = 0) -> float:
    plan = metric(np.array(scores), np.random.default_rng(seed))
    ones = np.ones((1, len(scores)), dtype=bool)
    ends = Ends(float(game(ones)[0]), float(game(~ones)[0]))
    return plan.finish(game(plan.keep), ends)


WEIGHTS = np.array([4.0, 1.0, 0.0, -2.0])


def linear(keep: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 + keep @ WEIGHTS)


def test_bins_are_at_least_one_unit_and_round_up() -> None:
    assert f.bin_counts(4) == [1, 1, 1, 1, 2]
    assert f.bin_counts(100) == [1, 5, 10, 20, 50]
    assert f.bin_counts(11) == [1, 1, 2, 3, 6]


def test_curves_reach_both_ends() -> None:
    assert f.curve_counts(4) == [0, 1, 2, 3, 4]
    long = f.curve_counts(500)
    assert (long[0], long[-1], len(long)) == (0, 500, f.MAX_CURVE_POINTS + 1)


def test_by_hand_on_a_sum() -> None:
    scores = WEIGHTS.tolist()
    # bins 1,1,1,1,2: without the first the sum loses 4, without two it loses 5
    assert value(f.comprehensiveness, scores, linear) == pytest.approx((4 * 4 + 5) / 5)
    # alone: f(x) = 4, the first alone gives 5, two give 6
    assert value(f.sufficiency, scores, linear) == pytest.approx(4 - (4 * 5 + 6) / 5)
    # deletion curve: 4, 0, -1, -1, 1
    assert value(f.aopc, scores, linear) == pytest.approx(4 - (4 + 0 - 1 - 1 + 1) / 5)
    # insertion curve: 1, 5, 6, 6, 4
    assert value(f.insertion, scores, linear) == pytest.approx(4 - (1 + 5 + 6 + 6 + 4) / 5)
    assert value(f.monotonicity, scores, linear) == pytest.approx(1.0)
    assert value(f.non_sensitivity, scores, linear) == 0.0
    assert value(f.infidelity, scores, linear) == pytest.approx(0.0, abs=1e-12)


def test_wrong_scores_are_worse() -> None:
    right, wrong = WEIGHTS.tolist(), [-2.0, 0.0, 1.0, 4.0]
    assert value(f.comprehensiveness, right, linear) > value(f.comprehensiveness, wrong, linear)
    assert value(f.sufficiency, right, linear) < value(f.sufficiency, wrong, linear)
    assert value(f.aopc, right, linear) > value(f.aopc, wrong, linear)
    assert value(f.insertion, right, linear) < value(f.insertion, wrong, linear)
    assert value(f.infidelity, right, linear) < value(f.infidelity, wrong, linear)
    assert value(f.non_sensitivity, [1.0, 1.0, 1.0, 0.0], linear) == pytest.approx(2 / 4)


def test_turned_signs_are_never_forgiven_by_the_scale() -> None:
    assert value(f.infidelity, (-WEIGHTS).tolist(), linear) == pytest.approx(1.0)


def test_infidelity_is_captums() -> None:
    """captum's normalised one, on the same random sets, divided by the mean square."""
    torch = pytest.importorskip("torch")
    from captum.metrics import infidelity

    rng = np.random.default_rng(3)
    plan = f.infidelity(np.zeros(4), np.random.default_rng(0))
    gone = torch.tensor(~plan.keep, dtype=torch.float64)  # (n, 4)
    bend = torch.tensor(0.3 * rng.normal(size=(4, 4)))

    def game(inputs: torch.Tensor) -> torch.Tensor:
        return (inputs @ bend * inputs).sum(-1) + inputs @ torch.tensor(WEIGHTS)

    scores = torch.tensor([[3.0, 1.0, 0.5, -1.0]], dtype=torch.float64)

    def perturb(inputs: torch.Tensor, baselines: object = None) -> tuple[torch.Tensor, torch.Tensor]:
        return gone, inputs - gone

    theirs = infidelity(
        game,
        perturb,
        torch.ones(1, 4, dtype=torch.float64),
        scores,
        n_perturb_samples=len(gone),
        max_examples_per_batch=len(gone),
        normalize=True,
    )
    full, values = game(torch.ones(1, 4).double())[0], game(1 - gone)
    mean_square = float(((full - values) ** 2).mean())
    ours = value(f.infidelity, scores[0].tolist(), lambda keep: game(torch.tensor(keep).double()).numpy())
    assert ours * mean_square == pytest.approx(float(theirs), rel=1e-9)


def test_effective_complexity_counts_what_must_be_fixed() -> None:
    def one(keep: np.ndarray) -> np.ndarray:
        return keep[:, 2].astype(float)

    assert value(f.effective_complexity, [0.0, 0.0, 5.0, 1.0], one) == 1 / 4
    assert value(f.effective_complexity, [5.0, 4.0, 3.0, 1.0], one) == 3 / 4, "the third is fixed third"


def test_monotonicity_ignores_signs_and_scale() -> None:
    scores = np.array([-8.0, 2.0, 0.1, 4.0])
    assert value(f.monotonicity, scores.tolist(), linear) == pytest.approx(1.0)
    assert value(f.monotonicity, [1.0, 1.0, 1.0, 1.0], linear) == 0.0


def test_ties_are_broken_at_random_but_repeatably() -> None:
    orders = {tuple(f.ranked(np.zeros(5), np.random.default_rng(seed)).tolist()) for seed in range(30)}
    assert len(orders) > 20
    assert np.array_equal(
        f.ranked(np.zeros(5), np.random.default_rng(1)), f.ranked(np.zeros(5), np.random.default_rng(1))
    )
    assert f.ranked(np.array([1.0, 3.0, 2.0]), np.random.default_rng(0)).tolist() == [1, 2, 0]


@pytest.mark.parametrize("metric", METRICS)
def test_scale_and_one_unit(metric: Callable[..., Probe]) -> None:
    """A positive factor changes nothing, and a text of one unit has a finite value."""
    scores = np.random.default_rng(5).normal(size=4)
    game = linear
    assert value(metric, scores.tolist(), game) == pytest.approx(value(metric, (7 * scores).tolist(), game))
    alone = value(metric, [2.0], lambda keep: keep[:, 0] * 3.0)
    assert np.isfinite(alone)


def test_rounding_makes_no_order() -> None:
    """A constant explanation that was spread over tokens and summed again is still constant."""
    near = np.full(9, 0.3)
    near[[2, 5]] = [0.1 + 0.2, np.nextafter(0.3, 0)]
    for seed in range(5):
        same = f.ranked(np.full(9, 0.3), np.random.default_rng(seed))
        assert f.ranked(near, np.random.default_rng(seed)).tolist() == same.tolist()
    real = f.ranked(np.array([0.3, 0.30001, 0.29]), np.random.default_rng(0))
    assert real.tolist() == [1, 0, 2]
