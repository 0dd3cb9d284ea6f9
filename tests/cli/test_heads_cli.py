"""`heedful heads`: tables, one JSON document, CSV, one clear line for a mistake, examples that work."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heedful.cli.main import main

FILE = Path(__file__).parents[2] / "docs" / "examples" / "sentences.conllu"
PAIRS = "template,a,b,pronoun_1,pronoun_2\n" + "".join(
    f"the {{a}} sat on the {{b}} . {{pronoun}},{a},{b},you,a\n"
    for a, b in (("mat", "dog"), ("house", "world"))
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, shared: Callable[[str], Any], tmp_path: Path) -> None:
    """Every name loads a tiny random model; the files of the examples stand in the working folder."""
    models = {name: shared(name).model for name in ("gpt2", "bert")}  # loaded before load is replaced
    load = lambda name, **_: models["gpt2" if "lm" in name else "bert"]  # noqa: E731
    monkeypatch.setattr("heedful.models.load.load", load)
    shutil.copy(FILE, tmp_path / "sentences.conllu")
    (tmp_path / "pairs.csv").write_text(PAIRS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert main(["heads", *arguments]) == 0, capsys.readouterr().err
    found = capsys.readouterr()
    return found.out, found.err


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["heads", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("heedful: ")
    assert err.count("\n") == 1
    return err


def flat(text: str) -> str:
    """Without the terminal's line breaks."""
    return " ".join(text.split())


# --- help ------------------------------------------------------------------------------------------


def test_help_is_quick_and_the_group_alone_shows_it() -> None:
    code = (
        "import sys; from heedful.cli.main import main\n"
        "for words in ([], ['induction'], ['syntax'], ['bias']):\n"
        "    assert main(['heads', *words, '--help']) == 0\n"
        "assert main(['heads']) == 0\n"
        "heavy = {'torch', 'transformers', 'scipy', 'numpy', 'rich.table'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "syntax" in done.stdout


def examples() -> list[str]:
    """Every example of the commands tested here; others of the group are tested with their own files."""
    from heedful.cli.commands import heads

    texts = [command.__doc__ or "" for command in (heads.induction, heads.syntax, heads.bias)]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return sorted({line for line in lines if line.startswith("heedful ")})


def test_there_are_examples() -> None:
    assert len(examples()) >= 6


@pytest.mark.parametrize("line", examples())
def test_examples_work_when_pasted(line: str, toy: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)[1:]
    if "induction" in words and "--period" not in words:
        words += ["--period", "20"]  # the toy reads 64 tokens
    assert main(words) == 0, capsys.readouterr().err


# --- induction -------------------------------------------------------------------------------------


def test_induction_in_words(toy: None, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = output(capsys, "induction", "--model", "lm", "--period", "20", "--draws", "3")
    said = flat(out)
    assert "8 heads, 3 texts of 20 random tokens, read twice" in said
    assert "Induction heads: none" in said
    assert "Loss per token" in said
    assert "Note: attention switched from sdpa to eager" in said
    assert err == ""


def test_induction_heads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Strongest first, twelve at most, each beside its control."""
    from heedful.cli.console import put_document
    from heedful.heads.roles.induction import AttentionShare, HeadRole, Induction, Loss

    none = AttentionShare(0.01, 0.01, (-0.1, 0.1))
    heads = [
        HeadRole(7, k, AttentionShare(0.3 + k / 100, 0.02, (0.2, 0.5)), none, none, ("induction",))
        for k in range(14)
    ]
    loss = Loss(9.0, 2.0, -7.0, (-7.5, -6.5), 0.25)
    found = Induction("m", 50, 8, 0, 0.1, 0.014, tuple(heads), loss)
    put_document(found.document())
    out = capsys.readouterr().out
    assert out.startswith("14 induction heads, no duplicate-token heads")
    listed = re.findall(r"^layer 7 head (\d+) .* (\S+) \(0.20 to 0.50\)$", out, re.MULTILINE)
    assert listed == [(str(k), f"{0.28 + k / 100:.2f}") for k in range(13, 1, -1)]
    assert "And 2 more" in out
    assert "change −7.00 (−7.500 to −6.500), without repetition +0.25" in flat(out)
    put_document(found.document(), verbose=True)
    rows = re.findall(r"^7\.(\d+) +(\S+), 0.020, \+0.200 to \+0.500", capsys.readouterr().out, re.MULTILINE)
    assert rows == [(str(k), f"{0.3 + k / 100:.3f}") for k in range(13, -1, -1)]


def test_induction_as_csv(toy: None, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = output(capsys, "induction", "--model", "lm", "--period", "20", "--draws", "3", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 8
    assert {"layer", "head", "roles", "induction", "induction_control", "previous_low"} <= set(rows[0])


# --- syntax ----------------------------------------------------------------------------------------


def test_syntax_in_words_csv_and_json(toy: None, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("syntax", "sentences.conllu", "--least", "15", "--model", "bert")
    out = output(capsys, *asked)[0]
    assert "41 sentences, relations with at least 15 examples" in flat(out)
    assert "fewer than 100 examples" in flat(out)
    assert max(map(len, out.splitlines())) <= 80
    data = json.loads(output(capsys, *asked, "--json")[0])
    rows = list(csv.DictReader(io.StringIO(output(capsys, *asked, "--csv")[0])))
    assert [row["relation"] for row in rows] == [r["relation"] for r in data["relations"]]
    assert rows[0]["relation"] == "all"
    for row, told in zip(rows, data["relations"], strict=True):
        assert float(row["crossed"]) == pytest.approx(told["crossed"]["accuracy"])
        assert re.search(rf"^{row['relation']} +{row['n']} ", out, re.MULTILINE)


def test_syntax_tells_the_line_before_it_loads_a_model(
    toy: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.models.load.load", lambda *_, **__: pytest.fail("loaded"))
    Path("bad.conllu").write_text("1\tgo\n\n", encoding="utf-8")
    assert "bad.conllu, line 1 is not CoNLL-U" in mistake(capsys, "syntax", "bad.conllu")
    assert "cannot read none.conllu" in mistake(capsys, "syntax", "none.conllu")


# --- bias ------------------------------------------------------------------------------------------


def test_bias_in_words_csv_and_json(toy: None, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("bias", "--model", "lm", "--templates", "pairs.csv")
    out = output(capsys, *asked)[0]
    assert "2 templates in four variants" in flat(out)
    assert "With pronoun labels drawn at random" in flat(out)
    assert max(map(len, out.splitlines())) <= 80
    data = json.loads(output(capsys, *asked, "--json")[0])
    assert (data["templates"], len(data["heads"])) == (2, 8)
    assert f"{data['overall']['share']:.3f}" in output(capsys, *asked, "-v")[0]
    rows = list(csv.DictReader(io.StringIO(output(capsys, *asked, "--csv")[0])))
    assert float(rows[6]["pronoun_p"]) == data["heads"][6]["pronoun"]["p"]


def test_bias_with_the_built_in_templates(toy: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(output(capsys, "bias", "--model", "lm", "--json")[0])["templates"] == 27


# --- mistakes --------------------------------------------------------------------------------------


def test_mistakes_are_one_line(toy: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Use a period of at most 32" in mistake(capsys, "induction", "--model", "lm", "--period", "99")
    assert "is a classifier" in mistake(capsys, "induction", "--model", "bert")
    assert "is a classifier" in mistake(capsys, "bias", "--model", "bert")
    assert "no relation has 9999 examples" in mistake(capsys, "syntax", "sentences.conllu", "--least", "9999")
    assert "Choose one" in mistake(capsys, "bias", "--json", "--csv")
    Path("t.csv").write_text("a,b\n", encoding="utf-8")
    assert "no column template" in mistake(capsys, "bias", "--templates", "t.csv")
    assert "--draws" in mistake(capsys, "induction", "--draws", "1")
