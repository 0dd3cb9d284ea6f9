"""`heedful features train` from a harvested store to an autoencoder on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.cli.commands.features_train import line
from heedful.cli.main import main

SMALL = ["--width", "32", "--kind", "topk", "--k", "4", "--steps", "30", "--batch", "64", "--keep", "10"]


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train") / "acts"
    model: Any = heedful.load("zoo:lm")
    texts = [
        "Once upon a time there was a little fox who lived in the wood.",
        "The sea was calm and blue.",
    ] * 8
    heedful.harvest(model, texts, "blocks.1.resid", folder)
    return folder


def test_one_json_document(acts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["features", "train", str(acts), "--out", str(tmp_path), *SMALL, "--json", "--quiet"]) == 0
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert err == ""
    assert (found["kind"], found["width"], found["k"], found["source"]["site"]) == (
        "topk",
        32,
        4,
        "blocks.1.resid",
    )
    assert [t["step"] for t in found["told"]] == [10, 20, 30]
    sae = heedful.SAE.load(tmp_path)
    assert sae.config.source["maxima"] == found["source"]["maxima"]
    model: Any = heedful.load("zoo:lm")
    one = max(range(32), key=lambda feature: found["source"]["maxima"][feature])
    with heedful.steer(model, sae, {one: "5x"}) as applied:  # no texts are needed
        model.logits(model.encode("The sea was").ids)
    assert applied.size > 0
    x = next(iter(heedful.features.activations.store.ActivationStore.load(acts).batches(64)))
    assert ((sae.encode(x) > 0).sum(1) <= 4).all()


def test_the_same_by_python(acts: Path, tmp_path: Path):
    from heedful.features.activations.store import ActivationStore

    main(["features", "train", str(acts), "--out", str(tmp_path), *SMALL, "--quiet"])
    ours = heedful.train_sae(ActivationStore.load(acts), 32, "topk", k=4, steps=30, batch=64)
    assert torch.equal(heedful.SAE.load(tmp_path).W_dec, ours.W_dec)


def test_a_table_and_resuming(acts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    for more in ([], ["--resume"]):
        assert main(["features", "train", str(acts), "--out", str(tmp_path), *SMALL, *more]) == 0
        out, err = capfd.readouterr()
        assert "explained" in out
        assert str(tmp_path) in err.replace("\n", "")
    assert (
        main(["features", "train", str(acts), "--out", str(tmp_path), *SMALL, "--resume", "--lr", "1"]) == 2
    )
    assert "was begun with lr=" in capfd.readouterr().err


def test_an_early_look_shows_the_same_features_as_they_sharpen(
    acts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    texts = tmp_path / "t.txt"
    texts.write_text("The sea was calm and blue.\nThe fox lived in the wood.\n")
    words = ["features", "train", str(acts), "--out", str(tmp_path / "sae"), *SMALL, "--look", str(texts)]
    assert main(words) == 0
    told = capfd.readouterr().err.splitlines()
    assert [one for one in told if one.endswith("three features so far:")] == [
        f"step {step}, three features so far:" for step in (10, 20, 30)
    ]
    at = [number for number, one in enumerate(told) if one.endswith("three features so far:")]
    looks = [told[begin + 1 : begin + 4] for begin in at]
    names = [[one.split(",")[0].split(" is ")[0].strip() for one in look] for look in looks]
    assert names[0] == names[1] == names[2]
    assert len(set(names[0])) == 3
    sae, model = heedful.SAE.load(tmp_path / "sae"), heedful.load("zoo:lm")
    for name, one in zip(names[-1], looks[-1], strict=True):  # the last look is at the finished dictionary
        feature = int(name.removeprefix("feature "))
        found = heedful.read_features(model, sae, texts, [feature])[feature]
        if found.fired:
            token = found.top[0].context.pieces[found.top[0].at].strip()
            assert f"{100 * found.rate:.2g} % of tokens" in one
            assert f"[{token}]" in one


def test_a_look_by_another_model_is_refused(acts: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    texts = tmp_path / "t.txt"
    texts.write_text("The sea was calm.\n")
    words = ["features", "train", str(acts), "--out", str(tmp_path / "sae"), *SMALL, "--look", str(texts)]
    assert main([*words, "--model", "zoo:sentiment"]) == 2
    assert "is not the model that was harvested: that was zoo:lm" in capfd.readouterr().err
    assert main([*words[:-1], str(tmp_path / "none.txt")]) == 2
    assert "none.txt" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "vanilla"], "vanilla"),
        (["--kind", "topk", "--k", "99", "--width", "32"], "k is 99 of 32 latents"),
        (["--steps", "0"], "steps"),
    ],
)
def test_mistakes_are_one_line(acts: Path, tmp_path: Path, words: list[str], said: str, capfd: Any):
    assert main(["features", "train", str(acts), "--out", str(tmp_path), *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_a_folder_without_activations(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["features", "train", str(tmp_path), "--out", str(tmp_path / "sae")]) == 2
    assert capfd.readouterr().err.startswith("heedful: ")


def test_the_line():
    said = line({"loss": 0.123456, "l0": 31.97, "explained": 0.876, "dead": 0.01})
    assert said == "loss 0.1235, 32.0 active, 87.6 % explained, 1.0 % dead"
