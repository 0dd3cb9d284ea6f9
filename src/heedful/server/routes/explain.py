"""The questions the page asks, each a few lines: check, ask the model's thread, answer.

Quick questions are answered by the model's own thread; long ones are jobs (heedful.server.routes.jobs). GET
changes nothing; everything that costs is a POST with JSON.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from heedful._version import __version__
from heedful.core import registry
from heedful.core.defaults import DEFAULT_METHODS
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.modalities.text import text_of
from heedful.models.adapter import TokenModel
from heedful.server import internals, live_explain, run_list, what_if
from heedful.server.model_pool import ServedModel
from heedful.server.schemas import requests, responses
from heedful.server.state import REFUSALS, In, NotThere, Number, ServerState

router = APIRouter(prefix="/api", responses=REFUSALS)


# --- what is here ----------------------------------------------------------------------------------


@router.get("/here")
def here(house: In) -> responses.Here:
    """Models, methods and limits of this server."""
    methods = [
        responses.Method(name=e.name, summary=e.summary, cite=e.cite, signed=e.signed)
        for e in registry.explainers().values()
    ]
    stocks = [*house.seats.stocks.values()]  # another may be loaded meanwhile
    return responses.Here(
        version=__version__,
        models=[_model(stock, house) for stock in stocks],
        offered=house.seats.offered(),
        allow_load=house.seats.allow_load,
        methods=methods,
        few=list(DEFAULT_METHODS),
        limit=requests.MAX_TEXT_CHARACTERS,
        runs=house.runs.root.is_dir(),
        waiting={s.name: s.worker.queue.qsize() for s in stocks},
    )


def _model(stock: ServedModel, house: ServerState) -> responses.ServedModelInfo:
    model = stock.model
    facts = {k: v for k, v in live_explain.facts_of(model).items() if isinstance(v, str | int | float | bool)}
    has = house.dictionary(stock)
    return responses.ServedModelInfo(
        name=stock.name,
        kind=model.kind,
        labels=list(model.labels)[:1000],
        window=model.window,
        pairs=_reads_pairs(model),
        chat=_has_template(model),
        operators=list(model.operators),
        capabilities=sorted(model.capabilities),
        features=has.sae.config.width if has.there else 0,
        facts=facts,
        skipped={s.method: s.why for s in registry.support(model) if not s.ok},
    )


def _reads_pairs(model: Model) -> bool:
    """Two texts, by trying: what generates goes on from one."""
    if model.kind not in ("classifier", "multi-label", "regression"):
        return False
    try:
        return len(set(text_of(model.encode(("one", "two"))).segments) - {-1}) == 2
    except HeedfulError:
        return False


def _has_template(model: Model) -> bool:
    return isinstance(model, TokenModel) and model.has_chat_template


@router.post("/models")
def load_model(ask: requests.Load, house: In) -> responses.ServedModelInfo:
    """Load another model, where the server was started so that it may."""
    return _model(house.seats.load(ask.model), house)


# --- quick -----------------------------------------------------------------------------------------


@router.post("/look")
async def look(ask: requests.LiveRequest, request: Request, house: In) -> responses.LiveAnswer:
    """As one types: the prediction, the cheap methods, and what the others cost."""
    stock = house.seats.get(ask.model)

    def job(model: Model) -> responses.LiveAnswer:
        return live_explain.look(model, ask, house.memory, stock.worker.queue.qsize())

    return await stock.quickly(request, job)


@router.post("/try")
async def try_it(ask: requests.Try, request: Request, house: In) -> responses.Tried:
    """Words changed: what methods claim beside what the model does."""
    return await house.seats.get(ask.model).quickly(request, lambda m: what_if.tried(m, ask, house.memory))


@router.post("/features")
async def features(ask: requests.Fire, request: Request, house: In) -> responses.FeatureActivity:
    """Features that fire on a text."""
    stock = house.seats.get(ask.model)
    return await stock.quickly(request, lambda m: internals.fired(m, ask, house.dictionary(stock)))


@router.post("/next")
async def next_token(ask: requests.Steer, request: Request, house: In) -> responses.Next:
    """The next token, base beside steered."""
    stock = house.seats.get(ask.model)
    return await stock.quickly(request, lambda m: internals.nexts(m, ask, house.dictionary(stock)))


# --- runs ------------------------------------------------------------------------------------------


@router.get("/runs")
def list_runs(house: In) -> responses.RunList:
    """Explanations, audits, trials, labs and steers under the root, newest first."""
    return house.runs.listed()


@router.get("/runs/{number}")
def show_run(number: Number, house: In) -> responses.RunPage:
    """One of them, drawn as the report draws it."""
    return run_list.opened(_run(house, number))[0]


@router.get(
    "/runs/{number}/report",
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "a file"}},
)
def report(number: Number, house: In) -> HTMLResponse:
    """The same as one file to keep."""
    place = _run(house, number)
    whole = run_list.opened(place)[1]()
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in Path(place.name).name)
    headers = {"content-disposition": f'attachment; filename="{name[:80]}.html"'}
    return HTMLResponse(whole, headers=headers)


def _run(house: ServerState, number: str) -> run_list.RunPlace:
    place = house.runs.get(number)
    if place is None:
        raise NotThere("There is no such run here.")
    return place
