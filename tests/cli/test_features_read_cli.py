"""heedful features page and heedful features interpret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful.cli.main import main
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config

SAID = (
    "The people of the United States have a government of laws. We ask the Congress to act on the budget. "
    "Our nation is strong, and the state of the Union is strong. In 1941 the nations were at war. "
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("read")
    generator = torch.Generator().manual_seed(0)
    enc = torch.randn(192, 12, generator=generator) / 192**0.5
    dec = torch.nn.functional.normalize(torch.randn(12, 192, generator=generator), dim=1)
    config = Config("relu", 192, 12, source={"site": "blocks.0.resid", "name": "zoo:lm"})
    SAE(config, enc, torch.full((12,), -0.3), dec, torch.zeros(192)).save(folder / "sae")
    (folder / "texts.txt").write_text(SAID * 12, encoding="utf-8")
    return str(folder / "sae"), str(folder / "texts.txt")


Cap = pytest.CaptureFixture[str]


def test_a_page(files: tuple[str, str], tmp_path: Path, capfd: Cap):
    page = tmp_path / "p.html"
    asked = [
        "features",
        "page",
        *files,
        "--feature",
        "3,5",
        "--text",
        "the <b>Union</b>",
        "--html",
        str(page),
    ]
    assert main([*asked, "--examples", "3", "--quantiles", "3"]) == 0
    out, err = capfd.readouterr()
    assert "said to fire on" in out
    assert "on shuffled activations" in out
    assert "2 features" in err
    text = page.read_text(encoding="utf-8")
    assert 'id="feature-3"' in text
    assert 'id="feature-5"' in text
    assert "&lt;b&gt;" in text
    assert "Your own text" in text


def test_a_page_by_rule_as_json(files: tuple[str, str], tmp_path: Path, capfd: Cap):
    asked = ["features", "page", *files, "--choose", "most-active:2", "--html", str(tmp_path / "p.html")]
    assert main([*asked, "--rows", "300", "--json", "--quiet"]) == 0
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["chosen"] == "most-active:2"
    assert found["settings"]["tokens"] == 300
    rates = [f["rate"] for f in found["features"]]
    assert len(rates) == 2
    assert rates[0] >= rates[1] > 0


def test_interpretations(files: tuple[str, str], capfd: Cap):
    assert main(["features", "interpret", *files, "--features", "3", "--json", "--quiet"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert len(found["features"]) == 3
    assert set(found["means"]) == {"explanations", "shuffled", "permuted"}
    assert found["cost"] is None


def test_nothing_is_sent_without_being_asked(
    files: tuple[str, str], capfd: Cap, monkeypatch: pytest.MonkeyPatch
):
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("something was sent")

    monkeypatch.setenv("HEEDFUL_LLM_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("urllib.request.OpenerDirector.open", never)
    assert main(["features", "interpret", *files, "--features", "2", "--quiet"]) == 0
    asked = [
        "features",
        "interpret",
        *files,
        "--features",
        "2",
        "--llm",
        "--llm-model",
        "m",
        "--dry-run",
        "-q",
    ]
    assert main(asked) == 0
    out = capfd.readouterr().out
    assert "Nothing was sent" in out
    assert "double braces" in out
    assert "numbered tokens" in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--feature", "12"], "numbered 0 to 11"),
        (["--feature", "three"], "is not a feature"),
        (["--site", "blocks.9.resid"], "has no site"),
        (["--llm"], "--llm-model NAME"),
        (["--dry-run"], "are for --llm"),
        (["--llm", "--llm-model", "m"], "HEEDFUL_LLM_URL is not set"),
    ],
)
def test_mistakes_are_told_in_a_line(
    files: tuple[str, str], more: list[str], said: str, capfd: Cap, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("HEEDFUL_LLM_URL", raising=False)
    assert main(["features", "interpret", *files, "--rows", "50", "--quiet", *more]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_files_that_are_not_there(files: tuple[str, str], tmp_path: Path, capfd: Cap):
    page = ["--html", str(tmp_path / "p.html")]
    assert main(["features", "page", files[0], str(tmp_path / "no.txt"), *page]) == 2
    assert main(["features", "page", str(tmp_path / "no"), files[1], *page]) == 2
    assert main(["features", "page", *files, "--choose", "best", *page, "-q"]) == 2
    assert len(capfd.readouterr().err.strip().splitlines()) == 3
