"""heedful.audit: what stands in the run folder is what explaining and weighing each text by itself gives."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import heedful
from heedful import HeedfulError
from heedful.audits.audit_run import AuditRun
from heedful.audits.result import verdict_of
from heedful.audits.settings import AuditSettings, resolve_settings
from heedful.audits.shard import Shard, weigh_shard
from heedful.core import registry
from heedful.engine.session import Session
from heedful.io.datasets import DataRow
from heedful.metrics.score import Score, score_explanations
from heedful.metrics.summary import pools_of, summarise
from heedful.metrics.verdict import judge
from heedful.modalities.swap_words import swap_words, words_of

WEIGHTS = {"good": 2.0, "great": 3.0, "bad": -2.0, "awful": -3.0, "food": 0.25, "not": -0.5}
TEXTS = [
    "the food was good and the bar was great",
    "bad food and awful people in a bad place",
    "not a good place but the food is great",
    "what an awful bar we had bad food there",
    "good people good food and a great bar",
    "the bar was not good and not great today",
]
METHODS = ["occlusion", "lime", "kernel-shap"]
TEXTS_IN_ORDER = [TEXTS[i] for i in np.random.default_rng([4, 2]).permutation(6)]


def score(texts: list[str]) -> list[list[float]]:
    sums = [sum(WEIGHTS.get(word, 0.0) for word in text.split()) for text in texts]
    return [[-value, value] for value in sums]


@pytest.fixture(scope="module")
def model() -> Any:
    return heedful.load(score, labels=["negative", "positive"])


def run(model: Any, out: Path, texts: Any = TEXTS, **more: Any) -> heedful.Audit:
    given = {"methods": METHODS, "metrics": ["aopc", "sufficiency"], "draws": 5, "seed": 4, "shard": 4} | more
    return heedful.audit(model, texts, out=out, **given)  # type: ignore[no-any-return]


def read(out: Path, name: str) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted(out.glob(f"shards/*/{name}.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


@pytest.fixture(scope="module")
def done(model: Any, tmp_path_factory: pytest.TempPathFactory) -> heedful.Audit:
    labels = ["positive", "negative", "1", 0, "neither", None]
    return run(model, tmp_path_factory.mktemp("audit"), labels=labels, full=True)


def by_hand(model: Any, row: int) -> list[Score]:
    """One text without the audit."""
    seed = int(np.random.SeedSequence([4, row]).generate_state(1)[0])
    remembers: Any = Session(model)
    found = heedful.explain(remembers, TEXTS[row], METHODS, seed=seed)  # fitted by delete, the first operator
    items = [found[name] for name in METHODS]
    with swap_words(words_of(TEXTS_IN_ORDER, seed=4)):
        return score_explanations(
            remembers, items, ["aopc", "sufficiency"], ["swap", "mask"], draws=5, seed=seed
        )


def test_scores_are_those_of_each_text_by_itself(model: Any, done: heedful.Audit) -> None:
    rows = read(done.folder, "scores")
    for number in range(len(TEXTS)):
        here = [{k: v for k, v in row.items() if k != "row"} for row in rows if row["row"] == number]
        alone = [replace(score, orders=()) for score in by_hand(model, number)]
        assert sorted(map(repr, (Score(**row) for row in here))) == sorted(map(repr, alone))


def test_every_random_order_has_its_value(model: Any, done: heedful.Audit) -> None:
    rows = read(done.folder, "orders")
    assert {row["order"] for row in rows} == set(range(5))
    for score in by_hand(model, 3):
        if score.method == "occlusion":
            here = [
                row["value"]
                for row in rows
                if (row["row"], row["metric"], row["operator"]) == (3, score.metric, score.operator)
            ]
            assert tuple(here) == score.orders


def test_the_table_and_the_verdict_are_those_of_all_scores(model: Any, done: heedful.Audit) -> None:
    order = np.random.default_rng([4, 2]).permutation(len(TEXTS))
    texts = [by_hand(model, int(row)) for row in order]
    assert repr(done.table) == repr(
        sorted(summarise(texts, seed=4), key=lambda e: (e.metric, e.operator == "mask"))
    )
    again = judge(pools_of(texts, METHODS, ["swap", "mask"]), seed=4)
    assert [(one.method, one.won, one.share, one.z) for one in done.verdict.methods] == [
        (one.method, one.won, one.share, one.z) for one in again.methods
    ]
    assert done.verdict.operators == ("swap", "mask")
    assert {one.fitted_by for one in done.verdict.methods} == {("delete",)}
    assert done.verdict["occlusion"].inputs == np.mean([len(text.split()) + 1 for text in TEXTS])


def test_a_verdict_can_be_worked_out_again_from_the_shards(done: heedful.Audit) -> None:
    assert done.folder is not None
    run = AuditRun(done.folder)
    assert repr(verdict_of(run, run.manifest()["made"]["settings"])) == repr(done.verdict)


def test_attributions_are_words_with_their_places(done: heedful.Audit) -> None:
    rows = read(done.folder, "attributions")
    assert {row["method"] for row in rows} == set(METHODS)
    for row in rows:
        assert TEXTS[row["row"]][row["start"] : row["end"]] == row["text"]
        if row["method"] == "occlusion":
            sign = 1 if sum(WEIGHTS.get(word, 0.0) for word in TEXTS[row["row"]].split()) > 0 else -1
            assert row["score"] == pytest.approx(sign * WEIGHTS.get(row["text"], 0.0))


def test_labels_are_compared_by_name_and_by_number(done: heedful.Audit) -> None:
    right = {row["row"]: row["right"] for row in read(done.folder, "texts")}
    assert [right[row] for row in range(6)] == [True, True, True, True, None, None]
    assert (done.labelled, done.right) == (4, 4)


def test_labels_may_be_numbers_in_any_form(model: Any, tmp_path: Path) -> None:
    labels = ["1.0", " 1 ", True, float("inf"), "nan", "1e999"]
    texts = [f"{TEXTS[0]} {word}" for word in "abcdef"]
    found = run(model, tmp_path, texts, labels=labels, methods=["occlusion"], metrics=["aopc"])
    assert (found.texts, found.labelled, found.right, found.unknown) == (6, 3, 3, 3)
    assert "3 labels name no label of the model" in " ".join(str(found).split())
    assert "3 labels name no label of the model" in found.page()
    given: dict[str, Any] = {"methods": ["occlusion"], "metrics": ["aopc"]}
    none = run(model, tmp_path / "nan", TEXTS[:2], labels=[float("nan"), np.float32(1)], **given)
    assert (none.texts, none.labelled, none.unknown) == (2, 1, 0)


def test_a_metric_that_measures_nothing_is_named(model: Any, tmp_path: Path) -> None:
    """Occlusion has no standard errors, which csi asks for."""
    found = run(model, tmp_path, TEXTS[:2], methods=["occlusion"], metrics=["aopc", "csi"])
    assert list(found.silent) == ["csi"]
    assert list(heedful.Audit.load(tmp_path).silent) == ["csi"]
    for shown in (str(found), found.page()):
        assert "csi had no value on any text" in shown
    with pytest.raises(HeedfulError, match="no metric had a value on any text: the metrics were: csi"):
        run(model, tmp_path / "alone", TEXTS[:2], methods=["occlusion"], metrics=["csi"])


def test_plausibility_without_rationales_is_refused(model: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nthe food was good\n")
    for texts in (TEXTS, tmp_path / "a.csv"):
        with pytest.raises(HeedfulError, match="plausibility-f1 cannot be measured: what people marked"):
            run(model, tmp_path / "run", texts, metrics=["aopc", "plausibility-f1"])
    assert not (tmp_path / "run").exists()


def test_each_text_has_random_orders_of_its_own(done: heedful.Audit) -> None:
    assert len({row["seed"] for row in read(done.folder, "texts")}) == len(TEXTS)


def test_a_row_does_not_depend_on_what_ran_before(model: Any, done: heedful.Audit, tmp_path: Path) -> None:
    """The second shard alone, and in shards of another size."""
    whole = read(done.folder, "scores")
    assert read(run(model, tmp_path / "one", shard=1, full=True).folder, "scores") == whole
    turned = run(model, tmp_path / "turned", iter(TEXTS_IN_ORDER[::-1]), full=True)
    assert len(read(turned.folder, "scores")) == len(whole)
    shards = (tmp_path / "one" / "shards").iterdir()
    assert len(list(shards)) == len(TEXTS)


def test_only_folders_that_are_named_as_shards_are_shards(tmp_path: Path) -> None:
    for name in ("000000", "000001", "²", "٣", "7", "9" * 200, "beside"):
        (tmp_path / "shards" / name).mkdir(parents=True)
    assert AuditRun(tmp_path).numbers() == [0, 1]


def test_bad_rows_are_told_and_skipped(model: Any, tmp_path: Path) -> None:
    texts = [TEXTS[0], "", None, 3.5, "   ", "\ud800 half", TEXTS[1]]
    found = run(model, tmp_path, texts)
    assert (found.rows, found.texts) == (7, 2)
    errors = read(tmp_path, "errors")
    parts = {1: "empty", 2: "null", 3: "not text, but float", 4: "empty", 5: "not valid UTF-8"}
    assert {error["row"] for error in errors} == set(parts)
    assert all(parts[error["row"]] in error["reason"] for error in errors)
    assert found.errors == errors
    assert "5 of 7 rows were skipped" in str(found)


def test_a_text_too_long_for_the_model_is_told(shared: Any, tmp_path: Path) -> None:
    texts = ["the cat sat on the mat", "the cat " * 60, "a dog ran to the low house"]
    options: dict[str, Any] = {"methods": ["grad-l2"], "metrics": ["aopc"], "draws": 3}
    found = heedful.audit(shared("bert").model, texts, out=tmp_path / "skip", **options)
    assert (found.texts, found.errors[0]["row"]) == (2, 1)
    assert "64" in found.errors[0]["reason"]
    cut = heedful.audit(shared("bert").model, texts, out=tmp_path / "cut", long="truncate", **options)
    assert cut.texts == 3


def test_a_model_that_breaks_on_one_text_loses_that_text_alone(tmp_path: Path) -> None:
    def fragile(texts: list[str]) -> list[list[float]]:
        if any("awful" in text for text in texts):
            raise RuntimeError("cannot say that")
        return score(texts)

    found = run(fragile, tmp_path, operators="mask")  # a swap may put the word anywhere
    assert {error["row"] for error in found.errors} == {1, 3}
    assert found.errors[0]["reason"] == "RuntimeError: cannot say that"


def test_a_method_that_fails_on_one_text_leaves_the_others(model: Any, tmp_path: Path) -> None:
    """LIME refuses more samples than it can use on a text of one word."""
    found = run(model, tmp_path, [*TEXTS, "good"], params={"lime": {"samples": 3}})
    alone = [error for error in found.errors if error["method"]]
    assert alone
    assert {error["method"] for error in alone} == {"lime"}
    assert found.failed == {"lime": len(alone)}
    assert found.texts == 7


def test_no_row_that_can_be_weighed_is_a_mistake(model: Any, tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match=r"none of 2 texts could be audited: row [01]: the text is empty"):
        run(model, tmp_path, ["", " "])
    with pytest.raises(HeedfulError, match="there are no texts"):
        run(model, tmp_path / "none", [])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 5}, "settings seed was 4, is 5"),
        ({"methods": ["occlusion"]}, "settings methods was"),
        ({"draws": 6}, "settings draws was 5, is 6"),
        ({"shard": 2}, "settings shard was 4, is 2"),
        ({"limit": 3}, "source limit was null, is 3"),
        ({"texts": TEXTS[:5]}, "source rows was 6, is 5"),
    ],
)
def test_another_run_is_refused_and_told_why(
    change: dict[str, Any], told: str, model: Any, tmp_path: Path
) -> None:
    run(model, tmp_path, methods=["occlusion", "lime"], metrics=["aopc"])
    with pytest.raises(HeedfulError, match=told):
        run(model, tmp_path, **{"methods": ["occlusion", "lime"], "metrics": ["aopc"]} | change)


def test_another_model_is_refused(shared: Any, fresh: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"methods": ["grad-l2"], "metrics": ["aopc"], "draws": 3, "out": tmp_path}
    heedful.audit(shared("bert").model, ["the cat sat"], **options)
    other = fresh("bert")
    other.hf.classifier.weight.data += 1
    with pytest.raises(HeedfulError, match="model fingerprint was"):
        heedful.audit(other.model, ["the cat sat"], **options)


def test_another_function_of_the_same_name_is_refused(tmp_path: Path) -> None:
    """They agree on the fixed texts in one case, and come from a generator in the other."""

    def named(weight: float, word: str) -> Any:
        def judge(texts: list[str]) -> list[float]:
            return [weight * text.lower().count(word) + len(text) / 3 for text in texts]

        return judge

    given: dict[str, Any] = {"methods": ["occlusion"], "metrics": ["aopc"]}
    run(named(1.0, "food"), tmp_path / "rows", **given)
    run(named(1.0, "food"), tmp_path / "rows", **given)
    with pytest.raises(HeedfulError, match=r"model output on row 0 was \[14\.0\], is \[15\.0\]"):
        run(named(2.0, "food"), tmp_path / "rows", **given)
    run(named(1.0, "good"), tmp_path / "fixed", iter(TEXTS), **given)
    with pytest.raises(HeedfulError, match="model output on 'This is good, and I like it"):
        run(named(2.0, "good"), tmp_path / "fixed", iter(TEXTS), **given)
    run(named(1.0 + 1e-12, "good"), tmp_path / "fixed", iter(TEXTS), **given)


def test_other_folders_are_left_alone(model: Any, tmp_path: Path) -> None:
    heedful.explain(model, TEXTS[0], ["occlusion"]).save(tmp_path)
    with pytest.raises(HeedfulError, match=r"cannot be resumed in .*: it holds a run of kind explanation"):
        run(model, tmp_path)


def test_mistakes_are_told_before_any_text_is_read(model: Any, tmp_path: Path) -> None:
    def texts() -> Any:
        pytest.fail("a text was read")
        yield ""

    for wrong in (
        {"methods": ["limes"]},
        {"metrics": ["aopcc"]},
        {"operators": ["erase"]},
        {"unit": "letter"},
        {"seed": -1},
        {"draws": 1},
        {"shard": 0},
        {"long": "window"},
        {"engine": "cloud"},
        {"methods": []},
        {"methods": ["grad-l2"]},
        {"params": {"lime": {"nothing": 1}}},
        {"params": {"anchors": {}}},
    ):
        with pytest.raises(HeedfulError):
            run(model, tmp_path, texts(), **wrong)


def test_defaults_are_named(model: Any, shared: Any) -> None:
    found = resolve_settings(model)
    assert (found.fits, found.operators) == (("delete",), ("swap", "mask"))
    assert (
        resolve_settings(model, operators=["delete"]).fits,
        resolve_settings(model, operators="swap").fits,
    ) == (
        ("mask",),
        ("delete",),
    )
    every = resolve_settings(model, operators="all")
    assert every.operators == every.fits == model.operators
    assert every.turns
    assert "random" not in found.methods
    assert set(found.methods) == {"occlusion", "lime", "kernel-shap"}
    assert len(found.metrics) == 2
    assert len(resolve_settings(model, full=True).metrics) == 6
    assert isinstance(found, AuditSettings)
    full = resolve_settings(shared("bert").model, full=True)
    assert not {"attention-flow", "search"} & set(full.methods), "these are expensive"


def test_a_finished_folder_opens_without_torch(done: heedful.Audit) -> None:
    code = (
        "import sys, heedful; found = heedful.Audit.load(sys.argv[1]); "
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules; "
        "print(found.verdict.headline); print(found.to_csv(), end='')"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(done.folder)], capture_output=True, text=True, check=True
    ).stdout
    assert told == f"{done.verdict.headline}\n{done.to_csv()}"


def test_what_is_loaded_is_what_was_found(done: heedful.Audit) -> None:
    again = heedful.Audit.load(done.folder)
    assert repr(again.table) == repr(done.table)
    assert repr(again.verdict) == repr(done.verdict)  # NaN is not equal to itself
    assert again.to_dict() == done.to_dict()
    assert (done.folder / "table.csv").read_text() == done.to_csv()
    stored = json.loads((done.folder / "result.json").read_text())
    assert stored == done.to_dict() | {"made": stored["made"]}
    assert again.made == done.made == stored["made"]


def test_an_unfinished_folder_is_told(model: Any, done: heedful.Audit, tmp_path: Path) -> None:
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert [shard["rows"] for shard in manifest["shards"]] == [4, 2]
    del manifest["files"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(HeedfulError, match="is not finished"):
        heedful.Audit.load(tmp_path)
    with pytest.raises(HeedfulError, match="is not a run folder"):
        heedful.Audit.load(tmp_path / "nothing")


def test_the_csv_has_a_line_a_number(done: heedful.Audit) -> None:
    head, *lines = done.to_csv().splitlines()
    assert len(lines) == len(done.table) == 2 * 2 * len(METHODS)
    first = dict(zip(head.split(","), lines[0].split(","), strict=True))
    assert float(first["skill"]) == done.table[0].skill
    assert first["better"] == "high"
    skills = [e.skill for e in done.table if (e.metric, e.method) == ("aopc", "occlusion")]
    assert done.spread("aopc", "occlusion") == max(skills) - min(skills)


def test_progress_counts_every_row(model: Any, tmp_path: Path) -> None:
    told: list[Any] = []
    given: dict[str, Any] = {"methods": ["occlusion"], "metrics": ["aopc"]}
    run(model, tmp_path, progress=lambda step: told.append((step.done, step.total, step.resumed)), **given)
    assert told == [(i, 6, 0) for i in range(7)]
    told.clear()
    run(model, tmp_path, progress=lambda step: told.append((step.done, step.total, step.resumed)), **given)
    assert told == [(0, 6, 0), (4, 6, 4), (6, 6, 6)]


def test_a_rationale_that_does_not_fit_is_told(model: Any, tmp_path: Path) -> None:
    found = run(model, tmp_path, TEXTS[:2], rationales=[[1, 0], [[0, 3]]])
    assert found.texts == 1
    assert "2 marks" in found.errors[0]["reason"]


@pytest.mark.parametrize("methods", [("grad-l2",), ("grad-l2", "occlusion")])
def test_no_operator_that_fits_is_one_round(methods: tuple[str, ...], fresh: Any) -> None:
    settings = AuditSettings(methods, ("aopc",), ("delete",), draws=3)
    assert settings.rounds == ("",)
    assert AuditSettings(methods, (), (), ("mask", "unk")).rounds == ("mask", "unk")
    assert AuditSettings((), (), (), ("mask", "unk")).rounds == ("",)
    made = weigh_shard(fresh("bert").model, Shard(0, (DataRow(0, "the cat sat on the mat"),)), settings)
    assert pq.read_table(io.BytesIO(made["methods.parquet"])).num_rows == len(methods)
    assert pq.read_table(io.BytesIO(made["errors.parquet"])).num_rows == 0


@pytest.mark.slow  # every metric there is, some of which explain dozens of times
@pytest.mark.parametrize("metric", list(registry.metrics()))
def test_no_metric_remembers_another_text(metric: str, fresh: Any) -> None:
    """A shard's bytes are the same in a fresh process' model and in one that has seen other texts."""
    texts = ["the cat sat on the mat", "a dog ran to the low house", "hello world"]
    rows = tuple(DataRow(number, text, rationale=[[0, 3]]) for number, text in enumerate(texts))
    settings = AuditSettings(("grad-l2", "lime", "smoothgrad"), (metric,), ("delete",), draws=3)
    last = Shard(1, rows[2:])
    alone = weigh_shard(fresh("bert").model, last, settings)
    used = fresh("bert").model
    weigh_shard(used, Shard(0, rows[:2]), settings)
    assert weigh_shard(used, last, settings) == alone
    assert pq.read_table(io.BytesIO(alone["errors.parquet"])).num_rows == 0
