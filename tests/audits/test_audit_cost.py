"""Rows shared between methods and metrics: counted against doing everything apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import heedful
from heedful.audits.settings import AuditSettings
from heedful.core.defaults import FULL_METRICS
from heedful.engine.session import Session
from heedful.metrics.score import ScoreInputs, score_explanations
from heedful.modalities.kinds import KINDS

PROBES = tuple(KINDS["text"].probes().values())

TEXTS = ["the cat sat on the mat", "a dog ran to the low house"]
DRAWS = 4
METHODS = (
    "attention-avg",
    "attention-max",
    "attention-rollout",
    "chefer",
    "grad-avg",
    "grad-l2",
    "grad-x-input",
    "integrated-gradients",
    "smoothgrad",
    "kernel-shap",
    "lime",
    "occlusion",
)


@pytest.fixture(scope="module")
def model(shared: Any) -> Any:
    return shared("bert").model


@pytest.fixture(scope="module")
def texts(model: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("cost")
    assert not heedful.audit(model, TEXTS, methods=METHODS, full=True, out=out, draws=DRAWS).errors
    return pq.read_table(out / "shards" / "000000" / "texts.parquet").to_pylist()  # type: ignore[no-any-return]


def apart(model: Any, text: str, seed: int) -> int:
    """Every method by itself; every metric, for each method and operator, with its own random orders."""
    asked = 0
    for method in METHODS:
        alone: Any = Session(model)
        before = alone.spent
        item = heedful.explain(alone, text, [method], seed=seed, evidence=False)[method]
        asked += (alone.spent - before).forwards
        for metric in FULL_METRICS:
            for operator in model.operators[:2]:
                before = model.spent
                score_explanations(
                    model,
                    [item],
                    [metric],
                    [operator],
                    draws=DRAWS,
                    seed=seed,
                    known=ScoreInputs(searched={}),
                )
                asked += (model.spent - before).forwards
    return asked


def test_naive_is_what_doing_everything_apart_really_asks_for(
    model: Any, texts: list[dict[str, Any]]
) -> None:
    text = texts[0]
    assert text["naive"] == apart(model, TEXTS[0], text["seed"])


def test_at_most_two_fifths_of_the_naive_rows_are_run(texts: list[dict[str, Any]]) -> None:
    naive, asked, run = (sum(text[name] for text in texts) for name in ("naive", "asked", "run"))
    assert run <= 0.4 * naive
    assert run <= 0.4 * asked, "also when all methods share their random orders"


def test_what_was_run_is_what_the_model_saw(tmp_path: Path) -> None:
    """Every text that came to a function, once each (the prediction and the probe are asked for besides)."""
    seen: list[str] = []

    def count(batch: list[str]) -> list[float]:
        seen.extend(batch)
        return [float(len(text)) for text in batch]

    text = "one two three four"
    found = heedful.audit(count, [text], methods=["occlusion", "lime"], metrics=["aopc"], out=tmp_path)
    besides = [one for one in seen if one == text or one in PROBES]
    assert found.cost["run"] == len(seen) - len(besides) + 1
    assert found.cost["run"] == len(set(seen) - set(PROBES)), "no text twice"


def test_settings_do_not_share_seeds() -> None:
    settings = AuditSettings(("lime",), ("aopc",), ("delete",), seed=1)
    other = AuditSettings(("lime",), ("aopc",), ("delete",), seed=2)
    seeds = {s.seed_of(row) for s in (settings, other) for row in range(100)}
    assert len(seeds) == 200
