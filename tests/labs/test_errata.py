"""The errata: every line holds; a line whose correction is broken fails, and one whose misprint is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedful.explainers import attention_rollout, chefer, lime, raw_attention
from heedful.features.sae.architectures import relu
from heedful.features.sae.autoencoder import SAE
from heedful.labs import errata
from heedful.labs.errata_checks import (
    attention_formulas,
    autoencoder_formulas,
    lime_formulas,
    score_formulas,
    transformer_formulas,
)
from heedful.labs.errata_checks.formula import Misprint, distance
from heedful.metrics import faithfulness, robustness
from heedful.stats import lime_first_order, lime_limit

Check = Callable[[int, int], Misprint]


def number_of(check: Check) -> str:
    """e16_intercept is of E16."""
    return check.__name__.split("_")[0].upper()


@pytest.mark.parametrize("check", errata.CHECKS, ids=lambda check: check.__name__)
def test_every_line_holds(check: Check) -> None:
    found = check(3, 2)
    assert found.holds, (found.wrong, found.right)
    assert len(found.wrong) == len(found.right)
    assert found.number == number_of(check)


def reversed_rollout(trace: Any) -> Any:
    layers = attention_rollout.steps(trace)
    return reduce(lambda above, below: above @ below, [layers[-1], *layers[:-1]])[0]


def no_identity(maps: Any, grads: Any) -> Any:
    gained = None
    for layer, grad in zip(maps, grads, strict=True):
        bar = chefer.felt(layer, grad)
        gained = bar if gained is None else bar @ gained
    return gained


FIRST = raw_attention.answer_rows


def penalty(made: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The library's loss with another penalty."""
    real = relu.loss

    def loss(params: Any, x: Any, *rest: Any) -> Any:
        found = real(params, x, *rest)
        return replace(
            found, parts=found.parts | {"sparsity": made(relu.encode(params, x, {}), params["dec"])}
        )

    return loss


# what is broken in the library: module, name, replacement, and the line that must notice
BROKEN: list[tuple[Any, str, Any, Check]] = [
    (
        lime_first_order,
        "centred",
        lime_first_order.published,
        lime_formulas.e1_diffuse,
    ),
    (lime_limit, "alphas", lambda d, nu, order=2: np.array([1, 1 / 2, 1 / 4]), lime_formulas.e1_removed),
    (lime_limit, "limit", lambda m, g, nu: (0.0, 3 * g), lime_formulas.e2_corollary),
    (lime_formulas.enumeration, "lime", lambda v, nu=1: (0.0, np.ones(8)), lime_formulas.e16_intercept),
    (
        lime,
        "_places",
        lambda q: [[u] for u in range(len(q.units))],
        lime_formulas.e16_masks,
    ),
    (faithfulness, "MAX_LOST_SHARE", 0.9, score_formulas.e9_complexity),
    (faithfulness, "ranked", lambda scores, rng: np.argsort(scores), score_formulas.e9_complexity),
    (
        robustness,
        "lipschitz",
        lambda a, b, d: float((abs(b - a).max(1) / d).max()),
        score_formulas.e11_lipschitz,
    ),
    (transformer_formulas, "gelu", lambda x: 0.4 * x, transformer_formulas.e4_gelu),
    (
        transformer_formulas,
        "causal_mask",
        lambda n, t: torch.zeros(n, n, dtype=t),
        transformer_formulas.e5_multiplied,
    ),
    (
        transformer_formulas,
        "GPT2Config",
        partial(transformer_formulas.GPT2Config, vocab_size=50_304),
        transformer_formulas.e10_vocabulary,
    ),
    (
        transformer_formulas,
        "GPT2Config",
        partial(transformer_formulas.GPT2Config, width=756),
        transformer_formulas.e10_parameters,
    ),
    (transformer_formulas, "solu", lambda x: x.softmax(-1), transformer_formulas.ok_solu),
    (attention_rollout, "with_residual", lambda a: a, attention_formulas.e18_rollout),
    (attention_rollout, "rolled", reversed_rollout, attention_formulas.e18_order),
    (chefer, "_stack", no_identity, attention_formulas.e19_identity),
    (raw_attention, "answer_rows", lambda trace, layer: FIRST(trace, 0), attention_formulas.e20_first_layer),
    (
        relu,
        "loss",
        penalty(lambda codes, dec: codes.sum() / len(codes)),
        autoencoder_formulas.e21_decoder_norm,
    ),
    (
        relu,
        "loss",
        penalty(lambda codes, dec: (codes @ dec.norm(dim=1)).sum()),
        autoencoder_formulas.e21_batch,
    ),
    (SAE, "decode", lambda sae, a: a @ sae.W_dec * 0, autoencoder_formulas.e21_code),
]


@pytest.mark.parametrize(
    ("module", "name", "broken", "check"), BROKEN, ids=lambda v: getattr(v, "__name__", "")
)
def test_a_broken_correction_fails(
    module: Any, name: str, broken: Any, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, broken)
    assert not check(0, 2).holds


def test_what_is_printed_right_is_no_misprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lime_first_order, "published", lime_first_order.plain)
    assert not lime_formulas.e1_equal_scores(0, 3).holds


def test_the_printed_autoencoder_runs_without_its_faults_alone() -> None:
    code, x = autoencoder_formulas.CODE, torch.randn(3, 4)
    assert autoencoder_formulas.rebuilt(code.format(**autoencoder_formulas.RUNS), x)
    assert not autoencoder_formulas.rebuilt(code.format(**autoencoder_formulas.PRINTED), x)


def test_a_number_that_is_none_does_not_hold() -> None:
    nan = Misprint("E0", "s", "p", "c", "j", np.array([np.nan, 1.0]), np.zeros(2))
    assert not nan.holds
    assert distance([3.0, 4.0], [3.0, 0.0]) == pytest.approx(4 / 3)


def test_all_numbers_of_the_page_are_in_the_lab() -> None:
    """docs/errata.md lists every erratum once; the lab computes it, or says why it cannot."""
    page = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^\| (E\d+) \|", page, re.M))
    assert written == {f"E{i}" for i in range(1, 24)}
    computed = {number_of(check) for check in errata.CHECKS} | {"E13"}  # test_special_tokens.py
    not_computed = {number for number, _, _ in errata.NOT_COMPUTED}
    assert written <= computed | not_computed
    assert "E13" not in not_computed
    assert {"E12", "E14", "E15", "E22", "E23"} == written - computed
