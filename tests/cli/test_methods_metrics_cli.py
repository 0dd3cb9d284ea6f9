"""heedful methods, heedful metrics: every registered name, with its facts, and nothing cut."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

import pytest

import heedful
from heedful.cli.main import main
from heedful.core import registry
from heedful.core.attribution import Attribution


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints at 80 columns: no line is wider, none is cut."""
    assert main(list(words)) == 0
    out: str = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    return " ".join(out.split())


def test_every_method_is_listed_with_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "methods")
    for entry in registry.explainers().values():
        assert f"{entry.name} {entry.summary}" in out
        assert entry.cite in out
    assert "21 inputs · needs values · signed · Zeiler & Fergus 2014" in out
    assert "1 input · needs attentions · unsigned · Vaswani et al. 2017" in out
    assert "50 to 256 inputs · needs values · signed · sampled · Ribeiro" in out


def test_every_metric_is_listed_with_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "metrics")
    for entry in registry.metrics().values():
        better = "higher is better" if entry.better == "high" else "lower is better"
        family = f"family {entry.family}" if entry.family else "not in the verdict"
        assert f"{entry.name} {entry.summary} {better} · {family}" in out
        assert entry.cite in out


def test_the_documents_are_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--json"]) == 0
    methods = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(methods) == list(registry.explainers())
    assert methods["lime"]["params"]["samples"] is None
    assert methods["occlusion"]["model_inputs"] == {"words": 20, "least": 21, "most": 21}
    assert methods["anchors"]["expensive"]
    assert methods["random"]["sampled"]
    assert main(["metrics", "--json"]) == 0
    metrics = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(metrics) == list(registry.metrics())
    assert (metrics["sufficiency"]["family"], metrics["sufficiency"]["better"]) == ("keep-top", "low")
    assert metrics["plausibility"]["rationales"]


def test_costs_are_those_of_a_text_of_that_length(capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty words, explained: what the table says is what is run."""
    assert main(["methods", "--json"]) == 0
    said = {each["name"]: each["model_inputs"] for each in json.loads(capsys.readouterr().out)}
    model = heedful.load("zoo:one-layer")
    names = ["occlusion", "lime", "grad-l2", "smoothgrad", "integrated-gradients", "random"]
    comparison = heedful.explain(model, "good " * 19 + "bad", names, seed=1)
    for name in names:
        assert said[name]["least"] <= comparison[name].cost.forwards <= said[name]["most"], name


@pytest.mark.parametrize("name", ["lime", "attention-avg", "random"])
def test_one_method_in_full(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, entry = printed(capsys, "methods", name), registry.get(name)
    for part in (entry.summary, entry.limitations, entry.cite, *(f"{p}: default" for p in entry.params)):
        assert part in out
    assert main(["methods", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == name


@pytest.mark.parametrize("name", ["comprehensiveness", "plausibility", "sanity"])
def test_one_metric_in_full(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, entry = printed(capsys, "metrics", name), registry.get_metric(name)
    for part in (entry.summary, entry.limitations, entry.cite):
        assert part in out
    assert main(["metrics", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["family"] == entry.family


@pytest.mark.parametrize(("command", "word"), [("methods", "limes"), ("metrics", "aopcs")])
def test_an_unknown_name_gets_a_suggestion(
    command: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, word]) == 2
    assert f"Did you mean {word[:-1]!r}?" in capsys.readouterr().err


@pytest.fixture
def plugin() -> Iterator[str]:
    @registry.explainer("all-alike", needs=set(), cite="nobody")
    def alike(q: object) -> Attribution:
        """Every word gets the same score."""
        raise NotImplementedError

    assert inspect.getdoc(alike)
    yield "all-alike"
    registry.forget("all-alike")


def test_what_is_registered_later_is_listed(plugin: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{plugin} Every word gets the same score." in printed(capsys, "methods")
