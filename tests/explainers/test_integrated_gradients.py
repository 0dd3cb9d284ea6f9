"""Integrated gradients and SmoothGrad against captum, closed forms and their own promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients

import heedful
from heedful.engine.question import Question, run_explainer
from heedful.engine.session import Session
from heedful.explainers.integrated_gradients import Path, baseline_embeds

TEXT = "the cat sat on the mat"


@pytest.fixture
def bert(fresh: Any) -> Any:
    mine = fresh("bert")
    mine.hf.double()
    return mine


def setting(mine: Any) -> tuple[Any, Any, Any]:
    model = heedful.load((mine.hf, mine.tokenizer))
    x = model.encode(TEXT)
    return model, x, model.target(x)


def test_integrated_gradients_equal_captums_at_many_steps(bert: Any) -> None:
    model, x, target = setting(bert)
    ours = run_explainer("integrated-gradients", model, x, target, baseline="mask", tolerance=1e-9)
    table = bert.hf.get_input_embeddings()
    embeds = table(torch.tensor([x.ids])).detach()
    masked = [i if s else bert.tokenizer.mask_token_id for i, s in zip(x.ids, x.special, strict=True)]
    theirs = IntegratedGradients(lambda e: bert.hf(inputs_embeds=e).logits).attribute(
        embeds,
        baselines=table(torch.tensor([masked])).detach(),
        target=target.index,
        n_steps=64,
        method="gausslegendre",
    )
    # adaptive Simpson and Gauss-Legendre on a smooth path, both converged far below this
    np.testing.assert_allclose(ours.scores, theirs.sum(-1)[0].numpy(), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("baseline", ["mask", "pad", "zero", "mean"])
def test_scores_sum_to_the_change_of_the_output(bert: Any, baseline: str) -> None:
    model, x, target = setting(bert)
    found = run_explainer("integrated-gradients", model, x, target, baseline=baseline, tolerance=1e-6)
    assert found.base is not None
    rise = found.output - found.base
    assert abs(found.scores.sum() - rise) <= 1e-6 * abs(rise)
    assert "completeness gap" in found.notes[0]
    assert found.params["baseline"] == baseline


def test_every_family_converges_or_says_so(family: Any) -> None:
    model = heedful.load((family.hf, family.tokenizer))
    found = heedful.explain(model, TEXT, ["integrated-gradients"])["integrated-gradients"]
    rise = found.output - found.base
    if "not converged" in found.notes[0]:
        assert abs(found.scores.sum() - rise) > 1e-3 * abs(rise)
    else:
        assert abs(found.scores.sum() - rise) <= 1e-3 * abs(rise)


def test_a_hard_limit_is_admitted(bert: Any) -> None:
    model, x, target = setting(bert)
    found = run_explainer("integrated-gradients", model, x, target, tolerance=1e-15, most=8)
    assert found.notes[0].startswith("not converged")


def test_special_tokens_are_left_in_the_baseline(bert: Any) -> None:
    model, x, target = setting(bert)
    base, text = baseline_embeds(Question(Session(model), x, target), "zero"), model.lookup(x, target)
    special = torch.tensor(x.special)
    assert torch.equal(base[special], text[special])
    assert not base[~special].any()
    assert (
        not run_explainer("integrated-gradients", model, x, target, baseline="zero")
        .scores[list(x.special)]
        .any()
    )


def test_a_baseline_that_equals_the_text_is_noticed(bert: Any) -> None:
    model = heedful.load((bert.hf, bert.tokenizer))
    x = model.encode("[MASK] [MASK]")
    found = run_explainer("integrated-gradients", model, x, model.target(x), baseline="mask")
    assert found.notes == ("the baseline equals the input: every score is zero",)
    assert not found.scores.any()


def test_unknown_baseline_is_refused(bert: Any) -> None:
    model, x, target = setting(bert)
    with pytest.raises(heedful.HeedfulError, match="Use one of: mask, pad, zero, mean"):
        run_explainer("integrated-gradients", model, x, target, baseline="blur")


def test_gradients_at_the_text_are_those_of_the_trace(family: Any) -> None:
    model = heedful.load((family.hf, family.tokenizer))
    x = model.encode(TEXT)
    target = model.target(x)
    trace = model.trace(x, target)
    values, grads = model.gradients(x, target, model.lookup(x, target)[None].repeat(3, 1, 1))
    # sdpa against eager, in float32
    np.testing.assert_allclose(values.numpy(), trace.output, atol=1e-4)
    for grad in grads:
        torch.testing.assert_close(grad, trace.grad_embeds, atol=1e-4, rtol=1e-3)


def test_smoothgrad_without_noise_is_gradient_times_input(bert: Any) -> None:
    model, x, target = setting(bert)
    found = run_explainer("smoothgrad", model, x, target, noise=0.0, samples=4)
    plain = heedful.explain(model, TEXT, ["grad-x-input"])["grad-x-input"]
    np.testing.assert_allclose(found.scores, plain.scores, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.stderr, 0, atol=1e-12)


def test_smoothgrad_errors_cover_the_mean_of_many_samples(bert: Any) -> None:
    """z-scores of independent runs against a long one: about a standard normal."""
    model, x, target = setting(bert)
    settled = run_explainer("smoothgrad", model, x, target, samples=4096, noise=0.2, seed=99)
    runs = [
        run_explainer("smoothgrad", model, x, target, samples=32, noise=0.2, seed=seed) for seed in range(60)
    ]
    z = np.stack([(run.scores - settled.scores) / run.stderr for run in runs])
    inside = float((np.abs(z) < 1.96).mean())  # Student's factor is in the errors
    # 60 runs of 8 tokens, correlated within a run: at least 60 independent draws, so 2 s.d. is 0.056
    assert 0.89 < inside < 0.995
    assert 0.75 < float(z.std()) < 1.3


def test_smoothgrad_is_seeded(bert: Any) -> None:
    model, x, target = setting(bert)
    one, same, other = (run_explainer("smoothgrad", model, x, target, samples=4, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.scores, same.scores)
    assert np.abs(one.scores - other.scores).max() > 0


def test_gaps_that_cancel_are_not_taken_for_convergence() -> None:
    """Two tokens whose slopes spike on opposite halves: the sum is right by luck, the scores are not."""

    def look(shares: list[float]) -> tuple[np.ndarray, np.ndarray]:
        at = np.array(shares)
        up = 0.5 * (1 + np.tanh(200 * (at - 0.27)))
        down = 0.5 * (1 + np.tanh(200 * (at - 0.73)))
        slope = [100 / np.cosh(200 * (at - place)) ** 2 for place in (0.27, 0.73)]
        return up - down + at, np.stack([slope[0] + at * 0, 1 - slope[1]], 1)

    scores, gap = Path(look).integrated(1e-3, 512)
    assert gap <= 1e-3
    np.testing.assert_allclose(scores, [1, 0], atol=0.05)  # 30 tolerances, and as much for each spike's tail


def test_a_budget_ends_the_path_and_says_so(bert: Any) -> None:
    model, x, target = setting(bert)
    run = Session(model)
    with run.at_most(12):
        found = run_explainer("integrated-gradients", run, x, target, tolerance=1e-12)
    assert found.notes[0].startswith("not converged")
