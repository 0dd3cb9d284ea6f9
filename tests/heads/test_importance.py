"""Worth of heads: metrics against transformers' own losses, batches against one head at a time."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.heads.ablation import ablate, gradient_importance, importance, task_metrics
from heedful.heads.capture import answer_ids
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig

TEXTS = [
    "the cat sat on the mat",
    "hello world",
    "a dog ran to the low house",
    "not bad at all",
    "good cat",
    "the dog is lower",
    "hello cat",
]
KINDS = ["bert", "bert-multi", "bert-regression", "gpt2", "llama", "t5", "bart", "bart-classifier"]
LABELS: dict[str, Any] = {
    "bert": ["positive", 0, "1", "NEGATIVE", 1, 0, 1],
    "bert-multi": [[0, "LABEL_2"], [], [1], "0, 1", [2], [0], [1]],
    "bart-classifier": [0, 1, 2, 0, 1, 2, 0],
    "bert-regression": [0.5, -1, "2", 0, 1.5, 1, 1],
    "t5": ["the cat", "hello", "not bad", "a dog", "low", "good", "cat"],
    "bart": ["the cat", "hello", "not bad", "a dog", "low", "good", "cat"],
}


def task_of(family: Any) -> task_metrics.Task:
    return task_metrics.prepare(family.model, TEXTS, LABELS.get(family.name))


def both(family: Any, case: task_metrics.LabelledText) -> Any:
    """Both metrics of one text, alone, as the model now is."""
    with torch.inference_mode():
        out = family.model.run_pass([task_metrics.row_of(family.model, case)], [0]).logits
    return task_metrics.score(family.model.kind, out, [case])[0].double().numpy()


@pytest.mark.parametrize("name", KINDS)
def test_the_first_metric_is_minus_the_loss_of_transformers(shared: Any, name: str) -> None:
    family = shared(name)
    hf = copy.deepcopy(family.hf)  # transformers notes in the configuration what labels it saw
    for case, label in zip(task_of(family).cases, LABELS.get(name, TEXTS), strict=True):
        ids = torch.tensor([case.x.ids])
        wanted = {
            "causal-lm": lambda ids=ids: ids,
            "encoder-decoder": lambda label=label: torch.tensor([answer_ids(family.model, label)]),
            "multi-label": lambda case=case: torch.tensor([case.wanted]),
        }.get(family.model.kind, lambda case=case: torch.tensor(case.wanted).long())()
        if family.model.kind == "regression":
            (expected,) = -(float(label) - hf(input_ids=ids).logits.detach()).abs()[0].numpy()
        else:
            expected = -float(hf(input_ids=ids, labels=wanted).loss.detach())
        assert both(family, case)[0] == pytest.approx(expected, abs=1e-5)


def test_the_second_metric_counts_what_is_right(shared: Any) -> None:
    family = shared("bert")
    for case in task_of(family).cases:
        right = int(family.model.logits(case.x).argmax()) == case.wanted[0]
        assert both(family, case)[1] == float(right)
    family = shared("gpt2")
    case = task_of(family).cases[0]
    told = [int(family.model.logits(case.x.ids[:t]).argmax()) for t in range(1, len(case.x))]
    expected = np.mean([guess == token for guess, token in zip(told, case.x.ids[1:], strict=True)])
    assert both(family, case)[1] == pytest.approx(expected)


@pytest.mark.parametrize("how", list(ablate.HOWS))
@pytest.mark.parametrize("name", KINDS)
def test_many_heads_at_once_are_one_head_at_a_time(shared: Any, name: str, how: str) -> None:
    """Oracle: the context manager, a text and a set of heads at a time."""
    family = shared(name)
    task = task_of(family)
    task = replace(task, cases=task.cases[:3])
    shape = ablate.anatomy(family.model)
    means = heedful.head_means(family.model, TEXTS[:2])
    heads = ablate.every_head(shape)
    sets = [frozenset(), *(frozenset([head]) for head in heads[::3]), frozenset(heads[2:7])]
    found = task_metrics.measure(task, sets, shape, how, means)
    for row, case in enumerate(task.cases):
        for column, gone in enumerate(sets):
            if not gone:
                expected = both(family, case)
            else:
                with heedful.ablated(family.model, list(gone), how, means=means):
                    expected = both(family, case)
            assert found[row, column] == pytest.approx(expected, abs=2e-5)
    assert np.ptp(found[:, :, 0], axis=1).min() > 1e-4


def test_a_batch_that_does_not_fit_is_run_in_halves(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    family = shared("bert")
    task, shape = task_of(family), ablate.anatomy(family.model)
    sets = [frozenset([head]) for head in ablate.every_head(shape)]
    expected = task_metrics.measure(task, sets, shape)
    forward, most = family.model.backend.forward, []

    def small(inputs: Any) -> Any:
        if len(inputs.ids) > 3:
            raise MemoryError
        most.append(len(inputs.ids))
        return forward(inputs)

    monkeypatch.setattr(family.model.backend, "forward", small)
    assert task_metrics.measure(task, sets, shape) == pytest.approx(expected, abs=1e-5)
    assert sum(most) == len(sets) * len(task.cases)


@pytest.fixture(scope="module")
def one_layer(tokenizer_of: Any) -> Any:
    """Three heads: one says nothing, one is loud."""
    config = OneLayerConfig(vocab_size=220, heads=3, width=8, d_att=4, d_out=4, context=64, pad_id=None)
    module = OneLayerClassifier(config, seed=1).eval()
    module.readout.data[0] *= 20
    module.readout.data[1] *= 40
    module.value.data[2] = 0
    forward = lambda e, m: tuple(module(None, m, e, True))  # noqa: E731
    return heedful.load(module, tokenizer=tokenizer_of("wordpiece"), forward=forward)


MANY = [
    f"{a} {b} {c}" for a in ("the", "a", "not") for b in ("cat", "dog", "low") for c in ("sat", "ran", "bad")
]


def test_a_harmful_head_is_found_and_a_silent_one_is_nothing(one_layer: Any) -> None:
    """Labels are what the model says without head 1: head 1 does harm, head 2 nothing, by construction."""
    with heedful.ablated(one_layer, "0.1"):
        labels = [int(one_layer.logits(one_layer.encode(text)).argmax()) for text in MANY]
    found = heedful.head_importance(one_layer, MANY, labels)
    assert [unit.name for unit in found.improves] == ["0.1"]
    assert [unit.name for unit in found.helps] == ["0.0"]
    silent = found.units[2]
    assert [unit.name for unit in found.unclear] == [silent.name]
    for metric in found.metrics:
        drop = silent.drops[metric]
        assert (drop.value, drop.interval, drop.p) == (0.0, (0.0, 0.0), 1.0)
    assert silent.estimate == silent.sensitivity == 0
    accuracy = found.units[1].drops["accuracy"].value
    assert found.base["accuracy"] - accuracy == 1.0
    assert found.metric == "log-probability"
    assert found.rows == len(MANY) * (1 + 3 + 1)
    assert found.ranked()[0].name == "0.0"


def test_five_texts_prove_nothing(one_layer: Any) -> None:
    with heedful.ablated(one_layer, "0.1"):
        labels = [int(one_layer.logits(one_layer.encode(text)).argmax()) for text in MANY[:5]]
    found = heedful.head_importance(one_layer, MANY[:5], labels)
    assert not found.improves
    assert len(found.unclear) == 3


def test_labels_that_mean_nothing_name_no_head(one_layer: Any) -> None:
    """Half the texts of each label, whatever the text: at the level of 5 % in all, hardly ever a head."""
    named = 0
    for seed in range(20):
        labels = np.random.default_rng(seed).integers(0, 2, len(MANY)).tolist()
        found = heedful.head_importance(one_layer, MANY, labels, seed=seed, gradient=False, metric="accuracy")
        named += bool(found.improves or found.helps)
    assert named <= 4  # P(Binomial(20, 0.05) > 4) = 0.003


def test_the_drop_is_that_of_the_block(shared: Any) -> None:
    """Heads and layers, their references, by hand."""
    family = shared("bert")
    labels = LABELS["bert"]
    found = heedful.head_importance(family.model, TEXTS, labels, "uniform", level="layer", draws=3)
    task = task_of(family)
    plain = np.array([both(family, case) for case in task.cases])
    assert found.base["accuracy"] == pytest.approx(plain.mean(0)[1])
    for unit in found.units:
        with heedful.ablated(family.model, unit.name, "uniform"):
            without = np.array([both(family, case) for case in task.cases])
        gaps = (plain - without)[:, 0]
        drop = unit.drops["log-probability"]
        assert drop.value == pytest.approx(gaps.mean(), abs=1e-5)
        reach = 2.4469 * gaps.std(ddof=1) / np.sqrt(7)  # Student's t, 6 degrees of freedom
        assert drop.alone == pytest.approx((gaps.mean() - reach, gaps.mean() + reach), abs=1e-4)
        assert drop.interval[0] <= drop.alone[0] <= drop.alone[1] <= drop.interval[1]
        assert unit.head is None
    with heedful.ablated(family.model, "all", "uniform"):
        without = np.array([both(family, case) for case in task.cases])
    everything, some = found.references
    assert everything.drops["log-probability"] == pytest.approx((plain - without)[:, 0].mean(), abs=1e-5)
    assert (everything.heads, some.heads, some.name) == (8, 4, "random 4 heads")


def test_random_sets_are_drawn_by_the_seed() -> None:
    shape = {"self": (4, 4, 4)}
    first, again, other = (importance.references(shape, 5, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert all(len(one) == 4 for one in first["random 4 heads"])
    assert list(importance.references({"self": (3,)}, 5, 0)) == ["all heads"]


# --- the gradient estimate --------------------------------------------------------------------------------


def test_the_estimate_is_exact_where_the_model_is_linear(one_layer: Any) -> None:
    """A logit of the one-layer model is a sum over heads: removing one takes away just its slope."""
    shape = ablate.anatomy(one_layer)
    means = heedful.head_means(one_layer, MANY[:3])
    case = task_metrics.prepare(one_layer, MANY[5:6]).cases[0]
    every = ablate.named("all", shape)
    for how in ablate.HOWS:
        instead = ablate.replacing(ablate.masks([every], shape), how, means)
        found = gradient_importance.first_order(one_layer, case, instead, lambda out: out[0, 1])
        for head in every:
            with heedful.ablated(one_layer, head, how, means=means):
                without = float(one_layer.logits(case.x)[1])
            drop = float(one_layer.logits(case.x)[1]) - without
            assert found[head] == pytest.approx(drop, abs=1e-6), (how, head)
        assert max(map(abs, found.values())) > 1e-3


@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_the_estimate_is_the_slope_of_fading_a_head_out(shared: Any, name: str) -> None:
    """Oracle: central differences of the metric in a factor on the head's output.

    The tolerance: Llama and T5 take their softmax in float32 whatever the weights are, which a smaller step
    would blow up; a larger one steps over the kinks of T5's ReLU.
    """
    family = shared(name)
    family.hf.double()
    try:
        task, shape = task_of(family), ablate.anatomy(family.model)
        heads = ablate.every_head(shape)[::3]
        task = replace(task, cases=task.cases[:2])
        found = gradient_importance.estimates(
            task, [frozenset([head]) for head in heads], shape, "zero", None
        )
        for row, case in enumerate(task.cases):
            for column, head in enumerate(heads):
                up, down = (_faded(family, case, head, 1 + step) for step in (1e-3, -1e-3))
                assert found[row, column] == pytest.approx((up - down) / 2e-3, abs=3e-4)
        assert np.abs(found).max() > 1e-3
    finally:
        family.hf.float()


def _faded(family: Any, case: task_metrics.LabelledText, head: ablate.Head, factor: float) -> float:
    def fade(seen: Any) -> Any:
        if (seen.site.stack, seen.site.layer) != head[:2]:
            return seen
        scale = torch.ones(seen.heads.shape[1], dtype=seen.heads.dtype)
        scale[head.head] = factor
        return replace(seen, heads=seen.heads * scale[:, None, None])

    with family.model.attending(fade):
        return float(both(family, case)[0])


def test_frozen_weights_have_estimates_too(fresh: Any) -> None:
    family = fresh("bert")
    before = heedful.head_importance(family.model, TEXTS, LABELS["bert"])
    family.hf.requires_grad_(False)
    after = heedful.head_importance(family.model, TEXTS, LABELS["bert"])
    pairs = zip(before.units, after.units, strict=True)
    assert all(a.estimate == pytest.approx(b.estimate, abs=1e-7) for a, b in pairs)
    assert before.agreement == after.agreement
    assert before.agreement is not None
    assert before.agreement > 0.3  # ranks of heads by slope and by removal go together
    assert all(parameter.grad is None for parameter in family.hf.parameters())


# --- what goes in and what comes out ----------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_without_labels_the_models_own_answers_are_wanted(shared: Any, name: str) -> None:
    family = shared(name)
    found = heedful.head_importance(family.model, TEXTS, draws=2)
    shape = ablate.anatomy(family.model)
    assert [unit.name for unit in found.units] == [head.name for head in ablate.every_head(shape)]
    assert found.base[found.metrics[1]] == {"regression": pytest.approx(0, abs=1e-9)}.get(
        family.model.kind, pytest.approx(found.base["accuracy"]) if family.model.kind == "causal-lm" else 1.0
    )
    if family.model.kind == "regression":
        assert found.agreement is None
        assert all(unit.drops[found.metric].value > 0 for unit in found.units)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["texts"] == 7
    assert len(found.table()) == len(found.units)


def test_texts_that_cannot_be_used_are_told(shared: Any) -> None:
    family = shared("bert")
    found = heedful.head_importance(family.model, [*TEXTS, "cat", "dog"], [*LABELS["bert"], None, "fine"])
    assert found.texts == 7
    assert "text 7 was skipped: it has no label" in found.notes[0]
    assert "unknown label 'fine'" in found.notes[1]
    long = heedful.head_importance(family.model, ["cat " * 100, *TEXTS], gradient=False)
    assert long.texts == 8
    assert long.notes[0].startswith("text 0: ")
    assert heedful.head_means(family.model, ["cat", "cat " * 100]).notes[0].startswith("text 1: ")
    one = heedful.head_importance(family.model, TEXTS[:1])
    assert json.dumps(one.to_dict(), allow_nan=False)  # one text has no interval
    assert one.units[0].drops[one.metric].interval == (-np.inf, np.inf)


def test_mistakes_are_told(shared: Any, tokenizer_of: Any) -> None:
    family = shared("bert")
    for wish, said in (
        ({"metric": "bleu"}, "log-probability, accuracy"),
        ({"level": "neuron"}, "head, layer"),
        ({"how": "mean"}, "head_means"),
        ({"labels": [0]}, "1 labels were given for 7 texts"),
    ):
        with pytest.raises(HeedfulError, match=said):
            heedful.head_importance(family.model, TEXTS, **{"labels": LABELS["bert"], **wish})
    with pytest.raises(HeedfulError, match="takes no labels"):
        heedful.head_importance(shared("gpt2").model, TEXTS, [0] * 7)
    with pytest.raises(HeedfulError, match="no text could be used"):
        heedful.head_importance(family.model, [])
    with pytest.raises(HeedfulError, match="not a number"):
        heedful.head_importance(shared("bert-regression").model, ["cat"], ["x"])
    from transformers import BertConfig, BertModel

    tiny = BertConfig(vocab_size=220, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    with pytest.raises(HeedfulError, match="makes no prediction"):
        heedful.head_importance((BertModel(tiny).eval(), tokenizer_of("wordpiece")), TEXTS)


def test_progress_counts_rows(shared: Any) -> None:
    family = shared("bert")
    told: list[tuple[int, int]] = []
    before = family.model.spent
    found = heedful.head_importance(
        family.model,
        TEXTS,
        LABELS["bert"],
        gradient=False,
        progress=lambda step: told.append((step.done, step.total)),
    )
    assert told[-1] == (found.rows, found.rows) == (7 * (1 + 8 + 1 + 5),) * 2
    assert family.model.spent.unique - before.unique == found.rows + 1  # one to see what heads there are
