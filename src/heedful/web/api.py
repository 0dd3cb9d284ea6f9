"""The questions the page asks, each a few lines: check, ask the model's thread or start a job, answer.

Quick questions are answered by the model's own thread; long ones are jobs, which are asked for again by their
number or listened to as a stream of events. GET changes nothing; everything that costs is a POST with JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi import Path as InPath
from fastapi.responses import HTMLResponse, StreamingResponse

from heedful import registry
from heedful._version import __version__
from heedful.cli.explain import FEW
from heedful.web import asks, explaining, inside, looking, runs, trying
from heedful.web.jobs import ENDED, Job, Jobs
from heedful.web.seats import Seats, Stock

LISTEN = 0.15  # seconds between looks at a job that is listened to
BEAT = 15.0  # seconds after which a silent stream says that it lives
Number = Annotated[str, InPath(pattern=r"^[0-9a-z-]{1,64}$", description="as the server gave it")]
REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": asks.Problem, "description": told}
    for code, told in (
        (400, "it cannot be done, and why"), (401, "a token is needed"), (403, "another site asked"),
        (404, "there is no such thing"), (408, "the request did not end"), (413, "too large"),
        (415, "not JSON"), (421, "another name"), (422, "a field is not as it should be"),
        (429, "too many are waiting"),
    )
}  # fmt: skip


class NotThere(Exception):
    """404, with a sentence."""


@dataclass(eq=False)
class House:
    """All that requests share."""

    seats: Seats
    runs: runs.Runs
    jobs: Jobs = field(default_factory=Jobs)
    memory: looking.Memory = field(default_factory=looking.Memory)
    _dictionaries: dict[str, inside.Dictionary] = field(default_factory=dict)

    def dictionary(self, stock: Stock) -> inside.Dictionary:
        return self._dictionaries.setdefault(stock.name, inside.Dictionary(stock))

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


def house_of(request: Request) -> House:
    found: House = request.app.state.house
    return found


In = Annotated[House, Depends(house_of)]
router = APIRouter(prefix="/api", responses=REFUSALS)


# --- what is here ----------------------------------------------------------------------------------


@router.get("/here")
def here(house: In) -> asks.Here:
    """Models, methods and limits of this server."""
    methods = [
        asks.Method(name=e.name, summary=e.summary, cite=e.cite, signed=e.signed)
        for e in registry.explainers().values()
    ]
    stocks = house.seats.stocks.values()
    return asks.Here(
        version=__version__, models=[_model(stock, house) for stock in stocks], offered=house.seats.offered(),
        allow_load=house.seats.allow_load, methods=methods, few=list(FEW), limit=asks.TEXT,
        runs=house.runs.root.is_dir(), waiting={s.name: s.worker.queue.qsize() for s in stocks},
    )  # fmt: skip


def _model(stock: Stock, house: House) -> asks.Model:
    model = stock.model
    facts = {k: v for k, v in looking.facts_of(model).items() if isinstance(v, str | int | float | bool)}
    has = house.dictionary(stock)
    return asks.Model(
        name=stock.name, kind=model.kind, labels=list(model.labels)[:1000], window=model.window,
        operators=list(model.operators), capabilities=sorted(model.capabilities),
        features=has.sae.config.width if has.there else 0, facts=facts,
        refused={s.method: s.why for s in registry.support(model) if not s.ok},
    )  # fmt: skip


@router.post("/models")
def load_model(ask: asks.Load, house: In) -> asks.Model:
    """Load another model, where the server was started so that it may."""
    return _model(house.seats.load(ask.model), house)


# --- quick -----------------------------------------------------------------------------------------


@router.post("/look")
async def look(ask: asks.Look, request: Request, house: In) -> asks.Looked:
    """As one types: the prediction, the cheap methods, and what the others cost."""
    stock = house.seats.get(ask.model)

    def job(model: Any) -> asks.Looked:
        return looking.look(model, ask, house.memory, stock.worker.queue.qsize())

    return await stock.quickly(request, job)


@router.post("/try")
async def try_it(ask: asks.Try, request: Request, house: In) -> asks.Tried:
    """Words changed: what methods claim beside what the model does."""
    return await house.seats.get(ask.model).quickly(request, lambda m: trying.tried(m, ask, house.memory))


@router.post("/features")
async def features(ask: asks.Fire, request: Request, house: In) -> asks.Firing:
    """Features that fire on a text."""
    stock = house.seats.get(ask.model)
    return await stock.quickly(request, lambda m: inside.fired(m, ask, house.dictionary(stock)))


@router.post("/next")
async def next_token(ask: asks.Steer, request: Request, house: In) -> asks.Next:
    """The next token, base beside steered."""
    stock = house.seats.get(ask.model)
    return await stock.quickly(request, lambda m: inside.nexts(m, ask, house.dictionary(stock)))


# --- jobs ------------------------------------------------------------------------------------------


@router.post("/jobs/explain", status_code=202)
def start_explain(ask: asks.Explain, house: In) -> asks.JobState:
    """Methods one after the other, then weighed; stored as a run."""
    house.runs.room()

    def work(model: Any, job: Job) -> None:
        found = explaining.explain(model, ask, house.memory, job)
        job.tell("storing")
        job.run = runs.number(explaining.stored(found, house.runs.root, job.id))

    return state_of(house.start("explain", ask, work))


@router.post("/jobs/attention", status_code=202)
def start_attention(ask: asks.Attend, house: In) -> asks.JobState:
    """Every head on one text."""
    return state_of(house.start("attention", ask, lambda m, job: job.show(inside.attended(m, ask, job))))


@router.post("/jobs/feature", status_code=202)
def start_feature(ask: asks.Feature, house: In) -> asks.JobState:
    """All about one feature; the first time, texts are read."""
    held = house.dictionary(house.seats.get(ask.model))

    def work(model: Any, job: Job) -> None:
        job.show(inside.feature_page(model, ask, held, job))

    return state_of(house.start("feature", ask, work))


@router.post("/jobs/steer", status_code=202)
def start_steer(ask: asks.Write, house: In) -> asks.JobState:
    """What the model writes, base beside steered; stored as a run."""
    house.runs.room()
    held = house.dictionary(house.seats.get(ask.model))

    def work(model: Any, job: Job) -> None:
        found = inside.steered(model, ask, held, job)
        job.show(found)
        job.run = runs.number(inside.store_sides(found, house.runs.root, job.id))

    return state_of(house.start("steer", ask, work))


@router.get("/jobs/{number}")
def job(number: Number, house: In) -> asks.JobState:
    """How a job stands; of one from before the server was started, what was stored."""
    found = house.jobs.get(number)
    if found is not None:
        return state_of(found)
    stored = house.runs.named(number)
    if stored is None:
        raise NotThere("This job is not known here: the server was started anew, or it is long ago.")
    return asks.JobState(
        id=number, kind=stored.kind, state="done", label="", done=0, total=0, seconds=0.0, left=None,
        error="", run=stored.id, ask={}, result=None, shown=0,
    )  # fmt: skip


@router.post("/jobs/{number}/cancel")
def cancel(number: Number, house: In) -> asks.JobState:
    """End it; what it has found stays."""
    found = _job(house, number)
    house.jobs.cancel(found)
    return state_of(found)


@router.get(
    "/jobs/{number}/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "states"}
    },
)
async def events(number: Number, request: Request, house: In) -> StreamingResponse:
    """The same as it changes, until the job ends: results when there are new ones, else where it stands."""
    return StreamingResponse(
        _told(_job(house, number), request),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


async def _told(found: Job, request: Request) -> AsyncIterator[str]:
    changes, shown, silent = -1, -1, 0.0
    while True:
        if found.changes != changes:
            changes, silent = found.changes, 0.0
            state = state_of(found, result=found.shown != shown)
            shown = found.shown
            yield f"data: {json.dumps(state.model_dump(), allow_nan=False)}\n\n"
            if state.state in ENDED:
                return
        await asyncio.sleep(LISTEN)
        silent += LISTEN
        if silent > BEAT:
            silent = 0.0
            yield ": here\n\n"
        if await request.is_disconnected():
            return


def _job(house: House, number: str) -> Job:
    found = house.jobs.get(number)
    if found is None:
        raise NotThere("This job is not known here: the server was started anew, or it is long ago.")
    return found


def state_of(found: Job, result: bool = True) -> asks.JobState:
    return asks.JobState(
        id=found.id, kind=found.kind, state=found.state,  # type: ignore[arg-type]
        label=found.label, done=found.done, total=found.total, seconds=found.seconds, left=found.left,
        error=found.error, run=found.run, ask=found.ask, result=found.result if result else None,
        shown=found.shown,
    )  # fmt: skip


# --- runs ------------------------------------------------------------------------------------------


@router.get("/runs")
def list_runs(house: In) -> asks.RunList:
    """Explanations, audits, trials, labs and steers under the root, newest first."""
    return house.runs.listed()


@router.get("/runs/{number}")
def show_run(number: Number, house: In) -> asks.RunPage:
    """One of them, drawn as the report draws it."""
    return runs.opened(_run(house, number))[0]


@router.get(
    "/runs/{number}/report",
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "a file"}},
)
def report(number: Number, house: In) -> HTMLResponse:
    """The same as one file to keep."""
    place = _run(house, number)
    whole = runs.opened(place)[1]()
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in Path(place.name).name)
    headers = {"content-disposition": f'attachment; filename="{name[:80]}.html"'}
    return HTMLResponse(whole, headers=headers)


def _run(house: House, number: str) -> runs.Place:
    place = house.runs.get(number)
    if place is None:
        raise NotThere("There is no such run here.")
    return place
