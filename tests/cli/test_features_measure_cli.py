"""`heedful features measure`, `split` and `compare`: tables, one JSON document, one-line mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.cli.main import main
from heedful.features.measures.quality import measure

TEXT = "The state of the union is strong. We are here to work, and we will work together.\n" * 12
SITE = "blocks.1.resid"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """texts.txt, texts.csv, and four dictionaries: b has another seed, wide another width, lost no site."""
    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config

    folder = tmp_path_factory.mktemp("measure")
    (folder / "texts.txt").write_text(TEXT)
    (folder / "texts.csv").write_text(
        "text,label\nwhat a lovely film,positive\na dull and empty film,negative\n"
    )
    for name, width, seed, site in (
        ("a", 32, 0, SITE),
        ("b", 32, 1, SITE),
        ("wide", 64, 0, SITE),
        ("lost", 32, 0, ""),
    ):
        dec = torch.randn(width, 192, generator=torch.Generator().manual_seed(seed))
        config = Config("topk", 192, width, 4, source={"site": site} if site else {})
        SAE(config, dec.T.contiguous() / 192, torch.zeros(width), dec, torch.zeros(192)).save(folder / name)
    return folder


def _run(capfd: Any, *words: object) -> tuple[int, str, str]:
    code = main(["features", *map(str, words)])
    out, err = capfd.readouterr()
    return code, out, err


def test_measure_as_json_is_what_python_gives(place: Path, capfd: Any):
    words = ("--model", "zoo:lm", "--context", "32", "--json", "--quiet")
    code, out, err = _run(capfd, "measure", place / "a", place / "texts.txt", "--reseed", place / "b", *words)
    assert (code, err) == (0, "")
    found = json.loads(out)
    ours = measure(heedful.SAE.load(place / "a"), "zoo:lm", place / "texts.txt", context=32)
    assert found["figures"] == ours.to_dict()["figures"]
    assert found["about"]["site"] == SITE
    assert set(found["controls"]) == {"identity", "mean", "random dictionary"}
    seeds = found["seeds"]["explained"]
    assert seeds["values"][0] == ours["explained"]
    assert seeds["values"][0] != seeds["values"][1]
    assert seeds["mean"] == pytest.approx(sum(seeds["values"]) / 2)


def test_measure_as_a_table(place: Path, capfd: Any):
    code, out, err = _run(capfd, "measure", place / "a", place / "texts.txt", "--rows", 64, "--context", 32)
    assert code == 0
    assert "32 features (topk) of blocks.1.resid, zoo:lm" in out
    for said in ("explained", "(zero)", "(mean)", "dead", "dense", "identity"):
        assert said in out
    assert "-log p of the next token" in out  # a result: 2> /dev/null does not lose it
    assert "-log p" not in err
    told = " ".join(out.split())
    assert "dead features that never fire on the 93 tokens read: with more tokens there are fewer" in told
    assert "dense features that fire on more than 10 % of the tokens" in told
    assert "activation mean length" in told
    assert "size these lengths" in told


def test_split(place: Path, tmp_path: Path, capfd: Any):
    page = tmp_path / "split.html"
    words = ("--alike", "0.1", "--json", "--html", page)
    code, out, _ = _run(capfd, "split", place / "a", place / "wide", *words)
    assert code == 0
    found = json.loads(out)
    assert found["widths"] == [32, 64]
    assert len(found["steps"][0]["parent"]) == 64
    assert "<svg" in page.read_text()
    code, out, _ = _run(capfd, "split", place / "a", place / "wide")
    assert code == 0
    assert "with parent, random" in out


def test_compare(place: Path, capfd: Any):
    texts = (place / "texts.txt", "--context", "32")
    code, out, _ = _run(capfd, "compare", place / "a", place / "a", *texts, "--json", "--quiet")
    assert code == 0
    found = json.loads(out)
    medians = found["median of the best correlation"]
    assert medians["features"]["value"] == pytest.approx(1.0)
    assert medians["shuffled"]["value"] < 0.9
    assert found["about"]["neurons"] == ["blocks.1.neurons", "blocks.2.neurons"]
    code, out, err = _run(capfd, "compare", place / "a", place / "b", *texts)
    assert code == 0
    assert "shuffled" in out
    assert "blocks.2.neurons" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["measure", "{a}", "none.txt"], "no file none.txt"),
        (["measure", "{lost}", "{texts}"], "does not say where"),
        (["measure", "{a}", "{texts}", "--site", "blocks.9.mlp"], "no site 'blocks.9.mlp'"),
        (["measure", "{a}", "{texts}", "--site", "blocks.0.neurons"], "which has 768"),
        (["measure", "nowhere", "{texts}"], "nowhere"),
        (["split", "{a}"], "two autoencoders"),
        (["split", "{wide}", "{a}"], "widths must grow"),
        (["compare", "{a}", "{b}", "{texts}", "--neurons", "blocks.0.mlp"], "two sites"),
    ],
)
def test_mistakes_are_one_line(place: Path, capfd: Any, words: list[str], said: str):
    names = {name: place / name for name in ("a", "b", "wide", "lost")} | {"texts": place / "texts.txt"}
    code, out, err = _run(capfd, *(word.format(**names) for word in words))
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_labels_of_a_classifier(place: Path, capfd: Any):
    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config
    from heedful.models.sites.access import width

    d = width(heedful.load("zoo:sentiment"), "blocks.0.mlp")
    eye = torch.cat([torch.eye(d), -torch.eye(d)])
    config = Config("relu", d, 2 * d, source={"site": "blocks.0.mlp"})
    SAE(config, eye.T.contiguous(), torch.zeros(2 * d), eye, torch.zeros(d)).save(place / "whole")
    words = ("--model", "zoo:sentiment", "--label-column", "label", "--json", "--quiet")
    code, out, _ = _run(capfd, "measure", place / "whole", place / "texts.csv", *words)
    assert code == 0
    found = json.loads(out)
    assert found["about"]["loss of"] == "the label"
    assert found["figures"]["recovered (zero)"]["value"] == 1.0
