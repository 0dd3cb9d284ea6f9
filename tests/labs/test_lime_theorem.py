"""The lab on LIME's limit: its sums against brute force, and claims that fail where a bug is planted."""

from __future__ import annotations

from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.lab_report import Claim
from heedful.labs import lime_theorem as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.data.one_layer_cases import OneLayerCase, case, documents, error, fresh
from heedful.stats import lime_first_order, ratio_game
from heedful.stats.lime_limit import row_weights


@pytest.fixture(scope="module")
def zoo() -> Any:
    return heedful.load("zoo:one-layer")


@pytest.fixture(scope="module")
def diffuse(zoo: Any) -> list[OneLayerCase]:
    texts = documents(4, 12, np.random.default_rng(0))
    return [case(fresh(zoo, i, 1.0), text) for i, text in enumerate(texts)]


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def test_documents_have_so_many_different_words(diffuse: list[OneLayerCase]) -> None:
    for one in diffuse:
        words = [one.x.word_text(j) for j in range(len(one.x.word_spans))]
        assert len(words) == len(set(words)) == 12


def test_exact_is_the_weighted_least_squares_of_all_texts(diffuse: list[OneLayerCase]) -> None:
    one = diffuse[0]
    d = len(one.heads[0].g1)
    keep = np.array(list(product([False, True], repeat=d)))
    values = one.model.values(one.x, one.target, keep, "unk", "word")
    chance = np.array([0.0 if k == d else 1 / comb(d, k) for k in keep.sum(1).tolist()])
    root = np.sqrt(chance * row_weights(keep))[:, None]
    design = np.column_stack([np.ones(len(keep)), keep])
    want = np.linalg.lstsq(design * root, values * root[:, 0], rcond=None)[0][1:]
    assert error(one.exact(), want) < 1e-4  # the model answers in float32


def test_the_sweep_is_the_limit_at_every_bandwidth(diffuse: list[OneLayerCase]) -> None:
    head = diffuse[0].heads[0]
    swept = lab.sweep(head)
    for k in (0, 10, 24):
        np.testing.assert_allclose(swept[k], ratio_game.lime(head, lab.BANDWIDTHS[k]), atol=1e-9)


def test_sign_changes_need_both_signs_and_size() -> None:
    found = np.array([[1.0, -0.5, 0.001, 0.2], [0.5, 0.5, -0.001, 0.1]])
    assert lab.sign_changes(found) == [1]


def test_ridge_is_what_the_penalty_leaves() -> None:
    """Slopes of a linear function, drawn as LIME draws, shrink by this much."""
    from heedful.explainers.lime import published_fit, published_masks

    rng = np.random.default_rng(0)
    keep = published_masks(8, 400, rng)
    slopes = rng.standard_normal(8)
    found, _ = published_fit(keep, keep @ slopes, 8)
    shrunk = float(found @ slopes / (slopes @ slopes))
    assert 1 - shrunk == pytest.approx(1 - lab.ridge(8, 400), rel=0.25)  # of the 400 rows drawn


def test_runs_hold_for_the_exact_limit_alone(
    diffuse: list[OneLayerCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = LabRun(fast=True)
    lab.several_runs(run, {"diffuse": diffuse[0]}, 600)
    assert held(run) == [True]
    right = ratio_game.lime
    monkeypatch.setattr(ratio_game, "lime", lambda game, nu: 1.3 * right(game, nu))
    wrong = LabRun(fast=True)
    lab.several_runs(wrong, {"diffuse": diffuse[0]}, 600)
    assert held(wrong) == [False]


def test_the_farthest_word_is_outside_by_chance_in_one_of_a_thousand_seeds() -> None:
    """Words that share their noise, some noisier than others; seeds not used elsewhere."""
    rng = np.random.default_rng(4471)
    limit, runs, seeds = rng.normal(0, 1, 25), 10, 4000
    scale, shared = rng.uniform(0.1, 3, 25), rng.normal(0, 1, (seeds, runs, 1))
    draws = limit + scale * (rng.normal(0, 1, (seeds, runs, 25)) + shared)
    spans = [lab.farthest(each, limit)[1] for each in draws]
    outside = sum(not low <= 0 <= high for low, high in spans)
    assert outside <= 12  # 4 expected at most; 13 or more have a chance of 3e-4


def test_the_farthest_word_is_the_one_that_is_wrong() -> None:
    rng = np.random.default_rng(912)
    draws = rng.normal(0, 1, (10, 40))
    draws[:, 17] += 6
    gap, (low, high) = lab.farthest(draws, np.zeros(40))
    assert gap == pytest.approx(draws[:, 17].mean())
    assert 0 < low < gap < high


def test_formulas_notice_a_constant(
    diffuse: list[OneLayerCase], zoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were 3/2 right, the claims against it would fail."""
    peaked = [case(fresh(zoo, i, lab.PEAKED), one.x.text) for i, one in enumerate(diffuse)]
    cases = {"diffuse": diffuse, "peaked": peaked, "trained": [case(zoo, one.x.text) for one in diffuse]}
    monkeypatch.setattr(OneLayerCase, "exact", lambda self, nu=0.25: 1.5 * self.mean(lime_first_order.plain))
    run = LabRun(fast=True)
    lab.formulas(run, cases)
    assert held(run) == [False, False, False, False]


def test_equal_attention_is_found_out(zoo: Any, diffuse: list[OneLayerCase]) -> None:
    text = diffuse[0].x.text
    for sharpness, holds in ((0.0, True), (0.5, False)):
        run = LabRun(fast=True)
        lab.equal_attention(run, case(fresh(zoo, 0, sharpness), text))
        assert held(run) == [holds]


def test_deletion_that_replaces_is_found_out(
    zoo: Any, diffuse: list[OneLayerCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [case(zoo, one.x.text) for one in diffuse]
    plain = OneLayerCase.sampled
    monkeypatch.setattr(
        OneLayerCase, "sampled", lambda self, rows, seed, operator="unk": plain(self, rows, seed, "unk")
    )
    run = LabRun(fast=True)
    lab.deletion(run, cases, 200)
    assert held(run) == [False]
