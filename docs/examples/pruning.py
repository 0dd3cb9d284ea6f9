"""Draw the pruning curves of docs/ablation.md from tables beside this file: python docs/examples/pruning.py.

The tables are what `heedful heads prune ... --csv` prints. Shaded: lowest to highest random order; bars: 95 %
of the drop of the greedy curve, for all steps together. Needs matplotlib.
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
PANELS = {"reviews": "zoo:sentiment, 50 reviews: log-probability of the label"}  # table -> title


def read(name: str) -> list[dict[str, float]]:
    with (HERE / f"pruning-{name}.csv").open(encoding="utf-8", newline="") as file:
        return [{k: float(v) for k, v in row.items() if k != "name"} for row in csv.DictReader(file)]


def panel(axes: Any, name: str, title: str) -> None:
    rows = read(name)
    base = rows[0]["value"] + rows[0]["drop"]
    gone = [0.0, *(row["gone"] for row in rows)]

    def curve(key: str) -> list[float]:
        return [base, *(row[key] for row in rows)]

    low, high = ([base, *(base - row[end] for row in rows)] for end in ("high", "low"))
    axes.fill_between(gone, curve("random_low"), curve("random_high"), color="#dddddd", label="random orders")
    axes.plot(gone, curve("random"), color="#888888", linewidth=1)
    axes.vlines(gone[1:], low[1:], high[1:], "#0b6e99", linewidth=0.8)
    axes.plot(gone, curve("value"), color="#0b6e99", marker="o", markersize=3, label="greedy")
    axes.plot(gone, curve("one_shot"), color="#d9730d", linestyle="--", linewidth=1, label="one-shot")
    axes.axhline(base, color="#888888", linewidth=0.6)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("heads gone")
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    size = (5.6 * len(PANELS), 3.4)
    figure, axes = plt.subplots(1, len(PANELS), figsize=size, layout="constrained", squeeze=False)
    for one, (name, title) in zip(axes[0], PANELS.items(), strict=True):
        panel(one, name, title)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(HERE / "pruning.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
