"""Work on the cores of this machine: a function of one item, for many items, in processes.

Torch's threads gain nothing on a small model: its operations are too short to share. Whole items can be
shared. Processes are forked once, so they have the model without loading it; items are sent to them, and
results are sent back.

    a process        does one item at a time, on one thread, and gets the next one when it is done
    this process     draws items, at most AHEAD per process before they are due; gives results in their order

A process that cannot start, or dies, loses nothing: this one does what is missing. So what is computed never
depends on the processes, and an error is raised where it is raised without them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from typing import TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
AHEAD = 4  # items per process: while one item takes long, the others go on


def core_count() -> int:
    """Cores that this process may use; 1 where processes cannot be forked safely (macOS, Windows)."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def spread(work: Callable[[Item], Outcome], items: Iterable[Item], workers: int) -> Iterator[Outcome]:
    """The result of `work` for each item, in order. One worker draws an item when its result is due."""
    most, left = min(workers, core_count()), iter(items)
    first = list(islice(left, most)) if most > 1 else []
    left = chain(first, left)
    if len(first) < 2:
        yield from map(work, left)
        return
    context = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    processes = []
    try:
        for _ in first:
            here, there = context.Pipe()
            # a child must not keep an end of this process: when this process dies, the child's pipe then ends
            pipes.append(here)
            process = context.Process(target=_work_through, args=(work, there, tuple(pipes)), daemon=True)
            process.start()
            processes.append(process)
            there.close()  # the child has the only other end, so its death is the end of the pipe
        yield from _in_order(work, left, pipes)
    finally:
        for process in processes:
            process.kill()
            process.join()
        for here in pipes:
            here.close()


def _in_order(
    work: Callable[[Item], Outcome], items: Iterator[Item], pipes: list[Connection]
) -> Iterator[Outcome]:
    free = list(pipes)  # processes without work
    busy: dict[Connection, int] = {}  # process -> place of the item it does
    drawn: dict[int, Item] = {}  # place -> item that has no result yet
    done: dict[int, Outcome] = {}  # place -> result that is not due yet
    place = due = 0  # of the next item to draw, of the next result to give
    failed: Exception | None = None  # drawing an item: raised after the results before it
    ended = False
    while True:
        # with no process left, items are drawn for this one
        while not ended and place < due + AHEAD * len(pipes) and (free or not busy):
            try:
                drawn[place] = next(items)
            except StopIteration:
                ended = True
            except Exception as error:
                ended, failed = True, error
            else:
                if free and (pipe := free.pop()) and _sent(pipe, drawn[place], free):
                    busy[pipe] = place
                place += 1
        if due in done:
            yield done.pop(due)
            due += 1
        elif due in busy.values():
            ready = wait(list(busy))
            for pipe in [pipe for pipe in busy if pipe in ready]:
                number = busy.pop(pipe)
                with suppress(EOFError, OSError):  # it died: its item stays among those without a result
                    done[number] = pipe.recv()
                    del drawn[number]
                    free.append(pipe)
        elif due in drawn:
            done[due] = work(drawn.pop(due))
        else:
            break
    if failed is not None:
        raise failed


def _sent(pipe: Connection, item: object, free: list[Connection]) -> bool:
    try:
        pipe.send(item)
    except OSError:  # the process has died
        return False
    except Exception:  # an item that cannot be pickled: nothing was sent
        free.append(pipe)
        return False
    return True


def _work_through(
    work: Callable[[Item], Outcome], pipe: Connection, inherited: tuple[Connection, ...]
) -> None:
    """In a child. Whatever goes wrong ends it silently, and its parent does the rest."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its children
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # tokenizers warn in a forked process otherwise
    for other in inherited:
        other.close()
    with suppress(BaseException):
        _check_torch()
        while True:
            pipe.send(work(pipe.recv()))
    pipe.close()


def _check_torch() -> None:
    """One thread; a backward pass, which torch refuses in a forked process if it has device threads."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    torch.set_num_threads(1)
    x = torch.ones(1, requires_grad=True)
    torch.autograd.grad((x * x).sum(), x)
