"""Seeds of the labs: drawn from the sources, run once, counted; a lab that fails or stops is counted, too."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heedful.labs import labs

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "run_lab_seeds.py"


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up, and write_labs imports run_lab_seeds
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> Any:
    return loaded(SCRIPT)


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


def test_code_of_a_lab_is_all_it_imports(script: Any) -> None:
    """Against what Python itself has imported after the lab was run in a new process."""
    name = "lime-theorem"
    code = (
        "import sys; from heedful.labs.base.registry import _work; _work(sys.argv[1])\n"
        "import heedful; heedful.load('zoo:one-layer')\n"
        "print(*(m for m in sys.modules if m.startswith('heedful.')))"
    )
    ended = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True)
    needed = script.needed(labs()[name].module)
    assert not set(ended.stdout.split()) - needed
    assert {"heedful.stats.lime_limit", "heedful.nn.one_layer", "heedful.models"} <= needed


@pytest.mark.parametrize(
    ("lab", "changed"),
    [
        ("sensitivity", "heedful.labs.sensitivity"),
        ("lime-theorem", "heedful.explainers.lime"),  # by the registry
        ("lime-theorem", "heedful.stats.ratio_game"),
        ("monosemanticity", "heedful.features.sae.architectures.topk"),  # by its kind
        ("errata", "heedful.labs.errata_checks.lime_formulas"),
        ("bpe", "heedful.labs.base.registry"),
    ],
)
def test_other_code_draws_other_seeds(
    script: Any, lab: str, changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, real = labs()[lab].module, script._path
    old = script.source_of(module)
    copy = tmp_path / real(changed).name
    copy.write_bytes(real(changed).read_bytes() + b"\n# one more line\n")
    monkeypatch.setattr(script, "_path", lambda name: copy if name == changed else real(name))
    script.source_of.cache_clear()
    new = script.source_of(module)
    script.source_of.cache_clear()
    assert new != old
    assert script.drawn(new, 20) != script.drawn(old, 20)
    assert script.drawn(old, 20)[:3] == script.drawn(old, 3), "more seeds go on from the first"


def test_code_of_another_lab_does_not_count(script: Any) -> None:
    needed = script.needed("heedful.labs.superposition")
    assert "heedful.labs.models.one_neuron" in needed
    assert not needed & {each.module for each in labs().values()} - {"heedful.labs.superposition"}
    assert "heedful.server.app" not in needed


def test_every_lab_has_its_first_seed_before_any_has_its_second(script: Any, tmp_path: Path) -> None:
    file = tmp_path / "seeds.csv"
    wanted = script.missing(labs(), 3, file)
    assert len(wanted) == 3 * len(labs())
    for k in range(3):
        turn = wanted[k * len(labs()) : (k + 1) * len(labs())]
        assert {(name, seed) for name, _, seed in turn} == {
            (name, script.drawn(script.sources()[name], 3)[k]) for name in labs()
        }
        minutes = [labs()[name].minutes for name, _, _ in turn]
        assert minutes == sorted(minutes), "the shortest first"
    name, source, seed = wanted[0]
    script.append([script.Row(name, source, seed, "claim", True, 1.0)], file)
    assert script.missing(labs(), 3, file) == wanted[1:]


def test_a_process_that_dies_is_a_failed_claim_and_the_run_goes_on(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file, source = tmp_path / "seeds.csv", script.sources()["bpe"]
    wanted = [("no-such-lab", "0" * 12, 5), ("bpe", source, 6)]
    monkeypatch.setattr(script, "missing", lambda *_: wanted)
    script.run([], 1, file, workers=1)
    rows = script.read(file)
    assert (rows[0].lab, rows[0].seed, rows[0].claim) == ("no-such-lab", 5, "the run stopped: exit code 1")
    assert not rows[0].held
    assert {(row.lab, row.source, row.seed, row.held) for row in rows[1:]} == {("bpe", source, 6, True)}
    assert "failed: the run stopped" in capfd.readouterr().out


def test_too_few_seeds_are_the_exit_code(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, source = tmp_path / "seeds.csv", script.sources()["bpe"]
    count = ("--count", "--file", str(file))
    assert ended(script, monkeypatch, *count) == 1, "nothing was run"
    seeds = script.drawn(source, 2)
    script.append([script.Row("bpe", source, seed, "claim", True, 1.0) for seed in seeds], file)
    assert ended(script, monkeypatch, *count, "--lab", "bpe", "--seeds", "2") == 0
    assert ended(script, monkeypatch, *count, "--lab", "bpe", "--seeds", "3") == 1
    capsys.readouterr()
    assert ended(script, monkeypatch, *count, "--seeds", "2") == 1, "one lab of all"
    assert f"{2 * len(labs()) - 2} runs are missing" in capsys.readouterr().out


def test_count_of_failures_and_of_earlier_sources(script: Any) -> None:
    now = script.source_of("heedful.labs.bpe")
    rows = [
        script.Row("bpe", now, seed, f"claim {c}", (seed, c) != (4, 1), 1.0)
        for seed in (3, 4)
        for c in (0, 1)
    ]
    early = [script.Row("bpe", "0" * 12, 3, "claim 0", False, 1.0)]
    count = script.count_of(script.current([*early, *rows], {"bpe": now}))
    assert (count.runs, count.claims, count.failed, count.share) == (2, 4, 1, 0.25)
    low, high = count.interval
    assert low < 0.25 < high
    text = script.told([*early, *rows], {"bpe": now, "dyck": "1" * 12})
    assert "2 runs of 1 of 2 labs, 0 to 2 seeds per lab: 1 of 4 claims failed (25.00 %" in text
    assert "older code included: 2 of 5 claims failed, in 3 runs." in text
    assert script.told(early, {"bpe": now}).startswith("No seeds were run for this code.")


def test_a_claim_that_fails_is_written_down_and_is_the_exit_code(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "seeds.csv"
    source = script.source_of(labs()["bpe"].module)
    seeds = script.drawn(source, 2)
    script.append(
        [script.Row("bpe", source, seed, "It holds, always", k > 0, 1.0) for k, seed in enumerate(seeds)],
        file,
    )
    with file.open(newline="", encoding="utf-8") as lines:
        assert [row["held"] for row in csv.DictReader(lines)] == ["False", "True"]
    here = ("--count", "--lab", "bpe", "--seeds", "2", "--file", str(file))
    assert ended(script, monkeypatch, *here) == 1


def test_a_lab_that_stops_is_a_failed_claim(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(name: str, *, fast: bool, seed: int) -> None:
        raise ValueError("no such word")

    monkeypatch.setattr(script, "run_lab", stop)
    script.work("bpe", 5)
    source, claims, seconds = json.loads(capsys.readouterr().out)
    assert source == script.sources()["bpe"]
    assert claims == [["the run stopped: ValueError: no such word", False]]
    assert seconds >= 0


def test_the_list_of_labs_says_what_the_file_says(script: Any) -> None:
    """docs/labs/index.md is written from docs/labs/seeds.csv: python docs/write_labs.py --list.

    Its counts are of the code that it names beside each lab, which may be older than the code here.
    """
    page = (ROOT / "docs" / "labs" / "index.md").read_text("utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith(("| [`", "| `"))]
    codes = {cells[0].split("`")[1]: cells[-1].strip("` |") for cells in rows}
    assert codes.keys() == labs().keys()
    assert all(re.fullmatch(r"[0-9a-f]{12}", code) for code in codes.values())
    writer = loaded(ROOT / "docs" / "write_labs.py")
    assert page == writer.listed(codes)
