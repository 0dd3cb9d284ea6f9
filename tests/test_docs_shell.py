"""Every `heedful ...` line of the README and the docs runs; those that take long are slow tests."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_help import NOT_RUN, prepare, quicker, stage

from heedful.cli.main import main
from heedful.core import registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELLS = ("", "sh", "shell", "bash", "console")
QUICK = re.compile(r"heedful (explain|doctor|attention|zoo|generate|report|features sites|lab list)\b")
PULLED = ("zoo:prompt-injection", "zoo:minilm", "zoo:titler", "zoo:smollm2", "zoo:mobilenet")
SKIPPED = (
    *NOT_RUN,
    ("--llm-model NAME", "needs the reader's own language model; its rehearsal is run"),
    ("$METHODS", "an audit of hours; the same with fewer methods is run"),
)
__all__ = ["stage"]


def lines() -> list[Any]:
    """(page, command), in order, comments taken off; `\\` joins lines."""
    found: dict[str, Any] = {}
    for page in PAGES:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        for block in (text for language, text in blocks if language in SHELLS):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("heedful "):
                    command = re.split(r"\s{2,}#", line)[0].strip()
                    found.setdefault(command, page.name)
    marks = {line: () if QUICK.match(line) else pytest.mark.slow for line in found}
    return [pytest.param(line, id=f"{page}: {line[:70]}", marks=marks[line]) for line, page in found.items()]


def less(words: list[str]) -> list[str]:
    """The same command with less to do."""
    words = quicker(words)
    if "--limit" in words:
        words[words.index("--limit") + 1] = "4"
    if words[0] == "audit":
        words += ["--limit", "3"] if "--limit" not in words else []
        words += ["--method", "occlusion,grad-l2"] if "--method" not in words else []
    if words[0] == "trial":
        words += ["--limit", "6"] if "--limit" not in words else []
        words += ["--permutations", "2", "--climb", "2", "--steps", "2", "--seeds", "2"]
        words += ["--test", "frozen"] if "--train" in words else []
    if words[0] == "steer":
        words += ["--max-new-tokens", "4"]
    return words


def files(folder: Path, words: list[str]) -> None:
    """What the line opens."""
    (folder / "docs").symlink_to(ROOT / "docs")
    said = {
        "prompts": "The state of the union is strong\nWe must\n",
        "states": "The states\nOur union\n",
        "other": "We must go on\nA long day\n",
        "money": "The bank pays\nTaxes and prices\n",
    }
    for name, text in said.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    rows = [
        (f"the {word} is {last}", ("negative", "positive")[last == "good"])
        for word in ("cat", "dog", "mat", "house", "world")
        for last in ("good", "bad")
    ]
    (folder / "train.csv").write_text(
        "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows), encoding="utf-8"
    )
    (folder / "photos").mkdir()
    for name in ("01.png", "02.png", "03.png"):
        shutil.copy(ROOT / "docs" / "examples" / "pictures" / name, folder / "photos")
    if words[0] == "report":
        assert main(["explain", "not bad", "--method", "occlusion", "--out", words[1], "--quiet"]) == 0
    if words[0] == "steer" and "--sae" in words:
        prepare(folder, ["features", "sae/"])


@pytest.mark.parametrize("line", lines())
def test_a_line_of_the_docs_runs(
    line: str, stage: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for part, why in SKIPPED:
        if part in line and "--dry-run" not in line:
            pytest.skip(why)
    if any(name in line for name in PULLED):
        pytest.skip("needs real weights: tests/real pulls them")
    words = less(shlex.split(line)[1:])
    files(stage, words)
    prepare(stage, words)
    capsys.readouterr()
    assert main(words) == 0, capsys.readouterr().err


def test_there_are_lines() -> None:
    assert len(lines()) > 40


# Shell lines that are not `heedful ...`, and why they are not run here.
OTHER = {
    "make ": "targets of the Makefile, each a command that tests run by itself",
    "pip install .": "tests/test_dist.py runs it in a copy of the source",
    "pip install ": "the packages of an extra come from the network; tests/test_dist.py tests every extra",
    "export ": "sets what the next line reads",
    "curl ": "tests/server asks a running server the same",
    "torchrun ": "tests/features/test_sae_parallel.py trains in several processes",
    "python docs/examples/make_corpus.py ": "reads real texts, which are pulled",
    "python docs/examples/write_dictionary.py ": "measures a whole dictionary, for long",
    "python docs/examples/make_training.py ": "fetches texts that may not be passed on",
}
COMMAND = re.compile(r"(\w+=\S|(make|pip|export|curl|torchrun|python3?|git|docker|wget|ray|uv|sh|bash|cd) )")


def test_every_other_shell_line_has_a_reason_not_to_be_run_here() -> None:
    told, used = [], set()
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines() if language in SHELLS else ():
                if COMMAND.match(line):
                    known = [start for start in OTHER if line.startswith(start)]
                    used |= set(known)
                    told += [] if known else [f"{page.name}: {line}"]
    assert told == []
    assert used == set(OTHER), "a reason without a line"


def examples_of_methods() -> list[Any]:
    """The command on the page of each method."""
    pages = sorted((ROOT / "docs" / "methods").glob("*.md"))
    found = [(page.stem, re.search(r"On the command line: `(.*)`\.", page.read_text())) for page in pages]
    return [pytest.param(match[1], id=name) for name, match in found if match is not None]


@pytest.mark.slow
@pytest.mark.parametrize("line", examples_of_methods())
def test_the_example_of_a_method_runs(line: str, stage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "mobilenet" in line:
        pytest.skip("needs real weights: tests/real pulls them")
    words = shlex.split(line)[1:]
    files(stage, words)
    assert main(words) == 0, capsys.readouterr().err


def test_every_method_has_an_example() -> None:
    assert len(examples_of_methods()) == len(registry.explainers())
