"""Passes of a harvest on the workers of a Ray cluster; texts are read, and the store is written, here.

Batches go out two a worker, what was taken comes back in their order: the store is that of the local engine,
up to the rounding of another number of threads. A batch whose worker dies is run again by another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.engine import ray as cluster_of
from heedful.engine.ray import Cluster
from heedful.io.files import RESUME_HINT

if TYPE_CHECKING:
    from heedful.features.activations.extract import HarvestedBatch, HarvestSettings
    from heedful.features.activations.windows import Batch
    from heedful.models.adapter import TokenModel

BATCHES_AHEAD = 2  # batches a worker has at once, so that it need not wait


class HarvestWorker:
    """Loads the model once, in its own process."""

    def __init__(self, model: Loadable, facts: Mapping[str, Any], settings: HarvestSettings) -> None:
        import torch

        from heedful.models.load import load_token_model

        torch.set_num_threads(1)  # workers share the cores
        self.model, self.settings = load_token_model(model), settings
        if self.model.facts()["fingerprint"] != facts["fingerprint"]:
            raise HeedfulError("a worker found another model under this name")

    def take(self, batch: Batch) -> HarvestedBatch:
        from heedful.features.activations.extract import take

        return take(self.model, batch, self.settings)


@contextmanager
def passes(
    model: TokenModel, facts: Mapping[str, Any], settings: HarvestSettings, cluster: Cluster
) -> Iterator[Callable[[Iterator[Batch]], Iterable[HarvestedBatch]]]:
    """`model` is what `heedful.load` takes, `facts` those of the model as loaded here."""
    source = str(Path(model).resolve()) if isinstance(model, str | Path) and Path(model).exists() else model
    with cluster_of._connected(cluster) as count:
        import ray

        _check(count, int(ray.cluster_resources().get("CPU", 0)))
        remote = ray.remote(num_cpus=1, max_restarts=3, max_task_retries=3)(HarvestWorker)
        given = ray.put(source) if not isinstance(source, str) else source
        workers = [remote.remote(given, dict(facts), settings) for _ in range(count)]
        try:
            yield lambda todo: _in_order(todo, workers)
        finally:
            for worker in workers:
                ray.kill(worker)


def _check(workers: int, cpus: int) -> None:
    """A worker that never starts would be waited for without end."""
    if workers > cpus:
        raise HeedfulError(
            f"{workers} workers on a cluster of {cpus} CPUs",
            "each takes one: the others would never start",
            f"Use workers={max(1, cpus)} (--workers), or a larger cluster",
        )


def _in_order(todo: Iterator[Batch], workers: list[Any]) -> Iterator[HarvestedBatch]:
    import ray

    waiting: deque[Any] = deque()
    try:
        for number, batch in enumerate(todo):
            if len(waiting) >= BATCHES_AHEAD * len(workers):
                yield ray.get(waiting.popleft())
            waiting.append(workers[number % len(workers)].take.remote(batch))
        while waiting:
            yield ray.get(waiting.popleft())
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, HeedfulError):
            raise error.cause from None
        raise HeedfulError("Ray stopped", str(error).strip().splitlines()[-1], RESUME_HINT) from error
    except ray.exceptions.RayError as error:
        raise HeedfulError("Ray stopped", str(error).strip().splitlines()[-1], RESUME_HINT) from error
