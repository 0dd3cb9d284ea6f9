"""Writing: a job that continues a text, and a quick question about one of the written tokens."""

from __future__ import annotations

from fastapi import APIRouter, Request

from heedful.core.model import Model
from heedful.models.adapter import token_model
from heedful.server import generation
from heedful.server.job_queue import Job
from heedful.server.routes.jobs import job_state
from heedful.server.schemas import requests, responses
from heedful.server.state import REFUSALS, RequestState

router = APIRouter(prefix="/api", responses=REFUSALS)


@router.post("/jobs/generate", status_code=202)
def start_generate(ask: requests.ContinueRequest, state: RequestState) -> responses.JobState:
    """What the model writes after a text, with probabilities, and the token x token matrix."""

    def work(model: Model, job: Job) -> None:
        generation.write(token_model(model, "generate"), ask, job)

    return job_state(state.start("generate", ask, work))


@router.post("/why")
async def why(ask: requests.WhyRequest, request: Request, state: RequestState) -> responses.TokenAnswer:
    """Why one of the written tokens was written."""
    served = state.models.get(ask.model)
    return await served.run_quick(
        request, lambda m: generation.why(token_model(m, "generate"), ask, state.memory)
    )
