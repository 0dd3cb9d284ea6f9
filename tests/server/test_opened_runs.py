"""Runs and audits that take long to read: each is read once, by one thread, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from tests.server.serving import listening

import heedful
from heedful.core.advice import Advice
from heedful.core.lab_report import Claim, LabReport
from heedful.io.run_folder import MOST_BYTES
from heedful.server import app, audit_advice, opened_runs, run_memory
from heedful.server.model_pool import ModelPool
from heedful.server.model_thread import Busy
from heedful.server.opened_runs import MAX_VIEWS, MAX_WAITING_PER_PEER, OpenedRun, OpenedRuns
from heedful.server.run_list import RunPlace, Runs
from heedful.server.state import ServerState

LAB = LabReport("a-lab", "A lab", "Somebody 2020", (Claim("It holds.", 1.0, True),))


class Slow:
    """Stands before a function that reads a run: counts its calls, and waits until it may go on."""

    def __init__(self, work: Any) -> None:
        self.work, self.go, self.began = work, threading.Event(), threading.Event()
        self.calls, self.together, self.most_together = 0, 0, 0

    def __call__(self, *given: Any, **more: Any) -> Any:
        self.calls += 1
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        self.began.set()
        assert self.go.wait(60)
        self.together -= 1
        return self.work(*given, **more)


@contextmanager
def page(root: Path, models: ModelPool | None = None) -> Iterator[str]:
    state = ServerState(models or ModelPool(), Runs(root))
    with listening(state, app.ServerConfig(runs=root)) as address:
        yield address
    state.shut_down(5)


def place_of(name: str, kind: str = "audit", stamp: int = 1) -> RunPlace:
    return RunPlace(name, Path(name), name, kind, "", 0.0, (stamp, 0, 0))


# --- runs ------------------------------------------------------------------------------------------


def test_many_requests_for_a_slow_run_stall_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the pool of threads has; it is opened once, for the page and for the report."""
    LAB.save(tmp_path / "lab")
    slow = Slow(opened_runs.view_run)
    monkeypatch.setattr(opened_runs, "view_run", slow)
    with page(tmp_path) as address, ThreadPoolExecutor(60) as pool:
        (run,) = httpx.get(f"{address}/api/runs").json()["runs"]
        places = [f"{address}/api/runs/{run['id']}", f"{address}/api/runs/{run['id']}/report"] * 30
        try:
            asked = [pool.submit(httpx.get, place, timeout=60) for place in places]
            assert slow.began.wait(20)
            time.sleep(1)
            assert httpx.get(f"{address}/api/here", timeout=5).status_code == 200
            assert httpx.get(f"{address}/api/runs", timeout=5).status_code == 200
        finally:
            slow.go.set()
        codes = {one.result().status_code for one in asked}
        assert codes <= {200, 429}
        assert 200 in codes
        assert slow.calls == 1
        assert httpx.get(places[0]).json()["kind"] == "lab"
        assert httpx.get(places[1]).text.startswith("<!DOCTYPE html>")
        assert slow.calls == 1
        LAB.save(tmp_path / "lab")  # written anew: opened anew
        assert httpx.get(places[0]).json()["kind"] == "lab"
        assert slow.calls == 2


def test_one_peer_does_not_take_the_whole_queue_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(lambda place: OpenedRun(b"", place.name.encode()))
    monkeypatch.setattr(opened_runs, "opened", slow)
    runs = OpenedRuns()

    async def never() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def ask(peer: str, number: int) -> OpenedRun:
        return await runs.get(Request({"type": "http", "client": (peer, 1)}, never), place_of(f"{number}"))

    async def attack() -> list[OpenedRun]:
        greedy = [asyncio.create_task(ask("10.0.0.1", n)) for n in range(MAX_WAITING_PER_PEER)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="from your address"):
            await ask("10.0.0.1", 99)
        other = asyncio.create_task(ask("10.0.0.2", 99))
        await asyncio.sleep(0)
        slow.go.set()
        return await asyncio.gather(*greedy, other)

    assert [run.report for run in asyncio.run(attack())][-1] == b"99"
    assert slow.most_together == 1
    runs.reader.close()


def test_the_last_few_runs_are_remembered_and_the_last_one_of_any_size() -> None:
    made: list[str] = []

    def make(place: RunPlace) -> str:
        made.append(place.name)
        return place.name

    memory = run_memory.RunMemory(make, MAX_VIEWS, len, 20)
    names = [f"r{n}" for n in range(MAX_VIEWS)]
    for name in [*names, *names]:
        assert memory.of(place_of(name)) == name
    assert made == names
    memory.of(place_of("one-more"))
    assert memory.known(place_of("r0")) == ()  # used least lately
    assert memory.known(place_of("r1")) == ("r1",)
    assert memory.known(place_of("r1", stamp=2)) == ()
    large = "a name with more than twenty letters"
    memory.of(place_of(large))
    assert memory.known(place_of(large)) == (large,)  # its report is asked for next
    assert memory.known(place_of("r1")) == ()
    memory.of(place_of("small"))
    assert memory._bytes() <= 20


# --- audits ----------------------------------------------------------------------------------------


def test_an_audit_that_takes_long_to_read_does_not_hold_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LAB.save(tmp_path / "lab")
    models = ModelPool()
    name = models.add("zoo:one-layer").name
    advice = Advice("occlusion", "Use it.", "mine", models.get(name).model.facts()["fingerprint"])
    slow = Slow(lambda place: advice)
    monkeypatch.setattr(audit_advice, "_advice", slow)
    monkeypatch.setattr(Runs, "all", lambda runs: [place_of(f"{tmp_path}/slow")])
    state = ServerState(models, Runs(tmp_path))
    with listening(state, app.ServerConfig(runs=tmp_path)) as address:
        try:
            for _ in range(3):
                assert httpx.get(f"{address}/api/here", timeout=30).status_code == 200
            assert slow.began.wait(10)
            assert not state.memory.advice.get(name)
        finally:
            slow.go.set()
        end = time.monotonic() + 20
        while not state.memory.advice.get(name):
            assert time.monotonic() < end
            time.sleep(0.02)
    assert state.memory.advice[name]["use"] == "occlusion"
    assert slow.calls == 1
    assert state.shut_down(10)


@pytest.mark.parametrize("readable", [True, False])
def test_an_audit_is_read_once_until_its_manifest_changes(
    model: Any, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    """By eight threads at once; what cannot be read is not tried again either."""
    advice = Advice("occlusion", "Use it.", "mine", model.facts()["fingerprint"]) if readable else None
    slow = Slow(lambda place: advice)
    slow.go.set()
    places = [place_of(f"once-{readable}-{n}") for n in range(3)]
    monkeypatch.setattr(audit_advice, "_advice", lambda place: (time.sleep(0.05), slow(place))[1])
    monkeypatch.setattr(Runs, "all", lambda runs: places)
    runs = Runs()
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: audit_advice.of(runs, model), range(8))]
    assert all(bool(one) is readable for one in found)
    assert slow.calls == (1 if readable else 3)  # the newest of this model is enough
    assert slow.most_together == 1
    places[0] = place_of(places[0].name, stamp=2)
    audit_advice.of(runs, model)
    assert slow.calls == (2 if readable else 4)
    runs.close()


def test_a_large_audit_of_a_stranger_is_not_read(model: Any, tmp_path: Path) -> None:
    """The same audit recommends, until its manifest lists a file of more bytes than are read."""
    texts = ["a great film", "a dull and awful film", "not bad at all", "the plot is a mess"] * 3
    heedful.audit(model, texts, methods=["occlusion", "attention-max"], out=tmp_path / "mine")
    assert audit_advice.of(Runs(tmp_path), model)["run"] == "mine"
    large = tmp_path / "mine" / "large.bin"
    large.touch()
    os.truncate(large, MOST_BYTES + 1)
    with large.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    path = tmp_path / "mine" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["large.bin"] = {"bytes": MOST_BYTES + 1, "sha256": checksum}
    path.write_text(json.dumps(manifest))
    assert audit_advice.of(Runs(tmp_path), model) == {}
