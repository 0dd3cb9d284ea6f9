"""Work shared by forked processes: the same results in the same order, whatever happens to a process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import heedful
from heedful.audits.audit_run import AuditRun
from heedful.engine import processes
from heedful.engine.processes import spread

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with one core nothing would be shared."""
    monkeypatch.setattr(processes, "core_count", lambda: 2)


def test_results_come_in_order_from_other_processes() -> None:
    results = list(spread(lambda item: (item, os.getpid()), range(7), 2))
    assert [item for item, _ in results] == list(range(7))
    ids = [process for _, process in results]
    assert len(set(ids)) == 2
    assert os.getpid() not in ids
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_any_number_of_items_and_workers(workers: int, count: int) -> None:
    assert list(spread(lambda item: item**2, range(count), workers)) == [item**2 for item in range(count)]


def test_a_process_that_dies_loses_nothing() -> None:
    parent = os.getpid()

    def work(item: int) -> int:
        if item == 2 and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * item

    assert list(spread(work, range(6), 2)) == [0, 10, 20, 30, 40, 50]


def test_when_every_process_dies_this_one_goes_on() -> None:
    parent = os.getpid()

    def work(item: int) -> int:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * item

    assert list(spread(work, iter(range(30)), 2)) == [10 * item for item in range(30)]


def test_while_one_item_takes_long_the_others_go_on() -> None:
    """The other process does what is drawn meanwhile: AHEAD items per process, less the first."""

    def work(item: int) -> tuple[int, int]:
        if item == 0:
            time.sleep(1.5)
        return os.getpid(), time.monotonic_ns()

    results = list(spread(work, range(40), 2))
    slow, when = results[0]
    before = [at < when for process, at in results[1:] if process != slow]
    assert sum(before) == 2 * processes.AHEAD - 1


def test_items_are_drawn_a_few_ahead() -> None:
    drawn = []

    def items() -> Iterator[int]:
        for item in range(100):
            drawn.append(item)
            yield item

    for place, _ in enumerate(spread(lambda item: item, items(), 2)):
        assert len(drawn) <= place + 1 + 2 * processes.AHEAD
    drawn.clear()
    for place, _ in enumerate(spread(lambda item: item, items(), 1)):
        assert len(drawn) == place + 1


def test_an_item_that_cannot_be_drawn_loses_none_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("the file ends here")

    made = spread(lambda item: 10 * item, items(), 2)
    assert [next(made) for _ in range(5)] == [0, 10, 20, 30, 40]
    with pytest.raises(OSError, match="the file ends here"):
        next(made)
    assert not multiprocessing.active_children()


def test_an_item_that_cannot_be_sent_is_done_here() -> None:
    parent = os.getpid()
    items = [3, lambda: 4, 5, lambda: 6, 7]
    results = list(spread(lambda item: (item() if callable(item) else item, os.getpid()), items, 2))
    assert [value for value, _ in results] == [3, 4, 5, 6, 7]
    assert [process == parent for _, process in results] == [False, True, False, True, False]


def test_large_items_and_results_do_not_wait_for_each_other() -> None:
    """More than a pipe holds."""
    items = [bytes([item]) * (1 << 20) for item in range(12)]
    assert list(spread(lambda item: item * 2, items, 2)) == [item * 2 for item in items]


def test_an_error_is_raised_here() -> None:
    def work(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    made = spread(work, range(6), 2)
    assert [next(made) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(made)
    assert not multiprocessing.active_children()


def test_a_result_that_cannot_be_sent_is_computed_here() -> None:
    results = list(spread(lambda item: lambda: item, range(3), 2))
    assert [result() for result in results] == [0, 1, 2]


def test_whoever_stops_early_leaves_no_process() -> None:
    made = spread(lambda item: item, range(1000), 2)
    assert next(made) == 0
    made.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


def running(process: int) -> bool:
    """Whether it is there, and not a dead one that nobody has collected."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    """Its children end at their next result."""
    code = f"""
import os, pathlib, time
from heedful.engine import processes
processes.core_count = lambda: 2
def work(item):
    time.sleep(0.05)
    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    return item
for _ in processes.spread(work, range(100_000), 2):
    pass
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 120
    while len(children := [int(path.name) for path in tmp_path.iterdir()]) < 2:
        assert time.monotonic() < deadline, "the children did not start"
        assert parent.poll() is None, "the parent ended"
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    while any(map(running, children)):
        assert time.monotonic() < deadline, "a child outlived its parent"
        time.sleep(0.05)


def test_a_full_disk_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(AuditRun, "put", full)
    texts = [f"the {word} was good" for word in ("food", "bar", "room", "soup", "tea", "bed")]
    with pytest.raises(OSError, match="No space") as kept:  # whoever keeps the error keeps its frames
        heedful.audit("zoo:one-layer", texts, out=tmp_path, workers=2, shard=2)
    assert kept.value
    assert not multiprocessing.active_children()


def test_an_audit_by_two_processes_writes_the_same_bytes(tmp_path: Path) -> None:
    texts = [
        f"the {place} was {word} and warm" for place in ("food", "bar") for word in ("good", "bad", "fine")
    ]
    for workers in (1, 2):
        heedful.audit("zoo:one-layer", texts, out=tmp_path / str(workers), workers=workers, shard=4)
    files = [path.relative_to(tmp_path / "1") for path in (tmp_path / "1").rglob("*") if path.is_file()]
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / "2" / file).read_bytes(), file
