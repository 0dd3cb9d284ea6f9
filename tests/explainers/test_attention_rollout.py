"""Rollout against a hand-computed case, loops over paths, and every family of models."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.engine.question import run_explainer
from heedful.explainers.attention_rollout import roll, steps
from heedful.modalities.text import TextInput


def encoded(length: int) -> TextInput:
    spans = tuple((2 * i, 2 * i + 1) for i in range(length))
    return TextInput(
        text="a " * length,
        ids=tuple(range(length)),
        tokens=("a",) * length,
        offsets=spans,
        special=(False,) * length,
        words=tuple(range(length)),
        word_spans=spans,
        segments=(0,) * length,
    )


def trace_of(maps: list[torch.Tensor], readout: list[float], **more: Any) -> Trace:
    """A trace that holds attention maps and nothing else."""
    length = more.pop("length", maps[0].shape[-1])
    nothing = torch.zeros(length, 1)
    return Trace(
        encoded(length),
        Target("class"),
        0.0,
        nothing,
        nothing,
        attentions=tuple(maps),
        readout=tuple(readout),
        **more,
    )


def random_maps(
    seed: int, layers: int, heads: int, rows: int, columns: int, *, causal: bool = False
) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(layers, heads, rows, columns, generator=rng, dtype=torch.float64)
    if causal:
        scores = scores.masked_fill(torch.ones(rows, columns).triu(1).bool(), float("-inf"))
    return list(scores.softmax(-1))


def over_paths(maps: list[np.ndarray], start: int, end: int) -> float:
    """Rollout as its definition says it: the sum over all paths down the layers of the product of weights."""
    size = len(maps[0])
    total = 0.0
    for middle in product(range(size), repeat=len(maps) - 1):
        path = (start, *middle, end)  # top layer first
        weight = 1.0
        for depth, layer in enumerate(reversed(maps)):
            row = [layer[path[depth], k] + (path[depth] == k) for k in range(size)]
            weight *= row[path[depth + 1]] / sum(row)
        total += weight
    return total


def test_by_hand() -> None:
    """Two tokens, two layers, worked out on paper:

    A1 = [[1, 0], [.5, .5]] -> [[1, 0], [.25, .75]]      A2 = [[0, 1], [1, 0]] -> [[.5, .5], [.5, .5]]
    row 0 of A2 A1 = [.5 + .125, .375]
    """
    first = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    second = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    found = roll(trace_of([first, second], [1.0, 0.0]))
    assert found.tolist() == [0.625, 0.375]
    assert roll(trace_of([second, first], [0.0, 1.0])).tolist() == [0.5, 0.5]


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_every_path_counts_once(seed: int, layers: int, heads: int, size: int, causal: bool) -> None:
    maps = random_maps(seed, layers, heads, size, size, causal=causal)
    mean = [layer.mean(0).numpy() for layer in maps]
    for start in range(size):
        readout = [float(q == start) for q in range(size)]
        expected = [over_paths(mean, start, end) for end in range(size)]
        found = roll(trace_of(maps, readout))
        np.testing.assert_allclose(found, expected, atol=1e-14)
        assert float(found.sum()) == pytest.approx(1.0, abs=1e-14)


def test_a_spread_readout_is_the_mean_of_its_rows() -> None:
    maps = random_maps(1, 3, 2, 4, 4)
    rows = torch.stack([roll(trace_of(maps, np.eye(4)[q].tolist())) for q in range(4)])
    found = roll(trace_of(maps, [0.1, 0.2, 0.3, 0.4]))
    np.testing.assert_allclose(found, torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64) @ rows)


def test_identity_stays_identity() -> None:
    maps = [torch.eye(4).expand(2, 4, 4)] * 3
    assert roll(trace_of(maps, [0.0, 0.0, 1.0, 0.0])).tolist() == [0.0, 0.0, 1.0, 0.0]


def test_rows_that_do_not_sum_to_one_are_normalised_after_the_residual() -> None:
    half = torch.full((1, 2, 2), 0.5) * torch.tensor(
        [1.0, 0.0]
    )  # rows (.5, 0): a token hidden from attention
    # + I = [[1.5, 0], [.5, 1]] -> row 1 is (1/3, 2/3)
    np.testing.assert_allclose(roll(trace_of([half], [0.0, 1.0])), [1 / 3, 2 / 3])


def test_one_query_has_no_residual() -> None:
    row = torch.tensor([[[0.2, 0.3, 0.5]]])
    np.testing.assert_allclose(roll(trace_of([row], [1.0])), [0.2, 0.3, 0.5], atol=1e-7)
    maps = random_maps(3, 1, 2, 3, 3)
    below = torch.stack([roll(trace_of(maps, np.eye(3)[q].tolist())) for q in range(3)])
    np.testing.assert_allclose(roll(trace_of([*maps, row], [1.0])), row[0, 0].double() @ below, atol=1e-7)


def test_layers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(HeedfulError, match="do not follow on one another"):
        steps(trace_of([torch.ones(1, 1, 3), torch.eye(3)[None]], [1.0]))


def encoder_decoder_rows(
    encoder: list[np.ndarray], own: list[np.ndarray], cross: list[np.ndarray], q: int
) -> np.ndarray:
    """A token-by-token bookkeeping: each state is a share of answer tokens and of source tokens."""
    source = len(encoder[0])
    answer = len(own[0])
    states = {("s", i): {("s", i): 1.0} for i in range(source)} | {
        ("a", i): {("a", i): 1.0} for i in range(answer)
    }

    def mix(parts: list[tuple[float, dict[Any, float]]]) -> dict[Any, float]:
        out: dict[Any, float] = {}
        for weight, state in parts:
            for key, value in state.items():
                out[key] = out.get(key, 0.0) + weight * value
        return out

    def attend(maps: np.ndarray, readers: str, read: str) -> None:
        before = dict(states)
        for i, row in enumerate(maps):
            states[readers, i] = mix(
                [(0.5, before[readers, i])] + [(0.5 * w, before[read, j]) for j, w in enumerate(row)]
            )

    for layer in encoder:
        attend(layer, "s", "s")
    for self_map, cross_map in zip(own, cross, strict=True):
        attend(self_map, "a", "a")
        attend(cross_map, "a", "s")
    assert sum(states["a", q].values()) == pytest.approx(1.0)
    return np.array([states["a", q].get(("s", i), 0.0) for i in range(source)])


def test_encoder_decoder() -> None:
    encoder, own = random_maps(4, 2, 2, 4, 4), random_maps(5, 3, 2, 3, 3, causal=True)
    cross = random_maps(6, 3, 2, 3, 4)
    for q in range(3):
        trace = trace_of(
            encoder, np.eye(3)[q].tolist(), cross=tuple(cross), decoder_attentions=tuple(own), length=4
        )
        expected = encoder_decoder_rows(
            *([layer.mean(0).numpy() for layer in group] for group in (encoder, own, cross)), q
        )
        np.testing.assert_allclose(roll(trace), expected, atol=1e-14)


def test_symmetric_tokens_score_the_same() -> None:
    """Tokens 1 and 2 swapped everywhere leave the maps as they are."""
    swap = torch.tensor([0, 2, 1, 3])
    maps = [(m + m[:, swap][:, :, swap]) / 2 for m in random_maps(7, 3, 2, 4, 4)]
    found = roll(trace_of(maps, [1.0, 0.0, 0.0, 0.0]))
    assert float(found[1]) == pytest.approx(float(found[2]), abs=1e-15)


# --- real models ----------------------------------------------------------------------------------------


def test_every_family(family: Any) -> None:
    x = family.x()
    target = family.model.target(x)
    found = run_explainer("attention-rollout", family.model, x, target)
    assert (found.scores >= 0).all()
    if family.model.kind == "causal-lm" or not family.hf.config.is_encoder_decoder:
        assert found.scores.sum() == pytest.approx(1.0, abs=1e-6)
    else:  # part of the answer comes from what was already written
        assert 0 < found.scores.sum() < 1
        assert any("% of the rollout" in note for note in found.notes)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_from_the_raw_model(shared: Any, name: str) -> None:
    """The same number from a plain transformers call and numpy."""
    family = shared(name)
    x = family.x()
    family.hf.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            maps = family.hf(torch.tensor([x.ids]), output_attentions=True).attentions
    finally:
        family.hf.set_attn_implementation("sdpa")
    joint = np.eye(len(x))
    for layer in maps:
        mean = layer[0].double().mean(0).numpy() + np.eye(len(x))
        joint = (mean / mean.sum(1, keepdims=True)) @ joint
    found = run_explainer("attention-rollout", family.model, x, family.model.target(x))
    np.testing.assert_allclose(found.scores, joint[0 if name == "bert" else -1], atol=1e-6)


def test_a_continuation_and_an_earlier_position(shared: Any) -> None:
    model = shared("gpt2").model
    x = model.encode("the cat sat on the mat")
    rollout = registry.get("attention-rollout")
    long = run_explainer(rollout, model, x, model.target(x, {"sequence": " a dog ran"}))
    assert 0 < long.scores.sum() < 1
    assert any("% of the rollout" in note for note in long.notes)
    early = run_explainer(rollout, model, x, model.target(x, {"position": 3}))
    assert early.scores[3:].tolist() == [0.0] * (len(x) - 3)
    assert early.scores.sum() == pytest.approx(1.0, abs=1e-6)
