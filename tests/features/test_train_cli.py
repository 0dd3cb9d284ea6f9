"""`heedful features train` from a harvested store to an autoencoder on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.cli import main
from heedful.cli.features_train import line

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
    x = next(iter(heedful.features.store.Acts.load(acts).batches(64)))
    assert ((sae.encode(x) > 0).sum(1) <= 4).all()


def test_the_same_by_python(acts: Path, tmp_path: Path):
    from heedful.features.store import Acts

    main(["features", "train", str(acts), "--out", str(tmp_path), *SMALL, "--quiet"])
    ours = heedful.train_sae(Acts.load(acts), 32, "topk", k=4, steps=30, batch=64)
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
    assert said == "loss 0.1235, 32.0 active, 87.6% explained, 1.0% dead"
