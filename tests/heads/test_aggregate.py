"""Aggregates against the formulas, and against the explainers that read a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.explainers.attention_flow import flows
from heedful.explainers.attention_rollout import roll
from heedful.heads.aggregate import HOWS, MAX_FLOW_TOKENS, aggregate
from heedful.heads.maps import MapAxis, Maps
from heedful.heads.word_maps import groups, merged
from heedful.models.contexts import eager_attention, untouched

TEXT = "the cat sat on the lower mat"


def side(size: int) -> MapAxis:
    return MapAxis(tuple(f"w{i}" for i in range(size)), (False,) * size, tuple(range(size)), (0,) * size)


def drawn(layers: int, heads: int, queries: int, keys: int, seed: int = 0, stack: str = "self") -> Maps:
    rng = np.random.default_rng(seed)
    raw = rng.gamma(0.5, size=(layers, heads, queries, keys)) + 1e-3
    weights = (raw / raw.sum(-1, keepdims=True)).astype(np.float32)
    grads = rng.normal(size=weights.shape).astype(np.float32)
    return Maps(stack, weights, side(queries), side(keys), grads=grads)


def test_each_formula_written_out() -> None:
    maps = drawn(3, 2, 4, 4)
    assert maps.grads is not None
    a, g = maps.weights.astype(np.float64), maps.grads.astype(np.float64)
    for q in range(4):
        for k in range(4):
            values = [a[layer, h, q, k] for layer in range(3) for h in range(2)]
            felt = [max(a[layer, h, q, k] * g[layer, h, q, k], 0) for layer in range(3) for h in range(2)]
            assert aggregate(maps)[q, k] == pytest.approx(np.mean(values))
            assert aggregate(maps, "max")[q, k] == max(values)
            assert aggregate(maps, "layer", 1)[q, k] == pytest.approx(np.mean(values[2:4]))
            assert aggregate(maps, "mean", 1)[q, k] == pytest.approx(np.mean(values[2:4]))
            assert aggregate(maps, "max", -1)[q, k] == max(values[4:])
            assert aggregate(maps, "gradient")[q, k] == pytest.approx(np.mean(felt), rel=1e-6)
            assert aggregate(maps, "gradient", 0)[q, k] == pytest.approx(np.mean(felt[:2]), rel=1e-6)


def test_rollout_is_the_product_from_the_top() -> None:
    maps = drawn(3, 2, 5, 5)
    total = np.eye(5)
    for layer in maps.weights.astype(np.float64):
        total = (0.5 * layer.mean(0) + 0.5 * np.eye(5)) @ total
    np.testing.assert_allclose(aggregate(maps, "rollout"), total, atol=1e-7)
    first = 0.5 * maps.weights[0].mean(0) + 0.5 * np.eye(5)
    np.testing.assert_allclose(aggregate(maps, "rollout", layer=0), first, atol=1e-7)


@pytest.mark.parametrize("how", ["mean", "layer", "rollout", "flow"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_rows_sum_to_one_where_promised(shared: Any, name: str, how: str) -> None:
    atlas = heedful.attention(shared(name).model, TEXT)
    for unit in (atlas, atlas.words()):
        found = unit.aggregate(how, layer=1 if how == "layer" else None)
        assert found.shape == unit.maps.shape[2:]
        np.testing.assert_allclose(found.sum(-1), 1, atol=1e-6)
        assert (found >= 0).all()


@pytest.mark.parametrize("name", ["bert", "distilbert", "mean-pool", "gpt2", "llama", "gpt2-classifier"])
def test_the_row_the_answer_is_read_from_is_the_explainer(shared: Any, name: str) -> None:
    family = shared(name)
    atlas = heedful.attention(family.model, TEXT)
    trace = family.model.trace(atlas.x, atlas.target)
    read = np.array(atlas.readout)
    np.testing.assert_allclose(read @ atlas.rollout(), roll(trace).numpy(), atol=1e-6)
    if read.max() > 0.999:  # flow from several positions at once is another problem
        row = atlas.flow(query=int(read.argmax()))
        np.testing.assert_allclose(row[0], flows(trace)[0], atol=1e-6)


def test_flow_of_all_queries_is_each_one() -> None:
    maps = drawn(2, 2, 6, 6)
    every = aggregate(maps, "flow")
    for q in range(6):
        np.testing.assert_allclose(aggregate(maps, "flow", query=q), every[[q]])
    np.testing.assert_allclose(aggregate(maps, "flow", query=-1), every[[5]])


def test_gradients_are_finite_differences_of_the_target(shared: Any) -> None:
    """One attention weight of the last layer nudged, by a hook between softmax and values."""
    family = shared("bert")
    atlas = heedful.attention(family.model, TEXT)
    grads, index = atlas.stacks[0].grads, atlas.target.index  # type: ignore[union-attr]
    assert grads is not None
    hf = family.hf.double()
    try:
        found = [
            (_nudged(hf, atlas.x, index, place, 1e-4) - _nudged(hf, atlas.x, index, place, -1e-4)) / 2e-4
            for place in [(0, 0, 3), (2, 0, 5), (3, 0, 0)]
        ]
    finally:
        family.hf.float()
    np.testing.assert_allclose([grads[1][p] for p in [(0, 0, 3), (2, 0, 5), (3, 0, 0)]], found, rtol=1e-3)


def _nudged(hf: Any, x: Any, index: int, place: tuple[int, int, int], by: float) -> float:
    head, query, key = place
    attention = hf.bert.encoder.layer[1].attention.self
    width = hf.config.hidden_size // hf.config.num_attention_heads

    def nudge(module: Any, args: Any, output: Any) -> Any:
        values = module.value(args[0]).view(1, -1, hf.config.num_attention_heads, width)  # (1, T, H, w)
        changed = output[0].clone()
        changed[0, query, head * width : (head + 1) * width] += by * values[0, key, head]
        return (changed, *output[1:])

    with untouched(hf), eager_attention(hf), torch.no_grad():
        handle = attention.register_forward_hook(nudge)
        out = hf(torch.tensor([x.ids]), token_type_ids=torch.tensor([x.type_ids]))
        handle.remove()
    return float(out.logits[0, index])


# --- words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [how for how in HOWS if how not in ("max", "gradient")])
def test_of_words_the_aggregate_is_the_merged_one(shared: Any, how: str) -> None:
    atlas = heedful.attention(shared("gpt2").model, TEXT)
    layer = 0 if how == "layer" else None
    edge = atlas.stacks[0].keys
    expected = merged(atlas.aggregate(how, layer), edge, edge)
    words = atlas.words()
    np.testing.assert_allclose(words.aggregate(how, layer), expected, atol=1e-12)
    split = next(i for i, part in enumerate(groups(edge)) if len(part) > 1)
    np.testing.assert_allclose(words.aggregate(how, layer, query=split), expected[[split]], atol=1e-12)


@pytest.mark.parametrize("layer", [None, 1])
@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_effects_add_up_to_the_same_by_words(shared: Any, name: str, layer: int | None) -> None:
    """Each entry is the sum over the tokens of both words, so the total is that of the tokens."""
    atlas = heedful.attention(shared(name).model, TEXT)
    for maps in atlas.stacks:
        fine = atlas.aggregate("gradient", layer, maps.stack)
        found = atlas.words().aggregate("gradient", layer, maps.stack)
        assert found.sum() == pytest.approx(fine.sum(), rel=1e-9)
        assert found.sum() > 0
        for i, rows in enumerate(groups(maps.queries)):
            expected = [fine[np.ix_(rows, columns)].sum() for columns in groups(maps.keys)]
            np.testing.assert_allclose(found[i], expected, rtol=1e-9)
            one = atlas.words().aggregate("gradient", layer, maps.stack, query=i)
            np.testing.assert_array_equal(one, found[[i]])
    assert any(len(part) > 1 for part in groups(atlas.stacks[0].queries))


def test_the_maximum_of_words_is_that_of_their_maps(shared: Any) -> None:
    words = heedful.attention(shared("gpt2").model, TEXT).words()
    np.testing.assert_array_equal(words.aggregate("max"), words.maps.max((0, 1)))
    assert words.aggregate("max").max() <= 1 + 1e-6


# --- where it makes sense -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["mean", "max", "layer", "gradient"])
def test_cross_attention_can_be_averaged(shared: Any, how: str) -> None:
    atlas = heedful.attention(shared("bart").model, TEXT, answer="a dog")
    found = atlas.aggregate(how, layer=0 if how == "layer" else None, stack="cross")
    assert found.shape == atlas.stack("cross").weights.shape[2:]
    assert found.any()


@pytest.mark.parametrize("how", ["rollout", "flow"])
def test_cross_attention_cannot_be_multiplied(shared: Any, how: str) -> None:
    atlas = heedful.attention(shared("bart").model, TEXT, answer="a dog")
    with pytest.raises(HeedfulError, match="does not suit the stack 'cross'"):
        atlas.aggregate(how, stack="cross")
    assert atlas.aggregate(how, stack="decoder").shape == atlas.stack("decoder").weights.shape[2:]


@pytest.mark.parametrize("how", ["mean", "max", "rollout", "flow", "gradient"])
def test_a_single_query_has_one_row(how: str) -> None:
    atlas = heedful.attention("zoo:one-layer", "the service is not bad")
    assert atlas.aggregate(how).shape == (1, len(atlas.x))
    if how in ("rollout", "flow"):  # one layer without a residual stream: nothing to multiply
        np.testing.assert_allclose(atlas.aggregate(how), atlas.aggregate("mean"), atol=1e-6)


def test_what_cannot_be_done_is_told() -> None:
    maps = drawn(2, 1, 3, 3)
    bare = Maps("self", maps.weights, maps.queries, maps.keys)
    large = drawn(1, 1, MAX_FLOW_TOKENS + 1, MAX_FLOW_TOKENS + 1)
    for call, message in (
        (lambda: aggregate(maps, "median"), "unknown aggregation"),
        (lambda: aggregate(maps, "layer"), "which layer"),
        (lambda: aggregate(maps, "mean", 2), "no layer 2"),
        (lambda: aggregate(maps, "rollout", -3), "no layer -3"),
        (lambda: aggregate(maps, "mean", query=3), "no query 3"),
        (lambda: aggregate(bare, "gradient"), "no gradients"),
        (lambda: aggregate(large, "flow"), "Name a query"),
        (lambda: aggregate(drawn(2, 1, 3, 4), "rollout"), "does not suit"),
    ):
        with pytest.raises(HeedfulError, match=message):
            call()
    assert aggregate(large, "flow", query=2).shape == (1, MAX_FLOW_TOKENS + 1)
