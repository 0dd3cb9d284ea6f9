"""Long work: in worker threads, with progress, cancelled on request, remembered after the page is closed.

    waiting -> running -> done | failed | cancelled

Each owner (a browser) has one job running at a time and the workers go round the owners, so one who asks for
much does not keep the others waiting. An owner is a name that the client chooses, so all owners at one other
machine together leave one worker and half of the queue to the rest. A job knows the number of its worker, so
that it takes the right replica of a model. It reports where it stands by `Job.report`, which is also where a
cancelled job ends and where a job stands still while questions wait, and shows what it has so far by
`Job.show`.
"""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from heedful.core.errors import MEMORY_SENTENCE, HeedfulError, out_of_memory
from heedful.core.progress import Step
from heedful.server.malloc import trim_heap
from heedful.server.model_thread import Busy

WORKERS = 4
MAX_WAITING_PER_OWNER, MAX_WAITING = 8, 64  # jobs that may wait: of one owner, and of everybody
MAX_WAITING_PER_PEER = 32  # of one address: an owner is a name that the client chooses
MAX_FINISHED_JOBS = 30  # finished jobs that are remembered with their results,
MAX_FINISHED_OF_KIND = {"attention": 10, "live": 20}  # and of kinds that are large, or come with every text
ENDED = ("done", "failed", "cancelled")


class Cancelled(BaseException):
    """The job is to end; no `except Exception` on its way may catch it."""


@dataclass(eq=False)
class Job:
    """One piece of long work, as it stands."""

    kind: str
    owner: str
    ask: dict[str, Any]  # what was asked for: a page that comes back can show it
    work: Callable[[Job], None]
    id: str = ""
    state: str = "waiting"
    label: str = ""
    done: int = 0
    total: int = 0
    error: str = ""
    result: dict[str, Any] | None = None
    run: str | None = None  # the run folder it was stored in
    worker: int = -1
    peer: str = ""  # the address it came from, if that is another machine
    asked: float = field(default_factory=time.time)
    began: float = 0.0
    ended: float = 0.0
    changes: int = 0  # grows with every report
    shown: int = 0  # grows with every result shown
    stop: bool = False
    give_way: Callable[[], None] | None = None  # returns when the job may go on

    def report(self, label: str, done: int = 0, total: int = 0) -> None:
        """Where it stands."""
        if self.give_way is not None:
            self.give_way()
        if self.stop:
            raise Cancelled
        self.label, self.done, self.total = label, done, total
        self.changes += 1

    def report_step(self, step: Step) -> None:
        """Where the work it calls stands."""
        self.report(step.label, step.done, step.total)

    def show(self, result: dict[str, Any]) -> None:
        """What is found so far."""
        self.result = result
        self.shown += 1
        self.changes += 1

    @property
    def seconds(self) -> float:
        return (self.ended or time.time()) - self.began if self.began else 0.0

    @property
    def left(self) -> float | None:
        """Seconds that the step it is at may still take, by what is done of it."""
        if self.state != "running" or not 0 < self.done < self.total:
            return None
        return self.seconds * (self.total - self.done) / self.done


def system_sentence(error: Exception) -> str:
    """A full disk, say; the path is the server's own business."""
    return f"The server's machine refused: {getattr(error, 'strerror', None) or type(error).__name__}."


def memory_sentence(error: BaseException) -> str:
    """What the command line says where memory was not enough; "" for all other errors."""
    return f"{MEMORY_SENTENCE}." if out_of_memory(error) else ""


def _sentence_of(error: BaseException) -> str:
    """Of what no check foresaw: the error itself is for whoever started the server."""
    if sentence := memory_sentence(error):
        return sentence
    with suppress(Exception):
        traceback.print_exception(error)
    return f"This should not have happened: {type(error).__name__}."


class Jobs:
    """The queue and its workers."""

    def __init__(self, workers: int = WORKERS) -> None:
        self.jobs: dict[str, Job] = {}  # in the order of asking
        self._turn = threading.Condition()
        self._closed = False
        self.threads = [
            threading.Thread(target=self._work, args=(number,), name=f"heedful job {number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self.threads:
            thread.start()

    def put(self, job: Job) -> Job:
        with self._turn:
            waiting = [other for other in self.jobs.values() if other.state == "waiting"]
            own = sum(other.owner == job.owner for other in waiting)
            same = sum(other.peer == job.peer != "" for other in waiting)
            full = same >= MAX_WAITING_PER_PEER or len(waiting) >= MAX_WAITING
            if own >= MAX_WAITING_PER_OWNER or full:
                raise Busy(f"{len(waiting)} jobs are waiting already. Try again in a moment.")
            job.id = f"{time.strftime('%Y%m%d-%H%M%S')}-{job.kind}-{secrets.token_hex(4)}"
            self.jobs[job.id] = job
            self._forget()
            self._turn.notify_all()
        return job

    def get(self, name: str) -> Job | None:
        return self.jobs.get(name)

    def cancel(self, job: Job) -> None:
        """A waiting job ends at once, a running one where it next reports."""
        with self._turn:
            job.stop = True
            if job.state == "waiting":
                self._end(job, "cancelled")
            job.changes += 1

    def active(self, kind: str) -> list[Job]:
        """Jobs of a kind that have not ended and were not told to."""
        with self._turn:
            jobs = [*self.jobs.values()]
        return [job for job in jobs if job.kind == kind and job.state not in ENDED and not job.stop]

    def close(self) -> None:
        with self._turn:
            self._closed = True
            for job in self.jobs.values():
                job.stop = True
            self._turn.notify_all()

    def join(self, seconds: float = 5.0) -> None:
        """Wait for the workers to leave."""
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _next(self) -> Job | None:
        """The first that waits whose owner has nothing running; one worker is always left for other peers."""
        running = [job for job in self.jobs.values() if job.state == "running"]
        busy, peers = {job.owner for job in running}, Counter(job.peer for job in running if job.peer)
        most = max(1, len(self.threads) - 1)
        waiting = (job for job in self.jobs.values() if job.state == "waiting" and job.owner not in busy)
        return next((job for job in waiting if peers[job.peer] < most), None)

    def _work(self, number: int) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._closed or self._next() is not None)
                job = self._next()
                if self._closed or job is None:
                    return
                job.state, job.worker, job.began = "running", number, time.time()
                job.changes += 1
            self._run(job)

    def _run(self, job: Job) -> None:
        state = "failed"
        try:
            job.work(job)
            state = "done"
        except Cancelled:
            state = "cancelled"
        except HeedfulError as error:
            job.error = str(error)
        except OSError as error:
            job.error = system_sentence(error)
        except BaseException as error:  # told to whoever asked; the thread lives on
            job.error = _sentence_of(error)
        with self._turn:
            self._end(job, state)
            self._turn.notify_all()
        trim_heap()

    def _end(self, job: Job, state: str) -> None:
        job.state, job.ended = state, time.time()
        job.changes += 1

    def _forget(self) -> None:
        """The oldest finished ones, where there are too many."""
        ended = [job for job in self.jobs.values() if job.state in ENDED]
        gone = ended[: max(0, len(ended) - MAX_FINISHED_JOBS)]
        for kind, most in MAX_FINISHED_OF_KIND.items():
            same = [job for job in ended if job.kind == kind]
            gone += same[: max(0, len(same) - most)]
        for job in gone:
            self.jobs.pop(job.id, None)
