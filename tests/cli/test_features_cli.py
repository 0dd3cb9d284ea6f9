"""`heedful features harvest` and `sites`: results on stdout, mistakes in one line with exit code 2."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from heedful.cli.main import main
from heedful.features.activations.store import ActivationStore


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("The state of the union is strong.\nWe are here to work.\n" * 20)
    return path


def test_harvest_writes_a_store_and_says_so(texts: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "acts"
    words = [
        "features",
        "harvest",
        str(texts),
        "--model",
        "zoo:lm",
        "--site",
        "blocks.2.resid",
        "--out",
        str(out),
    ]
    assert main([*words, "--rows", "150", "--context", "32", "--dtype", "float16"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"150 activations of blocks.2.resid in {out}: (192,) float16")
    acts = ActivationStore.load(out)
    assert (acts.rows, acts.d, acts.facts.settings["context"]) == (150, 192, 32)
    assert main([*words, "--rows", "150", "--context", "32", "--dtype", "float16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 150
    assert found["shards"] == [asdict(shard) for shard in acts.facts.shards]
    assert main([*words, "--rows", "150", "--context", "16"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("heedful: ")
    assert "was made differently" in told.err
    assert told.err.count("\n") == 1
    assert not told.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["harvest", "none.txt", "--site", "embed", "--out", "acts"], "no file none.txt"),
        (["harvest", "{texts}", "--site", "blocks.9.resid", "--out", "acts"], "has no site 'blocks.9.resid'"),
        (["harvest", "{texts}", "--site", "embed", "--dtype", "int8"], "int8"),
        (["harvest", "{texts}"], "--site"),
        (["harvest", "{texts}", "--site", "embed"], "--out"),
        (["sites", "zoo:nothing"], "the zoo has no model"),
        (["sites", "zoo:one-layer"], "no stacks of layers"),
    ],
)
def test_mistakes_are_one_line(
    texts: Path, tmp_path: Path, capsys: Any, monkeypatch: Any, words: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["features", *(word.format(texts=texts) for word in words)]) == 2
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.startswith("heedful: ")
    assert said.err.count("\n") == 1
    assert not (tmp_path / "acts").exists()


def test_sites_are_listed_with_their_widths(capsys: Any) -> None:
    assert main(["features", "sites", "zoo:lm"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["blocks.1.mlp", "192", "transformer.h.1.mlp"] in lines
    assert ["blocks.1.neurons", "768", "into", "transformer.h.1.mlp.c_proj"] in lines
    assert main(["features", "sites", "zoo:sentiment", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    places = {place["site"]: place for place in found["sites"]}
    assert places["blocks.0.attn"]["module"].endswith("attention.output.dense")
    assert places["blocks.0.attn"]["normed"]
    assert found["missing"] == {}
