"""Planted labels are read from planted features, chance from noise; the regression equals a rival's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from heedful.cli.main import main
from heedful.core.errors import HeedfulError
from heedful.features.measures.probing import RIDGE, best, fit, halved, probe, probed
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config


def test_the_regression_by_the_rival():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)) * [1, 5, 0.1, 1]
    y = (x @ rng.normal(size=(4, 3)) + rng.gumbel(size=(300, 3))).argmax(1)
    rival = LogisticRegression(C=1 / (RIDGE * 300), tol=1e-8, max_iter=1000).fit(
        (x - x.mean(0)) / x.std(0), y
    )
    new = rng.normal(size=(500, 4)) * [1, 5, 0.1, 1]
    theirs = rival.predict((new - x.mean(0)) / x.std(0))
    assert (fit(x, y, 3)(new) == theirs).mean() > 0.995  # ties at the border


def test_a_column_that_never_varies_does_no_harm():
    x = np.column_stack([np.full(20, 7.0), np.repeat([0.0, 1.0], 10)])
    assert (fit(x, np.repeat([0, 1], 10), 2)(x) == np.repeat([0, 1], 10)).all()


def test_halves_share_labels_evenly():
    y = np.array([0] * 11 + [1] * 7 + [2] * 20)
    half = halved(y, 0)
    for label, many in ((0, 11), (1, 7), (2, 20)):
        assert abs(int(half[y == label].sum()) - many / 2) <= 0.5
    assert abs(int(half.sum()) - 19) <= 1
    assert not (half == halved(y, 1)).all()


def test_the_best_by_mean_difference():
    z = np.array([[1.0, 0.0, 5.0, 2.0], [1.0, 1.0, 5.0, 2.0], [0.0, 0.0, 5.0, 5.0], [0.0, 1.0, 5.0, 5.0]])
    assert best(z, np.array([0, 0, 1, 1]), 2).tolist() == [3, 0]


def _planted(n: int = 400) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    codes = rng.exponential(size=(n, 50)) * (rng.random((n, 50)) < 0.3)
    y = rng.random(n) < 0.6
    codes[:, 7] = np.where(y, 3.0, 0.0) * (rng.random(n) < 0.95)
    raw = codes @ rng.normal(size=(50, 20))
    return codes, raw, ["yes" if one else "no" for one in y]


def test_a_planted_feature_is_chosen_and_chance_is_beside_it():
    codes, raw, labels = _planted()
    found = probed(codes, raw, labels, (1, 2), 0)
    assert found.chosen[1] == [[7], [7]]
    assert found.features[1].value == pytest.approx(0.97, abs=0.02)
    often = labels.count("yes") / 400
    assert found.whole["most frequent label"].value == pytest.approx(often, abs=0.01)
    assert found.controls["random features"][1].value < 0.75
    assert found.controls["raw coordinates"][1].value < found.features[1].value
    assert found.features[1].low < found.features[1].value < found.features[1].high
    told = found.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_labels_that_mean_nothing_are_not_told():
    """Features are chosen by one half and judged by the other: choosing among 2,000 gains nothing."""
    rng = np.random.default_rng(1)
    codes, labels = rng.normal(size=(200, 2000)), [str(label) for label in rng.permutation([0, 1] * 100)]
    found = probed(codes, codes[:, :10], labels, (1, 5), 0)
    assert abs(found.features[5].value - 0.5) < 0.12  # three standard errors of 200 texts
    assert abs(found.features[1].value - 0.5) < 0.12


def test_from_texts(shared: Callable[[str], Any]):
    """Texts with a word and texts without it, read from the embeddings of a toy model."""
    model = shared("bert").model
    texts = [f"the {word} sat on the mat" for word in ("cat", "dog") for _ in range(6)]
    texts += [f"{word} ran to the low house" for word in ("cat", "dog") for _ in range(6)]
    labels = [("cat" in text) for text in texts]
    dec = torch.randn(64, 32, generator=torch.Generator().manual_seed(0))
    sae = SAE(Config("relu", 32, 64), dec.T.contiguous(), torch.zeros(64), dec, torch.zeros(32))
    found = probe(sae, model, texts, labels, site="embed", ks=(5,))
    assert found.texts == 24
    assert found.labels == ("False", "True")
    assert found.whole["all raw coordinates"].value == 1.0
    assert found.whole["most frequent label"].value == 0.5


def test_mistakes_are_told(shared: Callable[[str], Any]):
    codes, raw, _ = _planted(4)
    with pytest.raises(HeedfulError, match="two labels"):
        probed(codes, raw, ["a", "a", "a", "b"], (1,), 0)
    dec = torch.eye(32)
    sae = SAE(Config("relu", 32, 32), dec, torch.zeros(32), dec, torch.zeros(32))
    with pytest.raises(HeedfulError, match="needs labels"):
        probe(sae, shared("bert").model, ["a", "b"], site="embed")


def test_the_command_is_the_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ["We won and we are glad.", "A great day.", "We lost and we are sad.", "A poor day."] * 4
    labels = ["good", "good", "bad", "bad"] * 4
    rows = "".join(f"{label},{text}\n" for label, text in zip(labels, said, strict=True))
    (tmp_path / "said.csv").write_text("mood,words\n" + rows, encoding="utf-8")
    words = ["features", "probe", "zoo:lm", str(tmp_path / "said.csv"), "-k", "1,3", "-q"]
    columns = ["--text-column", "words", "--label-column", "mood"]
    assert main([*words, *columns, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    own = probe(SAE.load("zoo:lm"), "zoo:lm", said, labels, ks=(1, 3)).to_dict()
    assert {name: found[name] for name in ("features", "controls", "chosen")} == {
        name: own[name] for name in ("features", "controls", "chosen")
    }
    assert main([*words, *columns]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""  # -q
    told = " ".join(shown.out.split())
    for name in ("all raw coordinates", "most frequent label"):  # the baselines are results
        assert f"{name} {found['controls'][name]['value'] * 100:.1f} %" in told
    assert main([*words[:4], "-k", "many", *columns]) == 2
    assert "-k 1,2,5" in capsys.readouterr().err
