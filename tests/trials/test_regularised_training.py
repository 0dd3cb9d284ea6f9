"""Training with terms on heads does what the terms say, and says so."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.io.rationales import Marked
from heedful.metrics.plausibility import average_precision
from heedful.nn.train import TrainConfig
from heedful.trials.batches import PaddedTexts, marked, rows
from heedful.trials.regularisers import entropy, off_marks
from heedful.trials.tests.regularised_training import (
    RegularisedTraining,
    improve,
    measure,
    objective,
    plausible,
)
from heedful.trials.training import maps, run

FILLER = ["the", "sat", "on", "ran", "to", "not", "bad", "all"]
BUDGET = TrainConfig(steps=150, batch=32, lr=1e-2, warmup=5, weight_decay=0.01, progress=False)


CUES = (("dog", "low"), ("cat", "mat"))


def planted(model: Any, n: int, seed: int) -> PaddedTexts:
    """Cat and mat say yes, dog and low say no: either would do. People marked mat and low."""
    rng = np.random.default_rng(seed)
    items, labels = [], []
    for label in rng.integers(0, 2, n):
        words = [*rng.choice(FILLER, rng.integers(4, 8)), *CUES[label]]
        text = " ".join(rng.permutation(words))
        start = text.index(CUES[label][1])
        items.append(Marked(text, ((start, start + 3),)))
        labels.append(int(label))
    return marked(model, items, labels)


def test_supervision_moves_attention_to_the_marked_words(small: Any) -> None:
    model = small()
    train, test = planted(model, 200, 0), planted(model, 80, 1)
    found = improve(
        model,
        train,
        test,
        test,
        RegularisedTraining(
            kinds=("none", "rationales"),
            weights={"rationales": 0.5},
            seeds=(0, 1),
            config=BUDGET,
            start="fresh",
        ),
    )
    none, led = found.after["none"], found.after["rationales"]
    assert none["accuracy"].mean() > 0.97  # the words are learnt without help,
    assert led["accuracy"].mean() > 0.97
    assert led["AUPRC"].mean(1).min() > 0.95  # but these are looked at only when asked to
    assert none["AUPRC"].mean() < 0.85  # one seed may choose the marked word by itself
    assert none["mass on marks"].mean() + 0.3 < led["mass on marks"].mean()
    lines = {line.what: line for line in found.findings()}
    line = lines["AUPRC, rationales"]
    assert line.extra["more than none"] == pytest.approx((led["AUPRC"] - none["AUPRC"]).mean())
    assert line.extra["at least"] < line.extra["more than none"] < line.extra["at most"]
    assert line.control == pytest.approx(none["AUPRC of random scores"].mean())
    assert line.control < 0.5
    json.dumps(found.to_dict())


def test_every_term_moves_what_it_names(small: Any) -> None:
    model = small(heads=3)
    train, test = planted(model, 200, 0), planted(model, 60, 1)
    found = improve(
        model,
        train,
        test,
        None,
        RegularisedTraining(
            kinds=("none", "sharper", "flatter", "diverse"),
            seeds=(0,),
            config=replace(BUDGET, steps=100),
            start="copy",
        ),
    )
    mean = {
        kind: {name: values.mean() for name, values in told.items()} for kind, told in found.after.items()
    }
    order = ["sharper", "none", "flatter"]
    assert sorted(order, key=lambda kind: float(mean[kind]["entropy of heads"])) == order
    assert mean["diverse"]["diversity of heads"] > mean["none"]["diversity of heads"] + 0.05
    assert all(own["accuracy"] > 0.9 for own in mean.values())
    assert list(found.before) == ["accuracy", "log-loss", "entropy of heads", "diversity of heads"]
    assert found.before["accuracy"].shape == (1, 60)


def test_measures_are_their_definitions(shared: Any) -> None:
    model = shared("bert").model
    text = "the cat sat on the mat."
    items = [Marked(text, ((4, 7),)), Marked("hello world", ())] * 33  # more than one pass
    data = marked(model, items, [1, 0] * 33)
    told = measure(model, data, data, lambda own: {"more": np.arange(66.0)})
    x = model.encode(text)
    trace = model.trace(x, model.target(x, 0))
    shown = trace.attentions[-1].mean(0)[0].double().numpy()
    marks = np.array([token == "cat" for token in x.tokens])
    words = ~np.array(x.special)
    for row in (0, 64):
        assert told["AUPRC"][row] == pytest.approx(average_precision(shown[words], marks[words]))
        assert told["mass on marks"][row] == pytest.approx(shown[marks].sum(), rel=1e-4)
        assert 0 < told["AUPRC of random scores"][row] < 1
        logp = model.logits(x).log_softmax(-1)
        assert told["log-loss"][row] == pytest.approx(-float(logp[1]), rel=1e-4)
        assert told["accuracy"][row] == (int(logp.argmax()) == 1)
    assert math.isnan(told["AUPRC"][1])
    assert told["more"][3] == 3
    np.testing.assert_array_equal(
        plausible(model, data)["AUPRC of random scores"], told["AUPRC of random scores"]
    )


def test_the_objective_is_cross_entropy_and_the_term(small: Any) -> None:
    model = small()
    data = planted(model, 6, 0)
    assert data.marks is not None
    half = replace(data, marks=data.marks & (torch.arange(6) < 2)[:, None])  # two texts with marks
    pick = torch.arange(6)
    passed = run(model, data.pick(pick))
    plain = torch.nn.functional.cross_entropy(passed.logits, data.labels)
    torch.testing.assert_close(objective(data, "none", 1.0, "first")(passed, pick), plain)
    expected = plain + 0.5 * entropy(passed).mean()
    torch.testing.assert_close(objective(data, "sharper", 0.5, "first")(passed, pick), expected)
    term = off_marks(passed, half.marks, "first")[:2].mean()  # type: ignore[arg-type]
    torch.testing.assert_close(objective(half, "rationales", 0.5, "first")(passed, pick), plain + 0.5 * term)


def test_the_user_s_model_stays(small: Any) -> None:
    model = small()
    data = planted(model, 20, 0)
    (before,) = maps(model, data)
    brief = RegularisedTraining(kinds=("sharper",), seeds=(0,), config=replace(BUDGET, steps=2))
    improve(model, data, data, None, brief)
    (after,) = maps(model, data)
    assert torch.equal(before.logits, after.logits)


def test_what_cannot_be_done_is_refused_in_words(small: Any) -> None:
    model = small()
    data = rows(model, ["the cat", "a dog"], [1, 0])
    with pytest.raises(HeedfulError, match="no training text has marks"):
        improve(model, data, data, None, RegularisedTraining(kinds=("rationales",)))
    with pytest.raises(HeedfulError, match="unknown kind"):
        improve(model, data, data, None, RegularisedTraining(kinds=("better",)))
    with pytest.raises(HeedfulError, match="unknown start"):
        improve(model, data, data, None, RegularisedTraining(kinds=("none",), start="here"))
