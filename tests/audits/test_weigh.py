"""heedful.weigh and `heedful audit --scores`: evidence and a verdict on anybody's scores, or a refusal."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import heedful
from heedful import HeedfulError
from heedful.audits import score_formats as reading
from heedful.audits import weigh as weigh_module
from heedful.audits.external_scores import ExternalScores
from heedful.audits.score_alignment import align_scores
from heedful.audits.score_formats import Given
from heedful.cli.main import main
from heedful.modalities.operators import OPERATORS

DATA = Path(__file__).parents[1] / "data"
WEIGHTS = {"good": 2.0, "great": 3.0, "bad": -2.0, "awful": -3.0, "food": 0.25, "not": -0.5}
WORDS = [*WEIGHTS, "the", "bar", "was", "and", "place", "people", "today", "there"]
LABELS = ["negative", "positive"]
QUICK: dict[str, Any] = {"metrics": ["aopc"], "draws": 10, "operators": ["mask"], "fitted_by": "nothing"}


def score(texts: list[str]) -> list[list[float]]:
    sums = [sum(WEIGHTS.get(word, 0.0) for word in text.split()) for text in texts]
    return [[-value, value] for value in sums]


def drawn(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, size=rng.integers(6, 10))) for _ in range(count)]


TEXTS = drawn(24)
FEW = TEXTS[:10]  # the least that a verdict needs


def true(text: str) -> list[float]:
    """What each word does for the label that is predicted."""
    values = [WEIGHTS.get(word, 0.0) for word in text.split()]
    return [value if sum(values) > 0 else -value for value in values]


def noise(text: str) -> list[float]:
    return [float(v) for v in np.random.default_rng(len(text)).normal(size=len(text.split()))]


def constant(text: str) -> list[float]:
    return [1.0] * len(text.split())


def spans(text: str) -> list[tuple[int, int, float]]:
    return [(m.start(), m.end(), v) for m, v in zip(re.finditer(r"\S+", text), true(text), strict=True)]


@pytest.fixture(scope="module")
def model() -> Any:
    return heedful.load(score, labels=LABELS)


def weigh(model: Any, scores: Any, texts: Any = FEW, **more: Any) -> heedful.Audit:
    return heedful.weigh(model, texts, scores, **QUICK | more)


# ---- the verdict ----


def test_every_form_of_the_same_scores_gives_the_same_verdict(model: Any) -> None:
    forms: dict[str, Any] = {
        "function": true,
        "lists": [true(text) for text in FEW],
        "words": [list(zip(text.split(), true(text), strict=True)) for text in FEW],
        "spans": [spans(text) for text in FEW],
        "arrays": tuple(np.array(true(text), dtype=np.float32) for text in FEW),
    }
    methods = weigh(model, forms).verdict.methods
    assert len(methods) == len(forms)
    assert all(one.better for one in methods)
    assert {(one.share, one.z, one.won, one.p) for one in methods} == {
        (methods[0].share, methods[0].z, methods[0].won, methods[0].p)
    }


def test_true_weights_are_better_than_random_and_noise_is_not(model: Any) -> None:
    audit = weigh(model, {"noise": noise, "true": true, "same": constant}, TEXTS)
    assert (audit.verdict.use, audit.verdict.better) == ("true", ["true"])
    assert set(audit.verdict.not_proven) == {"noise", "same"}
    assert {e.n for e in audit.table if e.method == "true"} == {len(TEXTS)}
    assert np.isnan(audit.verdict["true"].inputs), "what it cost elsewhere is not known"


def test_scores_that_are_all_equal_claim_nothing(model: Any) -> None:
    verdict = weigh(model, {"same": constant}).verdict
    assert (verdict.use, verdict.better) == ("", [])


def test_methods_of_ours_beside_them(model: Any) -> None:
    verdict = weigh(model, {"true": true}, methods=["occlusion"], operators=None, draws=5).verdict
    assert sorted(verdict.better) == ["occlusion", "true"]
    assert verdict["occlusion"].fitted_by == ("delete",)
    assert verdict.operators == ("swap", "mask")
    assert verdict["true"].z == pytest.approx(verdict["occlusion"].z), "of a sum, both are its terms"


def test_a_text_alone_gives_evidence_and_no_verdict(model: Any) -> None:
    audit = weigh(model, {"true": true}, FEW[:1])
    assert (audit.texts, audit.verdict.use) == (1, "")
    assert audit.verdict.headline.startswith("1 text is too few for a verdict")


def test_a_function_is_asked_once_a_text_and_no_more_than_needed(model: Any) -> None:
    asked: list[str] = []

    def counted(text: str) -> list[float]:
        asked.append(text)
        return true(text)

    weigh(model, {"true": counted}, TEXTS, until_decided=True)
    assert 10 <= len(asked) < len(TEXTS)
    assert len(set(asked)) == len(asked)


# ---- scores of other libraries ----


def test_shap_as_it_comes(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        def two(texts: Any) -> Any:
            return np.array(score(list(texts)))

        every = shap.Explainer(two, shap.maskers.Text(r"\W"), seed=0)(FEW, max_evals=40, silent=True)
    assert every.values[0].shape[-1] == 2
    audit = weigh(model, {"shap": every, "same": constant})
    assert audit.failed == {}
    assert audit.verdict.better == ["shap"]


def test_captum_as_it_comes() -> None:
    from captum.attr import LayerIntegratedGradients

    loaded: Any = heedful.load("zoo:sentiment")
    texts = [
        "a good film",
        "not a bad bar",
        "the food was awful",
        "great people and food",
        "dull food",
        "not good at all",
        "the best film",
        "bad service",
        "we love the bar",
        "worst food",
    ]

    def forward(ids: torch.Tensor) -> torch.Tensor:
        return loaded.module(input_ids=ids).logits[:, 1]

    def integrated(text: str) -> Any:
        ids = torch.tensor([loaded.encode(text).ids])
        layer = loaded.module.get_input_embeddings()
        return LayerIntegratedGradients(forward, layer).attribute(ids, torch.zeros_like(ids), n_steps=4)

    found = [integrated(text) for text in texts]  # (1, tokens, embedding), special tokens among them
    audit = weigh(loaded, {"ig": found}, texts, target="positive")
    assert (audit.texts, audit.failed) == (10, {})
    assert {e.n for e in audit.table} == {10}
    assert audit.verdict["ig"].share > 0.6


def test_inseq_as_it_saves() -> None:
    file = DATA / "inseq_decoder.json"
    given: dict[str, Any] = {"texts": ["The café 😀 was not bad"], "operators": ["delete"]}
    audit = weigh("zoo:lm", {"inseq": [file]}, target=" the", **given)
    assert [e.method for e in audit.table] == ["inseq"]
    with pytest.raises(HeedfulError, match=r"2 columns \(Ġthe\|Ġcat\) and '.*' is none of them"):
        weigh("zoo:lm", {"inseq": [str(file)]}, **given)


def test_an_inseq_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reading.MAX_BYTES == 64 * 2**20
    monkeypatch.setattr(reading, "MAX_BYTES", 100)
    (tmp_path / "large.json").write_text(json.dumps({"a": "b" * 200}))
    with pytest.raises(HeedfulError, match=r"large\.json is too large: it has more than 100 bytes"):
        reading.read_given(tmp_path / "large.json")


# ---- fitted_by ----

CHEAP: dict[str, Any] = {
    "operators": None,
    "draws": 3,
    "until_decided": True,
}  # it does not look for the best


@pytest.mark.parametrize(
    ("said", "operators", "told"),
    [
        ("mask", {"delete", "swap"}, "For their scores, a and b removed words by mask."),
        ("nothing", {"mask", "swap"}, "The test removed words by"),
        ({"a": "mask", "b": "nothing"}, {"delete", "swap"}, "For their scores, a removed words by mask."),
        (None, {"delete", "mask", "swap"}, "is unknown, so they must beat"),
    ],
)
def test_what_fitted_them_does_not_judge_them(model: Any, said: Any, operators: set[str], told: str) -> None:
    verdict = weigh(model, {"a": true, "b": noise}, fitted_by=said, **CHEAP).verdict
    assert set(verdict.operators) == operators
    assert told in str(verdict)


@pytest.mark.parametrize(
    ("said", "judges"),
    [
        ("unknown", ["delete", "mask", "swap"]),
        ({"a": "delete"}, ["delete", "mask", "swap"]),  # of b it is not known; the verdict leaves delete out
        ("mask, swap", ["delete"]),
        (["delete"], ["mask", "swap"]),
        ({"a": "delete", "b": ["mask"]}, ["swap"]),
        ("pad", None),  # which this model does not offer: two by default
        ("nothing", None),
    ],
)
def test_operators_that_are_asked_to_judge(model: Any, said: Any, judges: list[str] | None) -> None:
    by = weigh_module._fitted(said, ["a", "b"], OPERATORS)
    assert ExternalScores(("a", "b"), lambda row, text: {}, fitted_by=by).judges(model) == judges


def test_when_everything_fitted_something_the_least_judges(model: Any) -> None:
    by = {"a": "mask,delete,swap", "b": "nothing"}
    verdict = weigh(model, {"a": true, "b": noise}, fitted_by=by, **CHEAP).verdict
    assert list(verdict.left_out) == ["a"]
    assert len(verdict.operators) == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("maks", r"fitted_by cannot be 'maks': no removal operator here has this name\. Known: mask, delete"),
        ("mask,x", r"fitted_by cannot be 'x'.*\"nothing\" if it was none of these, \"unknown\""),
        ({"a": "x"}, "fitted_by cannot be 'x'"),
        ({"true": "mask"}, r"fitted_by names 'true', which has no scores here\. Given: a\."),
    ],
)
def test_a_misspelt_operator_is_told(model: Any, said: Any, why: str) -> None:
    with pytest.raises(HeedfulError, match=why):
        weigh(model, {"a": true}, fitted_by=said, operators=None)


# ---- what is explained ----


def test_another_target_than_the_prediction(model: Any) -> None:
    def toward_negative(text: str) -> list[float]:
        return [-WEIGHTS.get(word, 0.0) for word in text.split()]

    audit = weigh(model, {"negative": toward_negative, "true": true}, TEXTS, target="negative")
    assert audit.verdict.use == "negative"
    assert audit.verdict["negative"].z > audit.verdict["true"].z, "half of the texts are predicted positive"
    with pytest.raises(HeedfulError, match="'negativ'"):
        weigh(model, {"a": true}, target="negativ")


# ---- what cannot be used ----


def test_what_fits_no_text_is_an_error_of_that_text_and_method(model: Any) -> None:
    def failing(text: str) -> list[float]:
        if text == TEXTS[3]:
            raise ValueError("no idea")
        return [1.0] if text == TEXTS[5] else true(text)

    audit = weigh(model, {"some": failing, "true": true}, TEXTS)
    assert audit.failed == {"some": 2}
    assert {(e["row"], e["method"]) for e in audit.errors} == {(3, "some"), (5, "some")}
    why = {e["row"]: e["reason"] for e in audit.errors}
    assert why[3] == "ValueError: no idea"
    assert why[5].startswith(f"there are 1 scores, but the text has {len(TEXTS[5].split())} words")
    assert (audit.texts, audit.verdict["some"].texts, audit.verdict["true"].texts) == (24, 22, 24)


@pytest.mark.parametrize("beside", [{}, {"true": true}])
def test_a_method_that_fits_no_text_at_all(model: Any, beside: Any, tmp_path: Path) -> None:
    first = (
        r"'bad' has no usable scores on any of the 10 texts: row \d+: there are 2 scores, but the text has"
    )
    with pytest.raises(HeedfulError, match=first):
        weigh(model, {**beside, "bad": [[1.0, 2.0]] * 10}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists(), "it is told before any work"


def test_scores_that_are_not_finite(model: Any) -> None:
    bad = [[float("nan")] * len(text.split()) for text in FEW]
    with pytest.raises(HeedfulError, match=r"'a' has no usable.*score 0 \(from 0\) is not a finite number"):
        weigh(model, {"a": bad})
    audit = weigh(model, {"a": [bad[0], *map(true, FEW[1:])]})
    assert (audit.texts, audit.failed) == (9, {})
    assert "score 0 (from 0) is not a finite number" in audit.errors[0]["reason"]


EACH = {"a": true}


@pytest.mark.parametrize(
    ("texts", "scores", "more", "why"),
    [
        ("good food", EACH, {}, "texts must be a list of texts: not a str"),
        ([], EACH, {}, "there are no texts. Give at least one."),
        ([], {"a": []}, {}, "there are no texts."),
        (FEW, {}, {}, "scores are not scores by method. Give a mapping"),
        (FEW, {"": true}, {}, "method cannot be '': it is a name"),
        (FEW, {"random": true}, {}, "method cannot be 'random': this is the name of a control"),
        (FEW, {"a": [[1.0]] * 3}, {}, "'a' has 3 entries for 10 texts. Give one entry per text"),
        (FEW, {"a": "scores.json"}, {}, "'a' has a str for 10 texts."),
        (FEW, {"a": {text: true(text) for text in FEW}}, {}, "'a' has a dict for 10 texts."),
        (FEW, {"a": torch.tensor(1.0)}, {}, "'a' has a Tensor for 10 texts."),
        (FEW, {"a": 1.0}, {}, "'a' has a float for 10 texts."),
        (FEW, {"occlusion": true}, {"methods": "occlusion"}, "scores from elsewhere are called occlusion"),
        (["", " "], EACH, {}, "none of 2 texts could be audited"),
        (FEW, EACH, {"unit": "letter"}, "unit cannot be 'letter'"),
        (FEW, EACH, {"labels": ["positive"]}, "texts, labels and rationales differ in length"),
    ],
)
def test_bad_input_is_told_in_one_line(model: Any, texts: Any, scores: Any, more: Any, why: str) -> None:
    with pytest.raises(HeedfulError) as caught:
        weigh(model, scores, texts, **more)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_of_another_type_is_told_too() -> None:
    for texts, scores, why in (
        (iter(FEW), EACH, "texts must be a list of texts: not a list_iterator"),
        (FEW, true, "scores are not scores by method"),
        (FEW, {3: true}, "method cannot be 3: it is a name"),
    ):
        with pytest.raises(HeedfulError, match=why):
            weigh_module._checked(scores, texts)
    with pytest.raises(HeedfulError, match="fitted_by cannot be 7"):
        weigh_module._fitted(7, ["a"], ["mask"])


def test_a_name_of_ours_may_be_used_where_ours_does_not_run(model: Any) -> None:
    assert weigh(model, {"lime": true}).verdict.use == "lime"


# ---- what is written ----


def test_nothing_is_written_unless_a_folder_is_named(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    audit = weigh(model, EACH, labels=["positive"] * 10)
    assert audit.folder is None
    assert list(Path.cwd().iterdir()) == []
    assert "Use a" in str(audit)
    assert str(tmp_path) not in repr(audit)
    assert audit.labelled == 10
    assert json.loads(json.dumps(audit.to_dict()))["use"] == "a"
    assert "Use a" in audit.to_html(tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_folder_that_is_named_opens_again(model: Any, tmp_path: Path) -> None:
    audit = weigh(model, EACH, out=tmp_path / "run")
    again = heedful.Audit.load(tmp_path / "run")
    assert (again.folder, audit.folder) == (tmp_path / "run",) * 2
    assert again.to_dict() == audit.to_dict()
    assert again.verdict["a"].fitted_by == ()
    assert weigh(model, EACH, out=tmp_path / "run").to_dict() == audit.to_dict()
    with pytest.raises(HeedfulError, match="are not those that"):
        weigh(model, {"a": noise}, out=tmp_path / "run")


# ---- heedful audit --scores ----


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        "a good film",
        "a bad film",
        "not good",
        "not bad at all",
        "the food was awful",
        "great food",
        "a dull film",
        "we love it",
        "the worst bar",
        "good people",
        "bad people",
    ]
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(rows) + "\n")
    return tmp_path


def lines(folder: Path, entries: list[dict[str, Any]]) -> Path:
    path = folder / "scores.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def texts_of(folder: Path) -> list[str]:
    return (folder / "texts.csv").read_text().splitlines()[1:]


def by_row(folder: Path, method: str = "mine") -> list[dict[str, Any]]:
    """Row by row: a score that no other row has."""
    return [
        {"row": row, "method": method, "scores": [row + i / 10 for i in range(len(text.split()))]}
        for row, text in enumerate(texts_of(folder))
    ]


def cli(folder: Path, *more: str) -> int:
    given = ["--model", "zoo:one-layer", "--metric", "aopc", "--draws", "3", "--operators", "unk", "--quiet"]
    given += ["--scores", str(folder / "scores.jsonl"), "--out", str(folder / "run")]
    return main(["audit", str(folder / "texts.csv"), *given, *more])


def laid(folder: Path, method: str = "mine") -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for path in sorted((folder / "run").glob("shards/*/attributions.parquet")):
        for one in pq.read_table(path).to_pylist():
            if one["method"] == method:
                found.setdefault(one["row"], []).append(one["score"])
    return found


@pytest.mark.parametrize("key", ["row", "text"])
def test_scores_of_a_file_reach_their_row(data: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    entries = by_row(data)
    named = [{key: texts_of(data)[e["row"]] if key == "text" else e["row"], **e} for e in entries]
    lines(data, [{k: v for k, v in e.items() if k == key or k != "row"} for e in named])
    assert cli(data, "--method", "none", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["texts"]) == (11, 11)
    assert [one["method"] for one in found["verdict"]["methods"]] == ["mine"]
    assert any("How mine removed words is unknown, so" in said for said in found["verdict"]["said"])
    assert laid(data) == {e["row"]: pytest.approx(e["scores"]) for e in entries}


def test_a_row_without_scores_is_an_error_of_that_method(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines(data, [e | {"fitted_by": "nothing"} for e in by_row(data) if e["row"] != 4])
    assert cli(data, "--method", "occlusion", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == {"mine": 1}
    assert found["errors"] == [{"row": 4, "method": "mine", "reason": "there are no scores for row 4"}]
    assert laid(data).keys() == {*range(11)} - {4}


def test_targets_of_lines(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model: Any = heedful.load("zoo:one-layer")
    first, last = model.labels[0], model.labels[-1]
    predicted = [model.predict(model.encode(text))[0][0] for text in texts_of(data)]
    other = [last if label == first else first for label in predicted]
    mine = [e | {"target": label} for e, label in zip(by_row(data), other, strict=True)]
    plain = by_row(data, "plain")  # of the prediction
    same = [e | {"target": model.labels.index(t)} for e, t in zip(by_row(data, "same"), other, strict=True)]
    lines(data, [*mine[:6], *plain, *same[:6]])
    assert cli(data, "--method", "none", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == {"mine": 5, "plain": 6, "same": 5}
    why = next(e["reason"] for e in found["errors"] if e["method"] == "plain")
    assert why.startswith("its scores explain the prediction: another method's scores for this text explain")
    table = [
        one
        for path in (data / "run").glob("shards/*/texts.parquet")
        for one in pq.read_table(path).to_pylist()
    ]
    assert [one["target"] for one in sorted(table, key=lambda one: one["row"])] == [
        label if row < 6 else predicted[row] for row, label in enumerate(other)
    ]


def test_a_scores_file_that_changed_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines(data, by_row(data))
    assert cli(data, "--method", "none") == 0
    assert cli(data, "--method", "none") == 0
    lines(data, [e | {"fitted_by": "nothing"} for e in by_row(data)])
    capsys.readouterr()
    assert cli(data, "--method", "none") == 2
    told = capsys.readouterr().err
    assert "was made differently: source scores was" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "more", "why"),
    [
        (
            {"fited_by": "mask"},
            [],
            "line 1 of scores.jsonl: 'fited_by' is not a known key: known are text, row",
        ),
        ({"fitted_by": "maks"}, [], "line 1 of scores.jsonl: fitted_by cannot be 'maks'"),
        ({"method": "occlusion"}, ["--method", "occlusion"], "scores from elsewhere are called occlusion"),
        ({"method": "random"}, [], "method cannot be 'random'"),
        ({"scores": [1] * 9}, [], "'mine' has no usable scores on any of the 11 texts: row 0: "),
        ({"row": 99}, [], "'mine' has no usable scores on any of the 11 texts: there are no scores"),
    ],
)
def test_scores_files_that_are_refused(
    data: Path, change: Any, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines(data, [by_row(data)[0] | change])
    assert cli(data, *(more or ["--method", "none"])) == 2
    told = capsys.readouterr().err
    assert why in " ".join(told.split())
    assert told.count("\n") == 1


def test_what_fitted_the_scores_of_a_file_does_not_judge_them(model: Any, tmp_path: Path) -> None:
    entries = [{"text": text, "method": "mine", "scores": true(text), "fitted_by": "mask"} for text in FEW]
    given: dict[str, Any] = {"methods": [], "metrics": ["aopc"], "draws": 3, "operators": ["mask", "delete"]}
    audit = heedful.audit(model, FEW, scores=lines(tmp_path, entries), out=tmp_path / "run", **given)
    assert audit.verdict.operators == ("delete",)
    assert audit.verdict["mine"].fitted_by == ("mask",)
    assert {(e.operator, e.circular) for e in audit.table} == {("mask", True), ("delete", False)}


def test_a_scores_file_may_be_tried_first(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines(data, by_row(data))
    assert cli(data, "--method", "none", "--dry-run") == 0
    assert capsys.readouterr().out.startswith("1 method, judged by unk.")
    assert not (data / "run").exists()


def test_scores_of_another_label_are_refused() -> None:
    """The usual slice of shap, explanation[:, "positive"], keeps the name of its output."""
    x: Any = heedful.load("zoo:sentiment").encode("not a good film")
    given = Given(((1.0,), (2.0,), (3.0,), (4.0,)), outputs=("positive",))
    assert align_scores(given, x, "word", "positive").tolist() == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(
        HeedfulError, match="the scores explain 'positive': what is tested here is 'negative'"
    ):
        align_scores(given, x, "word", "negative")


def test_a_row_that_is_no_text_is_an_error_of_that_row(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data / "odd.jsonl"
    rows = [{"text": ["x"]}, *({"text": f"{word} food and wine"} for word in ("good", "bad", "fine"))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = data / "odd-scores.jsonl"
    lines = [
        {"row": row, "method": "mine", "scores": [1, 2, 3, 4], "fitted_by": "nothing"} for row in (1, 2, 3)
    ]
    scores.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = heedful.audit(
        "zoo:one-layer", path, methods=[], scores=scores, metrics=["aopc"], draws=3, out=data / "o"
    )
    assert [error["row"] for error in found.errors] == [0]
    assert found.texts == 3
