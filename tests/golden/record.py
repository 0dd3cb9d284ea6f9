"""What every method and metric gives on every embedded model, so that a change of the code can be compared.

    python tests/golden/record.py                        writes tests/golden/records.json
    python tests/golden/record.py NAMES.json OUT.json    computes the cases named there

One dictionary per case: plain names and numbers, floats as Python writes them (so they come back to the bit).
Only the public functions of heedful are called, so renames inside do not touch this file.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import heedful
from heedful.core import registry

FILE = Path(__file__).parent / "records.json"
ROOT = Path(__file__).parents[2]
TEXTS = {
    "zoo:sentiment": "The pasta was not great, but the staff were wonderful.",
    "zoo:lm": "Once upon a time there was a little",
    "zoo:one-layer": "this film was not bad at all",
}
# methods that choose a set: a difference in the last digit of the model may choose another one
DISCRETE = ("anchors", "search", "attention-optimus")
METRICS_ON = ("occlusion", "grad-x-input", "attention-avg")


@cache
def _model(name: str) -> Any:
    return heedful.load(name)


def _number(value: Any) -> Any:
    return None if value is None else float(value)


def _numbers(values: Any) -> list[float] | None:
    return None if values is None else [float(value) for value in np.asarray(values).ravel()]


def _attribution(item: Any) -> dict[str, Any]:
    cost = item.cost
    return {
        "scores": _numbers(item.scores),
        "stderr": _numbers(item.stderr),
        "output": _number(item.output),
        "base": _number(item.base),
        "counts": [cost.forwards, cost.backwards, cost.unique, cost.tokens],
        "fitted_by": list(item.fitted_by or ()),
    }


def _evidence(rows: Any) -> dict[str, Any]:
    return {
        f"{row.metric} | {row.operator} | {row.method}": _numbers(
            [row.value, row.control, row.best, row.skill, *row.interval, row.n, *row.chance, *row.orders]
        )
        for row in rows
    }


def _explained(model: str, method: str, **more: Any) -> dict[str, Any]:
    try:
        comparison = heedful.explain(_model(model), TEXTS[model], [method], evidence=False, **more)
    except heedful.HeedfulError:
        return {"skipped": True}
    return _attribution(comparison[method])


def _measured(model: str, metric: str) -> dict[str, Any]:
    comparison = heedful.explain(_model(model), TEXTS[model], METRICS_ON, evidence=[metric], seed=3, draws=20)
    return _evidence(comparison.evidence)


def _audit() -> dict[str, Any]:
    texts = ["the staff were kind and the food was good", "a dull, bad and noisy place", "not bad at all"]
    texts += ["slow service but a wonderful view", "I would never come back", "great coffee, poor cake"]
    marked = [["kind", "good"], ["dull", "bad", "noisy"], ["not", "bad"], ["wonderful"], ["never"], ["great"]]
    marks = [
        [[text.index(word), text.index(word) + len(word)] for word in words]
        for text, words in zip(texts, marked, strict=True)
    ]
    with TemporaryDirectory() as folder:
        audit = heedful.audit(
            _model("zoo:sentiment"),
            texts,
            methods=["occlusion", "lime", "grad-x-input", "attention-avg"],
            metrics=["comprehensiveness", "sufficiency", "plausibility", "compactness"],
            rationales=marks,
            full=True,
            out=Path(folder) / "run",
        )
        verdict = {
            each.method: _numbers([each.share, each.p, each.z, each.gap, each.better, each.may_be_best])
            for each in audit.verdict.methods
        }
        return {"table": _evidence(audit.table), "verdict": verdict, "cost": dict(audit.cost)}


def _trial() -> dict[str, Any]:
    texts = ["the staff were kind and the food was good", "a dull, bad and noisy place", "not bad at all"]
    texts += ["slow service but a wonderful view", "I would never come back", "great coffee, poor cake"]
    tests = ["correlation", "permutation", "adversary"]
    result = heedful.trial(_model("zoo:sentiment"), texts, tests=tests, permutations=5, starts=1, climb=10)
    return {
        "rows": [_numbers([each.value, *each.interval, each.control, each.n]) for each in result.findings]
    }


def _attention(model: str) -> dict[str, Any]:
    atlas = heedful.attention(_model(model), TEXTS[model])
    return {"first_layer": _numbers(atlas.maps[0]), "average": _numbers(atlas.aggregate("mean"))}


def cases() -> dict[str, Callable[[], dict[str, Any]]]:
    """Case -> what computes it."""
    made: dict[str, Callable[[], dict[str, Any]]] = {}
    for model in TEXTS:
        for method in registry.explainers():
            made[f"explain {model} {method}"] = lambda m=model, e=method: _explained(m, e)
            made[f"explain by token {model} {method}"] = lambda m=model, e=method: _explained(
                m, e, unit="token", seed=7
            )
        made[f"attention {model}"] = lambda m=model: _attention(m)
        for metric in registry.metrics():
            made[f"metric {model} {metric}"] = lambda m=model, e=metric: _measured(m, e)
    for operator in ("delete", "mask", "swap", "unk", "pad", "mean"):
        for method in ("occlusion", "lime", "kernel-shap"):
            made[f"explain zoo:sentiment {method} {operator}"] = lambda e=method, o=operator: _explained(
                "zoo:sentiment", e, params={e: {"operator": o}}
            )
    made["audit"] = _audit
    made["trial"] = _trial
    return made


def canary() -> str:
    """The bits that this machine's kernels give: equal where records can be compared to the bit."""
    torch.manual_seed(0)
    digest = hashlib.sha256()
    for model, text in TEXTS.items():
        item = heedful.explain(_model(model), text, ["integrated-gradients"], evidence=False)
        digest.update(item["integrated-gradients"].scores.tobytes())
    x = torch.randn(37, 129, generator=torch.Generator().manual_seed(1))
    digest.update(torch.nn.functional.gelu(x @ x.T).softmax(-1).numpy().tobytes())
    return digest.hexdigest()


def written(names: list[str], path: Path) -> None:
    torch.set_num_threads(1)
    found = {name: cases()[name]() for name in names}
    path.write_text(json.dumps({"canary": canary(), "cases": found}, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        written(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
    else:
        written(list(cases()), FILE)
