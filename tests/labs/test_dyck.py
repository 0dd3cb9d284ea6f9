"""The bracket lab: words by a stack, attention by the formula, balance by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heedful.core.lab_report import Claim
from heedful.labs import dyck as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.data.brackets import (
    Grammar,
    accuracy,
    counted,
    draw,
    fit,
    maps_of_minimal,
    new_layers,
    new_minimal,
    run_layers,
    run_minimal,
    violation,
)
from heedful.stats.intervals import mean_of

GRAMMAR = Grammar(2, 3)


def test_words_nest_and_states_and_odds_are_those_of_a_stack() -> None:
    words = draw(GRAMMAR, 40, 30, 0)
    for tokens, states, odds, top in zip(words.tokens, words.states, words.odds, words.top, strict=True):
        stack: list[int] = []
        for t, token in enumerate([*tokens.tolist(), None]):
            assert int(top[t]) == (stack[-1] if stack else -1)
            share = 1.0 if not stack else 0.0 if len(stack) == GRAMMAR.depth else 0.5
            true = np.zeros(4)
            true[0::2] = share / 2
            if stack:
                true[2 * stack[-1] + 1] = 1 - share
            np.testing.assert_allclose(odds[t].numpy(), true)
            if token is None:
                break
            kind, closes = divmod(token, 2)
            if not closes:
                stack.append(kind)
            assert int(states[t + 1]) == GRAMMAR.state(closes, stack[-1], len(stack))
            assert stack[-1] == kind
            assert len(stack) <= GRAMMAR.depth
            if closes:
                stack.pop()


def test_counts_give_what_softmax_over_the_word_gives() -> None:
    words, p = draw(GRAMMAR, 5, 12, 1), new_minimal(GRAMMAR, 3, 8, 0)
    maps = maps_of_minimal(p, words.states)  # (S, n, T + 1, T + 1)
    values = p["v"][:, words.states]  # (S, n, T + 1, d)
    mixed = torch.nn.functional.layer_norm(maps @ values, (8,)) @ p["read"][:, None]
    flat = counted(GRAMMAR, words).flatten(0, 1)
    by_counts = run_minimal(p, words.states.flatten()[None], flat[None]).unflatten(1, words.states.shape)
    torch.testing.assert_close(by_counts, mixed, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(maps.sum(-1), torch.ones(3, 5, 13))
    assert float(maps.triu(1).abs().max()) == 0


def test_two_layers_look_back_only_and_seeds_do_not_mix() -> None:
    words, p = draw(GRAMMAR, 3, 10, 2), new_layers(GRAMMAR, 2, 8, 10, 0)
    logits, maps = run_layers(p, words.tokens[None])
    changed = words.tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 4
    torch.testing.assert_close(run_layers(p, changed[None])[0][:, :, :-1], logits[:, :, :-1])
    alone = {name: weights[1:] for name, weights in p.items()}
    torch.testing.assert_close(run_layers(alone, words.tokens[None])[0][0], logits[1])
    assert maps.shape == (2, 2, 3, 11, 11)


def test_training_together_is_training_alone() -> None:
    start = new_minimal(GRAMMAR, 2, 4, 0)
    words = draw(GRAMMAR, 20, 8, 3)
    flat, query, odds = (
        counted(GRAMMAR, words).flatten(0, 1),
        words.states.flatten(),
        words.odds.flatten(0, 1),
    )

    def loss(p: dict[str, torch.Tensor], rng: torch.Generator) -> torch.Tensor:
        return -(odds * run_minimal(p, query[None], flat[None]).log_softmax(-1)).sum(-1).mean(1)

    def trained(part: slice) -> dict[str, torch.Tensor]:
        return fit({k: v[part].clone() for k, v in start.items()}, loss, 20, 1e-2, 0, lambda step: None)

    both, second = trained(slice(None)), trained(slice(1, 2))
    torch.testing.assert_close(both["v"][1], second["v"][0], rtol=1e-3, atol=1e-4)


def test_accuracy_counts_closing_brackets_alone() -> None:
    words = draw(GRAMMAR, 50, 20, 4)
    perfect = torch.zeros(1, 50, 21, 4)
    perfect.scatter_(-1, (2 * words.top.clamp_min(0) + 1)[None, ..., None], 1.0)
    assert accuracy(perfect, words).tolist() == [1.0]
    assert accuracy(-perfect, words).tolist() == [0.0]


def test_violation_is_zero_when_pairs_cancel_and_grows_when_they_do_not() -> None:
    p = new_minimal(GRAMMAR, 1, 6, 0)
    p["q"].zero_()  # every state is looked at alike
    p["v"][:, 2::2] = -p["v"][:, 1::2]
    assert float(violation(p, GRAMMAR)) == pytest.approx(0, abs=1e-6)
    words = draw(GRAMMAR, 4, 40, 5)
    flat = counted(GRAMMAR, words).flatten(0, 1)
    before = run_minimal(p, words.states.flatten()[None], flat[None])
    prefix = lab.balanced_prefix(GRAMMAR, torch.Size([1, len(flat)]), torch.Generator().manual_seed(0))
    after = run_minimal(p, words.states.flatten()[None], flat[None] + prefix)
    torch.testing.assert_close(after, before, rtol=2e-2, atol=2e-2)  # LayerNorm's epsilon feels the scale
    broken = {**p, "v": p["v"].clone()}
    broken["v"][:, 1] *= 3
    assert float(violation(broken, GRAMMAR)) > 0.1


def test_a_balanced_prefix_closes_what_it_opens() -> None:
    prefix = lab.balanced_prefix(GRAMMAR, torch.Size([2, 7]), torch.Generator().manual_seed(0))
    assert torch.equal(prefix[..., 1::2], prefix[..., 2::2])
    assert prefix[..., 0].sum() == 0
    assert prefix.sum() == 2 * 7 * (GRAMMAR.states - 1 + 2)


def test_maps_apart_by_hand() -> None:
    words = draw(GRAMMAR, 6, 12, 6)
    eye = torch.eye(13).expand(6, 13, 13)
    first = torch.zeros(6, 13, 13)
    first[..., 0] = 1.0
    maps = torch.stack([eye, first, first])
    np.testing.assert_allclose(lab.apart(maps, words), [1.0, 1.0, 0.0])


def test_rank_correlation_has_an_interval_around_it() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    value, (low, high) = lab.rank_correlation(x, -x + 0.3 * rng.normal(size=30), 0)
    assert -1 <= low <= value <= high < -0.5
    value, (low, high) = lab.rank_correlation(x, rng.normal(size=30), 0)
    assert low < 0 < high


def test_jackknife_of_pairs_is_that_of_the_definition() -> None:
    """A mean over pairs: leave every seed out, and beside many draws its standard error is right."""
    rng, seeds = np.random.default_rng(0), 8

    def pairwise(own: np.ndarray) -> np.ndarray:
        return np.array([(own[i] + own[j]) / 2 for i, j in lab.pairs(seeds)])

    own = rng.uniform(0.3, 0.5, seeds)  # the mean over pairs is the mean over seeds: so is its interval
    value, span = lab.jackknife(pairwise(own), seeds)
    assert value == pytest.approx(own.mean())
    assert span == pytest.approx(mean_of(own)[1])
    covered = 0
    for _ in range(400):
        low, high = lab.jackknife(pairwise(rng.uniform(0.3, 0.5, seeds)), seeds)[1]
        covered += low <= 0.4 <= high
    assert covered / 400 == pytest.approx(0.95, abs=0.035)


@pytest.mark.parametrize(("apart", "holds"), [(0.3, True), (0.03, False)])
def test_maps_that_do_not_differ_fail_their_claim(apart: float, holds: bool) -> None:
    run = LabRun()
    looks = np.random.default_rng(0).uniform(0.8, 1.2, 15) * apart
    lab.different(run, 6, looks, np.ones(15))
    (claim,) = run.parts
    assert isinstance(claim, Claim)
    assert claim.holds is holds


def test_a_regulariser_that_does_nothing_is_noticed() -> None:
    rng = np.random.default_rng(0)
    off, far = np.exp(rng.normal(size=40)), np.full(40, 0.9)
    run = LabRun()
    plain = ({}, far, far - 0.05 * off / off.max(), off)
    for other, holds in ((off / 3, True), (off * np.exp(rng.normal(size=40)), False)):
        lab.generalising(run, {"plain": plain, "regularised": (*plain[:3], other)}, lab.FAST)
        told = [p.holds for p in run.parts if isinstance(p, Claim) and "regulariser" in p.sentence]
        assert told[-1] is holds
        run.parts.clear()
