"""`heedful lab`: a list without torch, one JSON document, exit code 1 for a false claim, 2 for a mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.reports.opened import without_note

from heedful.cli.main import main
from heedful.core.charts import Forest, Line
from heedful.labs.base import registry
from heedful.labs.base.registry import LabRun, lab, labs


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_works", dict(registry._works))

    @lab("true", title="A true claim", minutes=0.1, cite="Nobody 2026")
    def true(run: LabRun) -> None:
        run.table("Numbers", ["what", "value"], [["seed", run.seed], ["fast", str(run.fast)]])
        run.figure("one", Forest([Line("one", 1.0)], "unit", "title"), "one dot")
        run.claim("One is one.", value=1.0, exact=True, holds=True)

    @lab("false", title="A false claim", minutes=0.1, cite="Nobody 2026")
    def false(run: LabRun) -> None:
        run.claim("One is two.", value=1.0, interval=(0.5, 1.5), holds=False, against=2.0)


def test_help_and_list_import_no_torch() -> None:
    code = (
        "import sys; from heedful.cli.main import main\n"
        "for words in ('lab', 'lab --help', 'lab list', 'lab list --json', 'lab run --help'):\n"
        "    assert main(words.split()) == 0\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in labs():
        assert name in done.stdout


def test_the_list_as_json(capsys: pytest.CaptureFixture[str], planted: None) -> None:
    assert main(["lab", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["true"] == {"name": "true", "title": "A true claim", "minutes": 0.1, "cite": "Nobody 2026"}


def test_a_false_claim_exits_with_1(capsys: pytest.CaptureFixture[str], planted: None) -> None:
    assert main(["lab", "run", "false"]) == 1
    out = capsys.readouterr().out
    assert "1 of 1 claim failed." in out
    assert "✗ One is two.  1 (0.5 to 1.5); control: 2" in out
    assert main(["lab", "run", "false", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["holds"] is False


def test_true_claims_exit_with_0(capsys: pytest.CaptureFixture[str], planted: None, tmp_path: Path) -> None:
    out, html = tmp_path / "lab", tmp_path / "new" / "lab.html"
    words = ["lab", "run", "true", "--fast", "--seed", "7", "--out", str(out), "--html", str(html)]
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    data = json.loads(said.out)
    assert (data["settings"]["seed"], data["settings"]["fast"]) == (7, True)
    assert sorted(path.name for path in out.iterdir()) == [
        "manifest.json",
        "one.svg",
        "report.html",
        "result.json",
    ]
    assert html.read_text() == (out / "report.html").read_text()
    assert [line.split(maxsplit=1)[0] for line in said.err.splitlines()] == ["wrote", "saved"]
    assert main(["report", str(out), "--html", str(tmp_path / "again.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == data | {"verified": False}
    assert without_note((tmp_path / "again.html").read_text()) == html.read_text()
    assert main([*words, "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_a_lab_that_is_not_there_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "nonsense"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("heedful: there is no lab 'nonsense'. Known:")
    assert said.err.count("\n") == 1
