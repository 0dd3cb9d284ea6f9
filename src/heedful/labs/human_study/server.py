"""A page on this machine on which people take the test of the lab "choose-the-classifier".

    GET  /         what it is about            POST /begin    draws the rounds of a sitting
    GET  /round    the next round              POST /answer   writes one answer down
    GET  /end      how it went                 GET  /results  everyone so far

Half of a sitting's rounds show explanations, half accuracy alone; their order and the sides of the
classifiers are drawn. Works without scripts. Only the loopback address is listened on. Before a handler sees
a request, its Host must be this machine's (DNS rebinding), and a POST must come from this page (Origin), be a
small form, and hold the page's token. The name of a sitting is a random cookie that no script can read and no
other site can send.
"""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import Headers

from heedful.core.defaults import HOST
from heedful.core.errors import HeedfulError
from heedful.core.progress import Report, counting
from heedful.core.whole_numbers import whole_number
from heedful.labs.human_study import pages
from heedful.labs.human_study.answers import SEES, AnswerFile, StudyQuestion
from heedful.labs.human_study.study_trials import Round, play
from heedful.server.security import (
    HEADERS,
    App,
    Guard,
    Receive,
    Refusal,
    Scope,
    Send,
    place_of,
    replay_of,
    whole_body,
    with_headers,
)

ROUNDS, MAILS = 8, 3
MAX_BODY_BYTES = 4096  # bytes of a form
COOKIE = "sitting"
FOREIGN = "This form is not from this web page, or the study was restarted."
WRONG_ADDRESS = "This is not the address of the study. Open the address that was printed at the start."
OTHER_SITE = "This request came from another site. Answers are accepted from this web page only."
POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
SENT = HEADERS | {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",  # with no-referrer, browsers send the Origin of a form as "null"
}


def material(seed: int, progress: Report | None = None) -> list[Round]:
    """The rounds of a study: classifiers and mails of their own."""
    rounds = []
    for number in range(ROUNDS):
        rounds.append(play(np.random.default_rng([seed, number]), MAILS, ("lime",)))
        counting(progress, "preparing rounds")(number + 1, ROUNDS)
    return rounds


def sitting(count: int, draw: random.Random) -> list[StudyQuestion]:
    """Rounds in a random order; what is seen and the sides are drawn, each as often as the other."""
    halves = [list(pair) * (count // 2) for pair in (SEES, ("left", "right"))]
    for half in halves:
        draw.shuffle(half)
    order = draw.sample(range(count), count)
    return [
        StudyQuestion(n + 1, each, *row) for n, (each, *row) in enumerate(zip(order, *halves, strict=True))
    ]


def application(rounds: Sequence[Round], answers: AnswerFile) -> App:
    """The ASGI application behind its guard."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    token = secrets.token_urlsafe(24)
    _outside(app, len(rounds), answers, token)
    _begins(app, len(rounds), answers, token)
    _asks(app, rounds, answers, token)
    _takes_answers(app, answers, token)
    _ends(app, answers)
    app.add_exception_handler(HeedfulError, _not_kept)
    return guarded(app)


def _outside(app: FastAPI, count: int, answers: AnswerFile, token: str) -> None:
    """What everybody may see."""
    style = pages.style()

    @app.get("/style.css")
    def look() -> Response:
        return Response(style, media_type="text/css")

    @app.get("/")
    def welcome() -> HTMLResponse:
        return HTMLResponse(pages.welcome(count, token))

    @app.get("/results")
    def results() -> HTMLResponse:
        return HTMLResponse(pages.results(answers.shares()))


def _begins(app: FastAPI, count: int, answers: AnswerFile, token: str) -> None:
    @app.post("/begin")
    async def begin(request: Request) -> Response:
        if not _same(await _form(request), token):
            return _refused(403, FOREIGN)
        name = answers.begin(sitting(count, random.SystemRandom()))
        answer = RedirectResponse("/round", 303)
        answer.set_cookie(COOKIE, name, httponly=True, samesite="strict")
        return answer


def _asks(app: FastAPI, rounds: Sequence[Round], answers: AnswerFile, token: str) -> None:
    @app.get("/round")
    def show(request: Request) -> Response:
        requested, total = answers.next(request.cookies.get(COOKIE, ""))
        if requested is None or requested.material >= len(rounds):
            return RedirectResponse("/end" if total else "/", 303)
        return HTMLResponse(pages.question(requested, total, rounds[requested.material], token))


def _takes_answers(app: FastAPI, answers: AnswerFile, token: str) -> None:
    @app.post("/answer")
    async def answer(request: Request) -> Response:
        form = await _form(request)
        if not _same(form, token):
            return _refused(403, FOREIGN)
        number, picked = form.get("number", ""), form.get("picked", "")
        if picked not in ("left", "right") or not (number.isascii() and number.isdigit() and len(number) < 4):
            return _refused(400, "Choose left or right.")
        answers.answer(request.cookies.get(COOKIE, ""), int(number), picked)  # a second time: nothing
        return RedirectResponse("/round", 303)


def _ends(app: FastAPI, answers: AnswerFile) -> None:
    @app.get("/end")
    def end(request: Request) -> Response:
        person = request.cookies.get(COOKIE, "")
        requested, total = answers.next(person)
        if requested is not None or not total:
            return RedirectResponse("/round" if total else "/", 303)
        return HTMLResponse(pages.ending(answers.shares(person), answers.shares()))


async def _not_kept(_request: Request, error: Exception) -> Response:
    """A full disk, say; where the file is, is not told."""
    why = error.why if isinstance(error, HeedfulError) else ""
    return _refused(507, f"The answers cannot be read or written: {why}.")


async def _form(request: Request) -> dict[str, str]:
    try:
        result = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    except ValueError:  # more fields than any form of this page
        return {}
    return {name: values[0] for name, values in result.items()}


def _same(form: dict[str, str], token: str) -> bool:
    return secrets.compare_digest(form.get("token", "").encode(), token.encode())


def _refused(status: int, sentence: str) -> HTMLResponse:
    return HTMLResponse(pages.refusal(sentence), status)


def guarded(app: Any, guard: Guard = Guard()) -> App:  # noqa: B008 (frozen)
    """Refuses what is not asked from this machine's own page; every answer carries the headers above."""

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = refusal_of_form(scope["method"], Headers(scope=scope), guard)
        if refusal is None and scope["method"] == "POST":
            body, cut = await whole_body(receive, MAX_BODY_BYTES)  # whatever its head says of its length
            refusal = cut and Refusal(cut.status, "The form is too large or did not come to its end.")
            receive = replay_of(body, receive)
        chosen = app if refusal is None else _refused(refusal.status, refusal.sentence)
        await chosen(scope, receive, with_headers(send, SENT))

    return inside


def refusal_of_form(method: str, headers: Headers, guard: Guard) -> Refusal | None:
    """Why a request is not answered; None: it is."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not guard.knows(hosts[0]):
        return Refusal(421, WRONG_ADDRESS)
    if method not in ("GET", "HEAD", "POST"):
        return Refusal(405, "Use GET or POST.")
    if method != "POST":
        return None
    origin = headers.get("origin")
    if origin is None or place_of(origin) != hosts[0].lower():
        return Refusal(403, OTHER_SITE)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return Refusal(415, "Answers must be sent with the form of the web page.")
    length = whole_number(headers.get("content-length", ""))
    if length is None or length > MAX_BODY_BYTES:
        return Refusal(413, "The form is too large.")
    return None


def listen(port: int) -> socket.socket:
    """The loopback address; 0 finds a free port."""
    result = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        result.bind((HOST, port))
    except (OSError, OverflowError) as error:
        result.close()
        raise HeedfulError(f"port {port} cannot be used", str(error), "Give another --port") from None
    return result


def serve(app: App, at: socket.socket) -> None:
    """Answers until Ctrl-C."""
    import uvicorn

    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, server_header=False)).run(
        sockets=[at]
    )
