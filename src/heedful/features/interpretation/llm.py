"""Interpretation by a language model behind any endpoint that speaks OpenAI's chat protocol.

    POST {url}/chat/completions  {"model", "messages", "temperature": 0, "max_tokens", "seed"}

Where: HEEDFUL_LLM_URL; the key, if it needs one: HEEDFUL_LLM_KEY. Texts are sent only by a call that names a
model; nothing else in heedful does so. Answers are kept on disk under the hash of what was asked, so the same
question is paid for once. Answers 429 and 5xx, broken connections and answers that are no JSON are tried
again, waiting 1, 2, 4, ... seconds or as long as the server asks; other refusals are told at once. Redirects
are refused: the key would go with them. An answer must be complete `timeout` seconds after the request; bytes
that drip do not prolong that. No message shows the key, nor a password in the address.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from heedful.core.errors import HeedfulError
from heedful.io.files import check_folder, write_file
from heedful.io.json_codec import json_bytes

URL, KEY = "HEEDFUL_LLM_URL", "HEEDFUL_LLM_KEY"
MAX_WAIT_SECONDS = 60.0  # seconds before one more try
MAX_ANSWER_BYTES = 1 << 22  # bytes of an answer
MAX_REASON_BYTES = 300  # of what a server says when it refuses
CREATE = "_create_connection"  # where http.client keeps how it connects
Messages = Sequence[dict[str, str]]


@dataclass
class RequestCost:
    """What was asked, and what it took."""

    requests: int = 0
    cached: int = 0
    prompt: int = 0  # tokens, as the endpoint counts them
    completion: int = 0
    guessed: bool = False  # an answer did not say: four characters a token
    unread: int = 0  # answers that were not of the form asked for

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def __str__(self) -> str:
        about = "about " if self.guessed else ""
        return (
            f"{self.requests:,} requests ({self.cached:,} from the cache), "
            f"{about}{self.prompt:,} tokens sent, {about}{self.completion:,} received"
        )


@runtime_checkable
class Chat(Protocol):
    cost: RequestCost

    def ask(self, messages: Messages, most: int) -> str:
        """The answer, of at most `most` tokens."""


@dataclass
class Endpoint:
    """A server, one of its models, and the answers it gave before."""

    model: str
    url: str = ""
    timeout: float = 60.0
    tries: int = 5
    cache: Path | None = None
    wait: Callable[[float], None] = time.sleep
    cost: RequestCost = field(default_factory=RequestCost)

    def __post_init__(self) -> None:
        self.url = (self.url or os.environ.get(URL, "")).strip().rstrip("/")
        _key()
        if not self.url.startswith(("http://", "https://")):
            raise HeedfulError(
                f"no language model answers at {self._shown!r}"
                if self.url
                else "no language model was named",
                "the address is not one of http" if self.url else f"{URL} is not set",
                f"Set {URL}=https://host/v1, and {KEY} if it wants a key",
            )

        if self.cache is not None:
            check_folder(self.cache)  # before an answer is paid for

    def ask(self, messages: Messages, most: int) -> str:
        results = {
            "model": self.model,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": most,
            "seed": 0,
        }
        body = json.dumps(results, sort_keys=True).encode()
        path = self._path(body)
        self.cost.requests += 1
        if path is not None and (known := _known(path)) is not None:
            self.cost.cached += 1
            return known
        text, usage = self._tried(body)
        self._count(usage, body, text)
        if path is not None:
            write_file(path, json_bytes({"text": text, "usage": usage}), shared=True)
        return text

    def _path(self, body: bytes) -> Path | None:
        name = hashlib.sha256(self.url.encode() + b"\n" + body).hexdigest()
        return None if self.cache is None else self.cache / f"{name}.json"

    def _count(self, usage: dict[str, Any], body: bytes, text: str) -> None:
        known = all(type(usage.get(name)) is int for name in ("prompt_tokens", "completion_tokens"))
        self.cost.guessed |= not known
        self.cost.prompt += usage["prompt_tokens"] if known else len(body) // 4
        self.cost.completion += usage["completion_tokens"] if known else len(text) // 4

    def _tried(self, body: bytes) -> tuple[str, dict[str, Any]]:
        last = ""
        for attempt in range(self.tries):
            pause = 0.0
            try:
                return _read(self._sent(body))
            except urllib.error.HTTPError as error:
                last = f"HTTP {error.code} {error.reason}"
                pause = _asked(error.headers.get("Retry-After"))
            except (OSError, ValueError, http.client.HTTPException) as error:
                last = f"{type(error).__name__}: {error}"
            if attempt + 1 < self.tries:
                self.wait(min(MAX_WAIT_SECONDS, max(pause, 2.0**attempt)))
        raise HeedfulError(
            f"{self._shown} gave no answer in {self.tries} tries",
            _without_key(last),
            "Answers so far are kept: run it again",
        )

    @property
    def _shown(self) -> str:
        """The address without the name and the password that may stand in it."""
        scheme, slashes, rest = self.url.partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"

    def _sent(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        if key := _key():
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(f"{self.url}/chat/completions", body, headers)
        end = time.monotonic() + self.timeout
        sockets = _Sockets()
        timer = threading.Timer(self.timeout, sockets.shut)
        timer.daemon = True
        timer.start()
        try:
            opener = urllib.request.build_opener(_NoRedirects, _WatchedHTTP(sockets), _WatchedHTTPS(sockets))
            with opener.open(request, timeout=self.timeout) as answer:
                return _whole(answer, end)
        except urllib.error.HTTPError as error:
            with error:
                said = "" if _may_pass(error.code) else _reason(error, end)
            if _may_pass(error.code):
                raise
            why = _without_key(f"HTTP {error.code} {error.reason}: {said}")
            raise HeedfulError(f"{self._shown} refused", why, _fix(error.code)) from None
        finally:
            timer.cancel()
            sockets.close()


def _whole(answer: Any, end: float) -> bytes:
    """All of an answer that comes in time."""
    content = bytearray()
    while len(content) < MAX_ANSWER_BYTES and (piece := answer.read1(1 << 16)):
        content += piece
        if time.monotonic() > end:
            raise TimeoutError("the answer did not come to its end in time")
    return bytes(content)


def _key() -> str:
    """Without the line break that a file or a copied line adds; what no header may hold is refused."""
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise HeedfulError(
            f"{KEY} cannot be used", "a key has only printable ASCII characters", f"Set {KEY} again"
        )
    return key


def _without_key(text: str) -> str:
    """Servers and libraries repeat what they were sent."""
    key = _key()
    return text.replace(key, "(the key)") if key else text


class _Sockets:
    """The sockets of one request. When its time is over they are shut, and so is one that is opened later:
    looking up a name and connecting may take longer than the whole request should.

    What is kept is a second handle of each socket, since TLS takes the first one over for its handshake.
    """

    def __init__(self) -> None:
        self._handles: list[socket.socket] = []
        self._over, self._change = False, threading.Lock()

    def open(self, *given: Any, **options: Any) -> socket.socket:
        result = socket.create_connection(*given, **options)
        with self._change:
            self._handles.append(result.dup())
        if self._over:
            self.shut()
        return result

    def shut(self) -> None:
        """The time is over: whoever waits for one of these sockets waits no more."""
        with self._change:
            self._over = True
            for handle in self._handles:
                with suppress(OSError):  # the other side was quicker
                    handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """The request has ended."""
        with self._change:
            while self._handles:
                self._handles.pop().close()


class _Watched(urllib.request.AbstractHTTPHandler):
    """Opens its connections by `_Sockets`, so that one can be shut while the head of an answer drips."""

    def __init__(self, sockets: _Sockets) -> None:
        super().__init__()
        self.sockets = sockets

    def do_open(self, http_class: Any, req: Any, **more: Any) -> Any:
        def connect(*given: Any, **options: Any) -> http.client.HTTPConnection:
            connection: http.client.HTTPConnection = http_class(*given, **options)
            setattr(connection, CREATE, self.sockets.open)
            return connection

        return super().do_open(connect, req, **more)


class _WatchedHTTP(_Watched, urllib.request.HTTPHandler):
    pass


class _WatchedHTTPS(_Watched, urllib.request.HTTPSHandler):
    pass


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key is for the host that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _known(path: Path) -> str | None:
    try:
        text = json.loads(path.read_bytes())["text"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # absent or damaged: ask again
    return text if isinstance(text, str) else None


def _read(content: bytes) -> tuple[str, dict[str, Any]]:
    """ValueError for what is no answer of this protocol."""
    try:
        result = json.loads(content)
        text = result["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError, RecursionError):
        raise ValueError("the answer has no choices[0].message.content, as chat models give it") from None
    if not isinstance(text, str):
        raise ValueError("the answer holds no text")
    usage = result.get("usage")
    return text, usage if isinstance(usage, dict) else {}


def _may_pass(code: int) -> bool:
    """Too many requests, and errors of the server: worth another try."""
    return code == 429 or code >= 500


def _reason(error: urllib.error.HTTPError, end: float) -> str:
    """What the server says, as far as it comes in time."""
    content = bytearray()
    with suppress(OSError, ValueError, http.client.HTTPException):
        while len(content) < MAX_REASON_BYTES and time.monotonic() < end:
            piece = error.read1(MAX_REASON_BYTES - len(content))
            if not piece:
                break
            content += piece
    return content.decode("utf-8", "replace")


def _fix(code: int) -> str:
    if code in (401, 403):
        return f"Set {KEY}"
    return "Check the address and the name of the model" if code == 404 else ""


def _asked(header: str | None) -> float:
    """Seconds that a server asks to wait; a date is not read."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0


@dataclass
class DryRunEndpoint:
    """Stands in for an endpoint: keeps what would be sent, sends nothing."""

    model: str = ""
    asked: list[Messages] = field(default_factory=list)
    cost: RequestCost = field(default_factory=lambda: RequestCost(guessed=True))

    def ask(self, messages: Messages, most: int) -> str:
        self.asked.append(messages)
        self.cost.requests += 1
        self.cost.prompt += sum(len(m["content"]) for m in messages) // 4
        self.cost.completion += most // 2
        return "(the explanation of the language model)"
