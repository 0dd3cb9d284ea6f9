"""Planted bugs (tests/mutants.py): each still applies, and each is caught; so is a runner that cheats."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest


def _load() -> Any:
    """tests/ is no package: the script beside this file, by its path."""
    spec = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault("mutants", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


mutants = _load()
NAMES = [mutant.name for mutant in mutants.MUTANTS]
BY_NAME = dict(zip(NAMES, mutants.MUTANTS, strict=True))


def test_there_are_enough_and_each_has_its_name() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 30


@pytest.mark.parametrize("name", NAMES)
def test_each_still_applies(name: str) -> None:
    """A refactoring that moves the text must move the mutant, too: it would prove nothing any more."""
    mutant = BY_NAME[name]
    before = (mutants.SOURCE / mutant.file).read_text(encoding="utf-8")
    after = mutant.applied()
    compile(after, mutant.file, "exec")
    assert after != before
    for tests in mutant.tests.split():
        assert (mutants.ROOT / "tests" / tests.split("::")[0]).is_file(), tests


@pytest.mark.parametrize(
    ("code", "last", "wanted"),
    [
        (0, "12 passed in 1.0s", "SURVIVED"),
        (1, "1 failed, 3 passed in 1.0s", "caught"),
        (1, "1 failed, 1 error in 1.0s", "BROKEN"),
        (2, "1 error in 1.0s", "BROKEN"),  # not collected
        (4, "no tests ran in 0.0s", "BROKEN"),  # no such test
        (5, "3 deselected in 0.1s", "BROKEN"),
        (0, "3 skipped in 0.1s", "BROKEN"),
    ],
)
def test_only_a_failed_assertion_is_a_catch(code: int, last: str, wanted: str) -> None:
    assert mutants.verdict(code, last) == wanted


def test_a_text_that_occurs_twice_or_never_is_refused() -> None:
    first = mutants.MUTANTS[0]
    for old in ("import", "no such text"):
        with pytest.raises(ValueError, match="not once"):
            replace(first, old=old).applied()


@pytest.mark.slow
def test_the_copy_is_what_runs() -> None:
    """A copy that cannot be imported breaks the run, and one that means the same passes."""
    here = {
        "file": "comparisons/agreement.py",
        "old": "MEASURES = (",
        "tests": "comparisons/test_agreement.py",
    }
    assert mutants.run(mutants.Mutant("canary", new="raise SystemError\nMEASURES = (", **here))[0] == "BROKEN"
    assert mutants.run(mutants.Mutant("nothing", new="MEASURES: tuple = (", **here))[0] == "SURVIVED"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_is_caught(name: str) -> None:
    found, last = mutants.run(BY_NAME[name])
    assert found == "caught", last
