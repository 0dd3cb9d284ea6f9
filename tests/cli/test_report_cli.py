"""`heedful report`, what commands say after saving, and hints at a model that was named without --model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.io.every_kind import KINDS, make
from tests.reports import every

from heedful.cli.console import say_written
from heedful.cli.main import main
from heedful.reports.terminal import as_text

Cap = pytest.CaptureFixture[str]
COMMANDS = Path(__file__).parents[2] / "src" / "heedful" / "cli"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize("kind", KINDS)
def test_report_shows_the_result_and_then_what_it_wrote(kind: str, tmp_path: Path, capsys: Cap) -> None:
    from heedful.io.run_folder import read

    run = make(kind, tmp_path / "run")
    assert main(["report", str(run)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(as_text(read(run).document()))
    assert err == f"wrote {run / 'report.html'}\n"
    assert (run / "report.html").read_text(encoding="utf-8") == read(run).page()


def test_quiet_json_and_verbose(tmp_path: Path, capsys: Cap) -> None:
    run = every.audit().save(tmp_path / "run")
    (run / "report.html").unlink()
    assert main(["report", str(run), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    (run / "report.html").unlink()
    assert main(["report", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == every.audit().to_dict() | {"verified": False}
    assert not (run / "report.html").exists()
    assert main(["report", str(run), "--html", str(tmp_path / "a.html"), "--verbose"]) == 0
    out, err = capsys.readouterr()
    assert "── How it was made ──" in out
    assert err == f"wrote {tmp_path / 'a.html'}\n"
    (run / "result.json").write_text("{}")
    assert main(["report", str(run), "--quiet"]) == 2
    assert "result.json is damaged" in capsys.readouterr().err


def test_one_sentence_after_saving(tmp_path: Path, capsys: Cap) -> None:
    say_written(Path("my runs/a"), Path("a.html"), None)
    said = capsys.readouterr().err
    assert said == "wrote a.html\nsaved my runs/a (open it with: heedful report 'my runs/a')\n"
    say_written(Path("a"), Path("b"), quiet=True)
    assert capsys.readouterr().err == ""
    (tmp_path / "t.csv").write_text("text\nnot bad\n")
    audit = ["audit", str(tmp_path / "t.csv"), "--method", "occlusion", "--metric", "aopc", "--draws", "2"]
    for name, command in (("e", ["explain", "not bad", "--method", "occlusion"]), ("a", audit)):
        assert main([*command, "--out", str(tmp_path / name)]) == 0
        said = capsys.readouterr().err
        assert f"saved {tmp_path / name} (open it with: heedful report {tmp_path / name})\n" in said
        assert "wrote" not in said


def test_no_command_has_words_of_its_own_for_saving() -> None:
    """One helper of console.py says it, so that all commands say the same."""
    for path in COMMANDS.rglob("*.py"):
        if path.name != "console.py":
            assert not re.search(r"""f"(wrote|saved|written to) """, path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["explain", "zoo:sentiment", "not bad"],
            r"\(not bad\)\. Name a model with --model, and put a text in",
        ),
        (["explain", "not", "bad"], r"Name a model with --model, and put a text in quotes\.$"),
        (["attention", "zoo:sentiment", "not bad"], "Name a model with --model"),
        (
            ["explain", "zoo:sentiment"],
            "no text was given: zoo:sentiment is a model. Name a model with --model",
        ),
        (["zoo", "list", "tiny"], r"unexpected extra argument(\(s\))? \(tiny\)$"),
    ],
)
def test_a_model_without_its_option_gets_a_hint(words: list[str], said: str, capsys: Cap) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert re.search(said, err.strip()), err


def test_errors_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Cap) -> None:
    monkeypatch.chdir(tmp_path)
    every.trial().save("not-an-audit")
    assert main(["explain", "not bad", "--audit", "not-an-audit"]) == 2
    said = capsys.readouterr().err
    assert "not-an-audit holds a run of kind trial, not an audit. Give the folder that heedful audit" in said
    assert main(["audit", "nofile.csv"]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"heedful: there is no file nofile.csv: heedful looked for it in {tmp_path}. "
        "Check the name, or give the whole path.\n"
    )
    assert main(["audit", "not-an-audit"]) == 2
    assert "not-an-audit has no pictures" in capsys.readouterr().err
