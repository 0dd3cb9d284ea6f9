"""The questions the page asks, each a few lines: check, ask the model's thread, answer.

Quick questions are answered by the model's own thread; long ones are jobs (heedful.server.routes.jobs). GET
changes nothing; everything that costs is a POST with JSON.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool

from heedful._version import __version__
from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.modalities.text import text_of
from heedful.models.adapter import token_model
from heedful.server import automatic_test, brush, internals, live_explain, run_list, what_if
from heedful.server.model_pool import ServedModel
from heedful.server.picture_cells import unit_names
from heedful.server.schemas import requests, responses
from heedful.server.security import MAX_PICTURE_BYTES
from heedful.server.state import REFUSALS, NotFound, Number, RequestState, ServerState

router = APIRouter(prefix="/api", responses=REFUSALS)


# --- what is here ----------------------------------------------------------------------------------


@router.get("/here")
def server_info(state: RequestState) -> responses.ServerInfo:
    """Models, methods and limits of this server."""
    methods = [
        responses.Method(name=e.name, summary=e.summary, cite=e.cite, signed=e.signed)
        for e in registry.explainers().values()
    ]
    served_models = [*state.models.served.values()]  # another may be loaded meanwhile
    state.look_for_advice()
    return responses.ServerInfo(
        version=__version__,
        models=[_model(served, state) for served in served_models],
        offered=state.models.offered(),
        allow_load=state.models.allow_load,
        methods=methods,
        limit=requests.MAX_TEXT_CHARACTERS,
        picture_limit=MAX_PICTURE_BYTES,
        written=requests.MAX_WRITTEN,
        runs=state.runs.root.is_dir(),
        waiting={s.name: s.waiting for s in served_models},
    )


def _model(served: ServedModel, state: ServerState) -> responses.ServedModelInfo:
    model = served.model
    facts = {k: v for k, v in live_explain.facts_of(model).items() if isinstance(v, str | int | float | bool)}
    dictionary = state.dictionary(served)
    return responses.ServedModelInfo(
        name=served.name,
        kind=model.kind,
        modality=str(facts.get("modality", "text")),
        few=live_explain.live_order(model),
        units=unit_names(model, live_explain.reads_pictures(model)),
        examples=state.examples(served),
        labels=list(model.labels)[:1000],
        window=model.window,
        pairs=_reads_pairs(model),
        chat=_has_template(model),
        operators=list(model.operators),
        capabilities=sorted(model.capabilities),
        features=dictionary.sae.config.width if dictionary.exists else 0,
        facts=facts,
        skipped={s.method: s.why for s in registry.support(model) if not s.ok},
    )


def _reads_pairs(model: Model) -> bool:
    """Two texts, by trying: what generates goes on from one."""
    if live_explain.reads_pictures(model) or model.kind not in ("classifier", "multi-label", "regression"):
        return False
    try:
        return len(set(text_of(model.encode(("one", "two"))).segments) - {-1}) == 2
    except HeedfulError:
        return False


def _has_template(model: Model) -> bool:
    if model.module is None or live_explain.reads_pictures(model):
        return False
    return token_model(model).has_chat_template


@router.post("/models")
def load_model(ask: requests.LoadRequest, state: RequestState) -> responses.ServedModelInfo:
    """Load another model, where the server was started so that it may."""
    return _model(state.models.load(ask.model), state)


# --- quick -----------------------------------------------------------------------------------------


@router.post("/look")
async def explain_live(
    ask: requests.LiveRequest, request: Request, state: RequestState
) -> responses.LiveAnswer:
    """As one types: the prediction, the cheap methods, and what the others cost."""
    served = state.models.get(ask.model)

    def job(model: Model) -> responses.LiveAnswer:
        room = len(state.jobs.active(automatic_test.KIND)) < automatic_test.MAX_AT_ONCE
        return live_explain.explain_live(model, ask, state.memory, served.waiting, room)

    return await served.run_quick(request, job)


@router.post("/try")
async def try_edits(
    ask: requests.WhatIfRequest, request: Request, state: RequestState
) -> responses.WhatIfResponse:
    """Words changed: what methods claim beside what the model does."""
    served = state.models.get(ask.model)
    return await served.run_quick(
        request, lambda m: what_if.apply_edits(m, ask, state.memory, served.waiting)
    )


@router.post("/brush")
async def remove_region(
    ask: requests.BrushRequest, request: Request, state: RequestState
) -> responses.RemovedRegion:
    """A region of a picture removed: what methods claim beside what the model does."""
    served = state.models.get(ask.model)
    return await served.run_quick(
        request, lambda m: brush.remove_region(m, ask, state.memory, served.waiting)
    )


@router.post("/features")
async def features(
    ask: requests.FeaturesRequest, request: Request, state: RequestState
) -> responses.FeatureActivity:
    """Features that fire on a text."""
    served = state.models.get(ask.model)
    return await served.run_quick(
        request,
        lambda m: internals.active_features(token_model(m, "features"), ask, state.dictionary(served)),
    )


@router.post("/next")
async def next_token(
    ask: requests.SteerRequest, request: Request, state: RequestState
) -> responses.NextTokens:
    """The next token, base beside steered."""
    served = state.models.get(ask.model)
    return await served.run_quick(
        request, lambda m: internals.next_tokens(token_model(m, "steering"), ask, state.dictionary(served))
    )


# --- runs ------------------------------------------------------------------------------------------


@router.get("/runs")
def list_runs(state: RequestState) -> responses.RunList:
    """Explanations, audits, trials, labs and steers under the root, newest first."""
    return state.runs.listed()


@router.get("/runs/{number}", response_model=responses.RunPage)
async def show_run(number: Number, request: Request, state: RequestState) -> Response:
    """One of them, drawn as the report draws it."""
    place = await run_in_threadpool(_run, state, number)
    return Response((await state.opened.get(request, place)).page, media_type="application/json")


@router.get(
    "/runs/{number}/report",
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "a file"}},
)
async def report(number: Number, request: Request, state: RequestState) -> HTMLResponse:
    """The same as one file to keep."""
    place = await run_in_threadpool(_run, state, number)
    whole = (await state.opened.get(request, place)).report
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in Path(place.name).name)
    headers = {"content-disposition": f'attachment; filename="{name[:80]}.html"'}
    headers["content-security-policy"] = "sandbox"  # besides that of every answer
    return HTMLResponse(whole, headers=headers)


def _run(state: ServerState, number: str) -> run_list.RunPlace:
    place = state.runs.get(number)
    if place is None:
        raise NotFound("There is no such run here.")
    return place
