"""Every --help: each command has examples, each example is run by some test, and shells complete."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import heedful
from heedful.cli.main import ORDER, app, main

ROOT = Path(__file__).parents[2]
ELSEWHERE = {  # command -> the test that runs its examples
    "explain": "test_main.py",
    "generate": "test_main.py",
    "doctor": "test_main.py",
    "report": "test_main.py",
    "audit": "test_main.py",
    "attention": "test_main.py",
    "trial": "test_main.py",
    "steer": "test_main.py",
    "heads induction": "test_heads_cli.py",
    "heads syntax": "test_heads_cli.py",
    "heads bias": "test_heads_cli.py",
    "": "test_main.py",
}
NOT_RUN = (  # part of a line -> why it is not run here
    ("heedful zoo pull", "downloads: tests/real pulls what it needs"),
    ("--engine ray", "starts a cluster: tests/engine does"),
    ("heedful serve", "waits for a browser: tests/server starts it"),
    ("answers.sqlite --results", "needs the answers of people: tests/labs makes some"),
    ("heedful lab study", "waits for people: tests/labs starts it"),
)
SLOW = ("heedful lab run", "heedful features", "heedful heads importance", "heedful heads prune")


def commands() -> Iterator[tuple[str, Any]]:
    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        yield " ".join(path), command
        for name, below in getattr(command, "commands", {}).items():
            yield from walk(below, (*path, name))

    yield from walk(typer.main.get_command(app), ())


def examples(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if re.match(r" *(heedful|echo) ", line)]


def here() -> list[Any]:
    """The examples that this file runs; slow ones are marked."""
    lines = [
        line for name, command in commands() if name not in ELSEWHERE for line in examples(command.help or "")
    ]
    return [
        pytest.param(line, marks=pytest.mark.slow if line.startswith(SLOW) else ())
        for line in dict.fromkeys(lines)
    ]


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=lambda value: str(value)[:20])
def test_every_help_has_an_example(name: str, command: Any) -> None:
    assert examples(command.help or ""), f"heedful {name} --help shows no example"


def shown(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a command's help at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_nothing_is_cut_at_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(name, monkeypatch, capsys)
    assert [line for line in lines if len(line) > 80] == []
    usage = [line for line in lines if line.startswith("Usage:")]  # COMMAND [ARGS]... is not a cut line
    assert [line for line in lines if line.endswith(("...", "…")) and line not in usage] == []


def test_commands_are_listed_in_the_order_people_need_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown("", monkeypatch, capsys)
    listed = [line.split()[0] for line in lines[lines.index("Commands:") + 1 :]]
    assert listed == list(ORDER)
    assert set(listed) == {name for name, _ in commands() if name and " " not in name}
    assert listed[:3] == ["explain", "audit", "report"]


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=lambda value: str(value)[:20])
def test_every_option_says_what_it_is(name: str, command: Any) -> None:
    for parameter in command.params:
        text = getattr(parameter, "help", "") or ""
        assert text.endswith((".", ")")) or parameter.name in ("help", *COMPLETION), (name, parameter.name)


COMPLETION = ("install_completion", "show_completion")  # written by typer
SAME = {  # an option -> its help, wherever it is
    "--json": "Print the result as one JSON document.",
    "--seed": "Random seed.",
    "--quiet": "Print no progress and no notes.",
    "--text-column": "Column with the texts.",
    "--allow-pickle": "Load pickle weights. Pickle files can run code. "
    "Use this option only for files you trust.",
}


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=lambda value: str(value)[:20])
def test_the_same_option_is_the_same_thing(name: str, command: Any) -> None:
    for parameter in command.params:
        for option in parameter.opts:
            if option in SAME:
                assert parameter.help == SAME[option], (name, option)
            if option == "--label-column":
                assert parameter.help.startswith("Column with the true labels"), name


WITHOUT_JSON = {"serve"}  # a server


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=lambda value: str(value)[:20])
def test_every_command_speaks_json(name: str, command: Any) -> None:
    if not hasattr(command, "commands") and name not in WITHOUT_JSON:
        assert any("--json" in option.opts for option in command.params)


def test_tests_named_here_are_there() -> None:
    known = {name for name, _ in commands()}
    for name, test in ELSEWHERE.items():
        assert name in known
        assert "when_pasted" in Path(__file__).with_name(test).read_text(encoding="utf-8")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that examples name."""
    monkeypatch.chdir(tmp_path)
    speech = "We must protect the rights of the people and the state of the union is strong.\n"
    for name in ("speeches", "held-out"):
        (tmp_path / f"{name}.txt").write_text(speech * 30, encoding="utf-8")
    rows = [("the food is great", "positive"), ("not bad at all", "negative"), ("slow and bad", "negative")]
    lines = "".join(f"{text},{text},{label}\n" for text, label in rows * 6)
    (tmp_path / "reviews.csv").write_text("text,review,label\n" + lines, encoding="utf-8")
    (tmp_path / "texts.csv").write_text("text,review,label\n" + lines, encoding="utf-8")
    (tmp_path / "sentences.csv").write_text("text\n" + speech.replace(",", "") * 6, encoding="utf-8")
    shutil.copy(ROOT / "docs" / "examples" / "sentences.conllu", tmp_path)
    return tmp_path


def quicker(words: list[str]) -> list[str]:
    """The same command with less to do."""
    if words[:2] == ["features", "train"]:
        for option in ("--steps", "--width"):
            if option in words:
                del words[(at := words.index(option)) : at + 2]
        return [*words, "--steps", "20", "--width", "64"]
    if words[:2] in (["features", "page"], ["features", "interpret"], ["features", "measure"]):
        return [*words, "--rows", "400"] if "--rows" not in words else words
    if words[:2] in (["heads", "importance"], ["heads", "prune"]):
        return [*words, "--limit", "6"]
    return words


def prepare(folder: Path, words: list[str]) -> None:
    """What a command opens: a store of activations, dictionaries, a run."""
    if words[0] != "features" or words[1] == "harvest":  # which makes its store itself
        return
    names = [word.rstrip("/") for word in words if re.fullmatch(r"(acts|sae[\w-]*)/", word)]
    model = heedful.load("zoo:sentiment" if "zoo:sentiment" in words else "zoo:lm")
    site = "blocks.1.resid"
    from heedful.features.activations.harvest import harvest
    from heedful.features.sae.train import train_sae

    if not names:
        return
    acts = harvest(model, folder / "speeches.txt", site, folder / "acts", rows=300)
    for seed, name in enumerate(names):
        if name.startswith("sae") and "--out" not in words:
            train_sae(acts, 64 * (1 + seed), "topk", k=8, steps=20, out=folder / name, seed=seed)
    if "--resume" in words:  # what it goes on from
        assert main([word for word in words if word != "--resume"]) == 0


@pytest.mark.parametrize("line", here())
def test_examples_work_when_pasted(line: str, stage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part, why in NOT_RUN:
        if part in line:
            pytest.skip(why)
    words = quicker(shlex.split(line)[1:])
    prepare(stage, words)
    capsys.readouterr()
    assert main(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell: str) -> None:
    def complete(typed: str) -> str:
        words = typed.split(" ")
        env = {
            **os.environ,
            "_HEEDFUL_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(words) - 1),
            "_TYPER_COMPLETE_ARGS": typed,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        done = subprocess.run(
            [sys.executable, "-m", "heedful"], env=env, capture_output=True, text=True, check=False
        )
        return done.stdout

    assert "explain" in complete("heedful ex")
    assert "--method" in complete("heedful explain --me")
    assert "harvest" in complete("heedful features ha")


def test_completion_can_be_installed(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    script = Path(sys.executable).with_name("heedful")
    # started by a shell, as it asks its ancestors which shell it is for; two commands, so that bash stays
    typed = f"{shlex.quote(str(script))} --install-completion && true"
    done = subprocess.run(["bash", "-c", typed], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "heedful" in written
