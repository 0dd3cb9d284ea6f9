"""Every option of every command with values that nobody should type: one line and code 2, never a traceback.

Numbers are tried in all commands. Texts, names and places are tried in commands that are quick, a few drawn
by a seed here and all of them in the slow test. Models are tiny random ones.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

import heedful
from heedful.cli import main as program
from heedful.cli.checked_options import limit_of
from heedful.cli.main import app, main
from heedful.core.errors import out_of_memory

DIGITS = "9" * 5000
NUMBERS = ("nan", "inf", "-inf", "1e400", "10000000000000000000000000", DIGITS, "-" + DIGITS, "٣", "0x10", "")
WORDS = (
    "",
    " ",
    "a" * 5000,
    DIGITS,
    "-1",
    "\udcff",
    "\x1b[2J",
    "../" * 50,
    "/dev/full",
    "zoo:",
    "=",
    ",",
    "%s%n",
)
CODES = (0, 1, 2)
WRITTEN_FOLDERS, WRITTEN_FILES = {"--out", "--cache", "--runs"}, {"--html", "--figure", "--database"}
READ = {  # places that are only read
    *("--regions", "--audit", "--sae", "--texts", "--prompts", "--towards", "--away", "--look", "--reseed"),
    *("--train", "--models", "--scores", "--templates"),
}
# a command, and what it needs to run quickly; the others need minutes, a port or a cluster
QUICK: dict[str, list[str]] = {
    "explain": ["the service is not bad", "--method", "grad-l2", "--no-evidence"],
    "generate": ["the cat", "--model", "lm", "--max-new-tokens", "2"],
    "attention": ["the cat sat"],
    "doctor": ["bert"],
    "methods": ["lime"],
    "metrics": ["aopc"],
    "report": ["nosuch"],
    "heads syntax": ["{texts}"],
    "heads importance": ["nosuch.csv"],
    "zoo list": [],
    "zoo card": ["sentiment"],
    "zoo path": ["sentiment"],
}


def commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    if not below:
        yield name, command
    for each, inner in below.items():
        yield from commands(inner, f"{name} {each}".strip())


EVERY = dict(commands(typer.main.get_command(app)))


def takes_number(parameter: Any) -> bool:
    """By what it says of itself, in the words of any version of typer."""
    described = getattr(parameter, "type_descriptor", None)
    kind = getattr(parameter, "type", None) if described is None else described.annotation
    return kind in (int, float) or str(getattr(kind, "name", "")).startswith(("integer", "float"))


def takes_place(parameter: Any) -> bool:
    described = getattr(parameter, "type_descriptor", None)
    kind = getattr(parameter, "type", None) if described is None else described.annotation
    return kind is Path or getattr(kind, "name", "") in ("path", "file", "directory")


def long_name(parameter: Any) -> str:
    return str(max(parameter.opts, key=len))


def options(command: Any) -> Iterator[Any]:
    yield from (one for one in command.params if one.param_type_name == "option" and not one.is_flag)


def needed(command: Any) -> list[str]:
    """Something for what must be given."""
    words: list[str] = []
    for one in command.params:
        if one.required:
            words += ["x"] if one.param_type_name == "argument" else [one.opts[0], "x"]
    return words


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, shared: Callable[[str], Any], tmp_path: Path) -> Path:
    """Tiny models for all names, a file of texts, and a folder to write into."""

    models = {name: shared(name).model for name in ("bert", "gpt2")}

    def load(name: Any, **_: Any) -> Any:
        return models["gpt2" if "lm" in str(name) else "bert"]

    monkeypatch.setattr(heedful, "load", load, raising=False)
    monkeypatch.chdir(tmp_path)
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\nthe cat sat,1\nhello world,0\n")
    return texts


def attack(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run it: a known code, and for a mistake exactly one line that is not endless."""
    code = main(words)
    _, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("heedful: ")]
    assert code in CODES, words
    assert "Traceback" not in err
    if code == 2:
        assert len(lines) == 1, (words, err[-500:])
        assert len(lines[0]) < 2000, words
        assert "\x1b" not in lines[0]
    return code, err


def test_no_number_is_unlimited_or_not_finite(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tried = 0
    for name, command in EVERY.items():
        for parameter in filter(takes_number, options(command)):
            for value in NUMBERS:
                words = [*name.split(), *needed(command), f"{parameter.opts[0]}={value}"]
                code, err = attack(words, capsys)
                assert code == 2, (words, "was accepted")
                assert "there is no" not in err.lower(), (words, "was read before the number")
                tried += 1
    assert tried > 500


def whole(parameter: Any) -> bool:
    described = getattr(parameter, "type_descriptor", None)
    kind = getattr(parameter, "type", None) if described is None else described.annotation
    return kind is int or str(getattr(kind, "name", "")).startswith("integer")


def numeric_options() -> Iterator[tuple[list[str], Any, int]]:
    """(the words before it, the option, its largest value)"""
    for name, command in EVERY.items():
        for parameter in filter(takes_number, options(command)):
            words = [*name.split(), *needed(command)]
            yield words, parameter, limit_of(parameter.name, whole=whole(parameter))


def test_every_number_is_refused_above_its_limit(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, parameter, most in numeric_options():
        code, err = attack([*words, f"{parameter.opts[0]}={most + 1}"], capsys)
        assert code == 2, (words, parameter.opts)
        assert parameter.opts[0] in err, (words, parameter.opts, err)
        assert "range" in err or "less than or equal" in err, (words, parameter.opts, err)


def test_what_is_in_memory_has_a_smaller_limit_than_what_is_read() -> None:
    limits = {parameter.name: most for _, parameter, most in numeric_options()}
    read = {"limit", "rows", "steps", "budget", "keep", "train_limit"}
    assert {name for name, most in limits.items() if most == 10**12} == read | {
        *("alike", "epsilon", "lr", "margin", "sparsity", "strength", "temperature", "threshold", "top_p")
    }
    at_once = ("batch", "batch_tokens", "context", "k", "length", "max_new_tokens", "period", "draws")
    assert [limits[name] for name in at_once] == [10**6] * len(at_once)
    assert limits["width"] == 10**8


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 999 bytes."),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("Storage size calculation overflowed with sizes=[99, 99]"),
    ],
)
def test_too_little_memory_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "_command", lambda: Failing(error))
    assert attack(["methods"], capsys) == (
        2,
        "heedful: there is not enough memory. Use a smaller model, fewer or shorter texts\n",
    )
    monkeypatch.setattr(program, "_command", lambda: Failing(RuntimeError("a mistake of ours")))
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        main(["methods"])


def test_torch_tells_of_memory_in_these_words() -> None:
    for size in (2**46, 2**62):
        with pytest.raises(RuntimeError) as caught:
            torch.empty(size, dtype=torch.float64)
        assert out_of_memory(caught.value)


class Failing:
    """A command that ends with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def main(self, **_: Any) -> None:
        raise self.error


def test_every_number_is_seen_by_the_attack() -> None:
    """The test above is empty if typer changes how it describes options."""
    numbers = {
        f"{name} {one.opts[0]}" for name, each in EVERY.items() for one in options(each) if takes_number(one)
    }
    known = {
        "explain --seed",
        "generate --temperature",
        "generate --beams",
        "steer --strength",
        "audit --shard",
    }
    assert known <= numbers
    assert len(numbers) > 60


def wordy(texts: Path) -> list[list[str]]:
    """All commands in QUICK, with one option or argument replaced by a hostile word."""
    cases = []
    for name, given in QUICK.items():
        base = [word.format(texts=texts) for word in given]
        chosen = [one for one in options(EVERY[name]) if not takes_number(one)]
        for word in WORDS:
            cases += [[*name.split(), *base, f"{max(one.opts, key=len)}={word}"] for one in chosen]
            if base and not base[0].startswith("-"):
                cases.append([*name.split(), *base[1:], "--", word])
    return cases


def test_hostile_words(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in random.Random(5).sample(wordy(tiny), 60):
        attack(words, capsys)


@pytest.mark.slow
def test_all_hostile_words(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in wordy(tiny):
        attack(words, capsys)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_places_that_cannot_be_written_are_told_first(
    name: str, tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any work: the model of these commands does not exist."""
    monkeypatch.setattr("heedful.server.app.prepare", lambda *_: pytest.fail("the server was started"))
    folders = dict.fromkeys(WRITTEN_FOLDERS, (str(tiny), f"{tiny}/x", "/dev/full/x"))
    bad = folders | dict.fromkeys(WRITTEN_FILES, (str(tiny.parent), f"{tiny}/x.html"))
    for parameter in options(EVERY[name]):
        for place in bad.get(long_name(parameter), ()):
            given = [word.format(texts=tiny) for word in QUICK.get(name, needed(EVERY[name]))]
            code, err = attack([*name.split(), *given, f"{parameter.opts[0]}={place}"], capsys)
            assert (code, place in err) == (2, True), (name, place, err)


def test_every_option_for_a_place_is_read_or_written() -> None:
    """A new one is declared with `written_folder` or `written_file`, and tried above, or it is only read."""
    places = {long_name(one) for each in EVERY.values() for one in options(each) if takes_place(one)}
    assert WRITTEN_FOLDERS | WRITTEN_FILES <= places <= WRITTEN_FOLDERS | WRITTEN_FILES | READ


def test_a_place_for_answers_that_nobody_named_is_checked_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the first answer is paid for; who asks no language model needs no place for its answers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEEDFUL_LLM_URL", "http://localhost:1/v1")
    (tmp_path / ".heedful-llm").write_text("a file")
    words = ["features", "interpret", "nosuch", "texts.txt"]
    assert attack([*words, "--llm", "--llm-model", "m"], capsys) == (
        2,
        "heedful: cannot write to .heedful-llm: it is a file, not a folder. Name another place.\n",
    )
    assert ".heedful-llm" not in attack(words, capsys)[1]


# --- standard streams, in processes of their own ------------------------------------------------------


def shell(line: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = line.replace("heedful", f"{shlex.quote(sys.executable)} -m heedful", 1)
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False, **more)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_output_is_one_line() -> None:
    done = shell("heedful zoo list >/dev/full")
    assert done.returncode == 2
    assert done.stderr == "heedful: cannot read or write: No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams(closed: str) -> None:
    """The result is lost with its stream; nothing else is."""
    done = shell(f"heedful zoo list {closed}")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert bool(done.stdout) == ("1" not in closed and not closed.startswith(">"))


def test_a_file_does_not_take_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """Else what is printed would be written into it."""
    code = (
        "import sys, os; from heedful.cli.streams import open_streams; open_streams();"
        f"file = open({str(tmp_path / 'kept')!r}, 'w'); print('lost'); os.write(1, b'lost');"
        "file.write('kept'); file.close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, preexec_fn=lambda: os.close(1))
    assert (tmp_path / "kept").read_text() == "kept"


def test_no_input_is_a_mistake() -> None:
    done = shell("heedful explain <&-")
    assert done.returncode == 2
    assert done.stderr.startswith("heedful: the text is empty")


def test_a_reader_that_leaves_is_no_mistake() -> None:
    done = shell("heedful zoo list | head -n 1")
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that never ends")
def test_a_device_that_never_ends_is_not_read_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert attack(["explain", "--chat", "/dev/full"], capsys)[0] == 2


def test_a_loop_of_links_as_a_report_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.io.every_kind import make

    make("trial", tmp_path / "run")
    (tmp_path / "loop").symlink_to("loop")
    assert main(["report", str(tmp_path / "run"), "--html", str(tmp_path / "loop")]) == 2
    assert "Too many levels of symbolic links" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["x", "nan", "-1", "0", "1e5"])
def test_a_limit_of_fields_that_is_no_number_is_told(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEEDFUL_MAX_FIELD", value)
    (tmp_path / "a.csv").write_text("text\nthe cat\n")
    assert main(["audit", str(tmp_path / "a.csv")]) == 2
    assert f"HEEDFUL_MAX_FIELD cannot be '{value}'" in capsys.readouterr().err


def test_quiet_prints_nothing_beside_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, acts = tmp_path / "a.txt", str(tmp_path / "acts")
    texts.write_bytes(b"The king is dead, long live the king.\ncaf\xe9\n" * 6)
    commands = [
        ["harvest", str(texts), "--site", "blocks.1.resid", "--out", acts],
        ["train", acts, "--out", str(tmp_path / "sae"), "--width", "8", "--k", "2", "--steps", "2"],
        ["page", "zoo:lm", str(texts), "--feature", "3", "--rows", "20", "--html", str(tmp_path / "a.html")],
    ]
    for words in commands:
        assert main(["features", *words, "-q"]) == 0
        assert capsys.readouterr().err == ""


# --- the same numbers in Python ------------------------------------------------------------------------

TEXTS = ["the cat sat", "hello world"]
SEEDED: dict[str, Callable[[Any, Any, Path], Any]] = {
    "explain": lambda model, seed, _: heedful.explain(model, TEXTS[0], ["lime"], seed=seed),
    "audit": lambda model, seed, _: heedful.audit(model, TEXTS, methods=["occlusion"], seed=seed),
    "trial": lambda model, seed, _: heedful.trial(model, TEXTS, tests=["correlation"], seed=seed),
    "head_importance": lambda model, seed, _: heedful.head_importance(model, TEXTS, seed=seed),
    "prune_heads": lambda model, seed, _: heedful.prune_heads(model, TEXTS, seed=seed),
    "harvest": lambda model, seed, to: heedful.harvest(model, TEXTS, "blocks.1.resid", to / "a", seed=seed),
    "train_sae": lambda _, seed, to: heedful.train_sae(
        torch.zeros(9, 4), width=6, kind="topk", k=2, seed=seed
    ),
    "run_lab": lambda _, seed, to: heedful.run_lab("attention-by-hand", fast=True, seed=seed),
}


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "1"])
@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_that_no_generator_takes_is_refused(
    name: str, seed: Any, shared: Callable[[str], Any], tmp_path: Path
) -> None:
    with pytest.raises(heedful.HeedfulError, match="seed cannot be"):
        SEEDED[name](shared("bert").model, seed, tmp_path)
