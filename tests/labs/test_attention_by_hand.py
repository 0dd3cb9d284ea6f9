"""Attention by hand: the written-out loop on numbers one can check, and bugs that the claims must catch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from heedful.labs import attention_by_hand as lab
from heedful.labs.base.registry import run_lab


def test_two_tokens_on_paper() -> None:
    """q.k / sqrt 1 = (0, log 3): weights 1/4 and 3/4; masked, the first token sees itself alone."""
    q, k, v = [[1.0], [1.0]], [[0.0], [math.log(3)]], [[8.0], [4.0]]
    weights, out = lab.by_hand(q, k, v, masked=False)
    assert weights[0] == pytest.approx([0.25, 0.75])
    assert out[0] == pytest.approx([5.0])
    weights, out = lab.by_hand(q, k, v, masked=True)
    assert weights[0] == [1.0, 0.0]
    assert (out[0], out[1]) == ([8.0], pytest.approx([5.0]))


def test_looking_at_all_alike() -> None:
    assert lab.uniform(masked=False).unique().tolist() == pytest.approx([1 / 6])
    assert lab.uniform(masked=True)[2].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0, 0])


def failed() -> list[str]:
    return [claim.sentence for claim in run_lab("attention-by-hand", fast=True).claims if not claim.holds]


def test_without_the_root_by_hand_is_not_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.math, "sqrt", lambda d: 1.0)
    assert any("by hand" in sentence for sentence in failed())


def test_large_first_weights_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lab.drawn
    monkeypatch.setattr(lab, "drawn", lambda seed, scale=1.0: right(seed, 10.0))
    assert sum("initial weights" in sentence for sentence in failed()) == 2


def test_attention_that_knows_places_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lab.attention

    def placed(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return right(q, k + 0.1 * torch.arange(len(k), dtype=k.dtype)[:, None], v, mask)

    monkeypatch.setattr(lab, "attention", placed)
    assert any("ignores the order" in sentence for sentence in failed())
