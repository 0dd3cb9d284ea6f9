"""Rows that begin like the text: read once, answered the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.engine.session import Session
from heedful.modalities import operators
from heedful.modalities.operators import InputRow
from heedful.models import passes
from heedful.models.passes import Prefix

SENTENCE = "the cat sat on the mat. hello world! don't stop, a dog ran. the cat sat on a dog "
WORDS = (SENTENCE * 4).split()
TARGETS = [None, {"sequence": " the cat"}, {"position": 36}, {"given": " the cat"}]
SHARERS = ["gpt2", "llama"]


def encoded(model: Any) -> Any:
    """A text of some fifty tokens, which leaves room for a continuation."""
    texts = (" ".join(WORDS[:n]) for n in range(1, len(WORDS)))
    return next(x for x in map(model.encode, texts) if len(x) >= 50)


def both(model: Any, x: Any, target: Any, keep: Any, operator: str) -> tuple[Any, Any, int, int]:
    """Values and tokens run, with the beginning shared and without."""
    before = model.spent.tokens
    shared = model.values(x, target, keep, operator)
    middle = model.spent.tokens
    model.backend.__dict__["shares_prefixes"] = False
    try:
        plain = model.values(x, target, keep, operator)
    finally:
        del model.backend.__dict__["shares_prefixes"]
    return shared, plain, middle - before, model.spent.tokens - middle


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("operator", list(operators.OPERATORS))
@pytest.mark.parametrize("name", SHARERS)
def test_values_are_those_of_whole_rows(
    name: str, operator: str, target: Any, shared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1e-5: keys and values are the same numbers, summed in another order in float32."""
    model = shared(name).model
    monkeypatch.setitem(
        model.__dict__, "operators", tuple(operators.OPERATORS)
    )  # any token will do for a mask
    monkeypatch.setattr(model, "_filler", lambda name: 9 if name in ("mask", "unk") else None)
    x = encoded(model)
    wanted = model.target(x, target)
    d = len(x.units("word"))
    keep = np.concatenate([np.ones((1, d), dtype=bool), ~np.eye(d, dtype=bool)])
    found, plain, tokens, all_tokens = both(model, x, wanted, keep, operator)
    np.testing.assert_allclose(found, plain, rtol=0, atol=1e-5)
    assert tokens < 0.75 * all_tokens
    assert len(set(np.round(plain, 4))) > d / 2  # the rows do differ


def test_pairs_of_words_and_small_chunks(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shared("llama").model
    x = encoded(model)
    d = len(x.units("word"))
    keep = np.ones((40, d), dtype=bool)
    rng = np.random.default_rng(0)
    for row in keep:
        row[rng.integers(d // 2, d, 2)] = False  # the first half is never removed, as a template is not
    monkeypatch.setattr(passes, "evaluate", partial(passes.evaluate, tokens=40))
    found, plain, tokens, all_tokens = both(model, x, model.target(x), keep, "delete")
    np.testing.assert_allclose(found, plain, rtol=0, atol=1e-5)
    assert tokens < 0.75 * all_tokens


def test_rows_that_have_little_in_common_are_run_as_ever(shared: Any) -> None:
    model = shared("gpt2").model
    x = encoded(model)
    keep = np.random.default_rng(0).random((60, len(x.units("word")))) < 0.5
    found, plain, tokens, all_tokens = both(model, x, model.target(x), keep, "delete")
    np.testing.assert_array_equal(found, plain)
    assert tokens == all_tokens


def test_what_is_shared() -> None:
    ids = tuple(range(100, 164))
    prefix = Prefix(ids)
    prefix.used = True
    assert passes.PREFIX_BLOCK_TOKENS == 16
    assert prefix.of(InputRow(ids)) == 48  # never the last token: it is asked
    assert prefix.of(InputRow(ids[:48])) == 32
    assert prefix.of(InputRow(ids[:20] + ids[21:])) == 16
    assert prefix.of(InputRow(ids[1:])) == 0
    assert prefix.of(InputRow(ids, hidden=(33, 40))) == 32
    assert prefix.of(InputRow(ids, blank=(31, 40))) == 16
    assert prefix.of(InputRow(ids, (0,) * 64)) == 0
    assert prefix.of(InputRow((1,))) == 0
    prefix.choose([InputRow(ids)])
    assert not prefix.used  # one row saves less than the pass it takes
    prefix.choose([InputRow(ids)] * 9)
    assert prefix.used


def test_a_chunk_shares_one_beginning() -> None:
    ids = tuple(range(64))
    rows = [InputRow(ids[:j] + ids[j + 1 :]) for j in range(64)]
    prefix = Prefix(ids)
    prefix.choose(rows)
    parts = passes.chunks(rows, 500, None, prefix)
    assert sorted(row.ids for part in parts for row in part) == sorted(row.ids for row in rows)
    for part in parts:
        (shared,) = {prefix.of(row) for row in part}
        assert len(part) == 1 or len(part) * max(len(row) - shared for row in part) <= 500


@pytest.mark.parametrize("name", ["bert", "t5", "gpt2-classifier"])
def test_others_are_not_asked(name: str, shared: Any) -> None:
    model = shared(name).model
    assert model._prefix(tuple(range(40))) is None


@pytest.mark.parametrize("broken", ["raises", "no cache", "another answer"])
def test_a_model_that_cannot_is_found_out_and_noted(broken: str, fresh: Any) -> None:
    family = fresh("gpt2")
    forward = family.hf.forward

    def other(*args: Any, past_key_values: Any = None, use_cache: bool = False, **kwargs: Any) -> Any:
        if broken == "raises" and past_key_values is not None:
            raise ValueError("no cache here")
        out = forward(*args, past_key_values=past_key_values, use_cache=use_cache, **kwargs)
        if broken == "no cache":
            out.past_key_values = None
        if broken == "another answer" and past_key_values is not None:
            out.logits = out.logits * 1.01
        return out

    family.hf.forward = other
    found = heedful.explain(family.model, encoded(family.model), "occlusion")
    assert found.model["shares_prefixes"] is False
    expected = heedful.explain(fresh("gpt2").model, found.x, "occlusion")
    assert expected.model["shares_prefixes"] is True
    np.testing.assert_allclose(found["occlusion"].scores, expected["occlusion"].scores, atol=1e-5)


def test_the_model_is_left_as_it_was(fresh: Any) -> None:
    family = fresh("llama")
    before = family.model.facts()["fingerprint"]
    hooks = {name: len(part._forward_hooks) for name, part in family.hf.named_modules()}
    heedful.explain(
        family.model, encoded(family.model), "occlusion", params={"occlusion": {"operator": "mean"}}
    )
    assert family.model.facts()["fingerprint"] == before
    assert {name: len(part._forward_hooks) for name, part in family.hf.named_modules()} == hooks


def test_the_beginning_is_counted(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token the model was given is in the cost, and the pass over the beginning is one more input."""
    family = fresh("gpt2")
    model, read = family.model, []
    x = encoded(model)
    d = len(x.units("word"))
    keep = ~np.eye(d, dtype=bool)
    assert model.backend.shares_prefixes  # probed before we count
    target = model.target(x)
    forward = family.hf.forward

    def counting(*args: Any, **kwargs: Any) -> Any:
        read.append(kwargs["attention_mask"][:, -kwargs["input_ids"].shape[1] :].sum().item())
        return forward(*args, **kwargs)

    monkeypatch.setattr(family.hf, "forward", counting)
    before = model.spent
    model.values(x, target, keep, "delete")
    spent = model.spent - before
    assert spent.tokens == sum(read)
    assert (spent.forwards, spent.unique) == (d, d + 1)


@pytest.mark.parametrize("spare", [0, 1])
def test_a_budget_is_kept_by_the_beginning_too(spare: int, fresh: Any) -> None:
    model = fresh("gpt2").model
    x = encoded(model)
    keep = ~np.eye(len(x.units("word")), dtype=bool)
    target = model.target(x)
    run = Session(model, budget=len(keep) + spare)
    run.values(x, target, keep, "delete")
    assert run.left == 0  # with nothing to spare, rows are run whole
