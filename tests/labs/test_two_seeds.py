"""Every lab in fast mode, with two seeds: the same sentences, all of them true, and other digits."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import heedful
from heedful.labs import LabReport, labs


def numpy_state() -> bytes:
    return bytes(np.random.get_state()[1].tobytes())  # noqa: NPY002  the global one, which must not be used


QUIET = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

# Ten seconds and more per seed: only slow tests and `make lab-seeds` run them; their parts have quick tests.
EXPENSIVE = {
    "alignment",
    "anchors-theory",
    "choose-the-classifier",
    "clip-saliency",
    "decoding",
    "disagreement",
    "dyck",
    "errata",
    "exact-shapley",
    "gold-features",
    "gradcam-contrast",
    "head-pruning",
    "histogram",
    "image-roar",
    "lime-theorem",
    "monosemanticity",
    "not-explanation",
    "not-not-explanation",
    "roar",
    "saliency-sanity",
    "sanity-checks",
    "solu",
    "superposition",
    "supporting-fact",
}


def held(name: str, seed: int) -> LabReport:
    """A fast run, whose claims are all true."""
    report = heedful.run_lab(name, fast=True, seed=seed)
    failed = [
        f"{claim.sentence} {claim.value} {claim.interval}" for claim in report.claims if not claim.holds
    ]
    assert not failed, (seed, failed)
    assert report.figures, "a lab draws what it shows"
    assert report.tables, "a lab prints its numbers"
    return report


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in EXPENSIVE else ()) for name in labs()]
)
def test_another_seed_changes_the_digits_and_not_the_conclusions(name: str) -> None:
    before = torch.random.get_rng_state(), numpy_state()
    first, second = (held(name, seed) for seed in (0, 1))
    assert [claim.sentence for claim in first.claims] == [claim.sentence for claim in second.claims]
    assert torch.equal(before[0], torch.random.get_rng_state()), "the global random state of torch"
    assert before[1] == numpy_state(), "the global random state of numpy"
    assert [claim.value for claim in first.claims] != [claim.value for claim in second.claims]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXPENSIVE))
def test_an_expensive_lab_holds(name: str) -> None:
    """As a program, which the checks of types do not make three times slower."""
    command = [
        sys.executable,
        "-m",
        "heedful",
        "lab",
        "run",
        name,
        "--fast",
        "--seed",
        "0",
        "--json",
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=QUIET)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["claims"]
    assert [claim["sentence"] for claim in report["claims"] if not claim["holds"]] == []
    kinds = {part["kind"] for part in report["parts"]}
    assert {"table", "figure"} <= kinds, "a lab prints its numbers and draws what it shows"


def test_the_labs_of_the_course_are_all_there() -> None:
    assert set(labs()) >= {
        "attention-by-hand",
        "bpe",
        "decoding",
        "gradient-theorem",
        "lime-theorem",
        "exact-shapley",
        "anchors-theory",
        "disagreement",
        "histogram",
        "dyck",
        "not-explanation",
        "not-not-explanation",
        "head-pruning",
        "gold-features",
        "sensitivity",
        "roar",
        "sanity-checks",
        "superposition",
        "solu",
        "monosemanticity",
        "bias",
        "choose-the-classifier",
        "errata",
        "alignment",
        "supporting-fact",
        "saliency-sanity",
        "gradcam-contrast",
        "clip-saliency",
    }
