"""Plots of single tests of a trial, from their details; a test without one has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful.reports.charts.forest_scatter import Series, scatter


def of(test: str, details: Mapping[str, Any]) -> list[str]:
    """SVG images."""
    drawn = {"permutation": _permutation, "trained adversary": _second, "seeds": _seeds}.get(test)
    return [drawn(details)] if drawn is not None and details else []


def _permutation(details: Mapping[str, Any]) -> str:
    """A point a text, at the last place: all layers, or the only one."""
    largest, change = ([row[-1] for row in details[name]] for name in ("largest", "change"))
    name = str(details["places"][-1])
    points = list(zip(largest, change, strict=True))
    title = f"median change of the answer against the largest weight, {name}"
    return scatter([Series(name, points)], f"largest weight, {name}", "median change", title)


def _second(details: Mapping[str, Any]) -> str:
    """The curve over lambda, and two seeds beside it."""
    curve = [(float(point["TVD"][0]), float(point["JSD"][0])) for point in details["curve"]]
    series = [Series("adversary, one point a lambda", curve, joined=True)]
    if details.get("JSD of seeds") is not None and details.get("TVD of seeds") is not None:
        series.append(Series("two seeds", [(details["TVD of seeds"], details["JSD of seeds"])]))
    title = "how far attention moved against how far the answers moved"
    return scatter(series, "answers moved (TVD)", "attention moved (JSD)", title)


def _seeds(details: Mapping[str, Any]) -> str:
    """A point a text."""
    points = list(zip(details["largest weight"], details["among"], strict=True))
    title = "how far seeds are apart against the largest weight of the text"
    return scatter([Series("texts", points)], "largest weight", "median JSD of two seeds", title)
