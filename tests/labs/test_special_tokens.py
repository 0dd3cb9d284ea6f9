"""Attention of split and whole words: shares on maps made by hand, planted attention, a real model."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.lab_report import Claim
from heedful.labs.base.registry import LabRun
from heedful.labs.measures import special_tokens as lab
from heedful.models.zoo import resolve


@pytest.fixture(scope="module")
def model() -> Any:
    return heedful.load("zoo:sentiment")


def test_an_even_map_gives_every_token_its_share() -> None:
    even = np.full((8, 8), 1 / 8)
    assert lab.received(even, [3]) == pytest.approx(1 / 8)
    assert lab.received(even, [3, 4, 5]) == pytest.approx(3 / 8)


def test_a_token_that_looks_at_itself_earns_nothing() -> None:
    seen = np.eye(6)
    seen[0] = [0, 0, 0.5, 0, 0, 0.5]
    assert lab.received(seen, [2]) == pytest.approx(0.5 / 5)
    assert lab.received(seen, [2, 5]) == pytest.approx(1.0 / 4)
    assert lab.received(seen, [4]) == 0.0


def test_words_are_the_tokenizers_own(model: Any) -> None:
    x = model.encode("the story")
    x = replace(
        x,
        ids=x.ids[:1] * 6,
        tokens=("[CLS]", "the", "sto", "##ry", "##x", "[SEP]"),
        special=(True, False, False, False, False, True),
    )
    words = lab.words_of(x)
    assert [word.places for word in words] == [(1,), (2, 3, 4)]
    assert [word.split for word in words] == [False, True]
    assert words[0].count == lab.counts()["the"] > 1000
    assert words[1].count == lab.counts()["storyx"] == 0


def test_a_partner_is_whole_and_as_frequent() -> None:
    split = lab.TokenisedWord((1, 2), 8)
    words = [
        split,
        lab.TokenisedWord((3,), 30),
        lab.TokenisedWord((4, 5), 8),
        lab.TokenisedWord((6,), 12),
        lab.TokenisedWord((7,), 5),
    ]
    assert lab.partner(split, words) == words[3]
    assert lab.partner(split, words[:3]) is None, "thirty is not eight, and the other is split"


def test_a_token_put_twice(model: Any) -> None:
    x = model.encode("a good film")
    last = len(x) - 1
    both = lab.twice(x, last)
    assert both.tokens == (*x.tokens, x.tokens[last])
    assert lab.twice(x, 1).ids == (x.ids[0], x.ids[1], x.ids[1], *x.ids[2:])
    assert len(model.attention_only(both).attentions[0][0]) == len(x) + 1


class Planted:
    """Attention by a rule: keys have weights; pieces of a word have one each, special tokens ten."""

    def __init__(self, real: Any, special: float, piece: float) -> None:
        self.real, self.special, self.piece = real, special, piece

    def encode(self, text: str, long: str = "error") -> Any:
        return self.real.encode(text, long=long)

    def attention_only(self, x: Any) -> Any:
        later = [place for word in lab.words_of(x) if word.split for place in word.places]
        keys = np.where(x.special, self.special, 1.0)
        keys[later] = self.piece
        seen = torch.tensor(np.tile(keys / keys.sum(), (len(x), 1)))
        return SimpleNamespace(attentions=(seen[None],))


@pytest.mark.parametrize(("special", "piece"), [(10.0, 0.5), (4.0, 0.2)])
def test_planted_attention_is_found(model: Any, special: float, piece: float) -> None:
    """All ratios are known when keys have fixed weights: w over one, two copies less what they take away."""
    from heedful.labs.errata_checks.formula import texts

    found = lab.compared(Planted(model, special, piece), texts(20, 77))
    assert found["first"].ratio == pytest.approx(special)
    assert found["last"].ratio == pytest.approx(special)
    assert found["piece"].ratio == pytest.approx(piece)
    assert 1 < found["first twice"].ratio < found["word twice"].ratio < 2
    assert found["split"].ratio >= 2 * piece
    assert found["first part"].ratio == pytest.approx(found["first twice"].ratio * special / 2, rel=0.05)


def claims(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


@pytest.mark.parametrize(
    ("special", "piece", "expected"),
    [(10.0, 0.9, [True, True]), (10.0, 0.2, [False, True]), (1.0, 0.9, [True, False])],
)
def test_claims_follow_what_is_planted(
    model: Any, monkeypatch: pytest.MonkeyPatch, special: float, piece: float, expected: list[bool]
) -> None:
    monkeypatch.setattr(lab, "load_token_model", lambda name: Planted(model, special, piece))
    run = LabRun(seed=5)
    lab.special_tokens(run, "planted", 15)
    assert claims(run) == expected


@pytest.mark.real
def test_not_to_be_split_is_not_the_reason_on_a_real_model() -> None:
    resolve.pull("prompt-injection")
    run = LabRun(seed=47)
    lab.special_tokens(run, "zoo:prompt-injection", 60)
    assert claims(run) == [True, True]
