"""Work on the cores of this machine: a function of one item, for many items, in processes.

Torch's threads gain nothing on a small model: its operations are too short to share. Whole items can be
shared. Processes are forked, so they have the model without loading it; only results are sent back.

    process k of w    does the items k, k + w, k + 2w, ..., each on one thread
    this process      takes the results in the order of the items

A process that cannot start, or dies, loses nothing: this one does what is missing. So what is computed never
depends on the processes, and an error is raised where it is raised without them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def core_count() -> int:
    """Cores that this process may use; 1 where processes cannot be forked safely (macOS, Windows)."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def spread(work: Callable[[Item], Outcome], items: Sequence[Item], workers: int) -> Iterator[Outcome]:
    """The result of `work` for each item, in order."""
    lanes = min(workers, len(items), core_count())
    if lanes < 2:
        yield from map(work, items)
        return
    context = multiprocessing.get_context("fork")
    receivers: list[Connection] = []
    processes = []
    try:
        for lane in range(lanes):
            receive, send = context.Pipe(duplex=False)
            # a child must not keep a reading end: when this process dies, the child's next write then fails
            receivers.append(receive)
            arguments = (work, items[lane::lanes], send, tuple(receivers))
            process = context.Process(target=_work_through, args=arguments, daemon=True)
            process.start()
            processes.append(process)
            send.close()  # the child has the only writing end, so its death is the end of the pipe
        for place, item in enumerate(items):
            try:
                result = receivers[place % lanes].recv()
            except (EOFError, OSError):
                result = work(item)
            yield result
    finally:
        for process in processes:
            process.kill()
            process.join()
        for receive in receivers:
            receive.close()


def _work_through(
    work: Callable[[Item], Outcome],
    items: Sequence[Item],
    send: Connection,
    inherited: tuple[Connection, ...],
) -> None:
    """In a child. Whatever goes wrong ends it silently, and its parent does the rest."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its children
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # tokenizers warn in a forked process otherwise
    for receive in inherited:
        receive.close()
    with suppress(BaseException):
        _check_torch()
        for item in items:
            send.send(work(item))
    send.close()


def _check_torch() -> None:
    """One thread; a backward pass, which torch refuses in a forked process if it has device threads."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    torch.set_num_threads(1)
    x = torch.ones(1, requires_grad=True)
    torch.autograd.grad((x * x).sum(), x)
