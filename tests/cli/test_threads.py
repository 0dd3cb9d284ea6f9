"""In commands threads sleep while they wait, unless the user chose otherwise; in Python nothing is set."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from heedful.cli import main as cli
from heedful.cli import threads

PROBE = """
import os, sys
from heedful.cli import threads
{before}
threads.wait_passively()
print(os.environ.get("OMP_WAIT_POLICY"))
"""


def policy(before: str = "", **more: str) -> str:
    """OMP_WAIT_POLICY in a fresh process, after the command line has chosen."""
    kept = {key: value for key, value in os.environ.items() if key not in threads.WAITING}
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(before=before)],
        env=kept | more,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "PASSIVE"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"),
        ({"GOMP_SPINCOUNT": "1000"}, "None"),
        ({"KMP_BLOCKTIME": "0"}, "None"),
        ({"OMP_NUM_THREADS": "2"}, "PASSIVE"),
    ],
)
def test_threads_wait_as_the_user_chose_else_passively(given: dict[str, str], expected: str) -> None:
    assert policy(**given) == expected


def test_nothing_is_set_once_torch_is_there() -> None:
    """OpenMP has read the environment by then: a setting would only mislead child processes."""
    assert policy("sys.modules['torch'] = sys") == "None"


def test_python_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(threads, "wait_passively", lambda: calls.append(1))
    monkeypatch.setattr(threads, "as_program", False)
    assert cli.main(["--version"]) == 0
    assert calls == []
    assert not threads.as_program
    monkeypatch.setattr(sys, "argv", ["heedful", "--version"])
    assert cli.main() == 0
    assert calls == [1]


def test_openmp_hears_it() -> None:
    """OpenMP itself prints what it was told."""
    script = (
        "from heedful.cli.threads import wait_passively; wait_passively(); import torch; torch.ones(2).sum()"
    )
    kept = {key: value for key, value in os.environ.items() if key not in threads.WAITING}
    done = subprocess.run(
        [sys.executable, "-c", script], env=kept | {"OMP_DISPLAY_ENV": "TRUE"}, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in done.stderr


@pytest.mark.parametrize(
    ("size", "program", "chosen", "expected"),
    [
        (10, True, False, 1),
        (10, False, False, 2),
        (10, True, True, 2),
        (threads.SMALL_MODEL_PARAMETERS, True, False, 2),
    ],
)
def test_a_small_model_gets_one_thread(
    size: int, program: bool, chosen: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SimpleNamespace(module=nn.ParameterList([torch.empty(size, device="meta")]), size=size)
    monkeypatch.setattr(threads, "as_program", program)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen:
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        threads.fit_threads(model)
        threads.fit_threads(SimpleNamespace(module=None))  # a function has no size
        assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)
