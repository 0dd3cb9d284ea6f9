"""Shards on a Ray cluster: the same work as `local`, as Ray Data jobs.

    driver    reads the rows, hands out shards, writes what comes back; only it sees the source and the folder
    worker    an actor that loads the model once and turns a shard into the bytes of its files, on one thread

Shards go out in waves, so that the driver holds no more of the source than one; within a wave Ray Data keeps
as many in flight as there are workers for, and results wait in its store, not in the driver. A worker that
dies is started again by Ray, and so is its shard: the bytes of a shard depend on nothing but its rows and the
settings, so it does not show.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from heedful.audits.run_folder import RunFolder
from heedful.audits.settings import Settings
from heedful.audits.shard import Shard, Tell, weigh_shard
from heedful.core.errors import HeedfulError

WAVE = 256  # shards, or eight a worker if that is more: workers stay, and keep their model, for a wave


@dataclass(frozen=True)
class Cluster:
    """Where to run: the address of a cluster (None: one is started here), and how many workers to use."""

    address: str | None = None
    workers: int | None = None


class Worker:
    """Loads the model once, in its own process."""

    def __init__(self, model: Any, facts: Mapping[str, Any], settings: Settings) -> None:
        import torch

        from heedful.models.load import load

        torch.set_num_threads(1)  # workers share the cores
        self.model, self.settings = load(model), settings
        here = self.model.facts()
        if differ := [name for name in facts if name != "name" and facts[name] != here.get(name)]:
            raise HeedfulError(
                "a worker found another model under this name", f"they differ in {', '.join(differ)}"
            )

    def __call__(self, batch: Any) -> Any:
        """A table with one shard in, one with its files out."""
        import pyarrow as pa

        shard: Shard = pickle.loads(batch.column("shard")[0].as_py())
        files = pickle.dumps(weigh_shard(self.model, shard, self.settings))
        return pa.table(
            {
                "number": [shard.number],
                "rows": [len(shard.rows)],
                "files": pa.array([files], pa.large_binary()),
            }
        )


def run(
    model: Any,
    facts: Mapping[str, Any],
    shards: Iterable[Shard],
    settings: Settings,
    folder: RunFolder,
    tell: Tell,
    cluster: Cluster,
) -> None:
    """`model` is what `heedful.load` takes, `facts` those of the model as loaded here."""
    source = str(Path(model).resolve()) if isinstance(model, str | Path) and Path(model).exists() else model
    left = iter(shards)
    first = next(left, None)
    if first is None:
        return  # everything is done: no cluster is needed
    with _connected(cluster) as workers:
        wave = [first, *islice(left, max(WAVE, 8 * workers) - 1)]
        while wave:
            given = {"model": source, "facts": dict(facts), "settings": settings}
            for number, rows, files in _work(wave, given, min(workers, len(wave))):
                folder.put(number, files)
                tell(rows)
            wave = list(islice(left, max(WAVE, 8 * workers)))


def _work(
    wave: list[Shard], given: dict[str, Any], workers: int
) -> Iterator[tuple[int, int, dict[str, bytes]]]:
    """(number, rows, files) of each shard, as they are done."""
    import ray.data

    items = [{"shard": pickle.dumps(shard)} for shard in wave]
    done = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        Worker,
        fn_constructor_kwargs=given,
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=1,
        concurrency=workers,
    )
    try:
        for table in done.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for row in table.to_pylist():
                yield row["number"], row["rows"], pickle.loads(row["files"])
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise HeedfulError(
            "Ray could not go on", reason, "What is done is kept: start the audit again"
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
        raise HeedfulError(f"there is no Ray cluster {where}", str(error).strip().splitlines()[0]) from None


def _check_address(address: str) -> None:
    """Ray itself tries for more than a minute; a wrong address is told at once."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return  # "auto", or a client's address with a scheme
    try:
        socket.create_connection((host.removeprefix("ray://"), int(port)), timeout=5).close()
    except OSError as error:
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
