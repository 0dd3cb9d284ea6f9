"""Audits from end to end: what is recommended, when they stop, and what they cannot be misled by."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench.verdicts.models import noise, planted, shortcut

import heedful
from heedful.audits.estimate import estimate_audit
from heedful.cli.main import main
from heedful.core.attribution import Attribution
from heedful.io.datasets import Columns, in_random_order, open_source
from heedful.metrics.random_orders import beaten, by_family
from heedful.metrics.score import ScoreInputs, score_explanations
from heedful.metrics.summary import pools_of

OURS = ["occlusion", "lime"]
FAMILIES = ["aopc", "insertion"]
Audit = Callable[..., heedful.Audit]


@pytest.mark.parametrize("seed", [11, 12])
def test_pure_noise_has_no_method_to_use(seed: int, tmp_path: Path) -> None:
    """A number drawn for every text: whatever fits its own removals, other removals know nothing of it."""
    model = noise(seed)
    found = heedful.audit(
        model, model.texts(12, seed), methods=OURS, metrics=FAMILIES, draws=10, out=tmp_path, seed=seed
    )
    assert not found.verdict.better
    assert "No method is proven better than a random order on this model" in found.verdict.headline


def test_judged_by_its_own_removal_a_method_would_know_noise() -> None:
    """Why methods are fitted by one operator and judged by another: the same scores, judged by both."""
    known = noise(3)
    model: Any = heedful.load(known)
    texts = []
    for text in known.texts(24, 0):
        item = heedful.explain(model, text, "occlusion", params={"occlusion": {"operator": "delete"}})[
            "occlusion"
        ]
        assert item.fitted_by == ("delete",)
        texts.append(
            score_explanations(
                model,
                [item],
                ["comprehensiveness"],
                ["delete", "mask"],
                draws=20,
                known=ScoreInputs(searched={}),
            )
        )
    shares = {}
    for operator in ("delete", "mask"):
        pools = pools_of(texts, ["occlusion"], [operator])
        shares[operator] = float(by_family(beaten(pools.values, pools.orders), pools.cells).mean())
    assert shares["delete"] > 0.65, "its own removal agrees with it"
    assert 0.35 < shares["mask"] < 0.62, "another does not"


def test_what_it_was_fitted_by_keeps_an_operator_from_judging(tmp_path: Path) -> None:
    model = planted(1)
    given: dict[str, Any] = {"methods": ["occlusion", "lime"], "metrics": FAMILIES, "draws": 5}
    own = {"lime": {"operator": "mask"}}
    found = heedful.audit(model, model.texts(12, 0), params=own, out=tmp_path / "a", **given)
    assert found.made["settings"]["operators"] == ["swap"], "what the user chose to fit does not judge"
    assert found.verdict.operators == ("swap",)
    assert found.verdict["lime"].fitted_by == ("mask",)
    one = heedful.audit(
        model,
        model.texts(12, 0),
        params={m: {"operator": "mask"} for m in given["methods"]},
        operators=["mask"],
        out=tmp_path / "b",
        **given,
    )
    assert not one.verdict.methods
    assert "occlusion and lime take no part: mask judges here, and fitted it." in str(one.verdict)


@pytest.mark.parametrize("seed", range(2))
def test_a_constant_explanation_is_no_order(seed: int) -> None:
    """A word's score is spread over its tokens and summed again: rounding must not become an order."""
    model = heedful.load("zoo:sentiment")
    rng = np.random.default_rng(seed)
    words = np.array(["unbelievably", "good", "food", "extraordinarily", "dull", "overpriced", "wine"])
    texts = [" ".join(rng.permutation(words)) for _ in range(12)]
    found = heedful.weigh(
        model,
        texts,
        {"constant": lambda text: [0.1] * len(text.split())},
        fitted_by="nothing",
        metrics=FAMILIES,
        draws=10,
        seed=seed,
        operators=["delete"],
    )
    assert not found.verdict.better


def test_a_model_that_ignores_its_text_gives_nothing_to_compare() -> None:
    """Equal but for rounding, as batches of other shapes give it."""

    def ignores(texts: list[str]) -> list[float]:
        return [float(np.float32(7.1)) + len(text) % 3 * 2.0**-22 for text in texts]

    found = heedful.weigh(
        ignores,
        planted(0).texts(12, 0),
        {"length": lambda text: [len(w) for w in text.split()]},
        fitted_by="nothing",
        methods=["occlusion"],
        metrics=FAMILIES,
        draws=10,
    )
    assert found.verdict.headline == "Nothing to compare: on 12 texts every order of words did the same."


def test_copies_count_once(tmp_path: Path) -> None:
    model = planted(2)
    texts = model.texts(8, 0) * 4
    found = heedful.audit(model, texts, methods=["occlusion"], metrics=["aopc"], draws=5, out=tmp_path)
    assert (found.rows, found.texts, found.copies, found.verdict.n) == (32, 8, 24, 8)
    assert "too few for a verdict" in found.verdict.headline
    assert "24 rows have the text of another: copies count once." in str(found)
    assert all("the same text as row" in error["reason"] for error in found.errors)
    assert heedful.Audit.load(tmp_path).copies == 24


def test_texts_come_in_random_order(tmp_path: Path) -> None:
    """A file sorted by label: few of its rows are no few of one label."""
    path = tmp_path / "sorted.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *([f"text {i}", int(i >= 100)] for i in range(200))])
    source = open_source(path, columns=Columns("text", "label"), limit=40)
    rows = list(in_random_order(source, 7))
    assert len(rows) == 40
    assert 10 <= sum(row.label == "1" for row in rows) <= 30
    assert [row.text for row in rows] == [f"text {row.number}" for row in rows]
    again = list(in_random_order(source, 7, window=9))
    assert again == rows, "however many rows are held at once"
    assert list(in_random_order(source, 8)) != rows
    whole = list(in_random_order(open_source(path, columns=Columns("text", "label")), 7))
    assert sorted(row.number for row in whole) == list(range(200))
    assert rows == whole[:40], "more rows go on from fewer"


@pytest.mark.parametrize("kind", [np.array, pd.Series, list])
def test_arrays_and_columns_are_shuffled_too(kind: Any) -> None:
    texts, labels = [f"text {i}" for i in range(50)], list(range(50))
    rows = list(in_random_order(open_source(kind(texts), kind(labels), limit=5), 0))
    assert [row.number for row in rows] != [0, 1, 2, 3, 4]
    assert [row.text for row in rows] == [f"text {row.label}" for row in rows]


# --- until decided ---------------------------------------------------------------------------------------


def clear(out: Path, **more: Any) -> heedful.Audit:
    model = shortcut(1)
    given = {"methods": ["occlusion"], "metrics": FAMILIES, "draws": 10, "out": out, **more}
    scores = out.parent / "scores.jsonl"
    if not scores.exists():
        lines = [
            {
                "text": text,
                "method": "reverse",
                "fitted_by": "nothing",
                "scores": (-_worth(model, text)).tolist(),
            }
            for text in model.texts(40, 5)
        ]
        scores.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return heedful.audit(model, model.texts(40, 5), scores=scores, **given)


def _worth(model: Any, text: str) -> Any:
    return model.truth(text.split())


def test_a_clear_case_stops_early_with_the_verdict_of_all(tmp_path: Path) -> None:
    sooner = clear(tmp_path / "sooner", until_decided=True)
    whole = clear(tmp_path / "whole")
    assert sooner.verdict.use == whole.verdict.use == "occlusion"
    assert sooner.verdict.certified
    assert "Not proven better: reverse." in str(sooner.verdict)
    assert "It was settled after" in str(sooner.verdict)
    assert 20 <= sooner.texts <= 30
    assert sooner.cost["run"] < 0.6 * whole.cost["run"]
    assert repr(heedful.Audit.load(tmp_path / "sooner").verdict) == repr(sooner.verdict)


def test_stopped_and_started_again_it_ends_with_the_same_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedful.audits import shard

    whole = clear(tmp_path / "whole", until_decided=True)
    real, done = shard.weigh_row, []

    def interrupted(model: Any, row: Any, *more: Any) -> Any:
        if len(done) == 13:
            raise KeyboardInterrupt
        done.append(row.number)
        return real(model, row, *more)

    with monkeypatch.context() as patched:
        patched.setattr(shard, "weigh_row", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clear(tmp_path / "again", until_decided=True)
    again = clear(tmp_path / "again", until_decided=True)
    assert repr(again.verdict) == repr(whole.verdict)
    assert (tmp_path / "again" / "result.json").read_bytes() == (
        tmp_path / "whole" / "result.json"
    ).read_bytes()


def test_what_cannot_be_settled_is_said(tmp_path: Path) -> None:
    model = planted(3)
    found = heedful.audit(
        model,
        model.texts(25, 1),
        methods=["occlusion", "lime"],
        metrics=FAMILIES,
        draws=10,
        out=tmp_path,
        until_decided=True,
        scores=_noise_file(tmp_path, model.texts(25, 1)),
    )
    assert "It cannot be settled with this many texts: whether noise beats random orders" in str(
        found.verdict
    )
    assert found.texts == 25


def _noise_file(folder: Path, texts: list[str]) -> Path:
    rng, path = np.random.default_rng(4), folder / "noise.jsonl"
    lines = [
        {
            "row": row,
            "method": "noise",
            "scores": rng.normal(size=len(text.split())).tolist(),
            "fitted_by": "nothing",
        }
        for row, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_generator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(heedful.HeedfulError, match="needs texts in random order"):
        heedful.audit(planted(0), iter(["a b"]), out=tmp_path, until_decided=True)


def test_ray_is_refused(tmp_path: Path) -> None:
    with pytest.raises(heedful.HeedfulError, match="looks after every text"):
        heedful.audit(planted(0), ["a b"], out=tmp_path, until_decided=True, engine="ray")


# --- what it would cost ----------------------------------------------------------------------------------


def test_a_dry_run_tells_the_cost_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "texts.csv"
    path.write_text("text\n" + "\n".join(f"{a} food and {b} wine" for a in "abcdef" for b in "uvwxyz") + "\n")
    given = ["audit", str(path), "--method", "occlusion,grad-l2", "--dry-run"]
    assert main(given) == 0
    said = capsys.readouterr().out
    assert "2 methods, judged by delete, swap (fitted by mask)." in said
    assert "36 texts: up to about " in said
    assert "With 36 texts, an audit usually detects methods that beat about " in said
    assert not (tmp_path / "run").exists()
    assert main([*given, "--json", "--until-decided"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["texts"] == 36
    assert 0.5 < found["visible_share"] < 0.8
    assert "as soon as the verdict is settled" in found["said"]


def test_the_cost_foretold_is_enough_for_the_texts_it_looked_at(tmp_path: Path) -> None:
    model = heedful.load(planted(4))
    texts = planted(4).texts(3, 0)
    methods = ["occlusion", "lime"]
    for more in ({}, {"until_decided": True}, {"operators": "all"}):
        told = estimate_audit(model, texts, methods=methods, metrics=FAMILIES, **{"operators": None, **more})
        ran = heedful.audit(
            model,
            texts,
            methods=methods,
            metrics=FAMILIES,
            out=tmp_path / str(len(more) + len(str(more))),
            **more,
        )
        assert 0 < ran.cost["run"] <= told.rows_per_text * 3
        assert "too few for a verdict" in str(told)


# --- scores with nothing to say --------------------------------------------------------------------------


def test_texts_without_words_are_one_clear_line(tmp_path: Path) -> None:
    given: dict[str, Any] = {"methods": ["occlusion"], "metrics": ["aopc"], "draws": 3}
    with pytest.raises(heedful.HeedfulError, match="none of 2 texts could be audited"):
        heedful.audit(planted(0), [" ", ""], out=tmp_path / "none", **given)
    marks = heedful.audit(planted(0), ["...", "!! ?", "?"], out=tmp_path / "marks", **given)
    assert marks.verdict.headline == "Nothing to compare: on 3 texts every order of words did the same."


def test_one_text_and_one_method_claim_nothing(tmp_path: Path) -> None:
    found = heedful.audit(planted(0), ["ban bel dim fan"], methods=["occlusion"], draws=5, out=tmp_path)
    assert found.verdict.headline == "1 text is too few for a verdict: at least 10 are needed."


def test_scores_of_no_number_are_told() -> None:
    model = planted(0)
    texts = model.texts(3, 0)
    bad = {"mine": [[float("nan")] * len(text.split()) for text in texts]}
    with pytest.raises(heedful.HeedfulError, match="mine"):
        heedful.weigh(model, texts, bad, fitted_by="nothing")


def test_an_attribution_of_unknown_making_is_judged_by_all() -> None:
    model: Any = heedful.load(planted(0))
    x = model.encode("ban bel dim fan")
    item = Attribution(x, model.target(x), np.arange(4.0), method="mine", fitted_by=None)
    found = score_explanations(model, [item], ["aopc"], known=ScoreInputs(searched={}))
    assert {score.operator for score in found} == set(model.operators)
    assert not any(score.circular for score in found)
