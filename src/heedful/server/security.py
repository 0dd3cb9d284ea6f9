"""Who may ask, and how: checked before any handler sees a request.

Host      must name this machine as the command line does: a page elsewhere whose name is made to point here
          (DNS rebinding) is refused
Origin    where a browser sends it, must be this page; so must Sec-Fetch-Site
costly    requests are POST with JSON: a form of another site cannot send that, and no CORS answer is given
pictures  are POST with the media type of a picture, which a form cannot send either; only to their own place
token     on any address but the loopback one, as a cookie or a Bearer header
answers   forbid scripts and styles that are not files of this server, all other networks, and framing

No path that a client sends opens a file: the page's own files are read into memory at the start, and run
folders go by numbers that the server gave them (heedful.server.run_list).
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from heedful.core.defaults import HOST
from heedful.core.errors import HeedfulError
from heedful.core.whole_numbers import whole_number
from heedful.modalities.image_files import FORMATS

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MAX_BODY_BYTES = 64 * 1024  # bytes of a request
PICTURES = "/api/pictures"  # where pictures are sent to
PICTURE_TYPES = tuple(
    f"image/{kind}"
    for kind in ("png", "jpeg", "webp", "gif", "bmp", "tiff", "x-portable-anymap", "x-portable-pixmap")
)
MAX_PICTURE_BYTES = 16 << 20
MAX_UPLOADS = 16  # pictures on their way at once: what is on its way is in memory;
MAX_UPLOADS_PER_PEER = 4  # of one other machine, so that it cannot keep the others from sending theirs
BODY_SECONDS = 15.0  # seconds within which it must have come
peer: ContextVar[str] = ContextVar("peer", default="")  # of the request that is being answered
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
WRONG_ADDRESS = "This is not the address of this server. Open the address that heedful serve printed."
FOREIGN = "This request came from another site, and was refused."
TOKEN_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>heedful: a token is needed</title></head>
<body><main><h1>This page needs a token</h1>
<p>Open the whole link that <code>heedful serve</code> printed: it ends in <code>/?token=…</code>.
A browser that has opened it once needs no link again until the server is restarted.</p></main></body></html>
"""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
# a second policy, for reports of run folders that may be a stranger's: no script, no form, no navigation
SANDBOXED = ("content-security-policy", b"sandbox")


@dataclass(frozen=True)
class Guard:
    """Which names this server answers to."""

    hosts: frozenset[str] = LOOPBACK
    addresses: bool = False  # any IP address, too: for a server that listens on all of them
    token: str | None = None

    def knows(self, host: str) -> bool:
        """host[:port] of a request."""
        if "@" in host:  # the name before it is no part of a host
            return False
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self.hosts or (self.addresses and _is_address(name))


def guard_of(host: str, token: str | None, names: Sequence[str] = ()) -> Guard:
    """For a server that listens on `host`; a token is needed wherever others can reach it."""
    names = [name.strip().lower() for name in names]
    if host in LOOPBACK:
        return Guard(LOOPBACK | set(names), token=token)
    if not token:
        raise HeedfulError(f"{host} can be reached by others", "so a token is needed", "Let one be made")
    everywhere = host in ("0.0.0.0", "::")
    return Guard(LOOPBACK | {host.lower(), *names}, everywhere, token)


def new_token(host: str) -> str | None:
    """None on the loopback address, which this machine's users alone reach."""
    return None if host in LOOPBACK else secrets.token_urlsafe(32)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def peer_of(scope: Scope) -> str:
    """The peer that a request came from, which a client cannot choose as it chooses other names. "" for this
    machine: its users and those behind its proxy share one."""
    key = peer_key(scope.get("client"))
    return "" if key in LOOPBACK else key


def peer_key(client: tuple[str, int] | None) -> str:
    """What the limits of a peer are counted by: an IPv4 address, or the /64 network of an IPv6 address, since
    one machine may have all addresses of it. "" where there is no address."""
    name = str((client or ("",))[0])
    if not _is_address(name):
        return ""
    address = ipaddress.ip_address(name)
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return HOST
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False))


class PeerCount(Counter[str]):
    """How much each peer has open at once: another machine `most`, users of this one any number."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def full(self, peer: str) -> bool:
        return bool(peer) and self[peer] >= self.most

    @contextmanager
    def held(self, peer: str) -> Iterator[None]:
        """One more, until it ends."""
        self[peer] += 1
        try:
            yield
        finally:
            self[peer] -= 1
            if not self[peer]:
                del self[peer]  # else every address that ever asked would be remembered


@dataclass(frozen=True)
class Refusal:
    status: int
    sentence: str


class Guarded:
    """An application behind the guard."""

    def __init__(self, app: App, guard: Guard) -> None:
        self.app, self.guard, self.uploads = app, guard, PeerCount(MAX_UPLOADS_PER_PEER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        refusal = refusal_of(scope["method"], scope["path"], headers, self.guard)
        answer: App | None = None if refusal is None else _refusal_response(refusal)
        if answer is None and self.guard.token is not None:
            answer = _check_token(scope, headers, self.guard.token)
        peer.set(peer_of(scope))
        if answer is None and (scope["method"], scope["path"]) == ("POST", PICTURES):
            await self._upload(scope, receive, with_headers(send, HEADERS))
            return
        if answer is None and scope["method"] == "POST":
            body, refusal = await whole_body(receive, MAX_BODY_BYTES)
            answer = None if refusal is None else _refusal_response(refusal)
            receive = replay_of(body, receive)
        await (answer or self.app)(scope, receive, with_headers(send, HEADERS))

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A few at a time, from the first byte until the picture is decoded."""
        own = peer_of(scope)
        if self.uploads.total() >= MAX_UPLOADS or self.uploads.full(own):
            busy = Refusal(429, "Other pictures are being sent. Try again in a moment.")
            await _refusal_response(busy)(scope, receive, send)
            return
        with self.uploads.held(own):
            body, refusal = await whole_body(receive, MAX_PICTURE_BYTES)
            answer = self.app if refusal is None else _refusal_response(refusal)
            await answer(scope, replay_of(body, receive), send)


def refusal_of(method: str, path: str, headers: Headers, guard: Guard) -> Refusal | None:
    """Why a request is not answered; None: it is."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not guard.knows(hosts[0]):
        return Refusal(421, WRONG_ADDRESS)
    origin = headers.get("origin")
    if origin is not None and place_of(origin) != hosts[0].lower():
        return Refusal(403, FOREIGN)
    if headers.get("sec-fetch-site", "same-origin") in ("cross-site", "same-site") and (
        method != "GET" or headers.get("sec-fetch-mode") != "navigate"
    ):
        return Refusal(403, FOREIGN)
    if method not in ("GET", "HEAD", "POST"):
        return Refusal(405, f"{method[:20]} is not a method of this server. Use GET or POST.")
    if method == "POST":
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if path == PICTURES and kind not in PICTURE_TYPES:
            return Refusal(415, f"This is no picture of a known format. Known: {', '.join(FORMATS)}.")
        if path != PICTURES and kind != "application/json":
            return Refusal(415, "Send the request as JSON (Content-Type: application/json).")
        length, most = whole_number(headers.get("content-length", "0")), _most_bytes(path)
        if length is None or length > most:
            return _too_large(most)
    return None


def _most_bytes(path: str) -> int:
    return MAX_PICTURE_BYTES if path == PICTURES else MAX_BODY_BYTES


def place_of(origin: str) -> str:
    """host[:port] of an origin; "" where it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _too_large(most: int) -> Refusal:
    if most == MAX_PICTURE_BYTES:
        return Refusal(413, f"The picture is larger than {most >> 20} MB. Make it smaller first.")
    return Refusal(413, f"The request is larger than {most >> 10} KB. Shorten the text.")


def _refusal_response(refusal: Refusal) -> App:
    headers = {"allow": "GET, POST"} if refusal.status == 405 else {}
    return JSONResponse({"error": refusal.sentence}, refusal.status, headers)


def _check_token(scope: Scope, headers: Headers, token: str) -> App | None:
    """None where the token is shown; a link that holds it is turned into a cookie."""
    given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
    if scope["path"] == "/" and _same(given, token):
        answer: Response = RedirectResponse("/", 303)
        answer.set_cookie(_name(token), token, httponly=True, samesite="strict")
        return answer
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if _same(_cookie(headers, _name(token)), token) or (scheme.lower() == "bearer" and _same(bearer, token)):
        return None
    if "text/html" in headers.get("accept", ""):  # a browser: somebody reads it
        return HTMLResponse(TOKEN_PAGE, 401)
    return _refusal_response(
        Refusal(401, "This address needs a token. Open the link that heedful serve printed.")
    )


def _name(token: str) -> str:
    """Of the cookie: servers on other ports of the same host have others."""
    return f"heedful-{hashlib.sha256(token.encode()).hexdigest()[:8]}"


def _cookie(headers: Headers, name: str) -> str:
    try:
        result = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return result.value if result else ""


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


async def whole_body(receive: Receive, most: int) -> tuple[bytes, Refusal | None]:
    """All of it, or why not, however it is cut into pieces; what is too large is not read to its end."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > most:
                    return b"", _too_large(most)
                if not message.get("more_body"):
                    return bytes(body), None
    except TimeoutError:
        return b"", Refusal(408, "The request did not come to its end.")


def replay_of(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, then whatever comes."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Every answer carries these headers, whatever it had under their names."""

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = [(k.decode("latin-1").lower(), k, v) for k, v in message["headers"]]
            kept = [(k, v) for name, k, v in given if name not in headers or (name, v) == SANDBOXED]
            message["headers"] = [*kept, *((k.encode(), v.encode()) for k, v in headers.items())]
        await send(message)

    return sealed
