"""heedful trial on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.reports.opened import without_note

from heedful.cli.main import main

FEW = ["--model", "zoo:one-layer", "--test", "permutation,uniform", "--permutations", "3"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\na good film,positive\na bad film,negative\nnot good,negative\n")
    return path


def test_json_is_one_document(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trial", str(data), *FEW, "--label-column", "label", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {line["test"] for line in found["table"]} == {"permutation", "uniform"}
    assert found["texts"] == 3
    assert any(line["unit"] == "accuracy" for line in found["table"])


def test_the_terminal_starts_with_the_answer_and_fits_a_screen(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trial", str(data), *FEW]) == 0
    lines = capsys.readouterr().out.splitlines()
    said = " ".join(" ".join(lines).split())
    assert lines[0].startswith("These tests do not show whether attention explains the predictions")
    assert "nothing is said about attention as a whole" in said
    assert "Does the output change when attention is shuffled? Shuffled attention moves the answer by" in said
    assert len(lines) <= 30
    assert "Not shown:" not in said  # one click away, or with -v
    assert "figure" not in said  # what is not drawn is not named
    assert "line by line" not in said
    assert main(["trial", str(data), *FEW, "-v"]) == 0
    verbose = capsys.readouterr().out
    assert "Not shown:" in verbose
    assert "figure permutation" not in verbose
    assert "higher: attention matters more" in verbose


def test_a_saved_trial_makes_its_page(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, html = tmp_path / "trial", tmp_path / "trial.html"
    assert main(["trial", str(data), *FEW, "--out", str(saved), "--html", str(html)]) == 0
    assert main(["report", str(saved)]) == 0
    assert without_note((saved / "report.html").read_text()) == html.read_text()
    assert main(["report", str(saved), "--json"]) == 0
    capsys.readouterr()


def test_csv_has_a_line_a_number(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trial", str(data), *FEW, "--csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("test,what,value,low,high")
    assert len(lines) > 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--test", "magic"], "there is no test 'magic'"),
        (["--label-column", "stars"], "has no column 'stars'"),
        (["--improve", "nicer"], "there is no term 'nicer'"),
        (["--train", "nowhere.csv"], "there is no file nowhere.csv"),
        (["--json", "--csv"], "--json and --csv"),
    ],
)
def test_mistakes_are_one_line(
    data: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trial", str(data), *FEW[:2], *more]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
