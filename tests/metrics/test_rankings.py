"""Kendall's tau between rankings of methods."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.core.evidence import Evidence
from heedful.metrics.rankings import order_agreement


def test_agreement_of_orders_in_an_audit() -> None:
    def line(metric: str, method: str, value: float) -> Evidence:
        return Evidence(metric, "", method, value, 0, 1, 0, (0, 0), 5, (0, 0))

    table = [
        line(f"road-{order}", m, v)
        for order, values in (("morf", (3, 2, 1)), ("lerf", (1, 3, 2)))
        for m, v in zip("abc", values, strict=True)
    ]
    # by MoRF a b c; by LeRF, low first, a c b: two of three pairs alike
    assert order_agreement(table) == pytest.approx(1 / 3)
    assert np.isnan(order_agreement(table[:1]))
