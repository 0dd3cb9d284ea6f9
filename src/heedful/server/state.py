"""What all requests share: models, runs, jobs, what is remembered, and what any may be refused with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi import Path as InPath

from heedful.server import internals, live_explain, run_list
from heedful.server.job_queue import Job, Jobs
from heedful.server.model_pool import ModelPool, ServedModel
from heedful.server.schemas import responses

Number = Annotated[str, InPath(pattern=r"^[0-9a-z-]{1,64}$", description="as the server gave it")]
REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": responses.Problem, "description": told}
    for code, told in (
        (400, "it cannot be done, and why"),
        (401, "a token is needed"),
        (403, "another site asked"),
        (404, "there is no such thing"),
        (408, "the request did not end"),
        (413, "too large"),
        (415, "not JSON"),
        (421, "another name"),
        (422, "a field is not as it should be"),
        (429, "too many are waiting"),
    )
}


class NotThere(Exception):
    """404, with a sentence."""


@dataclass(eq=False)
class ServerState:
    """All that requests share."""

    seats: ModelPool
    runs: run_list.Runs
    jobs: Jobs = field(default_factory=Jobs)
    memory: live_explain.ExplanationCache = field(default_factory=live_explain.ExplanationCache)
    _dictionaries: dict[str, internals.Dictionary] = field(default_factory=dict)

    def dictionary(self, stock: ServedModel) -> internals.Dictionary:
        return self._dictionaries.setdefault(stock.name, internals.Dictionary(stock))

    def start(self, kind: str, ask: Any, work: Callable[[Any, Job], None]) -> Job:
        """A job with the worker's own twin of the model."""
        stock = self.seats.get(ask.model)

        def job_work(job: Job) -> None:
            job.tell("waiting for the model")
            with stock.twin(job.worker) as model:
                work(model, job)

        return self.jobs.put(Job(kind, ask.owner, ask.model_dump(), job_work))

    def close(self) -> None:
        self.jobs.close()
        self.seats.close()

    def leave(self, seconds: float) -> bool:
        """Close, and wait for what runs; whether all of it has ended."""
        self.close()
        end = time.monotonic() + seconds
        for thread in (threads := [*self.jobs.threads, *self.seats.threads]):
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)


def house_of(request: Request) -> ServerState:
    server_state: ServerState = request.app.state.house
    return server_state


In = Annotated[ServerState, Depends(house_of)]
