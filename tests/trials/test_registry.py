"""Tests of the trial register themselves, and are listed without being imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from heedful.core.errors import HeedfulError
from heedful.trials import registry
from heedful.trials.facts import choose, trial_facts
from heedful.trials.registry import TrialWords, trial_test, trial_tests


def test_the_source_says_what_the_decorators_register() -> None:
    code = (
        "import json, sys; from heedful.trials.facts import trial_facts; "
        "print(json.dumps([[f.name, f.title, sorted(f.needs), f.cite, f.order, f.default] "
        "for f in trial_facts().values()])); "
        "sys.exit(' '.join({'torch', 'numpy'} & set(sys.modules)) or 0)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    facts = [test.facts for test in trial_tests().values()]
    registered = [[f.name, f.title, sorted(f.needs), f.cite, f.order, f.default] for f in facts]
    assert json.loads(printed) == registered
    assert list(trial_facts().values()) == facts


def test_every_test_says_what_it_does_costs_and_does_not_show() -> None:
    for name, test in trial_tests().items():
        for label in ("", "Control:", "Cost:", "Not shown:"):
            assert len(test.paragraph(label)) > 5, f"{name}: {label}"
        assert test.facts.title.endswith("?")
        assert test.facts.cite


def test_names_are_chosen_in_order_and_told_when_wrong() -> None:
    assert choose(["Trained-Adversary", "permutation"]) == ["permutation", "trained adversary"]
    with pytest.raises(HeedfulError, match="Did you mean 'adversary'"):
        choose(["adversari"])
    with pytest.raises(HeedfulError, match="no test 'training'"):  # by `improve` only
        choose(["training"])


def test_two_tests_cannot_share_a_name() -> None:
    trial_tests()
    words = TrialWords(lambda rows, every: "")
    register = trial_test("permutation", title="Another?", needs=set(), cite="Nobody", words=words)
    with pytest.raises(ValueError, match="two tests of the trial are called 'permutation'"):
        register(lambda suite: None)
    assert registry.trial_tests()["permutation"].facts.cite == "Jain & Wallace 2019"
