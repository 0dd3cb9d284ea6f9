"""Connections that nobody should make: to the page, to a study, and from a language model's endpoint."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient
from tests.server.serving import listening

import heedful
from heedful.core.errors import HeedfulError
from heedful.features.interpretation.llm import KEY, URL, Endpoint
from heedful.labs.human_study import server as study
from heedful.labs.human_study.answers import AnswerFile
from heedful.server import app, header_timeout, security
from heedful.server.header_timeout import HeaderTimeoutProtocol
from heedful.server.job_queue import MAX_WAITING_PER_PEER, Job, Jobs
from heedful.server.model_pool import MAX_WAITING_PER_PEER as QUESTIONS_PER_PEER
from heedful.server.model_pool import ModelPool, ServedModel
from heedful.server.model_thread import Busy
from heedful.server.run_list import Runs
from heedful.server.state import ServerState

SECRET = "sk-0123456789abcdef"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A page without models: connections are all that is tried."""
    state = ServerState(ModelPool(False, None), Runs(tmp_path / "runs"))
    with listening(state, app.ServerConfig(runs=tmp_path / "runs")) as found:
        yield found
    state.close()


def connect(address: str, content: bytes, wait: bool = False) -> socket.socket:
    place = urlsplit(address)
    one = socket.create_connection((place.hostname, place.port), timeout=20)
    with suppress(ConnectionError):
        one.sendall(content)
        if wait:
            one.recv(65536)
    return one


HEAD = b"Host: localhost\r\nContent-Type: application/json\r\n"
ATTACKS = {
    "idle": (b"GET /api/here HTTP/1.1\r\nHost: localhost\r\n\r\n", True),
    "half a body": (b"POST /api/explain HTTP/1.1\r\n" + HEAD + b"Content-Length: 900\r\n\r\n{", False),
    "half a chunk": (
        b"POST /api/explain HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{",
        False,
    ),
    "silent": (b"", False),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_peer_cannot_shut_others_out(address: str, attack: str) -> None:
    held = [connect(address, *ATTACKS[attack]) for _ in range(app.MAX_CONNECTIONS + 30)]
    try:
        answer = httpx.get(f"{address}/api/here", timeout=20)
        assert answer.status_code == 200
    finally:
        for one in held:
            one.close()


def test_a_working_connection_is_not_the_one_that_is_closed(address: str) -> None:
    """What waits longest goes, not what has just asked. The others are answered first: only then is it sure
    that the server took them before the next request of the working connection."""
    ask = ATTACKS["idle"][0]
    held = []
    place = urlsplit(address)
    with closing(http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)) as working:
        working.request("GET", "/api/here")
        assert working.getresponse().read()
        socket_before = working.sock
        for _ in range(3):
            held += [connect(address, ask, wait=True) for _ in range(100)]
            working.request("GET", "/api/here")
            answer = working.getresponse()
            assert answer.status == 200
            assert answer.read()
            assert working.sock is socket_before, "the connection itself, not a new one"
    for one in held:
        one.close()


# --- names and limits that a client chooses ----------------------------------------------------------


def jobs_of(jobs: Jobs, count: int, peer: str, work: Callable[[Job], None]) -> list[Job]:
    """Each under another owner's name."""
    return [jobs.put(Job("explain", f"{peer} {n}", {}, work, peer=peer)) for n in range(count)]


def test_many_names_of_one_peer_leave_room_for_others() -> None:
    jobs, go = Jobs(workers=4), threading.Event()
    try:
        with pytest.raises(Busy):
            jobs_of(jobs, 200, "10.0.0.1", lambda job: go.wait(20) and None)
        (other,) = jobs_of(jobs, 1, "10.0.0.2", lambda job: None)
        end = time.monotonic() + 10
        while other.state != "done":
            assert time.monotonic() < end, "one peer has all workers"
            time.sleep(0.01)
        waiting = sum(job.state == "waiting" for job in jobs.jobs.values())
        assert waiting <= MAX_WAITING_PER_PEER
    finally:
        go.set()
        jobs.close()


def test_questions_of_one_peer_leave_room_for_others() -> None:
    """The queue of a model has room for 256; one address takes half of it at most."""

    async def ask(served: ServedModel, peer: str) -> int:
        request = Request({"type": "http", "client": (peer, 1)}, receive=never)
        return await served.run_quick(request, lambda model: go.wait(20) and 1)

    async def never() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def attack() -> list[int]:
        served = ServedModel("model", None, model)
        greedy = [asyncio.create_task(ask(served, "10.0.0.1")) for _ in range(QUESTIONS_PER_PEER)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="from your address"):
            await ask(served, "10.0.0.1")
        other = asyncio.create_task(ask(served, "10.0.0.2"))
        await asyncio.sleep(0)
        go.set()
        answers = await asyncio.gather(*greedy, other)
        assert await ask(served, "10.0.0.1") == 1  # when the others are answered
        served.worker.close()
        return answers

    go, model = threading.Event(), heedful.load(lambda texts: [[0.0, 1.0] for _ in texts])
    assert asyncio.run(attack()) == [1] * (QUESTIONS_PER_PEER + 1)


def test_a_peer_is_an_address_and_this_machine_is_none() -> None:
    assert security.peer_of({"client": ("10.1.2.3", 80)}) == "10.1.2.3"
    for own in (("127.0.0.1", 80), ("::1", 80), None, ("unix", 0)):
        assert security.peer_of({"client": own}) == ""
    assert security.peer_of({"client": ("::ffff:127.0.0.1", 80)}) == ""
    assert security.peer_of({"client": ("::ffff:10.1.2.3", 80)}) == "10.1.2.3"


def test_all_addresses_of_one_ipv6_network_are_one_peer() -> None:
    """A machine has 2 to the power of 64 of them: requests and connections of all are counted together."""
    own, other = ("2001:db8:1:2:a::1", 80), ("2001:db8:1:2:ffff:ffff::", 81)
    next_door = ("2001:db8:1:3::1", 80)
    assert security.peer_of({"client": own}) == security.peer_of({"client": other}) != ""
    assert security.peer_of({"client": own}) != security.peer_of({"client": next_door})
    assert security.peer_of({"client": ("fe80::1%eth0", 80)}) == security.peer_of({"client": ("fe80::2", 80)})
    connections = [HeaderTimeoutProtocol.__new__(HeaderTimeoutProtocol) for _ in range(3)]
    for connection, client in zip(connections, (own, other, next_door), strict=True):
        connection.client = client
    assert connections[0].peer == connections[1].peer != connections[2].peer


# --- clients that do not read ------------------------------------------------------------------------


LARGE = 48 << 20  # bytes: more than the buffers of the system hold


def slow_reader(client: socket.socket, seconds: float, pause: float, at_once: int) -> int:
    """Bytes read until the connection ends, or for so many seconds."""
    read, end = 0, time.monotonic() + seconds
    client.settimeout(seconds)
    with suppress(OSError):
        while time.monotonic() < end and (piece := client.recv(at_once)):
            read += len(piece)
            time.sleep(pause)
    return read


async def two_answers(scope: Any, receive: Any, send: Any) -> None:
    """A large one, and a stream that has nothing to say for three seconds."""
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/large":
        await send({"type": "http.response.body", "body": b"x" * LARGE})
        return
    await send({"type": "http.response.body", "body": b"began", "more_body": True})
    await asyncio.sleep(3)
    await send({"type": "http.response.body", "body": b"ended"})


@pytest.fixture
def large_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setattr(header_timeout, "WRITE_SECONDS", 1.0)
    monkeypatch.setattr(app, "application", lambda state, config: two_answers)
    state = ServerState(ModelPool(False, None), Runs(tmp_path / "runs"))
    with listening(state, app.ServerConfig(runs=tmp_path / "runs")) as found:
        yield found
    state.close()


def answered(content: bytes) -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % content


@pytest.mark.parametrize("at_once", [0, 1])
def test_an_answer_that_nobody_reads_is_given_up(large_answers: str, at_once: int) -> None:
    """Also one that is read byte by byte."""
    with closing(connect(large_answers, answered(b"/large"))) as client:
        read = slow_reader(client, 4, 0.05, 1) if at_once else time.sleep(4) or 0
        assert read + slow_reader(client, 20, 0.0, 1 << 20) < LARGE


def test_the_end_of_an_answer_has_a_time_limit_too(
    large_answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, asyncio does not tell that less than 64 KB wait to be sent: nothing would watch them."""
    limits = []
    made = HeaderTimeoutProtocol.connection_made

    def noted(self: HeaderTimeoutProtocol, transport: Any) -> None:
        made(self, transport)
        limits.append(transport.get_write_buffer_limits())

    monkeypatch.setattr(HeaderTimeoutProtocol, "connection_made", noted)
    connect(large_answers, answered(b"/stream"), wait=True).close()
    assert limits == [(0, 0)]


def test_a_steady_reader_and_a_silent_stream_are_not_cut(large_answers: str) -> None:
    with closing(connect(large_answers, answered(b"/large"))) as client:
        assert slow_reader(client, 30, 0.05, 1 << 19) >= LARGE  # some five seconds
    with closing(connect(large_answers, answered(b"/stream"))) as client:
        content = b""
        while b"ended" not in content:
            piece = client.recv(65536)
            assert piece, "the stream was cut"
            content += piece


def test_a_host_name_in_capitals_is_known() -> None:
    for host in ("127.0.0.1", "10.0.0.9"):
        guard = security.guard_of(host, "t" * 16, ["MyHost"])
        assert guard.knows("myhost:8765")
        assert guard.knows("MYHOST")
        assert not guard.knows("myhost.evil.com")


def test_any_token_survives_the_printed_link() -> None:
    token = "+&#=%/?;,\"'\\<>[]{}|^`~!@$*().:-_aZ0"
    link = app.address(app.ServerConfig(host="10.0.0.9", token=token), 80)
    guarded: Any = security.Guarded(page, security.Guard(frozenset({"10.0.0.9"}), token=token))
    client = TestClient(guarded, base_url="http://10.0.0.9:80", follow_redirects=False)
    assert client.get("/").status_code == 401
    first = client.get(link)
    assert first.status_code == 303
    assert client.get("/").text == "page"  # by the cookie


async def page(scope: Any, receive: Any, send: Any) -> None:
    from starlette.responses import PlainTextResponse

    if scope["type"] == "http":
        await PlainTextResponse("page")(scope, receive, send)


@pytest.mark.parametrize("option", ["--sae", "--texts"])
def test_what_is_not_there_is_told_at_the_start(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    from heedful.cli.main import main

    assert main(["serve", "zoo:one-layer", "--port", "0", option, "nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err


# --- a study ------------------------------------------------------------------------------------------


@pytest.fixture
def people(tmp_path: Path) -> TestClient:
    application: Any = study.application([], AnswerFile(tmp_path / "answers.sqlite", "a study"))
    return TestClient(application, base_url="http://127.0.0.1:8766", follow_redirects=False)


FORM = {"origin": "http://127.0.0.1:8766", "content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "origin", ["http://[", "http://[::1", "null", "", "//", "http://127.0.0.1:8766@evil"]
)
def test_a_study_refuses_every_other_origin(people: TestClient, origin: str) -> None:
    answer = people.post("/begin", content=b"token=x", headers=FORM | {"origin": origin})
    assert (answer.status_code, "another site" in answer.text) == (403, True)
    own = people.post("/begin", content=b"token=x", headers=FORM)  # for another reason
    assert (own.status_code, "another site" in own.text) == (403, False)


def test_a_chunked_form_has_a_limit_too(people: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"a" * 1000

    for length in ({}, {"content-length": "10"}):
        answer = people.post("/begin", content=endless(), headers=FORM | length)
        assert answer.status_code == 413


# --- a language model's endpoint ----------------------------------------------------------------------


def dripping(content: bytes, pause: float, first: int) -> tuple[str, Callable[[], None]]:
    """An endpoint that sends `first` bytes at once and the rest one by one."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with suppress(OSError):
            while True:
                one, _ = listener.accept()
                with closing(one), suppress(OSError):
                    one.recv(65536)
                    one.sendall(content[:first])
                    for byte in content[first:]:
                        time.sleep(pause)
                        one.sendall(bytes([byte]))

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/v1", listener.close


@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad Request"])
@pytest.mark.parametrize("part", ["head", "body"])
def test_an_endpoint_that_drips_ends_with_the_timeout(part: str, status: bytes) -> None:
    answer = json.dumps({"choices": [{"message": {"content": "x" * 500}}]}).encode()
    head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nX-Long: %s\r\n\r\n" % (status, len(answer), b"y" * 500)
    told = "no answer in 1 tries"
    if status.startswith(b"400"):  # of a head that is cut, the number may have come
        told = "refused: HTTP 400" if part == "body" else r"refused: HTTP|no answer in 1 tries"
    url, close = dripping(head + answer, 0.05, 0 if part == "head" else len(head))
    began = time.monotonic()
    try:
        with pytest.raises(HeedfulError, match=told):
            Endpoint("m", url, timeout=1.0, tries=1).ask([{"role": "user", "content": "?"}], 9)
    finally:
        close()
    assert time.monotonic() - began < 5  # the whole would take 25 seconds


def test_a_connection_that_comes_after_the_timeout_is_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a slow name server: when the time is over there is nothing yet that could be shut."""
    connect_at_once = socket.create_connection

    def late(*given: Any, **options: Any) -> socket.socket:
        time.sleep(1.0)
        return connect_at_once(*given, **options)

    monkeypatch.setattr(socket, "create_connection", late)
    url, close = dripping(b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * 180, 0.05, 0)
    began = time.monotonic()
    try:
        with pytest.raises(HeedfulError, match="no answer in 1 tries"):
            Endpoint("m", url, timeout=0.5, tries=1).ask([{"role": "user", "content": "?"}], 9)
    finally:
        close()
    assert time.monotonic() - began < 5  # the head alone would take 10 seconds


def refusing() -> tuple[str, Callable[[], None], list[bytes]]:
    """An endpoint that repeats what it was sent."""
    listener, seen = socket.create_server(("127.0.0.1", 0)), list[bytes]()

    def run() -> None:
        with suppress(OSError):
            while True:
                one, _ = listener.accept()
                with closing(one):
                    seen.append(one.recv(65536))
                    body = b"your key was " + SECRET.encode()
                    one.sendall(
                        b"HTTP/1.1 401 %s\r\nContent-Length: %d\r\n\r\n%s"
                        % (SECRET.encode(), len(body), body)
                    )

    threading.Thread(target=run, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}/v1", listener.close, seen


@pytest.mark.parametrize("user", ["", f"me:{SECRET}@"])
@pytest.mark.parametrize("around", ["{}\n", " {}\r\n", "{}"])
def test_no_message_shows_a_key(around: str, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, around.format(SECRET))
    place, close, seen = refusing()
    try:
        with pytest.raises(HeedfulError) as raised:
            Endpoint("m", f"http://{user}{place}", tries=1).ask([{"role": "user", "content": "?"}], 9)
    finally:
        close()
    assert SECRET not in str(raised.value)
    assert "127.0.0.1" in str(raised.value)
    if not user:  # an address with a password is refused before anything is sent
        assert f"Bearer {SECRET}\r\n".encode() in seen[0]
        assert "401" in str(raised.value)


def test_a_key_that_no_header_may_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL, "http://127.0.0.1:9/v1")
    for bad in ("a\nb", "a\0b", "schlüssel"):
        with suppress(ValueError):  # the system itself refuses a zero byte
            monkeypatch.setenv(KEY, bad)
            with pytest.raises(HeedfulError) as raised:
                Endpoint("m")
            assert bad not in str(raised.value)
