"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from heedful.core import numbers


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (numbers.short(-0.12345), "−0.123"),
        (numbers.short(1234.5, 4), "1234"),
        (numbers.signed(0.5), "+0.5"),
        (numbers.fixed(-0.001), "0.00"),
        (numbers.fixed(-0.126), "−0.13"),
        (numbers.fixed_signed(-0.12345), "−0.123"),
        (numbers.by_size(1234.6), "1,235"),
        (numbers.by_size(12.34), "12.3"),
        (numbers.at_most(0.101), "0.11"),
        (numbers.at_most(0.1), "0.10"),
        (numbers.percent(0.416), "42 %"),
        (numbers.percent(None), "–"),
        (numbers.percent(0.889, 1), "88.9 %"),
        (numbers.percent(-0.5), "−50 %"),
        (numbers.percent(math.inf), "–"),
        (numbers.p_value(1e-9), "< 0.001"),
        (numbers.p_value(0.0123), "0.012"),
        (numbers.p_value(math.nan), "–"),
        (numbers.span(-1.0, 2.0), "−1 to 2"),
        (numbers.span(-math.inf, 2.0), "–"),
        (numbers.with_interval(0.5, 0.4, 0.61), "0.50 (0.40 to 0.61)"),
        (numbers.with_interval(0.5, math.nan, math.nan), "0.50"),
        (numbers.duration(0.004), "4 ms"),
        (numbers.duration(300), "5 min"),
        (numbers.duration(9000), "2.5 h"),
    ],
)
def test_as_people_read_them(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize("show", [numbers.short, numbers.signed, numbers.fixed, numbers.by_size])
def test_what_is_no_number_is_a_dash(show: object) -> None:
    assert callable(show)
    assert [show(value) for value in (math.nan, math.inf)] == ["–", "–"]
