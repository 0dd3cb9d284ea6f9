"""Draw the figures of docs/worked-audit.md from the tables beside this file: python docs/examples/figures.py.

One row a method, one panel a metric: skill (0 random order, 1 best found) with its 95 % interval, a colour an
operator. Hollow: the interval holds 0. Left out: numbers the audit marks as circular. Needs matplotlib.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "heedful", "font.size": 9}
import matplotlib.pyplot as plt  # noqa: E402

HERE = Path(__file__).parent
METRICS = ("comprehensiveness", "sufficiency", "aopc", "infidelity")
COLOURS = {"delete": "#0b6e99", "swap": "#d9730d"}


def read(name: str) -> list[dict[str, Any]]:
    with (HERE / f"{name}-table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row |= {key: float(row[key]) for key in ("skill", "low", "high")}
    return rows


def order(rows: list[dict[str, Any]]) -> list[str]:
    """Methods, the highest mean skill in comprehensiveness first."""
    found: dict[str, float] = {}
    for row in rows:
        if row["metric"] == "comprehensiveness":
            found[row["method"]] = found.get(row["method"], 0.0) + row["skill"]
    return sorted(found, key=found.__getitem__, reverse=True)


def panel(axes: Any, rows: list[dict[str, Any]], methods: list[str]) -> None:
    for shift, (operator, colour) in zip((-0.16, 0.16), COLOURS.items(), strict=True):
        shown = [row for row in rows if row["operator"] == operator and row["circular"] == "false"]
        heights = [methods.index(row["method"]) + shift for row in shown]
        faces = [colour if row["low"] > 0 or row["high"] < 0 else "white" for row in shown]
        axes.hlines(heights, [r["low"] for r in shown], [r["high"] for r in shown], colour, linewidth=1.2)
        axes.scatter([r["skill"] for r in shown], heights, 16, faces, edgecolors=colour, zorder=3)
    axes.axvline(0, color="#888888", linewidth=0.8)
    axes.set_title(rows[0]["metric"], fontsize=9)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw(name: str, title: str) -> Any:
    rows = read(name)
    methods = order(rows)
    figure, axes = plt.subplots(1, len(METRICS), figsize=(9.5, 4.2), sharey=True, layout="constrained")
    for one, metric in zip(axes, METRICS, strict=True):
        panel(one, [row for row in rows if row["metric"] == metric], methods)
    axes[0].set_yticks(range(len(methods)), methods)
    axes[0].invert_yaxis()
    handles = [plt.Line2D([], [], color=c, marker="o", markersize=4, label=o) for o, c in COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure


def main() -> None:
    for name, model in (("reviews", "zoo:sentiment"),):
        title = f"{model}, {read(name)[0]['n']} texts of {name}.csv: skill and 95 % interval, by operator"
        figure = draw(name, title)
        figure.savefig(HERE / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
