"""Decoding: the lab's own measures on small laws, and bugs that its claims must catch."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import heedful
from heedful.core.lab_report import Claim
from heedful.labs import decoding as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.models.toy_lm import Writer, prompts
from heedful.nn import GPT2


@pytest.fixture(scope="module")
def writer() -> Writer:
    model = heedful.load("zoo:lm")
    theirs: Any = model.module
    return Writer(model, GPT2.from_transformers(theirs))


def test_entropy_of_known_laws() -> None:
    assert lab.entropy(torch.zeros(8)) == pytest.approx(math.log(8))
    assert lab.entropy(torch.tensor([0.0, -math.inf, -math.inf])) == 0


def test_a_smallest_set() -> None:
    logits = torch.tensor([0.5, 0.3, 0.2]).log()
    kept = {"one": [True, False, False], "two": [True, True, False], "all": [True, True, True]}
    found = {name: lab.smallest(logits, torch.tensor(mask), 0.6) for name, mask in kept.items()}
    assert found == {"one": False, "two": True, "all": False}
    assert not lab.smallest(logits, torch.tensor([True, False, True]), 0.6), "not the best tokens"


def test_every_sequence_has_all_the_mass_and_its_own() -> None:
    rng = torch.Generator().manual_seed(0)
    table = torch.randn(
        lab.GAME_TOKENS + 1, lab.GAME_TOKENS, generator=rng
    )  # by the last token; the last row is the start

    def next_logits(ids: Tensor) -> Tensor:
        return table[torch.where(torch.tensor(ids.shape[1] > 1), ids[:, -1], torch.tensor(lab.GAME_TOKENS))]

    totals = lab.totals_of_all(next_logits)
    assert totals.exp().sum().item() == pytest.approx(1)
    logp = table.double().log_softmax(-1)
    for number, some in enumerate(itertools.product(range(lab.GAME_TOKENS), repeat=lab.STEPS)):
        if number % 97 == 0:
            want = sum(logp[a, b].item() for a, b in itertools.pairwise((lab.GAME_TOKENS, *some)))
            assert totals[number].item() == pytest.approx(want, abs=1e-6)


def test_worth_is_the_sum_of_its_steps(writer: Writer) -> None:
    ids = writer.prompt("The state of the union is strong")
    want = 0.0
    for t in range(3, len(ids)):
        want += float(writer.ours.next_logits(ids[None, :t])[0].log_softmax(-1)[ids[t]])
    assert lab.worth(writer, ids, 3) == pytest.approx(want, abs=1e-3)  # float32


def failed(run: LabRun) -> list[str]:
    return [part.sentence for part in run.parts if isinstance(part, Claim) and not part.holds]


def test_a_nucleus_too_large_fails(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    right, run = lab.nucleus, LabRun(fast=True)
    monkeypatch.setattr(lab, "nucleus", lambda logits, p: right(logits, min(p + 0.1, 1.0)))
    lab.rules(run, writer, [lab.PROMPT, "We will", "In the year"])
    assert ["transformers" in failed(run)[0], "nucleus" in failed(run)[1]] == [True, True]


def test_a_biased_sampler_fails(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    right, run = lab.sample, LabRun(fast=True)
    monkeypatch.setattr(lab, "sample", lambda logits, rng: right(1.5 * logits, rng))
    lab.draws(run, writer, np.random.default_rng(0))
    assert len(failed(run)) == 1


def test_a_beam_that_is_greedy_fails(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    right, run = lab.beam_search, LabRun(fast=True)
    monkeypatch.setattr(lab, "beam_search", lambda f, ids, beams, *a, **k: right(f, ids, 1, *a, **k))
    texts = [lab.PROMPT, *prompts(9, np.random.default_rng(0))]
    lab.every_sequence(run, writer, texts)
    assert len(failed(run)) == 1
