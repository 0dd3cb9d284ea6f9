"""Remove and retrain on a task whose important words are planted: truth falls fastest, leaks are seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from heedful.checks.known_models import textbook_model
from heedful.core.errors import HeedfulError
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig
from heedful.nn.train import TrainConfig
from heedful.retraining.impute import masked, masked_text, mean_embedding, noisy_linear
from heedful.retraining.retrain import BRIEF, as_labels, like, trainer
from heedful.retraining.roar import RoarSettings, TokenSplit, explained, imputer_of, roar, roar_model

LENGTH, MASK, FILLER, NEUTRAL = 10, 1, 2, 20
GOOD, BAD = 23, 24  # ids of the planted words; 3 .. 22 are neutral


def task(count: int, seed: int) -> tuple[TokenSplit, np.ndarray]:
    """Three planted words of the label's kind in ten, anywhere; and where they are."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=count)
    ids = rng.integers(3, 3 + NEUTRAL, size=(count, LENGTH))
    planted = rng.permuted(np.arange(LENGTH) < 3 * np.ones((count, 1)), axis=1)
    ids = np.where(planted, np.where(labels, GOOD, BAD)[:, None], ids)
    return TokenSplit.of([tuple(row) for row in ids.tolist()], labels.tolist()), planted.astype(float)


TRAIN, TEST = task(300, 1), task(200, 2)


def scores(make: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """make(planted (n, T), labels (n,), rng) -> (n, T), for train and test."""
    first, last = (
        list(make(planted, np.array(split.labels), np.random.default_rng(seed)))
        for seed, (split, planted) in enumerate((TRAIN, TEST))
    )
    return first, last


def noisy(planted: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return planted + 0.1 * rng.normal(size=planted.shape)


def half(planted: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return planted + 0.8 * rng.normal(size=planted.shape)


def ridge(inputs: Sequence[Any], labels: Sequence[int], seed: int) -> Any:
    """Least squares on which token stands where: quick, and able to read a pattern of removal."""

    def features(rows: Sequence[Any]) -> np.ndarray:
        return np.eye(30)[np.array(rows)].reshape(len(rows), -1)

    x, y = features(inputs), 2 * np.array(labels) - 1
    keep = np.random.default_rng(seed).random(len(x)) < 0.9  # a seed must matter
    weights = np.linalg.solve(x[keep].T @ x[keep] + 5 * np.eye(x.shape[1]), x[keep].T @ y[keep])
    return lambda rows: (features(rows) @ weights > 0).astype(int)


IMPUTER = masked(MASK, FILLER)
SHARES = (0.1, 0.3, 0.5)


@pytest.fixture(scope="module")
def found() -> Any:
    made = {"truth": scores(noisy), "half": scores(half), "reverse": scores(lambda p, y, r: -noisy(p, y, r))}
    return roar(TRAIN[0], TEST[0], made, ridge, IMPUTER, RoarSettings(shares=SHARES, seeds=5))


def test_truth_falls_fastest_and_its_reverse_slowest(found: Any) -> None:
    assert [curve.method for curve in found.curves] == ["truth", "half", "reverse", "random"]
    assert found.lead == ("truth",)
    assert found.behind == ("half",)
    assert found.slower == ("reverse",)
    assert found.whole > 0.95
    assert found["truth"].accuracy[1] < 0.6, "with all planted words gone nothing but chance is left"
    assert found["reverse"].accuracy[1] > 0.95
    assert not any(curve.leaks for curve in found.curves)


def test_curves_and_control_are_by_share(found: Any) -> None:
    for curve in found.curves:
        assert len(curve.accuracy) == len(curve.intervals) == len(curve.pattern) == len(SHARES)
        assert all(low <= a <= high for a, (low, high) in zip(curve.accuracy, curve.intervals, strict=True))
    control = np.mean(found["random"].accuracy)
    for curve in found.curves:
        assert curve.fall == pytest.approx(control - np.mean(curve.accuracy))


def test_equal_methods_tie() -> None:
    made = {
        "one": scores(noisy),
        "two": scores(lambda p, y, r: noisy(p, y, np.random.default_rng(9))),
        "same": scores(noisy),
    }
    shown = roar(TRAIN[0], TEST[0], made, ridge, IMPUTER, RoarSettings(shares=SHARES, seeds=3, leakage=False))
    assert set(shown.lead) == {"one", "two", "same"}
    assert shown["one"].accuracy == shown["same"].accuracy, "equal scores remove the same words"
    assert shown["one"].pattern == ()


def sly(planted: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Says nothing about words: the first places for one label, the last for the other."""
    return np.where(labels[:, None], -1.0, 1.0) * np.arange(LENGTH) + 0.1 * rng.normal(size=planted.shape)


def test_a_planted_leak_is_flagged() -> None:
    made = {"truth": scores(noisy), "sly": scores(sly)}
    shown = roar(TRAIN[0], TEST[0], made, ridge, IMPUTER, RoarSettings(shares=SHARES, seeds=3))
    assert shown["sly"].leaks
    assert max(shown["sly"].pattern) > 0.95
    assert not shown["truth"].leaks
    assert "positions it removes predict the label by themselves" in str(shown)


def test_scores_rank_train_and_test_text_by_text() -> None:
    """Ranked in training alone (or in test alone), truth would leave planted words where it is not ranked."""
    seen: list[list[Any]] = []

    def spy(inputs: Sequence[Any], labels: Sequence[int], seed: int) -> Any:
        def predict(rows: Sequence[Any]) -> np.ndarray:
            seen.append([*inputs, *rows])
            return np.zeros(len(rows), dtype=int)

        return predict

    roar(
        TRAIN[0],
        TEST[0],
        {"truth": scores(noisy)},
        spy,
        IMPUTER,
        RoarSettings(shares=(0.3,), seeds=1, leakage=False),
    )
    whole, truth, control = seen
    assert not any(MASK in row for row in whole)
    assert all(row.count(MASK) == 3 and not {GOOD, BAD} & set(row) for row in truth)
    assert all(row.count(MASK) == 3 for row in control)
    assert sum(bool({GOOD, BAD} & set(row)) for row in control) > 0.9 * len(control)


def test_random_removal_is_drawn_afresh_for_every_seed() -> None:
    seen: list[Any] = []

    def spy(inputs: Sequence[Any], labels: Sequence[int], seed: int) -> Any:
        seen.append((seed, inputs))
        return lambda rows: np.zeros(len(rows), dtype=int)

    given = {"truth": scores(noisy)}
    roar(TRAIN[0], TEST[0], given, spy, IMPUTER, RoarSettings(shares=(0.3,), seeds=2, leakage=False, seed=5))
    assert [seed for seed, _ in seen] == [5, 6] * 3  # nothing removed, truth, control
    assert seen[2][1] == seen[3][1]
    assert seen[4][1] != seen[5][1]


def test_units_go_as_a_whole() -> None:
    seen: list[Any] = []

    def spy(inputs: Sequence[Any], labels: Sequence[int], seed: int) -> Any:
        seen.append(inputs)
        return lambda rows: np.zeros(len(rows), dtype=int)

    split = TokenSplit((("[CLS]", "un", "##do", "it"),) * 2, (0, 1), (((1, 2), (3,)),) * 2)
    given = {"first": ([np.array([1.0, 0.0])] * 2,) * 2}
    roar(split, split, given, spy, masked_text(), RoarSettings(shares=(0.5,), seeds=1, leakage=False))
    assert seen[1] == ["[CLS] [MASK] [MASK] it"] * 2


def test_mistakes_are_told() -> None:
    good = scores(noisy)
    with pytest.raises(HeedfulError, match="every unit of every text of test"):
        roar(TRAIN[0], TEST[0], {"short": (good[0], good[1][:-1])}, ridge, IMPUTER)
    with pytest.raises(HeedfulError, match="no method to try"):
        roar(TRAIN[0], TEST[0], {}, ridge, IMPUTER)
    with pytest.raises(HeedfulError, match="between 0 and 1"):
        roar(TRAIN[0], TEST[0], {"truth": good}, ridge, IMPUTER, RoarSettings(shares=(10.0, 30.0)))
    with pytest.raises(HeedfulError, match="neither labels nor scores"):
        as_labels([0.2, 0.7])
    with pytest.raises(HeedfulError, match="no configuration"):
        like(torch.nn.Linear(2, 2))


def test_scores_of_classes_are_labels() -> None:
    assert as_labels([[0.1, 0.9], [2.0, 1.0]]).tolist() == [1, 0]
    assert as_labels(np.array([1, 0])).tolist() == [1, 0]


SMALL = OneLayerConfig(vocab_size=30, heads=2, width=16, d_att=8, d_out=8, context=32, pad_id=None)
QUICK = TrainConfig(steps=50, batch=32, lr=0.02, warmup=5, progress=False)


def vectors(name: str) -> Any:
    table = np.random.default_rng(0).normal(size=(30, 16))
    return {"mean": mean_embedding, "linear": noisy_linear}[name](table, table[3:23].mean(0))


@pytest.mark.parametrize("name", ["mask", "mean", "linear"])
def test_the_trainer_learns_the_task_and_loses_it(name: str) -> None:
    imputer = IMPUTER if name == "mask" else vectors(name)
    fit = trainer(like(OneLayerClassifier(SMALL)), QUICK)
    made = {"truth": scores(noisy)}
    shown = roar(TRAIN[0], TEST[0], made, fit, imputer, RoarSettings(shares=(0.3,), seeds=2, leakage=False))
    assert shown.whole > 0.9
    assert shown["truth"].accuracy[0] < 0.65
    assert shown["random"].accuracy[0] > 0.85


def test_the_trainer_reads_a_leak() -> None:
    fit = trainer(like(OneLayerClassifier(SMALL)), QUICK)
    given = {"sly": scores(sly)}
    shown = roar(TRAIN[0], TEST[0], given, fit, vectors("linear"), RoarSettings(shares=(0.5,), seeds=2))
    assert shown["sly"].pattern[0] > 0.9
    assert shown["random"].pattern[0] < 0.6


def test_a_seed_settles_a_fit_and_the_global_state_is_left_alone() -> None:
    fit = trainer(like(OneLayerClassifier(SMALL)), TrainConfig(steps=5, batch=8, progress=False))
    before = torch.get_rng_state()
    rows = [*TRAIN[0].tokens[:40], (3, 4)]  # of several lengths
    labels = [*TRAIN[0].labels[:40], 0]
    first, again, other = (fit(rows, labels, seed)(rows).tolist() for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert first == again
    assert len(other) == 41


def test_transformers_are_rebuilt_with_fresh_weights(shared: Any) -> None:
    module = shared("bert").hf
    build = like(module)
    one, same, other = (build(seed).state_dict()["classifier.weight"] for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, module.state_dict()["classifier.weight"])
    fit = trainer(build, TrainConfig(steps=2, batch=4, progress=False))
    for rows in ([(5, 6, 7), (8, 9)], [np.ones((3, 32)), np.zeros((2, 32))]):
        assert set(fit(rows, [0, 1], 0)(rows).tolist()) <= {0, 1}


def test_a_loaded_classifier_end_to_end() -> None:
    """The textbook model: its words, its mask, its embedding table."""
    model = textbook_model()
    texts, labels = ["the cat sat", "on the mat", "cat mat"], [0, 1, 1]
    split, found = explained(model, texts, labels, ["occlusion", "grad-x-input"])
    assert [len(units) for units in split.units] == [3, 3, 2]
    assert [len(values) for values in found["occlusion"]] == [3, 3, 2]
    x = model.encode(texts[0])
    assert split.tokens[0] == x.ids
    assert not any(x.special[t] for unit in split.units[0] for t in unit)
    for name in ("mask", "mean", "linear"):
        imputer = imputer_of(model, split, name)
        assert len(
            imputer.fill(split.tokens[0], np.zeros(len(x), dtype=bool), np.random.default_rng(0))
        ) == len(x)
    with pytest.raises(HeedfulError, match="unknown imputer"):
        imputer_of(model, split, "guess")
    both = (texts, labels)
    shown = roar_model(model, both, both, ["occlusion"], RoarSettings(shares=(0.5,), seeds=2), fit=majority)
    assert [curve.method for curve in shown.curves] == ["occlusion", "random"]
    assert shown["occlusion"].accuracy == (pytest.approx(2 / 3),)
    quick = RoarSettings(shares=(0.5,), seeds=2, leakage=False)
    smooth = ("occlusion", "random")
    shown = roar_model(model, both, both, ["occlusion"], quick, fit=majority, smooth=smooth)
    assert {c.method for c in shown.curves} == {
        *("occlusion", "random", "occlusion, smoothed", "random, smoothed")
    }


def majority(inputs: Sequence[Any], labels: Sequence[int], seed: int) -> Any:
    return lambda rows: np.full(len(rows), np.bincount(labels).argmax())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mask", "linear"])
def test_planted_words_with_a_trained_transformer_at_the_published_shares(name: str) -> None:
    """The whole protocol: five shares, five seeds, retrained attention models."""
    imputer = IMPUTER if name == "mask" else vectors(name)
    made = {"truth": scores(noisy), "twin": scores(lambda p, y, r: noisy(p, y, np.random.default_rng(9)))}
    made |= {"half": scores(half), "sly": scores(sly)}
    fit = trainer(
        like(OneLayerClassifier(SMALL)), TrainConfig(steps=120, batch=32, lr=0.02, warmup=5, progress=False)
    )
    shown = roar(TRAIN[0], TEST[0], made, fit, imputer)
    assert set(shown.lead) == {"truth", "twin"}
    assert shown["sly"].leaks
    assert not any(shown[m].leaks for m in ("truth", "twin", "half", "random"))


def test_the_brief_training_is_silent() -> None:
    assert not BRIEF.progress
