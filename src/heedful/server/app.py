"""`heedful.serve`: a page on this machine that explains, tests and opens models.

FastAPI answers, uvicorn listens, heedful.server.security stands before both. Components of the report are
served as they are: there is no build step, and nothing is loaded from the network.
"""

from __future__ import annotations

import html
import socket
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from heedful._version import __version__
from heedful.core.defaults import HOST, PORT
from heedful.core.errors import HeedfulError
from heedful.features.activations.windows import open_texts
from heedful.models.adapter import token_model
from heedful.server import security as secure
from heedful.server.job_queue import memory_sentence, system_sentence
from heedful.server.live_explain import warm_up
from heedful.server.model_pool import ModelPool
from heedful.server.model_thread import Busy, ClientDisconnected
from heedful.server.picture_store import PictureNotFound
from heedful.server.routes import explain, generate, jobs, pictures
from heedful.server.run_list import Runs
from heedful.server.state import NotFound, ServerState
from heedful.server.static_files import FILES

MAX_CONNECTIONS = 512
SHUTDOWN_SECONDS = 10.0  # seconds that jobs have to come to their end


@dataclass(frozen=True)
class ServerConfig:
    """What the server is started with."""

    host: str = HOST
    port: int = PORT
    runs: Path | None = None  # None: a temporary folder, removed when the server stops
    models: Path | None = None  # a folder of model folders that may be loaded by name
    allow_load: bool = False
    token: str | None = None
    names: tuple[str, ...] = ()  # host names it also answers to
    dictionaries: Mapping[str, Any] = field(default_factory=dict)  # model -> SAE or its folder
    texts: Mapping[str, Any] = field(default_factory=dict)  # model -> texts to read features on
    allow_pickle: bool = False


def load_state(models: Sequence[Any], config: ServerConfig) -> ServerState:
    """Load the models, and what all requests share."""
    pool = ModelPool(config.allow_load, config.models)
    for source in models:
        served = pool.add(source, config.allow_pickle)
        served.dictionary = config.dictionaries.get(served.name, served.dictionary)
        served.texts = config.texts.get(served.name, served.texts)
    state = ServerState(pool, Runs(config.runs))
    check_given(state, config)
    state.look_for_advice()
    for served in pool.served.values():
        warm_up(served.name, served.model, state.memory)
    return state


def check_given(state: ServerState, config: ServerConfig) -> None:
    """Open the SAEs and texts that were named: one that is not there must not be told to a visitor later."""
    for served in state.models.served.values():
        if served.name in config.dictionaries:
            state.dictionary(served).site(token_model(served.model, "features"))
        if isinstance(given := config.texts.get(served.name), str | Path):
            open_texts(given, "text")


def application(state: ServerState, config: ServerConfig) -> Any:
    """The ASGI application behind its security checks."""
    app = FastAPI(
        title="heedful",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=_lifespan,
    )
    app.state.server = state
    app.include_router(explain.router)
    app.include_router(jobs.router)
    app.include_router(generate.router)
    app.include_router(pictures.router)
    for place, (kind, content) in FILES.items():
        app.add_api_route(place, _file(kind, content), methods=["GET"], include_in_schema=False)
    app.add_exception_handler(HeedfulError, _bad_request)
    app.add_exception_handler(NotFound, _not_found)
    app.add_exception_handler(PictureNotFound, _not_found)
    app.add_exception_handler(Busy, _too_many_requests)
    app.add_exception_handler(ClientDisconnected, _client_disconnected)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(OSError, _system_error)
    app.add_exception_handler(MemoryError, _memory_error)
    app.add_exception_handler(RuntimeError, _memory_error)  # so torch tells that there is no memory
    return secure.Guarded(app, secure.guard_of(config.host, config.token, config.names))


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.server.close()


def _file(kind: str, content: bytes) -> Any:
    async def answer() -> Response:
        return Response(content, media_type=kind)

    return answer


async def _bad_request(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": _clean(str(error))}, 400)


async def _not_found(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404)


async def _too_many_requests(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 429, {"retry-after": "2"})


async def _client_disconnected(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)


async def _invalid(_request: Request, error: Exception) -> Response:
    """Which field, and why; what was sent is not sent back."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "path", "query"))
    return JSONResponse({"error": _clean(f"{place or 'the request'}: {first['msg']}.")}, 422)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": _clean(str(error.detail))}, error.status_code, error.headers)


async def _system_error(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": _clean(system_sentence(error))}, 507)


async def _memory_error(_request: Request, error: Exception) -> Response:
    if sentence := memory_sentence(error):
        return JSONResponse({"error": sentence}, 507)
    raise error


def _clean(sentence: str) -> str:
    """Half a surrogate pair cannot be sent."""
    return sentence.encode("utf-8", "replace").decode()[:2000]


# --- start -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PreparedServer:
    """Loaded and bound; nothing is answered yet."""

    config: ServerConfig
    state: ServerState
    socket: socket.socket


def prepare(models: Sequence[Any], config: ServerConfig) -> PreparedServer:
    """Bind the port, then load: a port that is taken is an error before anything is loaded."""
    bound = listen(config.host, config.port)
    try:
        return PreparedServer(config, load_state(models, config), bound)
    except BaseException:
        bound.close()
        raise


def uvicorn_server(state: ServerState, config: ServerConfig, **more: Any) -> Any:
    """The server, as uvicorn runs it."""
    import uvicorn

    from heedful.server.header_timeout import HeaderTimeoutProtocol

    return uvicorn.Server(
        uvicorn.Config(
            application(state, config),
            log_level="error",  # of damaged requests anybody could write a line each
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=20,
            timeout_graceful_shutdown=2,
            ws="none",
            http=HeaderTimeoutProtocol,
            **more,
        )
    )


def run(server: PreparedServer, open_browser: bool = False) -> bool:
    """Print the address, and answer until Ctrl-C; then whether all threads have ended. One that has not is
    inside a call of the model: the interpreter must not be taken down under it."""
    where = address(server.config, server.socket.getsockname()[1])
    print(where, flush=True)
    if open_browser:
        import webbrowser

        webbrowser.open(where)
    try:
        uvicorn_server(server.state, server.config).run([server.socket])
    except KeyboardInterrupt:  # uvicorn has ended everything by now
        pass
    finally:
        server.socket.close()
    try:
        return server.state.shut_down(SHUTDOWN_SECONDS)
    except KeyboardInterrupt:  # once more: no time
        return False


class Serving:
    """A server in a thread: `address` to open, `close` to end it; a context manager, too."""

    def __init__(self, prepared: PreparedServer) -> None:
        self.address = address(prepared.config, prepared.socket.getsockname()[1])
        self._prepared, self._server = prepared, uvicorn_server(prepared.state, prepared.config)
        self._thread = threading.Thread(
            target=self._server.run, args=([prepared.socket],), name="heedful serve", daemon=True
        )
        self._thread.start()

    def _repr_html_(self) -> str:
        """Where it is, to click."""
        where = html.escape(self.address)
        return f'<p>heedful serves at <a href="{where}" rel="noreferrer">{where}</a></p>'

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<heedful.serve at {self.address}>"

    def close(self) -> None:
        """Requests that run come to their end; jobs are cancelled."""
        self._server.should_exit = True
        self._thread.join(10)
        self._prepared.state.shut_down(SHUTDOWN_SECONDS)
        self._prepared.socket.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound to the port."""
    result = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        result.bind((host, port))
        result.listen(2048)
    except (OSError, OverflowError) as error:
        result.close()
        why = getattr(error, "strerror", None) or str(error)
        raise HeedfulError(f"cannot listen on {host} port {port}", why, f"Try: --port {port + 1}") from None
    return result


def _own_address(host: str) -> str:
    """This machine's own address on the way to others; nothing is sent to find it."""
    family, far = (socket.AF_INET, "192.0.2.1") if host == "0.0.0.0" else (socket.AF_INET6, "2001:db8::1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((far, 9))
            return str(probe.getsockname()[0])
        except OSError:  # no network
            return "localhost"


def address(config: ServerConfig, port: int) -> str:
    """To open: of a server on all addresses, the one by which other machines reach this one."""
    host = _own_address(config.host) if config.host in ("0.0.0.0", "::") else config.host
    host = f"[{host}]" if ":" in host else host
    token = f"/?token={quote(config.token, safe='')}" if config.token else "/"
    return f"http://{host}:{port}{token}"


__all__ = [
    "PreparedServer",
    "ServerConfig",
    "Serving",
    "application",
    "load_state",
    "prepare",
    "run",
]
