"""What infidelity gives to the same score for every word: python docs/examples/constant.py NAME MODEL RUN.

NAME is reviews or prompts, RUN the folder of that audit. The sets of words removed are those of the audit
(its seeds), so the value stands beside its table; control and best are read from its shards.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import heedful
from heedful.evidence.weigh import weigh

HERE = Path(__file__).parent
OPERATORS = ("mask", "delete")


def constant(model: heedful.models.base.Model, text: str, seed: int) -> dict[str, float]:
    """Operator -> infidelity of scores that are all 1."""
    item = heedful.explain(model, text, ["grad-l2"], seed=seed)["grad-l2"]
    flat = replace(item, scores=np.ones_like(item.scores))
    found = weigh(model, [flat], ["infidelity"], OPERATORS, draws=2, seed=seed, searched={})
    return {score.operator: score.value for score in found}


def main(name: str, source: str, run: Path) -> None:
    texts = pd.concat(pd.read_parquet(path) for path in sorted(run.glob("shards/*/texts.parquet")))
    scores = pd.concat(pd.read_parquet(path) for path in sorted(run.glob("shards/*/scores.parquet")))
    with (HERE / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        given = [row["text"] for row in csv.DictReader(file)]
    model = heedful.load(source)
    values = [
        (row, constant(model, given[row], seed)) for row, seed in zip(texts.row, texts.seed, strict=True)
    ]
    for operator in OPERATORS:
        one = scores[(scores.metric == "infidelity") & (scores.operator == operator)]
        one = one.drop_duplicates("row").set_index("row")
        flat = np.mean([value[operator] for _, value in values])
        control, best = one.control.mean(), one.best.mean()
        print(f"{name} {operator}: constant {flat:.3f}, random {control:.3f}, best {best:.3f},", end=" ")
        print(f"skill {(flat - control) / (best - control):.2f} on {len(values)} texts")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
