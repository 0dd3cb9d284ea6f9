"""How often verdicts are wrong: the benchmark of docs/verdict.md, with fewer audits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bench.verdicts import __main__ as bench
from bench.verdicts import audits, rates
from bench.verdicts.laws import LAWS, pools
from bench.verdicts.models import every
from bench.verdicts.rates import Null, Rate

from heedful.metrics.random_orders import beaten

PLACE = Path(__file__).parents[2]
AUDITS = 1000


@pytest.mark.slow
@pytest.mark.parametrize("null", rates.nulls(), ids=lambda null: null.name)
def test_no_null_breaks_the_promise(null: Null) -> None:
    found = bench._rates(null, AUDITS)
    assert Rate("", found["false better"], AUDITS).holds
    assert Rate("", found["false use"], AUDITS).holds


@pytest.mark.slow
@pytest.mark.parametrize("law", ["symmetric", "skewed, long tail of wins", "heavy tails"])
def test_what_is_recommended_is_as_good_as_printed(law: str) -> None:
    found = bench._rates(rates.ranked(law, bench.QUALITIES, 30), AUDITS)
    assert Rate("", found["false better"], AUDITS).holds
    assert Rate("", found["false use"], AUDITS).holds


@pytest.mark.slow
def test_copies_that_count_would_break_it_and_do_not_count() -> None:
    found = bench._duplicated(AUDITS)
    assert Rate("", found["false better"], AUDITS).holds
    assert Rate("", found["if copies counted"], found["of those"]).interval[0] > 0.025


@pytest.mark.slow
def test_stopping_when_decided_keeps_the_promise_and_is_soon() -> None:
    part = bench.sooner(150)
    for one in part["cases"]:
        assert Rate("", one["false better"], one["of"]).holds
        assert Rate("", one["false use"], one["of"]).holds
    clear = next(one for one in part["cases"] if one["case"] == "clear")
    assert clear["median texts"] <= bench.MANY / 3
    assert clear["certified"] >= 0.9 * clear["of"]


@pytest.mark.slow
def test_whole_audits_of_known_models() -> None:
    """One of each kind; the benchmark runs five audits of each of all models."""
    kinds = {known.name.rsplit(" ", 1)[0]: known for known in every()}
    found = audits.run(list(kinds.values()), 1)
    assert not any(one.false_better for one in found)
    reasons = [one for one in found if one.reasons]
    assert sum(one.claims_hold for one in reasons) >= 0.95 * sum(one.claims for one in reasons)
    assert sum(one.found for one in reasons) >= 0.8 * sum(one.findable for one in reasons)
    assert np.mean([one.tau for one in reasons]) >= 0.8


def test_the_page_shows_what_was_measured() -> None:
    """Every line of the results stands in docs/verdict.md, and every one keeps the promise."""
    data = json.loads((PLACE / "bench" / "results" / "verdicts.json").read_text())
    assert bench.table(data) in (PLACE / "docs" / "verdict.md").read_text(encoding="utf-8")
    simulated = data["simulated"]
    assert simulated["audits"] >= 20_000
    named = {f"{name} values" for name in LAWS if name not in rates.SAME_RANKS}
    assert named <= {one["null"] for one in simulated["rates"]}
    for one in (*simulated["rates"], *data["sooner"]["cases"]):
        assert Rate("", one["false better"], one["of"]).holds
        assert Rate("", one["false use"], one["of"]).holds
    real = data["real"]
    assert real["models"] >= 40
    assert Rate("", real["false better"], real["audits"]).holds
    assert real["found"] >= 0.8 * real["findable"]
    assert real["tau"] >= 0.8


@pytest.mark.parametrize("law", rates.SAME_RANKS)
def test_laws_that_grow_have_the_same_ranks(law: str) -> None:
    """One line of the table stands for them: to the last digit, every share is that of symmetric values."""
    for seed in range(5):
        one, other = (
            pools(LAWS[name], np.zeros(3), 20, np.random.default_rng(seed)) for name in ("symmetric", law)
        )
        assert np.array_equal(beaten(one.values, one.orders), beaten(other.values, other.orders))


def test_a_rate_has_its_clopper_pearson_interval() -> None:
    low, high = Rate("", 5, 100).interval
    assert (low, high) == pytest.approx((0.016432, 0.112835), abs=1e-5)  # R: binom.test(5, 100)
    assert Rate("", 0, 100).interval[0] == 0.0
    assert Rate("", 100, 100).interval[1] == 1.0
    assert not Rate("", 80, 1000).holds


def test_models_know_their_reasons() -> None:
    """The true worth of words foretells what the model does without them, where there is any."""
    models = every()
    assert len(models) >= 40
    assert len({known.name for known in models}) == len(models)
    for known in models:
        texts = known.texts(30, 3)
        assert all(8 <= len(text.split()) <= 12 for text in texts)
        if known.truth is None:
            continue
        agree = []
        for text in texts:
            words = text.split()
            full, true = known([text])[0], known.truth(words)
            without = np.array(known([" ".join([*words[:i], *words[i + 1 :]]) for i in range(len(words))]))
            if np.ptp(true) and np.ptp(full - without):
                agree.append(np.corrcoef(true, full - without)[0, 1])
        assert np.mean(agree) > 0.5, known.name
