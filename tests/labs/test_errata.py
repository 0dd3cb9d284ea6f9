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

from heedful.evidence import faithfulness, robustness
from heedful.explainers import attention, lime, relevance, rollout
from heedful.features.architectures import relu
from heedful.features.sae import SAE
from heedful.labs import (
    errata,
    misprints_attention,
    misprints_autoencoder,
    misprints_lime,
    misprints_scores,
    misprints_transformer,
)
from heedful.labs.misprint import Misprint, distance
from heedful.theory import lime_limit

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
    layers = rollout.steps(trace)
    return reduce(lambda above, below: above @ below, [layers[-1], *layers[:-1]])[0]


def no_identity(maps: Any, grads: Any) -> Any:
    gained = None
    for layer, grad in zip(maps, grads, strict=True):
        bar = relevance.felt(layer, grad)
        gained = bar if gained is None else bar @ gained
    return gained


FIRST = attention.answer_rows


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
    (misprints_lime.first_order, "centred", misprints_lime.first_order.published, misprints_lime.e1_diffuse),
    (lime_limit, "alphas", lambda d, nu, order=2: np.array([1, 1 / 2, 1 / 4]), misprints_lime.e1_removed),
    (lime_limit, "limit", lambda m, g, nu: (0.0, 3 * g), misprints_lime.e2_corollary),
    (misprints_lime.enumeration, "lime", lambda v, nu=1: (0.0, np.ones(8)), misprints_lime.e16_intercept),
    (
        lime,
        "_places",
        lambda x, written, unit, bag: [[u] for u in range(len(x.units(unit)))],
        misprints_lime.e16_masks,
    ),
    (faithfulness, "LOSS", 0.9, misprints_scores.e9_complexity),
    (faithfulness, "ranked", lambda scores, rng: np.argsort(scores), misprints_scores.e9_complexity),
    (
        robustness,
        "lipschitz",
        lambda a, b, d: float((abs(b - a).max(1) / d).max()),
        misprints_scores.e11_lipschitz,
    ),
    (misprints_transformer, "gelu", lambda x: 0.4 * x, misprints_transformer.e4_gelu),
    (
        misprints_transformer,
        "causal_mask",
        lambda n, t: torch.zeros(n, n, dtype=t),
        misprints_transformer.e5_multiplied,
    ),
    (
        misprints_transformer,
        "GPT2Config",
        partial(misprints_transformer.GPT2Config, vocab_size=50_304),
        misprints_transformer.e10_vocabulary,
    ),
    (
        misprints_transformer,
        "GPT2Config",
        partial(misprints_transformer.GPT2Config, width=756),
        misprints_transformer.e10_parameters,
    ),
    (misprints_transformer, "solu", lambda x: x.softmax(-1), misprints_transformer.ok_solu),
    (rollout, "with_residual", lambda a: a, misprints_attention.e18_rollout),
    (rollout, "rolled", reversed_rollout, misprints_attention.e18_order),
    (relevance, "_stack", no_identity, misprints_attention.e19_identity),
    (attention, "answer_rows", lambda trace, layer: FIRST(trace, 0), misprints_attention.e20_first_layer),
    (
        relu,
        "loss",
        penalty(lambda codes, dec: codes.sum() / len(codes)),
        misprints_autoencoder.e21_decoder_norm,
    ),
    (
        relu,
        "loss",
        penalty(lambda codes, dec: (codes @ dec.norm(dim=1)).sum()),
        misprints_autoencoder.e21_batch,
    ),
    (SAE, "decode", lambda sae, a: a @ sae.W_dec * 0, misprints_autoencoder.e21_code),
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
    monkeypatch.setattr(misprints_lime.first_order, "published", misprints_lime.first_order.plain)
    assert not misprints_lime.e1_equal_scores(0, 3).holds


def test_the_printed_autoencoder_runs_without_its_faults_alone() -> None:
    code, x = misprints_autoencoder.CODE, torch.randn(3, 4)
    assert misprints_autoencoder.rebuilt(code.format(**misprints_autoencoder.RUNS), x)
    assert not misprints_autoencoder.rebuilt(code.format(**misprints_autoencoder.PRINTED), x)


def test_a_number_that_is_none_does_not_hold() -> None:
    nan = Misprint("E0", "s", "p", "c", "j", np.array([np.nan, 1.0]), np.zeros(2))
    assert not nan.holds
    assert distance([3.0, 4.0], [3.0, 0.0]) == pytest.approx(4 / 3)


def test_all_numbers_of_the_page_are_in_the_lab() -> None:
    """docs/errata.md lists every erratum once; the lab computes it, or says why it cannot."""
    page = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^\| (E\d+) \|", page, re.M))
    assert written == {f"E{i}" for i in range(1, 23)}
    computed = {number_of(check) for check in errata.CHECKS} | {"E13"}  # test_special_tokens.py
    not_computed = {number for number, _, _ in errata.NOT_COMPUTED}
    assert written <= computed | not_computed
    assert "E13" not in not_computed
    assert {"E12", "E14", "E15", "E22"} == written - computed
