"""The errata: every line holds; a line whose correction is broken fails, and one whose misprint is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from heedful.labs import (
    errata,
    misprints_attention,
    misprints_autoencoder,
    misprints_lime,
    misprints_scores,
    misprints_transformer,
)
from heedful.labs.misprint import Misprint, distance

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


# what is broken: module, name, replacement, and the line that must notice
BROKEN: list[tuple[ModuleType, str, Any, Check]] = [
    (misprints_lime.first_order, "centred", misprints_lime.first_order.published, misprints_lime.e1_diffuse),
    (misprints_lime.enumeration, "lime", lambda v, nu=1: (0.0, np.ones(8)), misprints_lime.e16_intercept),
    (misprints_lime, "PUBLISHED", 0.26, misprints_lime.e16_bandwidth),
    (misprints_scores, "lipschitz", lambda a, b, d: 1.0, misprints_scores.e11_lipschitz),
    (misprints_transformer, "gelu", lambda x: 0.4 * x, misprints_transformer.e4_gelu),
    (
        misprints_transformer,
        "causal_mask",
        lambda n, t: torch.zeros(n, n, dtype=t),
        misprints_transformer.e5_multiplied,
    ),
    (misprints_transformer, "solu", lambda x: x.softmax(-1), misprints_transformer.ok_solu),
    (misprints_attention, "with_residual", lambda a: a, misprints_attention.e18_rollout),
    (misprints_attention, "merged", lambda a, q, k: a[2:, 2:], misprints_attention.e13_special_tokens),
    (misprints_attention, "felt", lambda a, g: (a * g).mean(0), misprints_attention.e19_identity),
    (misprints_autoencoder, "works", lambda attempt: True, misprints_autoencoder.e21_code),
]


@pytest.mark.parametrize(
    ("module", "name", "broken", "check"), BROKEN, ids=lambda v: getattr(v, "__name__", "")
)
def test_a_broken_correction_fails(
    module: ModuleType, name: str, broken: Any, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, broken)
    assert not check(0, 2).holds


def test_what_is_printed_right_is_no_misprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misprints_lime.first_order, "published", misprints_lime.first_order.plain)
    assert not misprints_lime.e1_equal_scores(0, 3).holds


def test_a_number_that_is_none_does_not_hold() -> None:
    nan = Misprint("E0", "s", "p", "c", "j", np.array([np.nan, 1.0]), np.zeros(2))
    assert not nan.holds
    assert distance([3.0, 4.0], [3.0, 0.0]) == pytest.approx(4 / 3)


def test_all_numbers_of_the_page_are_in_the_lab() -> None:
    """docs/errata.md lists every erratum once; the lab computes it, or says why it cannot."""
    page = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^\| (E\d+) \|", page, re.M))
    assert written == {f"E{i}" for i in range(1, 23)}
    computed = {number_of(check) for check in errata.CHECKS}
    not_computed = {number for number, _, _ in errata.NOT_COMPUTED}
    assert written <= computed | not_computed
    assert {"E12", "E14", "E15", "E22"} == written - computed
