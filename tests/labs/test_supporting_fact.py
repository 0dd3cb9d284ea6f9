"""The lab `supporting-fact`: stories and the reader against loops by hand, claims on readers by rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.lab_report import Claim
from heedful.labs import supporting_fact as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.data.stories import (
    ID,
    PEOPLE,
    PLACES,
    ReaderConfig,
    Stories,
    StoryReader,
    stories,
    uniform,
    without,
)
from heedful.labs.measures import story_measures as measures

SOME = stories(60, 7, 3)


def lines(some: Stories, row: int) -> list[list[str]]:
    return [line.split() for line in some.text(row)]


def test_the_fact_is_the_last_sentence_that_names_the_person() -> None:
    lengths = set()
    for row in range(len(SOME)):
        *told, question = lines(SOME, row)
        assert question[:2] == ["where", "is"]
        facts = [number for number, line in enumerate(told) if line[0] == question[2]]
        assert int(SOME.fact[row]) == facts[-1]
        assert PLACES[int(SOME.answer[row])] == told[facts[-1]][4]
        assert [PEOPLE[p] for p in SOME.person[row].tolist() if p >= 0] == [line[0] for line in told]
        lengths.add(len(told))
    assert lengths == {3, 4, 5, 6, 7}


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_story_without_a_sentence(gone: int) -> None:
    less = without(SOME, torch.full((len(SOME),), gone))
    for row in range(len(SOME)):
        wanted = lines(SOME, row)
        del wanted[gone]
        assert lines(less, row) == wanted
        if int(SOME.fact[row]) != gone:
            assert wanted[int(less.fact[row])][4] == PLACES[int(SOME.answer[row])]


def test_attention_is_the_additive_formula_by_hand_and_padding_changes_nothing() -> None:
    model = StoryReader(ReaderConfig("alone", 8, longest=7), seed=2).double().requires_grad_(False)
    alpha, _ = model.attend(SOME)
    for row in (0, 1):
        told = SOME.words[row][SOME.real[row]]
        n, scores, states = len(told), [], []
        words = [ID["where"], ID["is"], int(SOME.asked[row]) + 1]
        q = sum(model.token.weight[word] for word in words)
        for i, line in enumerate(told.tolist()):
            s = sum(model.token.weight[word] for word in line) + model.age.weight[n - i]
            h = torch.tanh(model.alone.weight @ s + model.alone.bias)
            inner = torch.tanh(model.query.weight @ q + model.query.bias + model.key.weight @ h)
            scores.append(math.exp(float(model.u @ inner)))
            states.append(h)
        want = torch.tensor(scores, dtype=torch.float64) / sum(scores)
        torch.testing.assert_close(alpha[row, :n], want)
        assert (alpha[row, n:] == 0).all()
        logits = model.out.weight @ (want @ torch.stack(states)) + model.out.bias
        torch.testing.assert_close(model(SOME)[row], logits)


@pytest.mark.parametrize("encoder", ["alone", "asked"])
def test_a_story_in_a_longer_table_is_answered_the_same(encoder: str) -> None:
    model = StoryReader(ReaderConfig(encoder, 8, longest=9), seed=2).double()
    wider = Stories(torch.nn.functional.pad(SOME.words, (0, 0, 0, 2)), SOME.asked, SOME.answer, SOME.fact)
    torch.testing.assert_close(model(wider), model(SOME))


def test_with_uniform_attention_the_question_reaches_the_answer_through_the_states_alone() -> None:
    other = Stories(SOME.words, (SOME.asked + 1) % len(PEOPLE), SOME.answer, SOME.fact)
    for encoder, reaches in (("alone", False), ("asked", True)):
        model = StoryReader(ReaderConfig(encoder, 8, 7, uniform=True), seed=0)
        assert torch.equal(model.attend(SOME)[0], uniform(SOME))
        assert bool((model(SOME) != model(other)).any()) is reaches


def test_an_unknown_encoder_is_refused() -> None:
    with pytest.raises(HeedfulError, match="no encoder 'cnn'"):
        StoryReader(ReaderConfig("cnn"), 0)


class Made(StoryReader):
    """A reader by rule: states are places, and the answer is the place with most weight; with `deaf` the
    answer is read from the story itself, whatever the weights are. `at` says where attention looks."""

    def __init__(self, at: str, deaf: bool = False) -> None:
        super().__init__(ReaderConfig(longest=7), 0)
        self.at, self.deaf = at, deaf

    def attend(self, some: Stories) -> tuple[Tensor, Tensor]:
        n = some.words.shape[1]
        last = some.real.sum(1) - 1
        where = self._fact(some) if self.at == "fact" else last
        alpha = 0.9 * torch.nn.functional.one_hot(where, n) + 0.1 * uniform(some)
        states = torch.nn.functional.one_hot(some.place.clamp_min(0), len(PLACES)).float()
        if self.deaf:
            truth = some.place.gather(1, self._fact(some)[:, None])
            states = torch.nn.functional.one_hot(truth.expand(-1, n), len(PLACES)).float()
        return alpha, states

    def _fact(self, some: Stories) -> Tensor:
        mine = (some.person == some.asked[:, None]).long() * torch.arange(1, some.words.shape[1] + 1)
        return mine.argmax(1)

    def read(self, alpha: Tensor, h: Tensor) -> Tensor:
        return 20 * (alpha[..., None] * h).sum(-2)


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


TEST = stories(200, 7, 9)


def test_other_attention_of_a_reader_by_rule() -> None:
    rng = torch.Generator().manual_seed(0)
    found = measures.other(Made("fact"), TEST, rng)
    assert found.follows.min() == 1.0
    assert np.nanmin(found.same) == 1.0
    assert np.nanmax(found.different) == 0.0
    others = [(TEST.place[row][TEST.real[row]] != TEST.answer[row]).double().mean() for row in range(200)]
    assert found.changed.mean() == pytest.approx(float(np.mean(others)), abs=0.04)  # 4 errors of 4,000 draws
    deaf = measures.other(Made("fact", deaf=True), TEST, rng)
    assert deaf.changed.max() == 0.0
    assert np.nanmin(deaf.different) == 1.0


def test_removal_of_a_reader_by_rule_finds_the_fact_unless_the_answer_stays_without_it() -> None:
    model, fact = Made("fact"), TEST.fact.numpy()
    falls = measures.removed(model, TEST)
    stays = (model(without(TEST, TEST.fact)).argmax(1) == TEST.answer).numpy()
    assert 0 < stays.sum() < 60
    assert (falls.argmax(1) == fact)[~stays].all()
    assert (falls[np.arange(len(TEST)), fact] > 0.5).tolist() == (~stays).tolist()
    assert np.isneginf(falls[~TEST.real.numpy()]).all()


@pytest.mark.parametrize(
    ("model", "expected"),
    [(Made("fact"), [True, True, True]), (Made("fact", deaf=True), [False, True, False])],
)
def test_claims_of_other_attention(model: Any, expected: list[bool]) -> None:
    run = LabRun()
    lab.tell_other(run, {"alone": [model], "asked": [model]}, TEST, torch.Generator().manual_seed(0))
    assert held(run) == expected


def test_claims_of_where_attention_points() -> None:
    good, bad = Made("fact"), Made("last")
    run, kinds = LabRun(), {("alone", False): [good], ("asked", False): [bad], ("asked", True): [bad]}
    lab.tell_pointed(run, kinds, TEST)
    assert held(run) == [True, False]


def test_claims_of_answers_and_of_removal() -> None:
    good, bad = Made("fact"), Made("last")
    kinds = {
        ("alone", False): [good],
        ("asked", False): [good],
        ("asked", True): [good],
        ("alone", True): [bad],
    }
    run = LabRun()
    lab.tell_answers(run, kinds, TEST)
    lab.tell_removed(run, kinds, TEST)
    assert held(run) == [True] * 7
    run, swapped = LabRun(), {kind: [bad if some[0] is good else good] for kind, some in kinds.items()}
    lab.tell_answers(run, swapped, TEST)
    lab.tell_removed(run, swapped, TEST)
    assert held(run) == [False] * 7


def test_training_learns_and_repeats_itself() -> None:
    sizes = lab.StorySizes(4, 2000, 50, 1, 60)
    data = stories(2000, 4, 1)
    models = [lab.trained(("alone", False), data, sizes, 5) for _ in range(2)]
    assert torch.equal(models[0].u, models[1].u)
    assert measures.right(models[0], stories(200, 4, 2)).mean() > 0.9
    flat = lab.trained(("alone", True), data, sizes, 5)
    assert measures.right(flat, stories(200, 4, 2)).mean() < 0.7
