"""One dictionary trained by several workers: each takes its share of every batch, gradients are averaged.

    torchrun --nproc-per-node 2 -m heedful features train acts/ --width 4096 --kind topk --out sae/

The batch is the whole batch, whatever the number of workers: worker r of w takes rows r, r + w, ...; the
result is that of one worker up to rounding. BatchTopK's choice, dead counts, thresholds and the revival's
normaliser are made over all workers. Needs torch.distributed with gloo; every worker reads the same store.
Cost a step: one all-reduce of the gradients (2·d·F numbers); batchtopk gathers the n·k best of each worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch import distributed as dist

from heedful.core.errors import HeedfulError
from heedful.features.sae.base import SingleWorker, WorkerGroup


class ProcessGroup:
    """The workers of torch's default process group."""

    def __init__(self) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def total(self, value: Tensor) -> Tensor:
        """The sum of every worker's tensor."""
        summed = value.detach().clone().contiguous()
        dist.all_reduce(summed)
        return summed

    def mean(self, value: Tensor) -> Tensor:
        return self.total(value) / self.world

    def gather(self, values: Tensor) -> Tensor:
        """Every worker's tensor, of one size, one after the other along the first dimension."""
        parts = [torch.empty_like(values) for _ in range(self.world)]
        dist.all_gather(parts, values.detach().contiguous())
        return torch.cat(parts)


@contextmanager
def worker_group() -> Iterator[WorkerGroup]:
    """The workers that torchrun (or Ray Train) started, or one alone."""
    if dist.is_available() and dist.is_initialized():
        yield ProcessGroup()
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
        try:
            yield ProcessGroup()
            dist.barrier()  # a worker that leaves while another still talks to it makes gloo abort
        finally:
            dist.destroy_process_group()
    else:
        yield SingleWorker()


def shares(batch: int, world: int) -> None:
    """A batch must be shared evenly: then the mean of the workers' means is the mean."""
    if batch % world:
        fewer = batch - batch % world
        raise HeedfulError(
            f"a batch of {batch} activations for {world} workers",
            "it cannot be shared evenly",
            f"Give batch={fewer}",
        )
