"""Ctrl-C keeps what is finished: in Python by a KeyboardInterrupt, on the command line by a real signal."""

from __future__ import annotations

import builtins
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.cli import start
from heedful.cli.main import main
from heedful.comparisons.result import Comparison
from heedful.core import registry
from heedful.core.progress import Step
from heedful.engine.session import Session

TEXT = "the cat sat on the mat. hello world! don't stop, a dog ran"
METHODS = ["grad-l2", "occlusion", "lime", "kernel-shap"]
EXACT = {
    "lime": {"precision": 1e-9},
    "kernel-shap": {"precision": 1e-9},
}  # so that they do not stop by themselves


@pytest.fixture(autouse=True)
def _no_earlier_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.comparisons.execute._interrupted_at", float("-inf"))


def at(method: str, rows: int) -> Any:
    """A progress callback during which the user presses Ctrl-C."""

    def press(step: Step) -> None:
        if step.method == method and step.done >= rows:
            raise KeyboardInterrupt

    return press


def test_finished_methods_come_back_with_a_warning(shared: Any) -> None:
    model = shared("bert").model
    with pytest.warns(UserWarning, match="interrupted in lime: 3 of 5 methods are in the result"):
        found = heedful.explain(model, TEXT, METHODS, progress=at("lime", 0))
    assert list(found) == ["grad-l2", "occlusion", "random"]
    assert dict(found.skipped) == {"lime": "interrupted", "kernel-shap": "interrupted before its turn"}
    assert found.settings["interrupted"] == "lime"
    whole = heedful.explain(model, TEXT, METHODS)
    assert "interrupted" not in whole.settings
    np.testing.assert_allclose(found["occlusion"].scores, whole["occlusion"].scores, atol=1e-6)


def test_an_interrupted_test_of_the_methods_is_told(shared: Any) -> None:
    """All methods are there, and nothing says how they stand beside random orders."""
    with pytest.warns(UserWarning, match="interrupted while the methods were tested"):
        found = heedful.explain(shared("bert").model, TEXT, METHODS[:2], progress=at("evidence", 0))
    assert list(found) == ["grad-l2", "occlusion", "random"]
    assert found.settings["interrupted"] == "evidence"
    assert found.evidence == ()


def test_an_interrupt_during_the_start_has_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def interrupted(name: str, *rest: Any) -> Any:
        if name == "heedful.cli.main":
            raise KeyboardInterrupt
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert start.main() == 130


def test_a_sampled_method_is_estimated_from_the_rows_it_has(fresh: Any) -> None:
    """The same estimate as with so few samples asked for, and no row more than were run."""
    model = fresh("bert").model
    with pytest.warns(UserWarning, match="interrupted in lime"):
        found = heedful.explain(model, TEXT, METHODS, params=EXACT, progress=at("lime", 100))
    assert "lime" in found
    rows = found["lime"].params["samples"]
    assert 64 <= rows < 256
    assert any(f"interrupted: estimated from the {rows:,}" in note for note in found["lime"].notes)
    assert found.skipped == {"kernel-shap": "interrupted before its turn"}
    again = Session(model)
    again.planned = 256  # so few rows would else be drawn in another way
    wanted = heedful.explain(again, TEXT, "lime", params={"lime": {"samples": rows, "precision": 0.0}})
    np.testing.assert_allclose(found["lime"].scores, wanted["lime"].scores, atol=1e-5)
    np.testing.assert_allclose(found["lime"].stderr, wanted["lime"].stderr, atol=1e-5)


def test_rows_that_were_run_are_not_run_again(fresh: Any) -> None:
    model = fresh("bert").model
    run = Session(model)
    with pytest.warns(UserWarning, match="interrupted"):
        heedful.explain(run, TEXT, METHODS, params=EXACT, progress=at("lime", 100))
    before = model.spent.unique
    again = heedful.explain(run, TEXT, METHODS, params=EXACT)
    assert set(again) == {*METHODS, "random"}
    ran = model.spent.unique - before
    alone = fresh("bert").model
    wanted = heedful.explain(alone, TEXT, METHODS, params=EXACT)
    assert before + ran == alone.spent.unique  # not one row twice
    assert 0 < ran < alone.spent.unique
    for name in METHODS:
        np.testing.assert_allclose(again[name].scores, wanted[name].scores, atol=1e-5)


def test_nothing_finished_or_not_wanted_raises(shared: Any) -> None:
    model = shared("bert").model
    with pytest.raises(KeyboardInterrupt):  # only the control was there
        heedful.explain(model, TEXT, "occlusion", progress=at("occlusion", 0))
    with pytest.raises(KeyboardInterrupt):
        heedful.explain(model, TEXT, METHODS, progress=at("lime", 100), keep_partial=False)


def test_a_second_interruption_ends_a_loop(shared: Any) -> None:
    model = shared("bert").model
    with pytest.warns(UserWarning, match="interrupted"):
        heedful.explain(model, TEXT, METHODS, progress=at("lime", 0))
    with pytest.raises(KeyboardInterrupt):
        heedful.explain(model, TEXT, METHODS, progress=at("lime", 0))


def test_a_long_text_in_windows(shared: Any) -> None:
    text = " ".join([TEXT] * 9)
    with pytest.warns(UserWarning, match="interrupted in lime"):
        found = heedful.explain(
            shared("bert").model, text, METHODS, long="window", params=EXACT, progress=at("lime", 100)
        )
    assert list(found) == ["grad-l2", "occlusion", "random"]  # parts of lime alone are no explanation
    assert found.skipped["lime"] == "interrupted"


def test_functions_are_interrupted_too() -> None:
    """While the user's own function runs."""
    calls = 0

    def scores(texts: list[str]) -> list[float]:
        nonlocal calls
        calls += len(texts)
        if calls > 50:
            raise KeyboardInterrupt
        return [float(len(text)) for text in texts]

    with pytest.warns(UserWarning, match="interrupted"):
        found = heedful.explain(scores, TEXT, ["occlusion", "lime"])
    assert list(found) == ["occlusion", "random"]


def test_the_model_is_untouched_after_an_interruption(fresh: Any) -> None:
    """A forward hook of the user's own model is where it comes from."""
    from heedful.models.hf_config import fingerprint

    family = fresh("gpt2")
    before = fingerprint(family.hf)
    hooks = {name: len(part._forward_hooks) for name, part in family.hf.named_modules()}
    now = ""

    def note(step: Step) -> None:
        nonlocal now
        now = step.method

    def press(*_: Any) -> None:
        if now == "integrated-gradients":
            raise KeyboardInterrupt

    handle = family.hf.transformer.h[1].register_forward_pre_hook(press)
    with pytest.warns(UserWarning, match="interrupted in integrated-gradients"):
        heedful.explain(family.model, TEXT, ["grad-l2", "integrated-gradients"], progress=note)
    handle.remove()
    assert fingerprint(family.hf) == before
    assert {name: len(part._forward_hooks) for name, part in family.hf.named_modules()} == hooks
    assert not family.hf.training


# --- token by token --------------------------------------------------------------------------------------


def at_token(token: int) -> Any:
    """A progress callback during which the user presses Ctrl-C, while this token is explained."""
    begun = 0

    def press(step: Step) -> None:
        nonlocal begun
        begun += step.method == "occlusion" and step.done == 0
        if begun > token:
            raise KeyboardInterrupt

    return press


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_tokens_that_are_finished_come_back(kind: str, shared: Any) -> None:
    model = shared(kind).model
    asked = (model, "the cat sat on the", ["grad-l2", "occlusion"])
    with pytest.warns(UserWarning, match="interrupted at token 3 of 4: those before it are in the result"):
        found = heedful.explain_each(*asked, continuation=[11, 12, 13, 14], progress=at_token(2))
    whole = heedful.explain_each(*asked, continuation=[11, 12, 13, 14])
    assert [c.target for c in found] == [c.target for c in whole[:2]]
    for ours, theirs in zip(found, whole, strict=False):
        assert list(ours) == list(theirs)
        np.testing.assert_allclose(ours["occlusion"].scores, theirs["occlusion"].scores, atol=1e-6)


def test_no_token_finished_not_wanted_or_twice_raises(shared: Any) -> None:
    asked: Any = (shared("gpt2").model, "the cat", ["grad-l2", "occlusion"])
    with pytest.raises(KeyboardInterrupt):
        heedful.explain_each(*asked, continuation=[11, 12], progress=at_token(0))
    with pytest.raises(KeyboardInterrupt):
        heedful.explain_each(*asked, continuation=[11, 12], progress=at_token(1), keep_partial=False)
    with pytest.warns(UserWarning, match="interrupted"):
        heedful.explain_each(*asked, continuation=[11, 12], progress=at_token(1))
    with pytest.raises(KeyboardInterrupt):
        heedful.explain_each(*asked, continuation=[11, 12], progress=at_token(1))


# --- the command line -----------------------------------------------------------------------------------

SCRIPT = """
import signal, sys, time
from heedful.core import registry
from heedful.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

@registry.explainer("slow", needs={"values"}, cite="nobody", rows=lambda x, target, p: 10**6)
def slow(q):
    "Waits."
    print("waiting", file=sys.stderr, flush=True)
    time.sleep(600)

sys.exit(main(sys.argv[1:]))
"""


def interrupted(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `heedful explain` that gets SIGINT while its last method runs."""
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        "explain",
        TEXT,
        "--method",
        "grad-l2,occlusion,slow",
        *arguments,
    ]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        said = ""
        for line in process.stderr:
            said += line
            if line == "waiting\n":
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        return process.returncode, out, said + err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to a child alone")
def test_a_real_signal_keeps_what_is_finished(tmp_path: Path) -> None:
    page, folder = tmp_path / "why.html", tmp_path / "run"
    code, out, err = interrupted("--json", "--html", str(page), "--out", str(folder))
    assert code == 130
    data = json.loads(out)
    assert [item["method"] for item in data["attributions"]] == ["grad-l2", "occlusion", "random"]
    assert data["skipped"] == {"slow": "interrupted"}
    assert Comparison.load(folder).to_dict() == data
    assert "interrupted" in page.read_text(encoding="utf-8")
    assert err.splitlines()[-1] == "interrupted in slow: what was finished before is shown"
    assert err.startswith("up to 1,000,")  # a long run is announced
    assert "Traceback" not in err


def test_quiet_says_nothing_but_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    slow = replace(registry.get("occlusion"), name="slow", run=pressed, counts=lambda *_: 10**6)
    monkeypatch.setitem(registry._explainers, "slow", slow)
    words = ["explain", TEXT, "--method", "grad-l2,occlusion,slow", "--quiet"]
    assert main([*words, "--html", str(tmp_path / "why.html")]) == 130
    out, err = capsys.readouterr()
    assert "slow not run: interrupted" in out
    assert err == "interrupted in slow: what was finished before is shown\n"
