"""Which architecture finds planted features: python docs/examples/synthetic_sae.py [plain|full] [seeds].

128 known features in 32 dimensions. Six architectures, the same width, batch and steps, settings found on
other seeds of `plain` alone; every seed draws other features, other data and other first weights. Writes
synthetic-PLAN.csv (a row a run) and synthetic-PLAN.json (means with 95 % intervals over seeds, and the
controls) beside this file. About a quarter of a minute a run on one quiet core.
"""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import heedful
from heedful.features.measures.recovery import random_dictionary, recovery, untrained
from heedful.features.measures.synthetic import QUICK, Synthetic, full
from heedful.stats.intervals import student

HERE = Path(__file__).parent
PLANS = {"plain": QUICK, "full": full(QUICK)}
WIDTH, STEPS, BATCH, FIRST = 192, 1500, 512, 10
KINDS: dict[str, dict[str, Any]] = {
    "relu": {"sparsity": 2.0, "lr": 3e-3},
    "relu-tied": {"sparsity": 3.0, "lr": 3e-3},
    "topk": {"k": 2, "lr": 5e-3, "dead_rows": 20_000},
    "batchtopk": {"k": 2, "lr": 5e-3, "dead_rows": 20_000},
    "jumprelu": {"sparsity": 0.02, "bandwidth": 0.1, "lr": 5e-3},
    "matryoshka": {"k": 2, "lr": 3e-3, "dead_rows": 20_000},
}
SHOWN = ("recovered", "cosine", "f1", "mcc", "l0", "true_l0", "explained", "dead")


def run(plan: str, kind: str, seed: int) -> list[dict[str, Any]]:
    """One training, and its two controls."""
    source = Synthetic(replace(PLANS[plan], seed=seed))
    settings = KINDS[kind] | {"batch": BATCH, "seed": seed}
    sae = heedful.train_sae(source, WIDTH, kind, steps=STEPS, keep=STEPS, **settings)
    before = untrained(source, WIDTH, kind, STEPS, **settings)
    chance = random_dictionary(sae, source.draw(2048, seed + 1)[0], seed)
    every = {kind: sae, f"{kind}, untrained": before, f"{kind}, random": chance}
    return [{"kind": name, "seed": seed, **recovery(one, source).summary()} for name, one in every.items()]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in dict.fromkeys(row["kind"] for row in rows):
        values = np.array([[row[figure] for figure in SHOWN] for row in rows if row["kind"] == name])
        band = student(values, 1)
        found[name] = {
            figure: {"mean": float(band.mean[i]), "low": float(band.low[i]), "high": float(band.high[i])}
            for i, figure in enumerate(SHOWN)
        }
    return found


def main() -> None:
    plan, seeds = (sys.argv[1:2] or ["plain"])[0], int((sys.argv[2:3] or ["3"])[0])
    rows: list[dict[str, Any]] = []
    for seed in range(FIRST, FIRST + seeds):
        for kind in KINDS:
            rows += run(plan, kind, seed)
            print(
                plan,
                {key: round(v, 3) if isinstance(v, float) else v for key, v in rows[-3].items()},
                flush=True,
            )
    with (HERE / f"synthetic-{plan}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["kind", "seed", *SHOWN])
        writer.writeheader()
        writer.writerows(
            {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
            for row in rows
        )
    made = {"plan": PLANS[plan].to_dict(), "width": WIDTH, "steps": STEPS, "batch": BATCH, "seeds": seeds}
    made |= {"settings": KINDS, "results": summary(rows)}
    (HERE / f"synthetic-{plan}.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
