"""Every method and metric gives what it gave when tests/golden/records.json was written: to the bit.

Another processor rounds differently inside torch. A canary tells: where its bits differ, numbers are compared
to 1e-4 of the largest of their kind (float32 models, several layers), and methods that choose a set are not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import record

CASES = record.cases()
RETRAINED = ("sanity", "implementation-invariance")  # each explains many copies of the model
SLOW = {
    case
    for case in CASES
    if case == "trial"
    or case.startswith("explain by token")
    or (case.split()[-1] in RETRAINED and "one-layer" not in case)
}


@cache
def recorded() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(record.FILE.read_text(encoding="utf-8"))
    return made


def differences(found: Any, wanted: Any, exact: bool, where: str = "") -> list[str]:
    """Where two records differ."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or list(found) != list(wanted):
            return [f"{where}: {found!r} has other keys than {list(wanted)}"]
        return [
            line for key in wanted for line in differences(found[key], wanted[key], exact, f"{where} {key}")
        ]
    numbers = isinstance(wanted, list) and all(isinstance(each, int | float) for each in wanted)
    if isinstance(wanted, list) and not numbers:
        if len(found) != len(wanted):
            return [f"{where}: {len(found)} instead of {len(wanted)}"]
        pairs = enumerate(zip(found, wanted, strict=True))
        return [line for i, (one, other) in pairs for line in differences(one, other, exact, f"{where}[{i}]")]
    if found is None or wanted is None or isinstance(wanted, str | bool):
        return [] if found == wanted else [f"{where}: {found!r} instead of {wanted!r}"]
    one, other = np.atleast_1d(np.asarray(found, float)), np.atleast_1d(np.asarray(wanted, float))
    if one.shape != other.shape:
        return [f"{where}: {one.shape} instead of {other.shape}"]
    largest = float(np.nanmax(np.abs(other), initial=0.0, where=np.isfinite(other)))
    close = np.allclose(one, other, rtol=1e-4, atol=1e-4 * largest, equal_nan=True)
    same = np.array_equal(one, other, equal_nan=True) if exact else close
    return [] if same else [f"{where}: {one} instead of {other}"]


def compared(cases: list[str], tmp_path: Path) -> list[str]:
    """Computed by another process, which the checks of types do not make three times slower."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    (tmp_path / "wanted.json").write_text(json.dumps(cases), encoding="utf-8")
    command = [sys.executable, record.__file__, str(tmp_path / "wanted.json"), str(tmp_path / "found.json")]
    subprocess.run(command, check=True, env=env)
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    exact = found["canary"] == recorded()["canary"] or same_outputs(found["cases"])
    left = [case for case in cases if exact or not chooses(case)]
    return [
        line
        for case in left
        if case in recorded()["cases"]  # methods that came later have no record
        for line in differences(found["cases"][case], recorded()["cases"][case], exact, case)
    ]


def same_outputs(found: dict[str, Any]) -> bool:
    """The models' own outputs have the bits of then: this processor rounds as that one did, and a canary that
    differs is a change of the code."""
    plain = [case for case in found if case.split()[-1].startswith("grad-") and "output" in found[case]]
    return bool(plain) and all(found[c]["output"] == recorded()["cases"][c]["output"] for c in plain)


def test_no_method_and_no_metric_is_lost() -> None:
    assert set(recorded()["cases"]) <= set(CASES)


def chooses(case: str) -> bool:
    """A last digit may decide here: compared only where the processor rounds as it did then."""
    return case.split()[-1] in record.DISCRETE or case in ("audit", "trial")


def test_as_recorded(tmp_path: Path) -> None:
    assert compared([case for case in CASES if case not in SLOW], tmp_path) == []


@pytest.mark.slow
def test_the_expensive_ones_as_recorded(tmp_path: Path) -> None:
    assert compared([case for case in CASES if case in SLOW], tmp_path) == []


def test_a_changed_bit_is_seen():
    case = "explain zoo:one-layer lime"
    wanted = recorded()["cases"][case]
    for key in ("scores", "stderr"):
        changed = wanted | {key: [*wanted[key][:-1], float(np.nextafter(wanted[key][-1], 9.0))]}
        assert differences(changed, wanted, exact=True)
        assert not differences(changed, wanted, exact=False)
    assert differences(wanted | {"counts": [*wanted["counts"][:-1], 0]}, wanted, exact=False)
    assert differences(wanted | {"scores": wanted["scores"][:-1]}, wanted, exact=False)
    assert differences({"skipped": True}, wanted, exact=False)
