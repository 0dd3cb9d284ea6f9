"""When an interval is not to be believed: shapes by hand, residuals against fits made anew, the note."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import heedful
from heedful.engine.question import run_explainer
from heedful.stats import control_variates, interval_reliability, mask_sampling


def test_shapes_by_hand() -> None:
    one = np.zeros((30, 2))
    one[4, 1] = 2.0
    assert interval_reliability.tails(one) == pytest.approx(60), (
        "one row has it all: as many as there are rows"
    )
    assert interval_reliability.tails(np.where(np.arange(40).reshape(20, 2) % 3, 1.0, -1.0)) == pytest.approx(
        1
    )
    assert interval_reliability.tails(np.random.default_rng(0).standard_normal((50_000, 2))) == pytest.approx(
        3, abs=0.1
    )
    even = np.repeat(np.random.default_rng(1).standard_normal((20, 1)), 2, axis=1)
    assert interval_reliability.odd(even) == 0
    assert interval_reliability.odd(even * [1, -1]) == pytest.approx(1)
    both = np.concatenate([even, even * [1, -1]])
    assert interval_reliability.odd(both) == pytest.approx(0.5)


@pytest.mark.parametrize("factor", [2.0**-40, 1.0, 2.0**41])
def test_reasons(factor: float) -> None:
    bell = factor * np.random.default_rng(2).standard_normal((60, 2))
    long = bell.copy()
    long[7, 0] = 80 * factor
    odd = bell[:, :1] * [1.0, -1.0]

    def reason(left_out: np.ndarray, complements: bool, precision: float, beyond_line: float = 0.9) -> str:
        return interval_reliability.reason(
            interval_reliability.Residuals(left_out, complements, beyond_line), precision
        )

    assert reason(bell, True, 0.5) == ""
    assert "a few inputs have most of the error" in reason(long, False, 0.5, 0.1)
    assert reason(long, False, 0.01) == "", "several times nothing is little"
    assert "odd numbers" in reason(odd, True, 0.03)
    assert reason(odd, True, 0.01) == "", "several times nothing is little"
    assert reason(odd, True, 0.03, 0.3) == "", "a line explains most: its slopes are no error"
    assert reason(odd, False, 0.5) == "", "two sets drawn apart have no sign in common"
    assert reason(odd[: interval_reliability.MIN_PAIRS - 1], True, 0.5) == "", "too few to have a shape"
    assert reason(0 * odd, True, 0.5) == ""


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
def test_what_a_line_leaves_is_the_share_of_the_noise(share: float, factor: float) -> None:
    """A line and noise of known variances, 400 rows of 9 words: sd of the share at most 0.04."""
    rng = np.random.default_rng(5)
    keep = rng.random((400, 9)) < 0.5
    line, noise = keep @ np.array([2.0, -2, 2, -2, 0, 0, 0, 0, 0]) / 2, rng.standard_normal(400)
    values = factor * (7 + np.sqrt(1 - share) * line + np.sqrt(share) * noise)
    found = control_variates.controls(
        keep, values, rng.random(400) + 0.5, np.full(200, 0.1), partial(control_variates.lime_lines, nu=0.25)
    )
    assert found.beyond_line == pytest.approx(share, abs=0.12)


def test_left_out_residuals_are_those_of_fits_without_the_pair() -> None:
    rng = np.random.default_rng(3)
    design, values, weights = rng.standard_normal((41, 4)), rng.standard_normal(41), rng.random(41) + 0.1
    found = mask_sampling.fit(design, values, weights, np.zeros(20)).left_out
    root = np.sqrt(weights)
    for g in range(20):
        rest = np.delete(np.arange(41), [2 * g, 2 * g + 1])
        line = np.linalg.lstsq(design[rest] * root[rest, None], values[rest] * root[rest], rcond=None)[0]
        own = [2 * g, 2 * g + 1]
        np.testing.assert_allclose(found[g], (values - design @ line)[own] * root[own], atol=1e-10)


def words(count: int) -> str:
    return " ".join(f"w{j}" for j in range(count))


@pytest.mark.parametrize("method", ["lime", "kernel-shap"])
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_the_note_of_a_product_and_of_a_sum(method: str, scale: float) -> None:
    logs = 1.25 * np.random.default_rng(4).standard_normal(40)
    size = {f"w{j}": float(log) for j, log in enumerate(logs)}

    def total(text: str) -> float:
        return sum(size.get(word, 0.0) for word in text.split())

    for f, wanted in (
        (lambda texts: [scale * float(np.exp(total(text))) for text in texts], True),
        (lambda texts: [scale * total(text) for text in texts], False),
        (lambda texts: [scale * 2.5 for _ in texts], False),
    ):
        model = heedful.load(f)
        x = model.encode(words(40))
        found = run_explainer(method, model, x, model.target(x), operator="delete", samples=256)
        assert any("interval not reliable" in note for note in found.notes) == wanted


@pytest.mark.parametrize("method", ["lime", "kernel-shap"])
@pytest.mark.parametrize("value", [0.0, -3.5e9, 2e-9])
def test_a_constant_is_not_said_to_be_enumerated(method: str, value: float) -> None:
    model = heedful.load(lambda texts: [value for _ in texts])
    for count, wanted in ((14, "no sampling error seen after"), (5, "every mask was run (32 model inputs)")):
        x = model.encode(words(count))
        note = run_explainer(method, model, x, model.target(x), operator="delete").notes[0]
        assert wanted in note
        assert ("every mask" in note) == (count == 5)
