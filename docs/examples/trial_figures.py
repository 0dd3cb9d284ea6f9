"""Draw the figures of docs/trial.md from the tables beside this file: python docs/examples/trial_figures.py.

trial-NAME.csv is what `heedful trial ... --csv` printed. One panel per test: value with its 95 % interval,
and the control it is read by as a hollow diamond. Needs matplotlib.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "heedful", "font.size": 9}
import matplotlib.pyplot as plt  # noqa: E402

HERE = Path(__file__).parent
MODELS = {"one-layer": "zoo:one-layer", "sentiment": "zoo:sentiment", "prompts": "zoo:prompt-injection"}
PANELS = {  # test -> the unit that is drawn, and the words a line's name begins with
    "correlation": ("Kendall tau-b", ""),
    "permutation": ("change of the answer", "weights in another order, "),
    "adversary": ("JSD, at most 0.693", "other attention, same answer, "),
    "uniform": ("change of the answer", "uniform attention, change of the answer, "),
}
TRAINED = {
    "frozen": ("accuracy", "accuracy, "),
    "trained adversary": ("JSD, at most 0.693", "attention moved, "),
    "guide": ("accuracy", "accuracy, guide: "),
}
BLUE, ORANGE = "#0b6e99", "#d9730d"


def read(name: str) -> list[dict[str, Any]]:
    with (HERE / f"trial-{name}.csv").open(encoding="utf-8", newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row |= {key: float(row[key] or math.nan) for key in ("value", "low", "high", "control")}
    return rows


def panel(axes: Any, rows: list[dict[str, Any]], test: str, begins: str) -> None:
    heights = range(len(rows))
    axes.hlines(heights, [r["low"] for r in rows], [r["high"] for r in rows], BLUE, linewidth=1.4)
    axes.scatter([r["value"] for r in rows], heights, 18, BLUE, zorder=3)
    axes.scatter([r["control"] for r in rows], heights, 22, "white", marker="D", edgecolors=ORANGE, zorder=2)
    axes.set_yticks(heights, [r["what"].removeprefix(begins) for r in rows])
    axes.invert_yaxis()
    axes.set_title(test, fontsize=9)
    axes.set_xlabel(f"{rows[0]['unit']}\n(diamond: {rows[0]['control_name']})", fontsize=8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw(name: str, wanted: dict[str, tuple[str, str]], title: str) -> Any:
    rows = read(name)
    parts = {
        test: [
            row
            for row in rows
            if row["test"] == test and row["unit"] == unit and row["what"].startswith(begins)
        ]
        for test, (unit, begins) in wanted.items()
    }
    parts = {test: found for test, found in parts.items() if found}
    tallest = max(map(len, parts.values()))
    figure, axes = plt.subplots(
        1, len(parts), figsize=(3.6 * len(parts), 1.5 + 0.24 * tallest), layout="constrained"
    )
    for one, (test, found) in zip(axes, parts.items(), strict=True):
        panel(one, found, test, wanted[test][1])
    figure.suptitle(title, fontsize=10)
    return figure


def main() -> None:
    for name, title in MODELS.items():
        texts = next(row["n"] for row in read(name) if row["test"] == "adversary")
        draw(name, PANELS, f"{title}, {texts} texts").savefig(
            HERE / f"trial-{name}.svg", metadata={"Date": None}
        )
    figure = draw("one-layer", TRAINED, "zoo:one-layer and models trained again, three seeds, 100 texts")
    figure.savefig(HERE / "trial-one-layer-trained.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
