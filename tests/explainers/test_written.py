"""Scores of what was already written, against autograd, captum, finite differences, plain calls of the model
with tokens really removed, enumeration, and hand-written rules. None of heedful's passes stands in an oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients

import heedful
from heedful.core.attribution import Attribution
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.explainers.attention_rollout import rolled, written_columns
from heedful.explainers.chefer import relevances
from heedful.models.written_text import extended, written_text
from heedful.stats import enumeration

TEXT = "the cat sat on"
GIVEN = (12, 25, 9)
WANTED = 14
TWO_STACKS = ("t5", "bart")


@pytest.fixture(params=TWO_STACKS)
def both(request: pytest.FixtureRequest, fresh: Any) -> Any:
    """A model with two stacks in float64, so that oracles can be held to rounding."""
    family = fresh(request.param)
    family.hf.double()
    return family


def asked(family: Any, given: Sequence[int] = GIVEN, text: str = TEXT) -> tuple[Any, Any, Target]:
    model = heedful.load((family.hf, family.tokenizer))
    return model, model.encode(text), Target("token", WANTED, given=tuple(given))


def started(family: Any, given: Sequence[int] = GIVEN) -> torch.Tensor:
    return torch.tensor([[family.hf.config.decoder_start_token_id, *given]])


def decoder_table(family: Any) -> Any:
    return family.hf.get_decoder().get_input_embeddings()


def plain(family: Any, ids: Sequence[int], given: Sequence[int] = GIVEN, **more: Any) -> float:
    """The logit by a plain call."""
    with torch.no_grad():
        out = family.hf(torch.tensor([list(ids)]), decoder_input_ids=started(family, given), **more)
    return float(out.logits[0, -1, WANTED])


def gradients(family: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """(gradient, embeddings) of the decoder's tokens without the start, by autograd on a plain call."""
    embeds = decoder_table(family)(started(family)).detach().requires_grad_(True)
    family.hf(torch.tensor([x.ids]), decoder_inputs_embeds=embeds).logits[0, -1, WANTED].backward()
    family.hf.zero_grad(set_to_none=True)
    return embeds.grad[0, 1:].numpy(), embeds.detach()[0, 1:].numpy()


# float64, but T5's norms take the variance in float32 even so: the same pass in another shape rounds at 1e-7
CLOSE = {"rtol": 1e-5, "atol": 1e-7}


# --- gradients ---------------------------------------------------------------------------------------------


def test_gradients_are_autograds(both: Any) -> None:
    model, x, target = asked(both)
    grads, embeds = gradients(both, x)
    wanted = {
        "grad-avg": grads.mean(-1),
        "grad-l1": np.abs(grads).sum(-1),
        "grad-l2": np.sqrt((grads**2).sum(-1)),
        "grad-x-input": (grads * embeds).sum(-1),
    }
    for name, scores in wanted.items():
        found = run_explainer(name, model, x, target).written
        assert found is not None
        if name == "grad-avg" and np.abs(scores).max() < 1e-9:  # BART's LayerNorm: zero but for rounding
            assert not found.scores.any()
            continue
        np.testing.assert_allclose(found.scores, scores, **CLOSE)
        assert found.x.ids == GIVEN
        assert found.same_scale


def test_gradients_are_finite_differences(fresh: Any) -> None:
    """BART alone: T5's norms are too coarse for a small step."""
    family = fresh("bart")
    family.hf.double()
    model, x, target = asked(family)
    embeds, step = decoder_table(family)(started(family)).detach(), 1e-5

    def at(moved: torch.Tensor) -> float:
        with torch.no_grad():
            return float(family.hf(torch.tensor([x.ids]), decoder_inputs_embeds=moved).logits[0, -1, WANTED])

    slopes = []
    for t in range(1, embeds.shape[1]):
        along = torch.zeros_like(embeds)
        along[0, t] = embeds[0, t]
        slopes.append((at(embeds + step * along) - at(embeds - step * along)) / (2 * step))
    found = run_explainer("grad-x-input", model, x, target).written
    np.testing.assert_allclose(found.scores, slopes, rtol=1e-6, atol=1e-8)
    assert np.abs(slopes).max() > 1e-3


def test_integrated_gradients_are_captums_of_two_inputs(fresh: Any) -> None:
    family = fresh("bart")
    family.hf.double()
    model, x, target = asked(family)
    ours = run_explainer("integrated-gradients", model, x, target, baseline="mask", tolerance=1e-7)
    tables = family.hf.get_encoder().get_input_embeddings(), decoder_table(family)
    mask = family.tokenizer.mask_token_id
    ids = torch.tensor([x.ids]), started(family)
    blank = torch.tensor([[i if s else mask for i, s in zip(x.ids, x.special, strict=True)]])
    blank_written = started(family, [mask] * len(GIVEN))
    theirs = IntegratedGradients(
        lambda e, w: family.hf(inputs_embeds=e, decoder_inputs_embeds=w).logits[:, -1]
    ).attribute(
        tuple(table(i).detach() for table, i in zip(tables, ids, strict=True)),
        baselines=tuple(table(i).detach() for table, i in zip(tables, (blank, blank_written), strict=True)),
        target=WANTED,
        n_steps=64,
        method="gausslegendre",
    )
    text, written = (part.sum(-1)[0].numpy() for part in theirs)
    # adaptive Simpson and Gauss-Legendre on a smooth path, both converged far below this
    np.testing.assert_allclose(ours.scores, text, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ours.written.scores, written[1:], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("baseline", ["zero", "mean", "pad"])
def test_integrated_gradients_are_complete_over_text_and_written(both: Any, baseline: str) -> None:
    model, x, target = asked(both)
    found = run_explainer("integrated-gradients", model, x, target, baseline=baseline)
    rise = found.output - found.base
    total = found.scores.sum() + found.written.scores.sum()
    assert abs(total - rise) <= 1e-3 * abs(rise), "where the method says it stops"
    assert abs(found.scores.sum() - rise) > 1e-2 * abs(rise), "the text alone does not explain it"


def test_guided_backprop_without_relus_to_stop_at_is_the_gradient(fresh: Any) -> None:
    """The feed-forward weights behind T5's ReLUs are zero: no gradient arrives there to be stopped."""
    family = fresh("t5")
    for name, weight in family.hf.named_parameters():
        if name.endswith("DenseReluDense.wo.weight"):
            weight.data.zero_()
    model, x, target = asked(family)
    found, plain_ = (
        run_explainer(name, model, x, target).written for name in ("guided-backprop", "grad-x-input")
    )
    np.testing.assert_allclose(found.scores, plain_.scores, rtol=1e-3, atol=1e-5)  # float32, sdpa and eager


# --- removal -----------------------------------------------------------------------------------------------


def removed_by_hand(family: Any, x: Any, operator: str, place: int) -> float:
    """The logit with one written token removed, by a plain call."""
    kept = [*GIVEN[:place], *GIVEN[place + 1 :]]
    if operator == "delete":
        return plain(family, x.ids, kept)
    if operator in ("mask", "unk"):
        filler = getattr(family.tokenizer, f"{operator}_token_id")
        return plain(family, x.ids, [filler if t == place else i for t, i in enumerate(GIVEN)])
    if operator == "pad":  # hidden; the last is not there, since the answer would be read from it
        if place == len(GIVEN) - 1:
            return plain(family, x.ids, kept)
        mask = torch.tensor([[1, *(int(t != place) for t in range(len(GIVEN)))]])
        return plain(family, x.ids, decoder_attention_mask=mask)
    assert operator == "mean"
    embeds = decoder_table(family)(started(family)).detach()
    embeds[0, 1 + place] = decoder_table(family)(torch.arange(family.hf.config.vocab_size)).mean(0)
    with torch.no_grad():
        out = family.hf(torch.tensor([x.ids]), decoder_inputs_embeds=embeds)
    return float(out.logits[0, -1, WANTED])


@pytest.mark.parametrize("operator", ["mask", "delete", "unk", "pad", "mean"])
def test_occlusion_really_removes_what_was_written(both: Any, operator: str) -> None:
    model, x, target = asked(both)
    if operator not in model.operators:
        pytest.skip(f"{model.name} has no {operator} token")
    found = run_explainer("occlusion", model, x, target, operator=operator, unit="token")
    whole = plain(both, x.ids)
    drops = [whole - removed_by_hand(both, x, operator, place) for place in range(len(GIVEN))]
    np.testing.assert_allclose(found.written.scores, drops, **CLOSE)
    assert np.abs(drops).max() > 1e-2
    assert found.fitted_by == (operator,)


def test_a_swapped_word_is_another_word(both: Any) -> None:
    model, x, target = asked(both)
    found = run_explainer("occlusion", model, x, target, operator="swap", unit="token")
    assert np.isfinite(found.written.scores).all()
    assert np.abs(found.written.scores).max() > 1e-3


def test_words_go_as_a_whole(shared: Any) -> None:
    """Tokens of one written word share its score."""
    model = shared("t5").model
    given = tuple(model.tokenizer("the mat", add_special_tokens=False)["input_ids"])
    target = Target("token", WANTED, given=given)
    x, written = model.encode(TEXT), model.written(target)
    groups = written.units("word")
    assert any(len(group) > 1 for group in groups)
    scores = run_explainer("occlusion", model, x, target, operator="delete").written.scores
    for group in groups:
        assert len(set(scores[group].tolist())) == 1


def test_shapley_values_over_text_and_written_are_enumerated(both: Any) -> None:
    """Every subset of two words and two written tokens, deleted in plain calls."""
    given = GIVEN[:2]
    model, x, target = asked(both, given, "the cat")
    words, count = x.units("word"), 2 + len(given)
    assert len(words) == 2
    values = []
    for keep in enumeration.every_mask(count):
        gone = {t for word, kept in zip(words, keep[:2], strict=True) if not kept for t in word}
        ids = [i for t, i in enumerate(x.ids) if t not in gone]
        values.append(plain(both, ids, [i for i, kept in zip(given, keep[2:], strict=True) if kept]))
    phi = enumeration.shapley(np.array(values))
    found = run_explainer("kernel-shap", model, x, target, operator="delete")
    np.testing.assert_allclose([word.score for word in found.words()], phi[:2], **CLOSE)
    np.testing.assert_allclose([w.score for w in found.of_written().words()], phi[2:], **CLOSE)
    total = found.scores.sum() + found.written.scores.sum()
    assert total == pytest.approx(found.output - found.base, abs=1e-9)
    beta = enumeration.lime(np.array(values))[1]
    linear = run_explainer("lime", model, x, target, operator="delete", precision=0.0)
    np.testing.assert_allclose(linear.written.scores, beta[2:], rtol=1e-4, atol=1e-6)


def test_a_word_that_is_read_and_written_is_two_words_of_a_bag(shared: Any) -> None:
    model = shared("t5").model
    given = tuple(model.tokenizer("cat cat", add_special_tokens=False)["input_ids"])
    x, target = model.encode("the cat"), Target("token", WANTED, given=given)
    found = run_explainer("lime", model, x, target, bag=True, operator="delete", precision=0.0)
    first, second = found.of_written().words()
    assert first.score == second.score, "the two that were written go together"
    assert found.words()[1].score != first.score


# --- attention ---------------------------------------------------------------------------------------------


def test_attention_is_the_decoders_own(both: Any) -> None:
    model, x, target = asked(both)
    both.hf.set_attn_implementation("eager")
    with torch.no_grad():
        out = both.hf(torch.tensor([x.ids]), decoder_input_ids=started(both), output_attentions=True)
    row = out.decoder_attentions[-1][0, :, -1, 1:].numpy()  # (H, W)
    for name, wanted in (("attention-avg", row.mean(0)), ("attention-max", row.max(0))):
        found = run_explainer(name, model, x, target).written
        np.testing.assert_allclose(found.scores, wanted, **CLOSE)
        assert not found.same_scale, "two distributions, each of which sums to one"


def test_chefers_rules_by_hand(both: Any) -> None:
    """R_aa <- R_aa + Abar R_aa in every decoder layer, from a plain call and `backward`."""
    model, x, target = asked(both)
    both.hf.set_attn_implementation("eager")
    out = both.hf(torch.tensor([x.ids]), decoder_input_ids=started(both), output_attentions=True)
    for layer in out.decoder_attentions:
        layer.retain_grad()
    out.logits[0, -1, WANTED].backward()
    r = np.eye(1 + len(GIVEN))
    for layer in out.decoder_attentions:
        felt = np.zeros_like(r)
        for weights, grad in zip(layer[0].detach().numpy(), layer.grad[0].numpy(), strict=True):
            felt += np.maximum(weights * grad, 0)
        r = r + felt / len(layer[0]) @ r
    expected = (r - np.eye(len(r)))[-1, 1:]
    found = run_explainer("chefer", model, x, target).written
    np.testing.assert_allclose(found.scores, expected, **CLOSE)
    assert expected.max() > 1e-4


def test_rules_on_random_attention(shared: Any) -> None:
    """Maps made by hand: of the trace nothing but its shapes is left."""
    model = shared("t5").model
    x, target = model.encode(TEXT), Target("token", WANTED, given=GIVEN)
    trace = model.trace(x, target)
    size, draw = 1 + len(GIVEN), torch.Generator().manual_seed(11)

    def maps(like: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.rand(a.shape, generator=draw, dtype=torch.float64).softmax(-1) for a in like)

    def grads(like: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.randn(a.shape, generator=draw, dtype=torch.float64) for a in like)

    made = replace(
        trace,
        attentions=maps(trace.attentions),
        cross=maps(trace.cross),
        decoder_attentions=maps(trace.decoder_attentions),
        grad_attentions=grads(trace.attentions),
        grad_cross=grads(trace.cross),
        grad_decoder_attentions=grads(trace.decoder_attentions),
        readout=(0.1, 0.2, 0.3, 0.4),
    )
    r = np.eye(size)
    for own, grad in zip(made.decoder_attentions, made.grad_decoder_attentions, strict=True):
        r = r + (own * grad).clamp_min(0).mean(0).numpy() @ r
    expected = np.array(made.readout) @ (r - np.eye(size))
    np.testing.assert_allclose(relevances(made)[1], expected[1:], rtol=1e-12)
    total = rolled(made)
    assert float(total.sum()) == pytest.approx(1.0, abs=1e-12)
    # the answer's part alone: self-attention and identity, then half of it is left by cross-attention
    state = np.eye(size)
    for own in made.decoder_attentions:
        state = ((own.mean(0).numpy() + np.eye(size)) / 2) @ state / 2
    np.testing.assert_allclose(total[written_columns(made)], (np.array(made.readout) @ state)[1:], rtol=1e-12)


def test_flow_of_what_was_written_is_at_least_its_rollout(shared: Any) -> None:
    """Rollout is a feasible flow; both are divided by the sum over the text, which is larger for flow."""
    model = shared("bart").model
    x, target = model.encode(TEXT), Target("token", WANTED, given=GIVEN)
    flow, rollout = (run_explainer(f"attention-{name}", model, x, target) for name in ("flow", "rollout"))
    text = flow.scores.sum()
    assert text == pytest.approx(1.0)
    assert (flow.written.scores > 0).all()
    assert rollout.scores.sum() + rollout.written.scores.sum() < 1
    assert any("start token" in note for note in rollout.notes)


# --- causal models: behind the text is in the text ---------------------------------------------------------

ALIKE = (
    "grad-l2",
    "grad-x-input",
    "integrated-gradients",
    "smoothgrad",
    "attention-avg",
    "attention-rollout",
    "chefer",
    "value-zeroing",
    "occlusion",
    "kernel-shap",
    "lime",
    "random",
)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_written_after_a_text_is_scored_as_in_the_text(shared: Any, name: str) -> None:
    """A causal model cannot tell what it wrote from what it read: the same scores, to rounding. But without
    any word of the text, GPT-2 reads its first token in place of it, even if what was written is left."""
    model = shared(name).model
    x, given = model.encode("the cat"), model.tokenizer(" sat on", add_special_tokens=False)["input_ids"]
    target = model.target(x, {"label": WANTED, "given": list(given)})
    whole = extended(model.tokenizer, x, given)
    options = {"seed": 3, "unit": "token", "params": {"integrated-gradients": {"most": 33}}}
    methods = [each for each in ALIKE if name != "gpt2" or each not in ("kernel-shap", "lime")]
    apart = heedful.explain(model, x, methods, target, **options)
    together = heedful.explain(model, whole, methods, Target("token", WANTED), **options)
    for method in methods:
        found = apart[method]
        assert found.written is not None, method
        joint = np.concatenate([found.scores, found.written.scores])
        if method == "integrated-gradients":  # stops at 1e-3 of the rise
            np.testing.assert_allclose(joint, together[method].scores, rtol=1e-2, atol=1e-2)
            continue
        np.testing.assert_allclose(joint, together[method].scores, rtol=1e-3, atol=2e-5, err_msg=method)
        if found.stderr is not None:
            joint = np.concatenate([found.stderr, found.written.stderr])
            np.testing.assert_allclose(joint, together[method].stderr, rtol=1e-2, atol=1e-5, err_msg=method)


# --- what is not scored ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TWO_STACKS)
def test_nothing_written_or_a_sequence_has_no_such_scores(shared: Any, name: str) -> None:
    """The tokens of a sequence are themselves explained."""
    model = shared(name).model
    x = model.encode(TEXT)
    for target in (Target("token", WANTED), model.target(x, {"sequence": [5, 9, 7]})):
        for method in ("grad-l2", "occlusion", "attention-rollout", "smoothgrad", "random"):
            assert run_explainer(method, model, x, target).written is None


def test_what_the_method_does_not_remove_stays(shared: Any) -> None:
    model = shared("t5").model
    x, target = model.encode(TEXT), Target("token", WANTED, given=GIVEN)
    for method in ("search", "attention-optimus"):
        assert run_explainer(method, model, x, target).written is None


def test_the_control_scores_the_text_as_without_a_prefix(shared: Any) -> None:
    model = shared("t5").model
    x = model.encode(TEXT)
    alone, given = (
        run_explainer("random", model, x, Target("token", WANTED, given=ids), seed=5) for ids in ((), GIVEN)
    )
    assert alone.scores.tolist() == given.scores.tolist()
    assert given.written.scores.all()


def test_special_tokens_that_were_written_are_no_words(shared: Any) -> None:
    """A prefix of special tokens alone holds no word, and is never removed."""
    model = shared("bart").model
    start = model.tokenizer.bos_token_id
    written = written_text(model.tokenizer, (start,))
    assert written.special == (True,)
    assert written.word_spans == ()
    x, target = model.encode(TEXT), Target("token", WANTED, given=(start,))
    found = run_explainer("occlusion", model, x, target)
    assert found.written.scores.tolist() == [0.0]
    gradient: Attribution = run_explainer("grad-l2", model, x, target)
    assert gradient.written.scores[0] > 0


def test_rows_foretold_are_enough(shared: Any) -> None:
    model = shared("t5").model
    x, target = model.encode(TEXT), Target("token", WANTED, given=GIVEN)
    for method in ("occlusion", "lime", "kernel-shap"):
        made = heedful.plan(model, x, method, target)
        before = model.spent.unique
        run_explainer(method, model, x, target)
        assert model.spent.unique - before <= made.rows[method][1]
