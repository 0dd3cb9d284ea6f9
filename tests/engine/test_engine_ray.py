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

import heedful
from heedful import HeedfulError
from heedful.engine import ray as engine

SCRIPT = Path(__file__).with_name("ray_audit.py")
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


@pytest.mark.slow  # clusters take a minute to start, work and end
@needs_ray
@pytest.mark.parametrize("case", ["harvest", "node"])
def test_a_lost_worker_or_node_changes_no_byte(tmp_path: Path, case: str) -> None:
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    words = [sys.executable, str(SCRIPT.with_name("ray_losses.py")), str(tmp_path), case]
    done = subprocess.run(words, capture_output=True, text=True, env=quiet, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"] == 1, "one must really have been killed"
    assert found["same"], found["differ"]
    assert found["files"] >= 3


QUIET = {
    "audit": "audit {texts} --model zoo:one-layer --method occlusion,grad-l2 --metric aopc",
    "harvest": "features harvest {texts} --model zoo:lm --site blocks.1.resid --context 32",
}


@pytest.mark.slow
@needs_ray
@pytest.mark.parametrize("name", QUIET)
def test_quiet_means_silent(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text\ngood and kind\nbad and dull\nnot bad\nslow but good\n" * 5)
    words = [*QUIET[name].format(texts="t.csv").split(), "-q", "--engine", "ray", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "heedful", *words, "--out", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def work(model: Any, item: Any) -> Any:
    return item


def test_a_wrong_address_is_told_at_once() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'heedful[ray]'")
    with pytest.raises(HeedfulError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        list(engine.results(work, len, {}, ["a"], engine.Cluster("127.0.0.1:1")))


@pytest.mark.parametrize("port", ["65536", "1" + "0" * 25, "9" * 5000, "²", "٣"])
def test_a_port_that_is_none_is_told(port: str) -> None:
    with pytest.raises(HeedfulError, match="a port is a number up to 65535"):
        engine._check_address(f"127.0.0.1:{port}")


@pytest.mark.parametrize("host", ["a" * 5000, "a..b", "a\0b", "ray://" + "ü" * 100])
def test_a_machine_whose_name_is_none_is_told(host: str) -> None:
    with pytest.raises(HeedfulError, match="there is no Ray cluster at"):
        engine._check_address(f"{host}:6379")


def test_no_items_need_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_connected", lambda cluster: pytest.fail("a cluster was started"))
    assert list(engine.results(work, None, {}, [], engine.Cluster())) == []


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(HeedfulError, match=r"heedful\[ray\]"):
        list(engine.results(work, len, {}, ["a"], engine.Cluster()))


def test_waves_hold_no_more_than_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items are read as waves are worked off, and each result comes once."""
    from contextlib import nullcontext

    read: list[int] = []
    waves: list[tuple[int, int]] = []

    def items() -> Any:
        for number in range(40):
            read.append(number)
            yield number

    def wave(items: list[int], given: dict[str, Any], workers: int) -> Any:
        waves.append((len(items), len(read)))
        return [-item for item in items]

    monkeypatch.setattr(engine, "WAVE", 10)
    monkeypatch.setattr(engine, "_connected", lambda cluster: nullcontext(2))
    monkeypatch.setattr(engine, "_wave", wave)
    assert list(engine.results(work, len, {}, items(), engine.Cluster())) == [-n for n in range(40)]
    assert waves == [(16, 16), (16, 32), (8, 40)]


def test_an_audit_puts_what_workers_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of the local engine, whatever the order in which shards come back."""

    def results(weigh: Any, source: Any, facts: Any, shards: Any, cluster: Any) -> Any:
        model = heedful.load(source)
        return reversed([weigh(model, shard) for shard in shards])

    texts = ["good and kind", "bad and dull", "not bad", "slow but good"]
    given: dict[str, Any] = {"methods": ["occlusion"], "metrics": ["aopc"], "shard": 2}
    heedful.audit("zoo:one-layer", texts, out=tmp_path / "local", **given)
    monkeypatch.setattr(engine, "results", results)
    heedful.audit("zoo:one-layer", texts, out=tmp_path / "ray", engine="ray", **given)
    one, other = (sorted((tmp_path / name / "shards").rglob("*.parquet")) for name in ("local", "ray"))
    assert len(one) >= 2
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in other]


def test_a_worker_with_another_model_refuses() -> None:
    def score(texts: list[str]) -> list[float]:
        return [0.0 for _ in texts]

    facts = {"name": "score", "labels": ["score 0"]}
    assert engine.Worker(score, facts, work).model.labels == ("score 0",)
    with pytest.raises(HeedfulError, match="they differ in labels"):
        engine.Worker(score, facts | {"labels": ["other"]}, work)
