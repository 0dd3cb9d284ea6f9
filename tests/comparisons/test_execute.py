"""`explain`: which methods run, what they share, what they may spend, and long texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful.comparisons.execute import BudgetSpentError
from heedful.core import registry
from heedful.core.defaults import DEFAULT_METHODS
from heedful.core.errors import HeedfulError
from heedful.core.progress import Step
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.modalities import text_windows
from heedful.models.load import load

TRACED = ["grad-avg", "grad-l1", "grad-l2", "grad-x-input", "attention-avg", "attention-max"]
FIRST = [*TRACED, "occlusion", "random"]


@pytest.fixture
def only_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is every method there is; here, the first ones."""
    found = {name: entry for name, entry in registry.explainers().items() if name in FIRST}
    monkeypatch.setattr(registry, "explainers", lambda: found)


def count_forwards(module: Any) -> list[int]:
    """One entry a forward of the user's model: the number of its rows."""
    calls: list[int] = []
    module.register_forward_pre_hook(
        lambda _m, _a, kwargs: calls.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    return calls


@pytest.mark.usefixtures("only_first")
def test_all_is_every_method_the_model_supports_and_the_default_some_of_them(shared: Any, text: str) -> None:
    usual = heedful.explain(shared("bert").model, text, evidence=False)
    assert set(usual) == {*DEFAULT_METHODS, "random"} & set(FIRST)
    cmp = heedful.explain(shared("bert").model, text, "all")
    assert set(cmp) == set(FIRST)
    assert cmp.skipped == {}
    assert cmp.x.text == text
    assert cmp.target.label == cmp.model["prediction"][0][0]
    assert all(len(a.scores) == len(cmp.x) and np.isfinite(a.scores).all() for a in cmp.values())
    assert all(
        a.output == pytest.approx(cmp["occlusion"].output, abs=1e-5) for n, a in cmp.items() if n in TRACED
    )


@pytest.mark.usefixtures("only_first")
def test_refused_methods_come_with_their_reason() -> None:
    cmp = heedful.explain(lambda texts: [float(len(t)) for t in texts], "the cat", "all")
    assert set(cmp) == {"occlusion", "random"}
    assert set(cmp.skipped) == set(TRACED)
    assert "which this model does not offer" in cmp.skipped["grad-l2"]


def test_a_method_asked_for_by_name_that_cannot_run_is_an_error() -> None:
    with pytest.raises(HeedfulError, match="grad-l2 cannot explain"):
        heedful.explain(lambda texts: [0.0] * len(texts), "the cat", ["occlusion", "grad-l2"])


def test_unknown_methods_units_params_and_empty_lists(shared: Any, text: str) -> None:
    model = shared("bert").model
    with pytest.raises(HeedfulError, match="Did you mean 'grad-l2'"):
        heedful.explain(model, text, "grad-l22")
    with pytest.raises(HeedfulError, match="unit cannot be 'syllable'"):
        heedful.explain(model, text, "occlusion", unit="syllable")
    with pytest.raises(HeedfulError, match="no method was named"):
        heedful.explain(model, text, [])
    with pytest.raises(HeedfulError, match="parameters were given for 'grad-l2'"):
        heedful.explain(model, text, "occlusion", params={"grad-l2": {}})
    with pytest.raises(HeedfulError, match="occlusion has no parameter operater"):
        heedful.explain(model, text, "occlusion", params={"occlusion": {"operater": "mask"}})


def test_the_control_is_always_there_and_seeded(shared: Any, text: str) -> None:
    runs = [heedful.explain(shared("bert").model, text, "grad-l2", seed=seed)["random"] for seed in (0, 0, 1)]
    assert np.array_equal(runs[0].scores, runs[1].scores)
    assert not np.array_equal(runs[0].scores, runs[2].scores)
    assert runs[2].params["seed"] == 1


def test_all_trace_methods_together_cost_one_forward(fresh: Any, text: str) -> None:
    family = fresh("bert")
    x = family.model.encode(text)
    target = family.model.target(x)
    assert family.model.capabilities  # probed once, before counting
    calls = count_forwards(family.hf)
    run = Session(family.model)
    for name in TRACED:
        run_explainer(name, run, x, target)
    assert calls == [1]
    assert run.spent.forwards - family.model.spent.forwards == len(TRACED) - 1


def test_cost_is_what_was_run(fresh: Any, text: str) -> None:
    family = fresh("bert")
    cmp = heedful.explain(family.model, text, [*TRACED, "occlusion"])
    words = len(cmp.x.word_spans)
    costs = {name: (a.cost.forwards, a.cost.backwards, a.cost.unique) for name, a in cmp.items()}
    assert costs["grad-avg"] == (1, 1, 1)  # the first to ask pays for the trace
    assert all(costs[name] == (1, 1, 0) for name in TRACED[1:])
    assert costs["occlusion"] == (words + 1, 0, words + 1)
    assert costs["random"] == (0, 0, 0)
    assert cmp["occlusion"].cost.tokens == (words + 1) * len(cmp.x)


def test_rows_are_remembered_for_their_own_target_only(fresh: Any, text: str) -> None:
    family = fresh("bert")
    x = family.model.encode(text)
    run = Session(family.model)
    keep = ~np.eye(len(x.units("word")), dtype=bool)
    first, second = (family.model.target(x, i) for i in (0, 1))
    family.model.values(x, first, keep[:1])  # what it can do is probed once, with passes of its own
    calls = count_forwards(family.hf)
    a = run.values(x, first, keep)
    ran = sum(calls)
    assert ran == len(keep)
    assert np.array_equal(run.values(x, first, keep), a)
    assert sum(calls) == ran
    b = run.values(x, second, keep)
    np.testing.assert_allclose(b, family.model.values(x, second, keep))
    assert not np.allclose(a, b)
    np.testing.assert_allclose(run.trace(x, second).output, family.model.trace(x, second).output)
    assert run.trace(x, first).output != run.trace(x, second).output


@pytest.mark.parametrize("budget", [0, 3, 9, 10, 100])
def test_the_budget_is_never_exceeded(fresh: Any, budget: int) -> None:
    family = fresh("bert")
    text = "the cat sat on the mat. hello world!"  # 10 words: occlusion wants 11 rows
    cmp = heedful.explain(family.model, text, "occlusion", budget=budget)
    ran = family.model.spent.unique
    assert ran <= budget
    assert ("occlusion" in cmp) == (budget >= 11)
    assert ("occlusion" in cmp.skipped) == (budget < 11)
    if budget < 11:
        assert f"{budget} model inputs left" in cmp.skipped["occlusion"]
        assert "11" in cmp.skipped["occlusion"]


def test_the_budget_counts_what_was_really_run(shared: Any, text: str) -> None:
    family = shared("bert")
    x = family.x()
    target = family.model.target(x)
    keep = ~np.eye(len(x.units("word")), dtype=bool)
    run = Session(family.model, budget=len(keep) + 2)
    run.values(x, target, keep)
    assert run.left == 2
    run.values(x, target, keep[:2])  # remembered: free
    assert run.left == 2
    with pytest.raises(BudgetSpentError, match="2 model inputs left"):
        run.values(x, target, ~keep)


def test_progress_tells_method_part_and_rows(shared: Any, text: str) -> None:
    seen: list[Step] = []
    options = {"evidence": False, "progress": seen.append}
    heedful.explain(shared("bert").model, text, ["lime", "occlusion", "grad-l2"], **options)
    assert list(dict.fromkeys(step.method for step in seen)) == ["random", "grad-l2", "occlusion", "lime"]
    assert [step.number for step in seen] == sorted(step.number for step in seen)
    assert {step.methods for step in seen} == {4}
    last = [step for step in seen if step.method == "occlusion"][-1]
    assert last.done == last.total > 0
    assert last.label == "method 3 of 4: occlusion"
    lime = [step for step in seen if step.method == "lime"]
    assert {step.total for step in lime} == {256}  # the most it may run; it may stop before
    assert [step.done for step in lime] == sorted(step.done for step in lime)
    assert 0 < lime[-1].done <= 256


def test_progress_tells_the_part_of_a_long_text(shared: Any) -> None:
    seen: list[Step] = []
    heedful.explain(shared("bert").model, LONG, "occlusion", long="window", progress=seen.append)
    parts = [step for step in seen if step.method == "occlusion"]
    assert {step.part for step in parts} == set(range(1, parts[0].parts + 1))
    assert parts[-1].label == f"method 2 of 2: occlusion, part {parts[0].parts} of {parts[0].parts}"
    for part in range(1, parts[0].parts + 1):
        last = [step for step in parts if step.part == part][-1]
        assert last.done == last.total > 0


def test_targets_reach_every_method(shared: Any, text: str) -> None:
    model = shared("bert").model
    both = [heedful.explain(model, text, FIRST, target=label) for label in ("negative", "positive")]
    for name in ("grad-x-input", "occlusion"):
        assert not np.allclose(both[0][name].scores, both[1][name].scores)
    contrast = heedful.explain(model, text, FIRST, target={"label": "positive", "contrast": "negative"})
    for name in ("grad-x-input", "occlusion"):  # linear methods of a difference are differences
        difference = both[1][name].scores - both[0][name].scores
        np.testing.assert_allclose(contrast[name].scores, difference, atol=1e-5)


# --- long texts -----------------------------------------------------------------------------------------

LONG = " ".join(["the cat sat on the mat. hello world! don't stop, a dog ran"] * 9)


def test_long_texts_are_an_error_by_default(shared: Any) -> None:
    with pytest.raises(HeedfulError, match=r"\d+ tokens .* at most 64.* too many"):
        heedful.explain(shared("bert").model, LONG, "occlusion")


def test_truncation_is_noted(shared: Any) -> None:
    cmp = heedful.explain(shared("bert").model, LONG, "grad-l2", long="truncate")
    assert len(cmp.x) == 64
    assert any("truncated" in note for note in cmp.x.notes)
    end = heedful.explain(shared("gpt2").model, LONG, "grad-l2", long="truncate")
    assert end.x.word_text(len(end.x.word_spans) - 1) == "ran"  # a causal model keeps the end


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_windows_do_not_suit_generators(shared: Any, name: str) -> None:
    with pytest.raises(HeedfulError, match="windows do not suit"):
        heedful.explain(shared(name).model, LONG * 3, "grad-l2", long="window")


def test_windows_are_the_mean_of_their_pieces(shared: Any) -> None:
    family = shared("bert")
    model = family.model
    cmp = heedful.explain(
        model, LONG, ["grad-x-input", "occlusion", "attention-avg"], target=0, long="window"
    )
    pieces = text_windows.windows(model.encode(LONG, "window"), 64)
    assert len(pieces) >= 3
    target = model.target(pieces[0][0], 0)
    gradient, removal = np.zeros(len(cmp.x)), np.zeros(len(cmp.x))
    outputs = []
    for piece, positions in pieces:  # by hand: its own trace, its own rows, added where the tokens stand
        trace = model.trace(piece, target)
        outputs.append(trace.output)
        units = piece.units("word")
        drops = trace.output - model.values(piece, target, ~np.eye(len(units), dtype=bool))
        for i, position in enumerate(positions):
            gradient[position] += float(trace.grad_embeds[i] @ trace.embeds[i]) / len(pieces)
        for unit, drop in zip(units, drops, strict=True):
            for i in unit:
                removal[positions[i]] += drop / len(unit) / len(pieces)
    np.testing.assert_allclose(cmp["grad-x-input"].scores, gradient, atol=1e-5)
    np.testing.assert_allclose(cmp["occlusion"].scores, removal, atol=1e-5)
    assert cmp["occlusion"].output == pytest.approx(np.mean(outputs), abs=1e-5)
    assert cmp["attention-avg"].scores.sum() == pytest.approx(1, abs=1e-5)  # each window's row sums to one
    assert any("windows" in note for note in cmp.x.notes)


def test_the_default_target_of_windows_is_the_label_with_the_highest_mean(shared: Any) -> None:
    model = shared("mean-pool").model
    cmp = heedful.explain(model, LONG, "grad-l2", long="window")
    pieces = [piece for piece, _ in text_windows.windows(model.encode(LONG, "window"), 64)]
    mean = np.mean([model.logits(piece).softmax(-1).numpy() for piece in pieces], axis=0)
    assert cmp.target.index == int(mean.argmax())
    assert dict(map(tuple, cmp.model["prediction"]))[cmp.target.label] == pytest.approx(mean.max(), abs=1e-6)


# --- small texts ----------------------------------------------------------------------------------------


def test_a_text_of_one_word(family: Any) -> None:
    cmp = heedful.explain(family.model, "cat", [*TRACED, "occlusion"])
    assert len(cmp.x.word_spans) >= 1
    assert all(np.isfinite(a.scores).all() for a in cmp.values())
    assert any(a.scores.any() for a in cmp.values())


def test_control_characters_alone_are_a_clear_error(shared: Any) -> None:
    with pytest.raises(HeedfulError, match="no token of the text reaches the model"):
        heedful.explain(shared("bert").model, "\x00\x01")


def test_a_million_characters_are_refused_quickly_with_their_number(shared: Any) -> None:
    with pytest.raises(HeedfulError, match="1,000,000 characters"):
        heedful.explain(shared("bert").model, "cat " * 250_000)


def test_pairs_and_chats_are_explained(shared: Any) -> None:
    pair = heedful.explain(shared("bert").model, ("the cat", "sat down"), FIRST)
    assert {w.text for w in pair["occlusion"].words()} == {"the", "cat", "sat", "down"}
    chat = heedful.explain(shared("llama").model, [{"role": "user", "content": "the cat"}], FIRST)
    scaffolding = np.array(chat.x.special)
    assert not chat["occlusion"].scores[scaffolding].any()
    assert chat["grad-l2"].scores[scaffolding].any()
    assert 0 < chat["grad-l2"].special_mass < 1


def test_settings_say_how_it_was_made(shared: Any, text: str) -> None:
    cmp = heedful.explain(shared("bert").model, text, "occlusion", seed=7, unit="token", budget=50)
    settings = cmp.settings
    assert (settings["seed"], settings["unit"], settings["budget"], settings["long"]) == (
        7,
        "token",
        50,
        "error",
    )
    assert set(settings["versions"]) >= {"python", "torch", "transformers", "heedful"}
    assert cmp["occlusion"].params["operator"] == "mask"
    assert load(cmp_model := shared("bert").model) is cmp_model


def test_windows_keep_standard_errors(shared: Any) -> None:
    """Errors of the pieces, each over the number of pieces; they add in squares where tokens are shared."""
    model = shared("roberta").model
    text = " ".join(["the cat sat on the mat."] * 30)
    found = heedful.explain(model, text, ["smoothgrad"], long="window", params={"smoothgrad": {"samples": 4}})
    pieces = text_windows.windows(model.encode(text, "window"), model.window)
    target = found.target
    parts = [run_explainer("smoothgrad", model, piece, target, samples=4, seed=0) for piece, _ in pieces]
    first = pieces[0][1][3]
    assert found["smoothgrad"].stderr is not None
    np.testing.assert_allclose(found["smoothgrad"].stderr[first], parts[0].stderr[3] / len(parts), rtol=1e-4)
    everywhere = np.sqrt(sum((part.stderr[0] / len(parts)) ** 2 for part in parts))  # <s> is in every piece
    np.testing.assert_allclose(found["smoothgrad"].stderr[0], everywhere, rtol=1e-4)


def test_windows_keep_the_base_and_what_each_part_says(shared: Any) -> None:
    model = shared("roberta").model
    text = " ".join(["the cat sat on the mat."] * 30)
    found = heedful.explain(model, text, "integrated-gradients", long="window")["integrated-gradients"]
    assert found.base is not None
    rise = found.output - found.base
    assert abs(found.scores.sum() - rise) <= 3e-2 * np.abs(found.scores).sum()  # a part may not converge
    parts = len(text_windows.windows(model.encode(text, "window"), model.window))
    assert parts > 1
    for number in range(1, parts + 1):
        assert any(f"part {number}: " in note and "completeness gap" in note for note in found.notes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget": "10"},
        {"budget": float("nan")},
        {"budget": -3},
        {"budget": 1.5},
        {"budget": True},
        {"seed": 2**64},
        {"params": 5},
        {"params": {"lime": 5}},
        {"methods": 5},
        {"methods": [1]},
    ],
)
def test_nonsense_is_refused_in_a_sentence(wrong: dict[str, Any], shared: Any) -> None:
    from heedful.comparisons.planning import plan

    with pytest.raises(HeedfulError):
        # through the function itself: the type checks of the tests would speak first
        getattr(plan, "__wrapped__", plan)(shared("bert").model, "the cat", **wrong)
