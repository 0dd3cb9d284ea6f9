"""The verdict on values whose truth is known: it finds what is there and claims nothing that is not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from heedful.errors import HeedfulError
from heedful.evidence.verdict import FEW, compare, judge

METHODS = ("good", "better", "same", "random")


def drawn(seed: int, n: int, lifts: tuple[float, ...], shared: float = 2.0) -> np.ndarray:
    """(n, M): texts differ a lot, methods by `lifts`, with noise of their own."""
    rng = np.random.default_rng(seed)
    return shared * rng.normal(size=(n, 1)) + rng.normal(size=(n, len(lifts))) + np.array(lifts)


def test_the_best_leads_alone_and_chance_is_named() -> None:
    found = judge(drawn(0, 200, (1.0, 2.0, 0.0, 0.0)), METHODS, metric="aopc", operator="mask")
    assert found.lead == ("better",)
    assert found.behind == ("good",)
    assert found.no_better_than_random == ("same",)
    assert found.methods[:2] == ("better", "good")
    said = str(found)
    for part in (
        "On 200 texts, by aopc under mask",
        "heed better",
        "good is behind",
        "same is not shown to be better",
    ):
        assert part in said


def test_equal_methods_are_tied() -> None:
    found = judge(drawn(1, 200, (2.0, 2.0, 2.0, 0.0)), METHODS, metric="aopc")
    assert set(found.lead) == {"good", "better", "same"}
    assert "cannot be told apart" in str(found)


@pytest.mark.parametrize("n", [20, 100])
def test_at_most_one_verdict_in_twenty_claims_falsely(n: int) -> None:
    claims = [compare(drawn(seed, n, (0.0,) * 6), seed, 500).apart().any() for seed in range(200)]
    # 200 draws at 5 %: 95 % of such counts lie at or below 15
    assert np.sum(claims) <= 18


def test_a_real_difference_is_found() -> None:
    """Paired: text-to-text spread of 5 does not hide a lift of 1/2 with noise 1 over 100 texts."""
    found = [
        judge(drawn(seed, 100, (0.75, 0.0, 0.0, 0.0), shared=5.0), METHODS, metric="m", seed=seed).lead
        for seed in range(100)
    ]
    assert sum(lead == ("good",) for lead in found) >= 95


def test_the_critical_value_is_students_for_one_pair() -> None:
    """One pair of normal values: the bootstrap-t quantile is near Student's."""
    found = compare(drawn(3, 400, (0.0, 0.0)), 0, draws=20_000).critical
    assert abs(found - stats.t.ppf(0.975, 399)) < 0.1


def test_an_order_of_texts_or_methods_changes_nothing() -> None:
    values = drawn(4, 60, (1.0, 2.0, 0.0, 0.0))
    found = judge(values, METHODS, metric="m")
    turned = judge(values[:, ::-1], METHODS[::-1], metric="m")
    assert (turned.lead, set(turned.behind)) == (found.lead, set(found.behind))


def test_the_same_seed_gives_the_same_verdict() -> None:
    values = drawn(5, 40, (0.5, 0.4, 0.1, 0.0))
    assert judge(values, METHODS, metric="m", seed=3) == judge(values, METHODS, metric="m", seed=3)


def test_identical_methods_are_tied_and_a_constant_lift_is_not_chance() -> None:
    values = np.repeat(np.random.default_rng(0).normal(size=(30, 1)), 4, axis=1)
    assert not compare(values, 0).apart().any()
    values[:, 1] += 1.0
    found = judge(values, METHODS, metric="m")
    assert found.lead == ("better",)
    assert set(found.no_better_than_random) == {"good", "same"}


def test_few_texts_claim_nothing() -> None:
    found = judge(drawn(6, FEW - 1, (9.0, 0.0, 0.0, 0.0)), METHODS, metric="m")
    assert (found.lead, found.behind, found.no_better_than_random) == ((), (), ())
    assert "too few texts" in str(found)


def test_a_text_without_a_number_is_left_out_for_all() -> None:
    values = drawn(7, 50, (2.0, 0.0, 0.0, 0.0))
    values[3, 1] = np.nan
    found = judge(values, METHODS, metric="m")
    assert (found.n, found.left_out) == (49, 1)
    alone = judge(np.delete(values, 3, 0), METHODS, metric="m")
    assert replace(found, left_out=0) == alone


def test_every_method_is_in_one_group() -> None:
    for seed in range(20):
        found = judge(drawn(seed, 30, (1.0, 0.8, 0.2, 0.0)), METHODS, metric="m")
        groups = [set(found.lead), set(found.behind), set(found.no_better_than_random)]
        assert set.union(*groups) == set(METHODS) - {"random"}
        assert not any(a & b for a, b in pairwise([*groups, groups[0]]))


def test_without_a_control_nothing_is_said() -> None:
    with pytest.raises(HeedfulError, match="random among them"):
        judge(np.zeros((9, 2)), ("a", "b"), metric="m")


def rare(seed: int, n: int, lift: float) -> np.ndarray:
    """(n, 4): a method, its twin that differs on four texts, noise, and the control."""
    rng = np.random.default_rng(seed)
    chance = rng.normal(size=n)
    method = chance + lift + rng.normal(size=n)
    twin = method.copy()
    twin[rng.choice(n, 4, replace=False)] += rng.choice([-0.3, 0.3], 4)
    return np.stack([method, twin, chance + rng.normal(size=n), chance], 1)


def test_methods_that_hardly_differ_do_not_raise_the_bar() -> None:
    """Drawn without the few texts on which twins differ, their spread is next to nothing."""
    names = ("method", "twin", "noise", "random")
    bars = [compare(rare(seed, 100, 0.7), seed).critical for seed in range(5)]
    assert max(bars) < 3.5
    assert min(bars) > 2.2  # six pairs: Bonferroni of normal ones gives 2.64
    found = judge(rare(0, 100, 0.7), names, metric="aopc")
    assert found.lead[:2] in (("method", "twin"), ("twin", "method"))
    assert found.no_better_than_random == ("noise",)
    false = sum(bool(compare(rare(seed, 40, 0.0), seed, draws=500).apart().any()) for seed in range(200))
    assert false <= 20  # 5 % of 200, and three standard deviations


@pytest.mark.parametrize("n", [FEW, 20])
def test_few_texts_and_many_methods_make_few_false_claims(n: int) -> None:
    """Thirteen columns that are all alike: 78 pairs, and hardly a verdict that tells two of them apart."""
    draws = (np.random.default_rng([n, seed]).normal(size=(n, 13)) for seed in range(100))
    false = sum(bool(compare(values, seed, draws=400).apart().any()) for seed, values in enumerate(draws))
    assert false <= 12  # 5 % of 100, and three standard deviations


def test_a_method_that_ran_on_few_texts_does_not_cost_the_others_theirs() -> None:
    values = drawn(0, 40, (1.0, 2.0, 1.0, 0.0))
    values = np.column_stack([values, np.where(np.arange(40) < 3, 9.0, np.nan)])
    values[7, 0] = np.nan
    found = judge(values, [*METHODS, "rare"], metric="aopc")
    assert found.missing == ("rare",)
    assert (found.n, found.left_out) == (39, 1)
    assert "rare ran on too few of the texts" in str(found)
    assert "gave no number there: 1" in str(found)
    assert found.lead == ("better",)
    assert "heed better" in str(found)
    assert "better leads" in str(replace(found, faithful=False))


def test_the_bar_that_the_docs_tell_is_the_bar() -> None:
    """docs/audit.md: the least c of 15 columns, and the difference it asks for."""
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in page.splitlines() if "|" in line}
    texts, least, apart = ([float(cell) for cell in rows[name]] for name in ("texts", "c", "difference"))
    pairs = 15 * 14 / 2
    bar = [stats.t.ppf(1 - 0.05 / pairs / 2, n - 1) for n in texts]
    assert [round(c, 1) for c in bar] == least
    assert [round(c / n**0.5, 2) for c, n in zip(bar, texts, strict=True)] == apart
    assert compare(drawn(0, 10, (0.0,) * 15), 0, 200).critical >= bar[0] - 1e-9
