"""heedful steer on the command line."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import heedful
from heedful.cli.main import main
from heedful.features.reading.captions import facts_of
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.features.steering.directions import difference
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading

SITE, WIDTH, D = "blocks.2.resid", 32, 192
PROMPT = "The state of the union is"
SHORT = ["--max-new-tokens", "5", "--quiet"]


@pytest.fixture(scope="module")
def sae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = torch.Generator().manual_seed(0)
    shapes = ((D, WIDTH), (WIDTH,), (WIDTH, D), (D,))
    weights = (torch.randn(*shape, generator=draw) * 0.3 for shape in shapes)
    made = SAE(Config("relu", D, WIDTH, source={"site": SITE}), *weights)
    return made.save(tmp_path_factory.mktemp("steer") / "sae")


def lines(tmp_path: Path, name: str, *texts: str) -> str:
    path = tmp_path / name
    path.write_text("\n\n".join(texts) + "\n")
    return str(path)


def test_json_is_what_the_library_writes(
    sae: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = lines(tmp_path, "texts.txt", "We must act.", "The people are strong.")
    words = ["--feature", "3=2x", "--feature", "5=0", "--texts", texts, "--json"]
    assert main(["steer", PROMPT, "--sae", str(sae), *words, *SHORT]) == 0
    found = json.loads(capsys.readouterr().out)
    model, made = heedful.load("zoo:lm"), heedful.SAE.load(sae)
    maxima = ["We must act.", "The people are strong."]
    assert found["before"]["text"] == model.generate(PROMPT, max_new_tokens=5)
    with heedful.steer(model, made, {3: "2x", 5: 0}, maxima=maxima):
        assert found["after"]["text"] == model.generate(PROMPT, max_new_tokens=5)
    assert found["after"]["text"] != found["before"]["text"]
    assert found["size"] > 0


def test_side_by_side_and_a_page(sae: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html = tmp_path / "it.html"
    words = ["--feature", "3=1x own", "--positions", "last", "--html", str(html)]
    assert main(["steer", PROMPT, "--sae", str(sae), *words, *SHORT]) == 0
    said = capsys.readouterr().out
    assert said.startswith("The steer changed no token")
    assert any(line.split() == ["Before", "After"] for line in said.splitlines())
    assert ": before and after</title>" in html.read_text()


def test_a_sweep(sae: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = lines(tmp_path, "prompts.txt", "We must")
    towards, away = lines(tmp_path, "a.txt", "war and war"), lines(tmp_path, "b.txt", "peace", "the people")
    html = tmp_path / "it.html"
    words = ["--feature", "3=0", "--sweep", "0,20", "--prompts", prompts, "--html", str(html)]
    words += ["--towards", towards, "--away", away]
    assert main(["steer", PROMPT, "--sae", str(sae), *words, *SHORT, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["prompts"] == [PROMPT, "We must"]
    assert found["points"][0]["method"] == "unsteered"
    assert set(found["breaks"]) == {"feature 3", "difference of means", "random direction"}
    assert [p["strength"] for p in found["points"] if p["method"] == "feature 3"] == ["0", "20"]
    assert "how far can it be steered?" in html.read_text()
    assert main(["steer", PROMPT, "--sae", str(sae), "--feature", "3=0", "--sweep", "20", *SHORT]) == 0
    said = capsys.readouterr().out
    assert "random direction" in said
    assert "One prompt: no interval can be given." in said


def test_towards_and_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    towards, away = lines(tmp_path, "a.txt", "war and war"), lines(tmp_path, "b.txt", "peace", "the people")
    words = ["--towards", towards, "--away", away, "--site", SITE, "--strength", "4", "--json"]
    assert main(["steer", PROMPT, *words, *SHORT]) == 0
    found = json.loads(capsys.readouterr().out)
    model = heedful.load("zoo:lm")
    vector = difference(model, SITE, ["war and war"], ["peace", "the people"])
    with heedful.steer(model, vector, 4.0):
        assert found["after"]["text"] == model.generate(PROMPT, max_new_tokens=5)
    assert "with shuffled labels" in found["notes"][0]


def test_the_dictionary_of_the_zoo_is_the_default_and_its_features_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "it.html"
    texts = lines(tmp_path, "texts.txt", "The Commission was appointed.", "A commission of the Senate sat.")
    words = ["steer", PROMPT, "--feature", "268=1x", "--texts", texts, "--max-new-tokens", "3"]
    assert main([*words, "--html", str(html), "--json"]) == 0
    shown = capsys.readouterr()
    assert "the SAE that comes with zoo:lm" in shown.err
    found = json.loads(shown.out)
    model, sae = heedful.load("zoo:lm"), heedful.SAE.load("zoo:lm")
    strongest = max(
        (
            (float(value), token)
            for text in ("The Commission was appointed.", "A commission of the Senate sat.")
            for value, token in zip(*_activations(model, sae, text), strict=True)
        ),
    )
    assert found["settings"]["fires on"]["268"].startswith(f"“{strongest[1].replace(' ', '␣')}”")
    assert found["notes"][0].startswith("Feature 268 fires most on: “")
    assert found["settings"]["dictionary"]["name"] == "zoo:lm"
    page = html.read_text(encoding="utf-8")
    assert "{'268'" not in page
    assert "<dt>feature 268</dt><dd>set to 1x</dd>" in page
    assert f"<dd>{found['settings']['dictionary']['fingerprint']}</dd>" in page
    assert f"<dd>{model.facts()['fingerprint']}</dd>" in page
    assert shlex.split(found["settings"]["command"]) == [
        "heedful",
        *words[:2],
        "--model",
        "zoo:lm",
        "--feature",
        "268=1x",
        "--texts",
        texts,
        "--max-new-tokens",
        "3",
    ]
    assert "<pre dir=" in page
    assert "--feature 268=1x" in page


def _activations(model: Any, sae: SAE, text: str) -> tuple[Any, list[str]]:
    """Feature 268 on each token of a text by itself, by another road: one forward of the whole model."""
    x = model.encode(text)
    with reading(model, [SITE]) as seen, torch.inference_mode():
        model.backend.forward(Inputs(torch.tensor([x.ids]), torch.ones(1, len(x), dtype=torch.long)))
    values = sae.encode(seen[SITE][0])[:, 268]
    kept = [i for i, special in enumerate(x.special) if not special]
    return values[kept], [model.tokenizer.decode([x.ids[i]]) for i in kept]


def test_another_dictionary_has_another_fingerprint(sae: Path) -> None:
    one = heedful.SAE.load(sae)
    other = replace(one, b_dec=one.b_dec + 1)
    assert facts_of(one, "a")["fingerprint"] == facts_of(heedful.SAE.load(sae), "b")["fingerprint"]
    assert facts_of(one, "a")["fingerprint"] != facts_of(other, "a")["fingerprint"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Give --sae zoo:lm --feature"),
        (["--sae", "SAE"], "which feature"),
        (["--sae", "SAE", "--feature", "strong"], "--feature strong is not understood"),
        (["--sae", "SAE", "--feature", "99=1"], "there is no feature 99"),
        (["--sae", "SAE", "--feature", "3=5x"], "the maximum of feature 3 is not known"),
        (["--sae", "SAE", "--feature", "3=-4x"], "cannot be set"),
        (["--sae", "SAE", "--feature", "3=1", "--positions", "first"], "--positions first"),
        (["--sae", "SAE", "--feature", "3=1", "--site", "blocks.9.mlp"], "no site"),
        (["--sae", "SAE", "--feature", "3=1", "--model", "zoo:sentiment"], "cannot write text"),
        (["--sae", "none", "--feature", "3=1"], "none"),
        (["--feature", "3=1", "--model", "zoo:sentiment", "--towards", "a", "--away", "b"], "needs an SAE"),
        (["--towards", "a"], "go together"),
        (["--towards", "a", "--away", "b"], "not known where"),
        (["--sae", "SAE", "--feature", "3=1", "--texts", "no.txt"], "cannot read no.txt"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], said: str, sae: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(sae) if word == "SAE" else word for word in words]
    assert main(["steer", PROMPT, *given, *SHORT]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
