"""Seeds of the labs: drawn from the sources, run once, counted; a lab that fails or stops is counted, too."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from heedful.labs import labs

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "run_lab_seeds.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("run_lab_seeds", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def ended(script: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Exit code of the script, called with these words."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    with pytest.raises(SystemExit) as end:
        script.main()
    return int(end.value.code or 0)


def test_runs_what_is_missing_and_nothing_twice(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, name = tmp_path / "seeds.csv", "attention-by-hand"
    source = script.source_of(labs()[name].module)
    here = ("--lab", name, "--seeds", "1", "--file", str(file))
    assert ended(script, monkeypatch, *here) == 0
    rows = script.read(file)
    assert {(row.lab, row.source, row.seed) for row in rows} == {(name, source, script.drawn(source, 1)[0])}
    assert all(row.held and row.claim and row.seconds > 0 for row in rows)
    before = file.read_bytes()
    assert ended(script, monkeypatch, *here) == 0
    assert file.read_bytes() == before, "nothing was run twice"
    assert f"0 of {len(rows)} claims failed" in capsys.readouterr().out


def test_sources_are_the_lab_and_what_it_imports_from_labs(script: Any) -> None:
    needed = script._needed("heedful.labs.superposition")
    assert needed == {
        "heedful.labs.superposition",
        "heedful.labs.means",
        "heedful.labs.one_neuron",
    }
    assert "heedful.labs.misprints_lime" in script._needed("heedful.labs.errata")


def test_other_sources_draw_other_seeds(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "heedful.labs.sensitivity"
    real, old = script._path, script.source_of(module)
    changed = tmp_path / "sensitivity.py"
    changed.write_bytes(real(module).read_bytes() + b"\n# one more line\n")
    monkeypatch.setattr(script, "_path", lambda name: changed if name == module else real(name))
    script.source_of.cache_clear()
    new = script.source_of(module)
    script.source_of.cache_clear()
    assert new != old
    assert script.drawn(new, 20) != script.drawn(old, 20)
    assert script.drawn(old, 20)[:3] == script.drawn(old, 3), "more seeds go on from the first"


def test_count_of_failures_and_of_earlier_sources(script: Any) -> None:
    now = script.source_of("heedful.labs.bpe")
    rows = [
        script.Row("bpe", now, seed, f"claim {c}", (seed, c) != (4, 1), 1.0)
        for seed in (3, 4)
        for c in (0, 1)
    ]
    early = [script.Row("bpe", "0" * 12, 3, "claim 0", False, 1.0)]
    count = script.count_of(script.current([*early, *rows]))
    assert (count.runs, count.claims, count.failed, count.share) == (2, 4, 1, 0.25)
    low, high = count.interval
    assert low < 0.25 < high
    text = script.told([*early, *rows])
    assert "1 of 4 claims failed (25.00 %" in text
    assert "1 of 1 failed" in text


def test_a_claim_that_fails_is_written_down_and_is_the_exit_code(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "seeds.csv"
    source = script.source_of(labs()["bpe"].module)
    script.append(
        [script.Row("bpe", source, seed, "It holds, always", seed != 7, 1.0) for seed in (7, 8)], file
    )
    with file.open(newline="", encoding="utf-8") as lines:
        assert [row["held"] for row in csv.DictReader(lines)] == ["False", "True"]
    assert ended(script, monkeypatch, "--count", "--file", str(file)) == 1


def test_a_lab_that_stops_is_a_failed_claim(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(name: str, *, fast: bool, seed: int) -> None:
        raise ValueError("no such word")

    monkeypatch.setattr(script, "run_lab", stop)
    script.work("bpe", [5])
    seed, claims, seconds = json.loads(capsys.readouterr().out)
    assert (seed, claims) == (5, [["the run stopped: ValueError: no such word", False]])
    assert seconds >= 0


def test_the_list_of_labs_says_what_the_file_says(script: Any) -> None:
    """docs/labs/index.md is written from docs/labs/seeds.csv."""
    page = " ".join((ROOT / "docs" / "labs" / "index.md").read_text("utf-8").split())
    found = re.search(r"(\d+) runs of \d+ labs.*?: (\d+) of ([\d,]+) claims failed", page)
    assert found is not None
    runs, failed, claims = (int(each.replace(",", "")) for each in found.groups())
    rows = script.read()
    per_run = {(row.lab, row.source, row.seed) for row in rows}
    assert runs <= len(per_run)
    assert failed <= sum(not row.held for row in rows)
    assert claims <= len(rows)
    assert failed <= script.MOST * claims
