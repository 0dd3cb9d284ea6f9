"""A disk that is full or read-only, and Ctrl-C at the wrong moment: one line, or the code of an interrupt."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.attack import hostile_models as hostile
from tests.attack.full_disk import full_disk, read_only_disk

import heedful
from heedful.cli.main import main
from heedful.core.charts import BarGroup, Bars
from heedful.core.document import Figure
from heedful.core.errors import HeedfulError
from heedful.core.lab_report import LabReport
from heedful.features.sae.train import train_sae
from heedful.labs.base import registry
from heedful.labs.base.registry import LabRun
from heedful.server.job_queue import Job, Jobs

SOURCES = Path(heedful.__file__).parent


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, shared: Callable[[str], Any]) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return {name: str(hostile.sound(folder / name, shared(name))) for name in ("bert", "gpt2")}


STEER = (
    "steer the\tcat --model {gpt2} --site blocks.1.resid --towards {lines} --away {texts} --max-new-tokens 2"
)
COMMANDS = {
    "explain --html": "explain the\tcat --model {bert} --method grad-l2 --no-evidence --html {to}/a.html",
    "explain --out": "explain the\tcat --model {bert} --method grad-l2 --no-evidence --out {to}/run",
    "attention --figure": "attention the\tcat --model {bert} --figure {to}/a.svg",
    "audit --out": "audit {texts} --model {bert} --method occlusion --draws 2 --workers 1 --out {to}/audit",
    "harvest": "features harvest {texts} --model {gpt2} --site blocks.1.resid --out {to}/acts",
    "trial --out": (
        "trial {texts} --model {bert} --label-column label --test correlation --permutations 2 --out {to}/t"
    ),
    "heads importance --out": "heads importance {texts} --model {bert} --no-gradient --out {to}/heads",
    "lab run --out": "lab run a-lab-of-the-tests --out {to}/lab",
    "lab run --html": "lab run a-lab-of-the-tests --html {to}/lab.html",
    "steer --out": f"{STEER} --out {{to}}/steer",
    "steer --html": f"{STEER} --html {{to}}/steer.html",
    "train": "features train {acts} --width 8 --k 2 --steps 2 --out {to}/sae",
    "features page": "features page zoo:lm {texts} --feature 3 --rows 20 --html {to}/page.html",
    "report --html": "report {run} --html {to}/report.html",
}


def little_lab(run: LabRun) -> None:
    run.say("a sentence of some length, " * 30)
    run.figure("bars", Bars([BarGroup("b", [1.0])], ["a"], "value", "a chart"), "a figure")
    run.claim("it holds", value=1.0, holds=True, exact=True)


@pytest.fixture(scope="module")
def given(models: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the commands read."""
    from tests.io.every_kind import make

    folder = tmp_path_factory.mktemp("given")
    texts, lines = folder / "texts.csv", folder / "lines.txt"
    texts.write_text("text,label\nthe cat sat,negative\nhello world,positive\na dog ran,negative\n")
    lines.write_text("the cat sat\na dog ran\n")
    heedful.harvest(models["gpt2"], ["the cat sat on the mat"] * 8, "blocks.1.resid", folder / "acts")
    make("trial", folder / "run")
    places = {"texts": texts, "lines": lines, "acts": folder / "acts", "run": folder / "run"}
    return models | {name: str(place) for name, place in places.items()}


@pytest.fixture
def words(
    request: pytest.FixtureRequest,
    given: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """A command that writes to a folder of its own."""
    about = registry.Lab("a-lab-of-the-tests", "a lab", 0.1, "nobody", registry.__name__)
    monkeypatch.setitem(registry._works, about.name, (about, little_lab))
    (tmp_path / "to").mkdir()
    return COMMANDS[request.param].format(to=tmp_path / "to", **given).split(" ")


@pytest.mark.parametrize("words", COMMANDS, indirect=True)
def test_a_full_disk_is_one_line(words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sys.stdout.flush()
    with capfd.disabled(), full_disk():
        code, line = quiet_main(words)
    assert code == 2, line
    assert "File too large" in line
    whole = [path for path in (tmp_path / "to").rglob("*") if path.is_file()]
    assert all(path.stat().st_size < 512 for path in whole)  # none is cut off by the limit


@pytest.mark.parametrize("words", COMMANDS, indirect=True)
def test_a_disk_that_becomes_read_only_is_one_line(words: list[str], tmp_path: Path) -> None:
    with read_only_disk(tmp_path / "to"):
        code, line = quiet_main(words)
    assert code == 2, line
    assert "Read-only file system" in line
    assert not list((tmp_path / "to").iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_text_that_cannot_be_printed_is_one_line(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`generate` writes no file: what it made is printed."""
    with Path("/dev/full").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        code = main(["generate", "the cat", "--model", models["gpt2"], "--max-new-tokens", "2"])
    assert code == 2
    assert capsys.readouterr().err.endswith("heedful: cannot read or write: No space left on device\n")


def quiet_main(words: list[str]) -> tuple[int, str]:
    """(code, the line of the mistake), without a file for what is printed."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([word.replace("\t", " ") for word in words])
    lines = [line for line in err.getvalue().splitlines() if line.startswith("heedful: ")]
    assert len(lines) == (code == 2)
    return code, "".join(lines)


def test_a_training_that_cannot_write_says_how_to_go_on(tmp_path: Path) -> None:
    data = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    with full_disk(), pytest.raises(HeedfulError, match=r"cannot write to .*File too large.*--resume"):
        train_sae(data, width=6, kind="topk", k=2, batch=32, steps=4, keep=2, out=tmp_path / "sae")


def test_the_page_tells_what_the_system_refused() -> None:
    def work(job: Job) -> None:
        raise OSError(28, "No space left on device", "/home/me/secret/run")

    jobs = Jobs(workers=1)
    job = jobs.put(Job("explain", "me", {}, work))
    while job.state not in ("done", "failed"):
        time.sleep(0.01)
    jobs.close()
    assert job.error == "The server's machine refused: No space left on device."


def test_a_report_is_written_inside_its_folder(tmp_path: Path) -> None:
    chart = Bars([BarGroup("b", [1.0])], ["a"], "value", "a chart")
    report = LabReport("x", "x", "x", (Figure(chart, "a figure", "../../name"),))
    with pytest.raises(HeedfulError, match="stays in its folder"):
        report.save(tmp_path / "one" / "two" / "three")
    assert not list(tmp_path.rglob("*.svg"))


# --- Ctrl-C --------------------------------------------------------------------------------------------

REMOVED = """
import signal, time
from heedful.cli.interrupts import keep_interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
{keep}
class Slow:
    def __del__(self):
        print("removing", flush=True)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            pass
one = Slow()
try:
    del one
    time.sleep(20)
    print("went on")
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize(("keep", "end"), [("keep_interrupts()", "stopped"), ("", "went on")])
def test_an_interrupt_while_something_is_removed_is_not_lost(keep: str, end: str) -> None:
    code = REMOVED.format(keep=keep).replace("sleep(20)", "sleep(20)" if keep else "sleep(0.1)")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "removing\n"
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert rest.split("\n")[0] == end


def test_what_needs_all_methods_does_not_go_on_with_some() -> None:
    """After Ctrl-C, `explain` gives the methods that are finished, unless it is told not to. What looks up a
    method by its name must tell it so, or the interrupt ends in a KeyError."""
    missing = []
    for path in (
        p for part in ("labs", "retraining", "audits", "trials") for p in (SOURCES / part).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and ast.unparse(node.func) in ("explain", "heedful.explain")
            if called and not any(word.arg == "keep_partial" for word in node.keywords):
                missing.append(f"{path.name}:{node.lineno}")
    assert missing == []


def test_an_interrupt_inside_gold_features_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed when the first method is finished: the others are not there."""
    import numpy as np

    from heedful.comparisons import execute
    from heedful.retraining import gold_features

    monkeypatch.setattr(execute, "_interrupted_at", float("-inf"))
    texts: list[int] = []

    def answers(given: list[str]) -> Any:
        texts.append(len(given))
        if len(texts) > 3:
            raise KeyboardInterrupt
        return np.array([[len(text), 1.0] for text in given])

    model = heedful.load(answers, labels=["a", "b"])
    with pytest.raises(KeyboardInterrupt):
        gold_features.explain(model, "a b c", ["occlusion", "lime"], evidence=False, keep_partial=False)
