"""Every written token explained from one shared forward equals explaining it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.target import Target
from heedful.modalities import text_windows
from heedful.models.generation_trace import SharedPass, steps
from heedful.models.written_text import extended

PROMPT = "the cat sat on the"
CAUSAL = ("gpt2", "llama")
METHODS = ("grad-l2", "grad-x-input", "attention-rollout", "chefer", "occlusion")


def answer_of(model: Any, x: Any) -> list[int]:
    ids = [11, 12, 13, 11, 14]
    return [token % model.backend.vocabulary for token in ids]


@pytest.mark.parametrize("kind", [*CAUSAL, "t5", "bart"])
def test_a_shared_trace_is_the_trace_alone(kind: str, shared: Any) -> None:
    model = shared(kind).model
    x = model.encode(PROMPT)
    answer = answer_of(model, x)
    together = SharedPass(model, x, answer)
    for k, (piece, target) in enumerate(steps(model, x, answer)):
        ours, alone = together.trace(k, piece, target), model.trace(piece, target)
        close = {"rtol": 1e-4, "atol": 5e-6}  # float32, batches of another length; gradients are about one
        np.testing.assert_allclose(ours.output, alone.output, **close)
        np.testing.assert_allclose(ours.grad_embeds, alone.grad_embeds, **close)
        np.testing.assert_allclose(ours.readout, alone.readout, **close)
        for name in ("attentions", "cross", "decoder_attentions"):
            for prefix in ("", "grad_"):
                left, right = getattr(ours, prefix + name), getattr(alone, prefix + name)
                assert len(left) == len(right)
                for a, b in zip(left, right, strict=True):
                    np.testing.assert_allclose(a, b, **close)


@pytest.mark.parametrize("kind", [*CAUSAL, "t5"])
def test_each_token_is_explained_as_if_alone(kind: str, shared: Any) -> None:
    model = shared(kind).model
    found = heedful.explain_each(model, PROMPT, METHODS, continuation="low house")
    assert len(found) > 1
    for comparison in found:
        alone = heedful.explain(model, comparison.x, METHODS, comparison.target)
        for name in METHODS:
            np.testing.assert_allclose(comparison[name].scores, alone[name].scores, rtol=1e-4, atol=1e-6)
        shares, expected = dict(comparison.model["prediction"]), dict(alone.model["prediction"])
        if kind != "t5":  # alone, an encoder-decoder's prediction is its first token
            assert list(shares) == list(expected)


def test_one_forward_and_a_backward_a_token(fresh: Any) -> None:
    model = fresh("gpt2").model
    before = model.spent
    found = heedful.explain_each(model, PROMPT, ("grad-l2", "chefer"), continuation=[11, 12, 13])
    spent = model.spent - before
    assert (spent.unique, spent.backwards) == (1, 3)
    assert [len(c.x) for c in found] == [len(model.encode(PROMPT)) + k for k in range(3)]


def test_the_model_writes_when_nothing_is_given(shared: Any) -> None:
    model = shared("gpt2").model
    found = heedful.explain_each(model, PROMPT, "grad-l2", max_new_tokens=3)
    wanted = model.answer(model.encode(PROMPT), 3)
    assert [c.target.index for c in found] == wanted
    best = [c.model["prediction"][0][0] for c in found]
    assert best == [c.target.label for c in found], "greedy writing takes the likeliest token"


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_given_tokens_are_read_and_not_explained(kind: str, shared: Any) -> None:
    model = shared(kind).model
    x = model.encode(PROMPT)
    target = model.target(x, {"label": 11, "given": [12, 13]})
    assert target == Target("token", 11, target.label, given=(12, 13))
    trace = model.trace(x, target)
    assert len(trace.grad_embeds) == len(x)
    rows = model.values(x, target, np.ones((1, len(x.units("word"))), dtype=bool))
    np.testing.assert_allclose(rows[0], trace.output, rtol=1e-5)
    whole = model.target(x, {"sequence": [12, 13, 11]})
    logp = model.answers([_row(x)], whole)[0].log_softmax(-1)
    picked = model._next_logits(x, (12, 13)).log_softmax(-1)
    np.testing.assert_allclose(picked[11], logp[2, 11], rtol=1e-5)


def _row(x: Any) -> Any:
    from heedful.modalities.operators import InputRow

    return InputRow(x.ids, x.type_ids)


def test_given_predicts_the_token_after_it(shared: Any) -> None:
    model = shared("gpt2").model
    x = model.encode(PROMPT)
    first, second = model.answer(x, 2)
    assert model.target(x, {"given": [first]}).index == second


def test_position_and_given_exclude_each_other(shared: Any) -> None:
    model = shared("gpt2").model
    with pytest.raises(heedful.HeedfulError, match="Drop position or given"):
        model.target(model.encode(PROMPT), {"position": 2, "given": [3]})


@pytest.mark.parametrize("tokenizer", ["gpt2", "llama"])
def test_the_extended_text_reads_as_it_was_written(tokenizer: str, shared: Any) -> None:
    model = shared(tokenizer).model
    x = model.encode("the cat")
    more = model.tokenizer(" sat on 你 mat", add_special_tokens=False)["input_ids"]
    whole = extended(model.tokenizer, x, more)
    assert whole.ids == (*x.ids, *more)
    assert whole.text.endswith("sat on 你 mat")
    assert [whole.word_text(w) for w in range(len(whole.word_spans))][-3:] == ["on", "你", "mat"]
    assert text_windows.select(whole, range(len(x))).ids == x.ids


def test_a_classifier_is_refused(shared: Any) -> None:
    with pytest.raises(heedful.HeedfulError, match="writes no text"):
        heedful.explain_each(shared("bert").model, PROMPT)


def test_no_room_is_told(shared: Any) -> None:
    with pytest.raises(heedful.HeedfulError, match="at most"):
        heedful.explain_each(shared("gpt2").model, PROMPT, "grad-l2", max_new_tokens=10_000)


def test_an_empty_continuation_is_told(shared: Any) -> None:
    with pytest.raises(heedful.HeedfulError, match="no token to explain"):
        heedful.explain_each(shared("gpt2").model, PROMPT, "grad-l2", continuation="")
