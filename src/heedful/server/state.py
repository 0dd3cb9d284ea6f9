"""What all requests share: models, runs, jobs, what is remembered, and what any may be refused with."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi import Path as InPath

from heedful.core.model import Model
from heedful.server import audit_advice, example_pictures, internals, run_list
from heedful.server.explanation_cache import ExplanationCache
from heedful.server.job_queue import Job, Jobs
from heedful.server.model_pool import ModelPool, ServedModel
from heedful.server.model_thread import Busy, ModelThread, OpenQuestions
from heedful.server.opened_runs import OpenedRuns
from heedful.server.schemas import responses
from heedful.server.security import peer

Number = Annotated[str, InPath(pattern=r"^[0-9a-z-]{1,64}$", description="as the server gave it")]
REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": responses.Problem, "description": description}
    for code, description in (
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


class NotFound(Exception):
    """404, with a sentence."""


@dataclass(eq=False)
class ServerState:
    """All that requests share."""

    models: ModelPool
    runs: run_list.Runs
    jobs: Jobs = field(default_factory=Jobs)
    memory: ExplanationCache = field(default_factory=ExplanationCache)
    opened: OpenedRuns = field(default_factory=OpenedRuns)
    _dictionaries: dict[str, internals.Dictionary] = field(default_factory=dict)
    _examples: dict[str, list[responses.ExamplePicture]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._adviser = ModelThread("advice of audits", 1, OpenQuestions())

    def dictionary(self, served: ServedModel) -> internals.Dictionary:
        return self._dictionaries.setdefault(served.name, internals.Dictionary(served))

    def examples(self, served: ServedModel) -> list[responses.ExamplePicture]:
        """Pictures that come with a model; read once."""
        if served.name not in self._examples:
            found = example_pictures.examples(served.name, served.model, self.memory.pictures)
            self._examples[served.name] = found
        return self._examples[served.name]

    def start(self, kind: str, ask: Any, work: Callable[[Model, Job], None]) -> Job:
        """A job that runs on its worker's own replica of the model."""
        served = self.models.get(ask.model)

        def job_work(job: Job) -> None:
            job.report("waiting for the model")
            with served.replica(job.worker) as model:
                if model is not served.model:  # else the questions wait for this job
                    job.give_way = self.models.questions.give_way
                work(model, job)

        return self.jobs.put(Job(kind, ask.owner, ask.model_dump(), job_work, peer=peer.get()))

    def look_for_advice(self) -> None:
        """Read what audits recommend, beside the requests: nobody waits while a large audit is read."""
        with suppress(Busy):  # one look waits already: it will see what is there by then
            self._adviser.put(self._read_advice)

    def _read_advice(self) -> None:
        for served in [*self.models.served.values()]:  # another may be loaded meanwhile
            self.memory.advice[served.name] = audit_advice.of(self.runs, served.model)

    def close(self) -> None:
        self.jobs.close()
        self.models.close()
        for reader in (self.opened.reader, self._adviser):
            reader.close()

    def shut_down(self, seconds: float) -> bool:
        """Close, wait for what runs, and remove runs that are temporary; whether all threads have ended."""
        self.close()
        end = time.monotonic() + seconds
        readers = [self.opened.reader.thread, self._adviser.thread]
        threads = [*self.jobs.threads, *self.models.threads, *readers]
        try:
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))
        finally:
            self.runs.close()
        return not any(thread.is_alive() for thread in threads)


def state_of_request(request: Request) -> ServerState:
    state: ServerState = request.app.state.server
    return state


RequestState = Annotated[ServerState, Depends(state_of_request)]
