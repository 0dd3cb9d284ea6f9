"""The engine ray: the bytes of `local`, also when a worker dies; silent, and gone when it is done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from heedful import HeedfulError
from heedful.audits.run_folder import RunFolder
from heedful.audits.settings import Settings
from heedful.audits.shard import Shard
from heedful.engine import ray as engine
from heedful.io.datasets import Row

SCRIPT = Path(__file__).with_name("ray_audit.py")
SETTINGS = Settings(("occlusion",), ("aopc",), ("delete",))
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not installed: pip install 'heedful[ray]'"
)


@pytest.mark.slow  # a cluster takes half a minute to start, work and end
@needs_ray
def test_a_killed_worker_changes_no_byte(tmp_path: Path) -> None:
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)],
        capture_output=True,
        text=True,
        env=quiet,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["died"], "a worker must really have been killed"
    assert found["same"], found["differ"]
    assert str(found["driver"]) in found["workers"] or len(found["workers"]) >= 2
    assert len(set(found["workers"]) - {str(found["driver"])}) <= 3, "two, and one in place of the dead"
    assert not found["left running"]
    told = [line for line in done.stderr.splitlines() if line.strip()]
    assert all("raylet" in line or "worker" in line.lower() for line in told), "it tells of the death alone"


def test_a_wrong_address_is_told_at_once(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'heedful[ray]'")
    shards, cluster = [Shard(0, (Row(0, "a"),))], engine.Cluster("127.0.0.1:1")
    with pytest.raises(HeedfulError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        engine.run(len, {}, shards, SETTINGS, RunFolder(tmp_path), lambda rows: None, cluster)


def test_shards_that_are_done_need_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_connected", lambda cluster: pytest.fail("a cluster was started"))
    engine.run(None, {}, [], SETTINGS, RunFolder(tmp_path), lambda rows: None, engine.Cluster())


def test_without_ray_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    shards = [Shard(0, (Row(0, "a"),))]
    with pytest.raises(HeedfulError, match=r"heedful\[ray\]"):
        engine.run(len, {}, shards, SETTINGS, RunFolder(tmp_path), lambda rows: None, engine.Cluster())


def test_waves_hold_no_more_than_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is read as waves are worked off, and each shard is written once."""
    from contextlib import nullcontext

    read: list[int] = []
    waves: list[tuple[int, int]] = []

    def shards() -> Any:
        for number in range(40):
            read.append(number)
            yield Shard(number, (Row(number, "a"),))

    def work(wave: list[Shard], given: dict[str, Any], workers: int) -> Any:
        waves.append((len(wave), len(read)))
        return [(shard.number, 1, {"shard.json": b"{}"}) for shard in wave]

    monkeypatch.setattr(engine, "WAVE", 10)
    monkeypatch.setattr(engine, "_connected", lambda cluster: nullcontext(2))
    monkeypatch.setattr(engine, "_work", work)
    folder, told = RunFolder(tmp_path), []
    folder.shards.mkdir()
    engine.run(len, {}, shards(), SETTINGS, folder, told.append, engine.Cluster())
    assert waves == [(16, 16), (16, 32), (8, 40)]
    assert folder.numbers() == list(range(40))
    assert sum(told) == 40


def test_a_worker_with_another_model_refuses() -> None:
    def score(texts: list[str]) -> list[float]:
        return [0.0 for _ in texts]

    facts = {"name": "score", "labels": ["score 0"]}
    assert engine.Worker(score, facts, SETTINGS).model.labels == ("score 0",)
    with pytest.raises(HeedfulError, match="they differ in labels"):
        engine.Worker(score, facts | {"labels": ["other"]}, SETTINGS)
