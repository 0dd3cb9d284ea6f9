"""Work on a Ray cluster: a function of the model and one item, for many items, as Ray Data jobs.

    driver    reads the items, hands them out, takes what comes back
    worker    an actor that loads the model once and does one item at a time, on one thread

Items go out in waves, so that the driver holds no more of them than one wave; within a wave Ray Data keeps as
many in flight as there are workers for, and results wait in its store, not in the driver. A worker that dies
is started again by Ray, and so is its item: work that depends on the model and the item alone shows nothing
of it.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError, first_line
from heedful.core.model import Model
from heedful.core.whole_numbers import whole_number

WAVE = 256  # items, or eight per worker if that is more: workers stay, and keep their model, for a wave
MAX_PORT = 65535
Work = Callable[[Model, Any], Any]  # (model, item) -> result; Ray pickles it


@dataclass(frozen=True)
class Cluster:
    """Where to run: the address of a cluster (None: one is started here), and how many workers to use."""

    address: str | None = None
    workers: int | None = None


class Worker:
    """Loads the model once, in its own process."""

    def __init__(self, source: Any, facts: Mapping[str, Any], work: Work) -> None:
        import torch

        from heedful.models.load import load

        torch.set_num_threads(1)  # workers share the cores
        self.model, self.work = load(source), work
        here = self.model.facts()
        if differ := [name for name in facts if name != "name" and facts[name] != here.get(name)]:
            raise HeedfulError(
                "a worker found another model under this name", f"they differ in {', '.join(differ)}"
            )

    def __call__(self, batch: Any) -> Any:
        """A table with one item in, one with its result out."""
        import pyarrow as pa

        result = self.work(self.model, pickle.loads(batch.column("item")[0].as_py()))
        return pa.table({"result": pa.array([pickle.dumps(result)], pa.large_binary())})


def results(
    work: Work, source: Any, facts: Mapping[str, Any], items: Iterable[Any], cluster: Cluster
) -> Iterator[Any]:
    """What `work` makes of each item, as they are done. `source` is what `heedful.load` takes, `facts` those
    of the model as loaded here."""
    source = (
        str(Path(source).resolve()) if isinstance(source, str | Path) and Path(source).exists() else source
    )
    left = iter(items)
    first = next(left, None)
    if first is None:
        return  # everything is done: no cluster is needed
    with _connected(cluster) as workers:
        wave = [first, *islice(left, max(WAVE, 8 * workers) - 1)]
        while wave:
            yield from _wave(wave, {"source": source, "facts": dict(facts), "work": work}, workers)
            wave = list(islice(left, max(WAVE, 8 * workers)))


def _wave(wave: list[Any], given: dict[str, Any], workers: int) -> Iterator[Any]:
    import ray.data

    items = [{"item": pickle.dumps(item)} for item in wave]
    done = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        Worker,
        fn_constructor_kwargs=given,
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=1,
        concurrency=min(workers, len(wave)),
    )
    try:
        for table in done.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for row in table.to_pylist():
                yield pickle.loads(row["result"])
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise HeedfulError(
            "Ray stopped", reason, "What is done is kept: run the same command again to resume"
        ) from error


@contextmanager
def _connected(cluster: Cluster) -> Iterator[int]:
    """The number of workers. A cluster that was connected before is used and stays; one started here ends.

    Ray tells of workers that died on standard output, which belongs to the result: standard error gets it.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what it logs concerns its developers
    try:
        import ray
        import ray.data
    except ImportError:
        raise HeedfulError("the engine ray needs Ray", fix="Install it: pip install 'heedful[ray]'") from None
    began = not ray.is_initialized()
    with redirect_stdout(sys.stderr):
        if began:
            _begin(cluster)
        _hush()
        try:
            yield cluster.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        finally:
            if began:
                ray.shutdown()


def _begin(cluster: Cluster) -> None:
    import ray

    if cluster.address:
        _check_address(cluster.address)
    own = {} if cluster.address else {"include_dashboard": False, "num_cpus": cluster.workers}
    try:
        with _silent():
            ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = f"at {cluster.address}" if cluster.address else "here"
        raise HeedfulError(f"there is no Ray cluster {where}", first_line(error)) from None


def _check_address(address: str) -> None:
    """Ray itself tries for more than a minute; a wrong address is told at once."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return  # "auto", or a client's address with a scheme
    number = whole_number(port)
    if number is None or number > MAX_PORT:
        raise HeedfulError(f"there is no Ray cluster at {address}", f"a port is a number up to {MAX_PORT}")
    try:
        socket.create_connection((host.removeprefix("ray://"), number), timeout=5).close()
    except (OSError, ValueError) as error:  # no such place, or no name of a machine
        raise HeedfulError(
            f"there is no Ray cluster at {address}", str(error), "On its first machine: ray start --head"
        ) from None


@contextmanager
def _silent() -> Iterator[None]:
    """What is written past Python while Ray starts goes nowhere: it tells that it was told to be silent."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _hush() -> None:
    """Progress is told by the audit, in one place."""
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # a failure is told in one line
