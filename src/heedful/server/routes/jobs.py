"""Long work: started by a POST, then asked for by its number or listened to as a stream of events.

What a job makes is stored as a run folder, whose number it tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from heedful.comparisons.result import Comparison
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.io import run_folder
from heedful.io.json_codec import json_text
from heedful.models.adapter import token_model
from heedful.server import automatic_test, explain_job, internals, run_list, steering_limit
from heedful.server.job_queue import ENDED, Job
from heedful.server.live_explain import given, reads_pictures
from heedful.server.run_view import asked
from heedful.server.schemas import requests, responses
from heedful.server.state import REFUSALS, NotFound, Number, RequestState, ServerState

POLL_SECONDS = 0.15  # seconds between looks at a job that is listened to
HEARTBEAT_SECONDS = 15.0  # seconds after which a silent stream says that it lives
router = APIRouter(prefix="/api/jobs", responses=REFUSALS)


@router.post("/explain", status_code=202)
def start_explain(ask: requests.ExplainJobRequest, state: RequestState) -> responses.JobState:
    """Methods one after the other, then the test; stored as a run, of a cancelled job what was finished. An
    automatic one is not stored, and ends the one before it of the same owner."""
    if ask.automatic:
        return _start_automatic(ask, state)
    state.runs.room()

    def work(model: Model, job: Job) -> None:
        finished: list[Comparison] = []
        try:
            finished.append(explain_job.explain(model, ask, state.memory, job, finished.append))
            job.report("storing")
        finally:  # cancelled: what was finished
            if finished:
                job.run = run_list.number(explain_job.stored(finished[-1], state.runs.root, job.id))

    return job_state(state.start("explain", ask, work))


def _start_automatic(ask: requests.ExplainJobRequest, state: ServerState) -> responses.JobState:
    for older in state.jobs.active(automatic_test.KIND):
        if older.owner == ask.owner:
            state.jobs.cancel(older)

    def work(model: Model, job: Job) -> None:
        explain_job.explain_at_once(model, ask, state.memory, job)

    return job_state(state.start(automatic_test.KIND, ask, work))


@router.post("/attention", status_code=202)
def start_attention(ask: requests.AttentionRequest, state: RequestState) -> responses.JobState:
    """Every head on one text or picture; stored as a run."""
    state.runs.room()

    def work(model: Model, job: Job) -> None:
        raw = given(model, ask, state.memory)
        able = model if reads_pictures(model) else token_model(model, "attention")
        result = internals.attention_atlas(able, raw, job)
        job.report("drawing")
        job.show(internals.atlas_parts(result))
        with suppress(HeedfulError):  # too large: it is shown, and not stored
            extra = {"ask": asked(ask.model_dump())}
            run_folder.write(state.runs.root / job.id, result, extra=extra, most=run_folder.MOST_BYTES)
            job.run = run_list.number(job.id)

    return job_state(state.start("attention", ask, work))


@router.post("/feature", status_code=202)
def start_feature(ask: requests.FeatureRequest, state: RequestState) -> responses.JobState:
    """All about one feature; the first time, texts are read. Stored as a run."""
    state.runs.room()
    kept = state.dictionary(state.models.get(ask.model))

    def work(model: Model, job: Job) -> None:
        featured = internals.feature_page(token_model(model, "features"), ask, kept, job)
        job.show(internals.feature_parts(featured))
        featured.save(state.runs.root / job.id)
        job.run = run_list.number(job.id)

    return job_state(state.start("feature", ask, work))


@router.post("/names", status_code=202)
def start_names(ask: requests.NamesRequest, state: RequestState) -> responses.JobState:
    """What features are active on, in words; the first time, texts are read."""
    kept = state.dictionary(state.models.get(ask.model))

    def work(model: Model, job: Job) -> None:
        internals.feature_names(token_model(model, "features"), ask, kept, job)

    return job_state(state.start("names", ask, work))


@router.post("/limit", status_code=202)
def start_limit(ask: requests.LimitRequest, state: RequestState) -> responses.JobState:
    """The largest strength at which the text does not break."""
    kept = state.dictionary(state.models.get(ask.model))

    def work(model: Model, job: Job) -> None:
        steering_limit.measure(token_model(model, "steering"), ask, kept, job)

    return job_state(state.start("limit", ask, work))


@router.post("/steer", status_code=202)
def start_steer(ask: requests.WriteRequest, state: RequestState) -> responses.JobState:
    """What the model writes, base beside steered; stored as a run."""
    state.runs.room()
    kept = state.dictionary(state.models.get(ask.model))

    def work(model: Model, job: Job) -> None:
        sides = internals.steered_text(token_model(model, "steering"), ask, kept, job)
        job.show({**sides.to_dict(), "feature": ask.feature, "strength": ask.strength})
        sides.save(state.runs.root / job.id)
        job.run = run_list.number(job.id)

    return job_state(state.start("steer", ask, work))


@router.get("/{number}")
def job(number: Number, state: RequestState) -> responses.JobState:
    """How a job stands; of one from before the server was started, what was stored."""
    result = state.jobs.get(number)
    if result is not None:
        return job_state(result)
    stored = state.runs.named(number)
    if stored is None:
        raise NotFound("This job is not known here: the server was restarted or the job has expired.")
    return responses.JobState(
        id=number,
        kind=stored.kind,
        state="done",
        label="",
        done=0,
        total=0,
        seconds=0.0,
        left=None,
        error="",
        run=stored.id,
        ask={},
        result=None,
        shown=0,
    )


@router.post("/{number}/cancel")
def cancel(number: Number, state: RequestState) -> responses.JobState:
    """End it; what it has found stays."""
    result = _job(state, number)
    state.jobs.cancel(result)
    return job_state(result)


@router.get(
    "/{number}/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "states"}
    },
)
async def events(number: Number, request: Request, state: RequestState) -> StreamingResponse:
    """The same as it changes, until the job ends: results when there are new ones, else where it stands."""
    return StreamingResponse(
        _event_stream(_job(state, number), request),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


async def _event_stream(job: Job, request: Request) -> AsyncIterator[str]:
    changes, shown, silent = -1, -1, 0.0
    while True:
        if job.changes != changes:
            changes, silent = job.changes, 0.0
            state = job_state(job, result=job.shown != shown)
            shown = job.shown
            yield f"data: {json_text(state.model_dump())}\n\n"
            if state.state in ENDED:
                return
        await asyncio.sleep(POLL_SECONDS)
        silent += POLL_SECONDS
        if silent > HEARTBEAT_SECONDS:
            silent = 0.0
            yield ": here\n\n"
        if await request.is_disconnected():
            return


def _job(state: ServerState, number: str) -> Job:
    result = state.jobs.get(number)
    if result is None:
        raise NotFound("This job is not known here: the server was restarted or the job has expired.")
    return result


def job_state(job: Job, result: bool = True) -> responses.JobState:
    return responses.JobState(
        id=job.id,
        kind=job.kind,
        state=job.state,  # type: ignore[arg-type]
        label=job.label,
        done=job.done,
        total=job.total,
        seconds=job.seconds,
        left=job.left,
        error=job.error,
        run=job.run,
        ask=job.ask,
        result=job.result if result else None,
        shown=job.shown,
    )
