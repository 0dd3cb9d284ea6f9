"""heads importance, heads prune and attention --ablate: one document, tables, one line for a mistake."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.cli.main import main
from heedful.heads.ablation import ablate
from heedful.heads.ablation.ablate_text import without

ROWS = [
    "a good film,1",
    "a bad film,0",
    ",1",
    "<b>good</b> fun,1",
    "not good,0",
    "not bad at all,1",
    "dull,0",
    "a great story,1",
    "boring and long,0",
]
SMALL = ["--model", "zoo:one-layer", "--text-column", "review", "--label-column", "label"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    path.write_text("review,label\n" + "\n".join(ROWS) + "\n")
    return path


@pytest.fixture(scope="module")
def one_layer() -> Any:
    return heedful.load("zoo:one-layer")


def good(rows: list[str]) -> tuple[list[str], list[str]]:
    texts, labels = zip(*(row.rsplit(",", 1) for row in rows if not row.startswith(",")), strict=True)
    return list(texts), list(labels)


def test_importance_is_the_functions(data: Path, one_layer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for how in ("zero", "mean"):
        assert main(["heads", "importance", str(data), *SMALL, "--how", how, "--json"]) == 0
        said = capsys.readouterr()
        found = json.loads(said.out)
        texts, labels = good(ROWS)
        means = heedful.head_means(one_layer, texts) if how == "mean" else None
        expected = heedful.head_importance(one_layer, texts, labels, how, means=means).to_dict()
        assert found.pop("left_out") == ["row 2 was skipped: the text is empty"]
        assert found == json.loads(json.dumps(expected))
        assert "row 2" in said.err


def test_importance_as_a_table_and_as_csv(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", "importance", str(data), *SMALL, "--metric", "accuracy", "-q", "-v"]) == 0
    said = capsys.readouterr()
    for part in (
        "zoo:one-layer, 6 heads, 8 texts",
        "Drop of accuracy",
        "0.5",
        "For scale, removing all heads",
        "Spearman",
    ):
        assert part in " ".join(said.out.split())
    assert not said.err
    assert main(["heads", "importance", str(data), *SMALL, "--level", "layer", "--csv", "--limit", "6"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["name"], row["head"]) == ("0", "")
    assert float(row["log-probability low"]) <= float(row["log-probability drop"])


def test_a_report_is_written(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "new" / "heads.html"
    few = ["--steps", "2", "--draws", "2"]
    for command, more in (("importance", []), ("prune", few)):
        assert main(["heads", command, str(data), *SMALL, *more, "--html", str(report)]) == 0
        said = capsys.readouterr()
        assert f"wrote {report}" in said.err
        assert "--html" not in said.out
        text = report.read_text(encoding="utf-8")
        assert text.count('<svg class="plot') == 1
        assert "How this was made" in text


def test_a_language_model_needs_texts_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "The state of the union is"}\n{"text": "Once upon a time there was"}\n')
    assert main(["heads", "importance", str(path), "-m", "zoo:lm", "--json", "--no-gradient"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"] == ["log-likelihood", "accuracy"]
    assert len(found["units"]) == 24
    assert found["units"][0]["sensitivity"] is None
    assert found["improves"] == found["helps"] == []  # two texts prove nothing


def test_prune_in_three_forms(data: Path, one_layer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--steps", "3", "--draws", "2", "--shortlist", "0"]
    assert main(["heads", "prune", str(data), *SMALL, *few, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    found.pop("left_out")
    texts, labels = good(ROWS)
    expected = heedful.prune_heads(one_layer, texts, labels, steps=3, draws=2, shortlist=None)
    assert found == json.loads(json.dumps(expected.to_dict()))
    assert main(["heads", "prune", str(data), *SMALL, *few, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in rows] == [step.name for step in expected.steps]
    assert main(["heads", "prune", str(data), *SMALL, *few]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for part in (
        "The heads were chosen on 4 texts. The loss was measured on 4 other texts",
        "one-shot",
        "The curve ends at 3 of 6 heads.",
        "All heads that are left are tried",
    ):
        assert part in said


def test_attention_without_heads(one_layer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = "a good film, not bad at all"
    command = ["attention", text, "--model", "zoo:one-layer", "--unit", "token"]
    assert main([*command, "--ablate", "0.1,0.2", "--how", "uniform", "--json", "--weights"]) == 0
    found = json.loads(capsys.readouterr().out)
    x = one_layer.encode(text)
    assert found["without"] == without(one_layer, x, "0.1,0.2", "uniform").to_dict()
    weights = np.array(found["stacks"][0]["weights"])[0, :, 0]  # (K, T)
    assert weights[1] == pytest.approx(1 / len(x), abs=1e-6)
    assert weights[0] != pytest.approx(1 / len(x), abs=1e-3)
    assert main([*command, "--ablate", "0.1", "--how", "mean"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for part in (
        "Without 0.1 (1 of 6 heads, replaced by: mean)",
        "a random head (10 draws)",
        "tokens of this text alone",
    ):
        assert part in said
    assert main([*command, "--json"]) == 0
    assert "without" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ["attention", "good", "--ablate", "7.1"],
            "there is no layer 7: the model has layers 0 to 0 of 6 heads",
        ),
        (["attention", "good", "--ablate", "one"], "names no head"),
        (["heads", "importance", "FILE", "--metric", "bleu"], "log-probability, accuracy"),
        (["heads", "importance", "FILE", "--text-column", "no"], "has no column 'no'"),
        (["heads", "importance", "FILE", "--json", "--csv"], "Choose one"),
        (["heads", "prune", "FILE", "--limit", "2"], "too few to prune"),
        (["heads", "prune", "none.csv"], "there is no file"),
    ],
)
def test_mistakes_are_one_line(
    data: Path, command: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(data) if word == "FILE" else word for word in command]
    asked = ["--model", "zoo:one-layer"] if command[0] == "attention" else SMALL
    if "--text-column" in command:
        asked = SMALL[:2]
    assert main([*words, *asked]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert said in told.err
    assert told.err.count("\n") == 1


# --- one text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "bert-multi", "bert-regression", "gpt2", "bart"])
def test_one_text_before_and_after(shared: Any, name: str) -> None:
    family = shared(name)
    x = family.x("the cat sat on the mat")
    found = without(family.model, x, "0.1,1.*")
    with heedful.ablated(family.model, "0.1,1"):
        if name == "bart":
            written = family.tokenizer.decode(family.model.answer(x), skip_special_tokens=True)
            assert found.after[0][0] == written
        else:
            assert list(found.after) == family.model.predict(x, 3)
            logits = family.model.logits(x)
    assert (len(found.heads), found.of) == (5, 24 if name == "bart" else 8)
    if name == "bert":
        own = int(family.model.logits(x).argmax())
        drop = family.model.logits(x).log_softmax(-1)[own] - logits.log_softmax(-1)[own]
        assert found.drop == pytest.approx(float(drop), abs=1e-5)
        assert found.changed == (int(logits.argmax()) != own)
    if name == "bert-regression":  # numbers always differ: there is no other answer
        assert found.changed is None
        assert found.to_dict()["changed"] is None
    if name == "bart":
        given = without(family.model, x, "0.1,1.*", answer="the dog")
        assert given.about == "the given answer"
        assert given.value != pytest.approx(found.value)
    low, high = found.random_range
    assert low <= found.random <= high
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_all_heads_have_no_control_and_one_token_no_metric(shared: Any) -> None:
    family = shared("gpt2")
    assert without(family.model, family.x("the cat"), "all").draws == 0
    one = without(family.model, family.model.encode("a"), "0.0")
    assert not one.metric
    assert "no second token" in one.notes[0]
    assert set(ablate.anatomy(family.model)) == {"self"}
