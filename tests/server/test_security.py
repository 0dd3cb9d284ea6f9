"""Who may ask: hosts, origins, tokens, sizes, and headers of every answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.server.serving import listening

from heedful.core.errors import HeedfulError
from heedful.server import app, header_timeout
from heedful.server.security import MAX_BODY_BYTES, guard_of, new_token

TOKEN = "a-token-of-good-length"
LOOK = {"model": "zoo:sentiment", "text": "not bad"}


def test_another_host_is_refused(client: httpx.Client) -> None:
    """DNS rebinding: the browser believes it talks to evil.example."""
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "[", "localhost@evil"):
        answer = client.get("/api/here", headers={"host": host})
        assert answer.status_code == 421
        assert answer.json()["error"].startswith("This is not the address of this server. Open")
    for host in ("localhost", "localhost:1234", "127.0.0.1", "[::1]:99", "LOCALHOST"):
        assert client.get("/api/here", headers={"host": host}).status_code == 200


def test_another_origin_is_refused(client: httpx.Client, address: str) -> None:
    for origin in ("http://evil.example", "null", "http://[", "http://127.0.0.1:1", "https://localhost"):
        assert client.post("/api/look", json=LOOK, headers={"origin": origin}).status_code == 403
        answer = client.get("/api/here", headers={"origin": origin})
        assert answer.status_code == 403
        assert answer.json()["error"] == "This request came from another site, and was refused."
    assert client.post("/api/look", json=LOOK, headers={"origin": address}).status_code == 200


def test_sites_next_door_are_refused(client: httpx.Client) -> None:
    """Another port of this machine is the same site to a browser; it may link here and no more."""
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        assert client.get("/api/here", headers=headers).status_code == 403
        assert client.post("/api/look", json=LOOK, headers=headers).status_code == 403
        assert client.get("/", headers=headers | {"sec-fetch-mode": "navigate"}).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_form_can_send_is_refused(client: httpx.Client, kind: str) -> None:
    """These need no preflight, so another site's form could send them."""
    body = b'{"model": "zoo:sentiment", "text": "x"}'
    answer = client.post("/api/look", content=body, headers={"content-type": kind})
    assert answer.status_code == 415
    assert answer.json()["error"] == "Send the request as JSON (Content-Type: application/json)."


def test_get_changes_nothing(client: httpx.Client) -> None:
    """Everything that costs is a POST."""
    paths = client.get("/api/openapi.json").json()["paths"]
    for place, methods in paths.items():
        assert set(methods) <= {"get", "post"}
        if {"look", "try", "next", "cancel", "models", "explain", "steer"} & set(place.split("/")):
            assert set(methods) == {"post"}


def test_large_bodies_are_refused(client: httpx.Client) -> None:
    large = b'{"model": "zoo:sentiment", "text": "' + b"x" * MAX_BODY_BYTES + b'"}'
    headers = {"content-type": "application/json"}
    assert client.post("/api/look", content=large, headers=headers).status_code == 413

    def chunks() -> Iterator[bytes]:  # without a length
        for _ in range(2 * MAX_BODY_BYTES // 1024):
            yield b"x" * 1024

    assert client.post("/api/look", content=chunks(), headers=headers).status_code == 413


def test_long_texts_are_refused(client: httpx.Client) -> None:
    answer = client.post("/api/look", json=LOOK | {"text": "x" * 20_001})
    assert answer.status_code == 422
    assert "20000" in answer.json()["error"]


@pytest.mark.parametrize("place", ["/", "/api/here", "/static/app.js", "/nowhere", "/api/runs/0"])
def test_every_answer_has_the_security_headers(client: httpx.Client, place: str) -> None:
    headers = client.get(place).headers
    policy = headers["content-security-policy"]
    assert "'unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers or "uvicorn" in headers["server"]


def test_the_page_holds_nothing_inline(client: httpx.Client) -> None:
    """Else the policy would need an exception."""
    page = client.get("/").text
    assert "<style" not in page
    assert "style=" not in page
    assert "onclick" not in page
    assert page.count("<script") == page.count('<script type="module" src="/static/')
    assert "http://" not in page
    assert "https://" not in page


@pytest.mark.parametrize(
    "place",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/asks.py",
        "/static//etc/passwd",
        "/api/runs/..%2f..%2fetc%2fpasswd",
        "/api/runs/../../etc/passwd/report",
        "/etc/passwd",
        "/static/",
    ],
)
def test_paths_open_nothing(client: httpx.Client, place: str) -> None:
    answer = client.get(place)
    assert answer.status_code in (404, 422)
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_sockets_are_refused(client: httpx.Client) -> None:
    headers = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert client.get("/api/here", headers=headers).status_code != 101


# --- a token -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(server_state: app.ServerState, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = app.ServerConfig(host="0.0.0.0", token=TOKEN, runs=tmp_path_factory.mktemp("guarded"))
    with listening(server_state, config) as found:
        yield found


def test_strangers_get_nothing(guarded: str) -> None:
    with httpx.Client(base_url=guarded) as client:
        for place in ("/", "/api/here", "/static/app.js", "/api/runs", f"/api/here?token={TOKEN}"):
            assert client.get(place).status_code == 401
        assert client.get("/?token=wrong").status_code == 401
        for given in (f"Bearer {TOKEN}x", TOKEN, f"Basic {TOKEN}", TOKEN[:-1], "Bearer", "Bearer é"):
            assert client.get("/api/here", headers={"authorization": given.encode()}).status_code == 401
        assert client.get("/api/here", headers={"cookie": 'heedful="'}).status_code == 401
        assert client.post("/api/look", json=LOOK).status_code == 401


def test_a_browser_without_a_token_is_told_what_to_do(guarded: str) -> None:
    with httpx.Client(base_url=guarded, headers={"accept": "text/html,*/*;q=0.8"}) as client:
        answer = client.get("/")
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert "heedful serve" in answer.text
    assert TOKEN not in answer.text
    assert "content-security-policy" in answer.headers


def test_the_printed_address_is_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not localhost, wherever this machine has an address of its own."""
    for host, own, shown in (("0.0.0.0", "10.1.2.3", "10.1.2.3"), ("::", "fd00::7", "[fd00::7]")):

        class Asked:
            def __init__(self, *_: object) -> None: ...

            def __enter__(self) -> Asked:
                return self

            def __exit__(self, *_: object) -> None: ...

            def connect(self, _place: object) -> None: ...

            def getsockname(self, own: str = own) -> tuple[str, int]:
                return own, 1

        monkeypatch.setattr(app.socket, "socket", Asked)
        assert app.address(app.ServerConfig(host=host, token="t"), 80) == f"http://{shown}:80/?token=t"
    assert guard_of("0.0.0.0", TOKEN).knows("10.1.2.3:80")


def test_the_link_lets_in(guarded: str) -> None:
    with httpx.Client(base_url=guarded) as client:
        answer = client.get(f"/?token={TOKEN}")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/api/here").status_code == 200
        assert client.get("/").status_code == 200
    with httpx.Client(base_url=guarded, headers={"authorization": f"Bearer {TOKEN}"}) as client:
        assert client.get("/api/here").status_code == 200


def test_addresses_everywhere_need_a_token() -> None:
    assert new_token("127.0.0.1") is None
    assert new_token("::1") is None
    for host in ("0.0.0.0", "192.168.1.4", "example.org", "::"):
        token = new_token(host)
        assert token is not None
        assert len(token) >= 40
        with pytest.raises(HeedfulError, match="token"):
            guard_of(host, None)
        assert guard_of(host, token).token == token
    assert guard_of("0.0.0.0", "t").knows("192.168.1.4:8765")
    assert not guard_of("0.0.0.0", "t").knows("evil.example")
    assert guard_of("0.0.0.0", "t", ("Box.local",)).knows("box.local:8765")
    assert not guard_of("127.0.0.1", None).knows("192.168.1.4")


def test_a_port_that_is_taken_is_told_before_loading(tmp_path: Path) -> None:
    bound = app.listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    with bound, pytest.raises(HeedfulError, match=f"port {port}"):
        app.prepare(["zoo:no-such-model"], app.ServerConfig(port=port, runs=tmp_path))


def test_an_unknown_model_leaves_no_port_behind(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="no-such-model"):
        app.prepare(["zoo:no-such-model"], app.ServerConfig(port=0, runs=tmp_path))


def test_where_it_is(tmp_path: Path) -> None:
    assert app.address(app.ServerConfig(), 80) == "http://127.0.0.1:80/"
    assert app.address(app.ServerConfig(host="::1"), 80) == "http://[::1]:80/"
    assert app.address(app.ServerConfig(host="10.1.2.3", token="t"), 80) == "http://10.1.2.3:80/?token=t"


def half_open(address: str, number: int) -> list[socket.socket]:
    """Connections that begin a request and do not go on."""
    place = urlsplit(address)
    held = []
    for _ in range(number):
        one = socket.create_connection((place.hostname, place.port), timeout=20)
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-")
        held.append(one)
    return held


@pytest.mark.parametrize("most", [256, 10_000])
def test_half_a_request_does_not_shut_others_out(
    client: httpx.Client, address: str, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Six hundred of them: of one peer the oldest go at once; of many peers, all go when their time is up."""
    monkeypatch.setattr(header_timeout, "MAX_WAITING", most)
    monkeypatch.setattr(header_timeout, "MAX_OF_PEER", most)
    monkeypatch.setattr(header_timeout, "HEADER_SECONDS", 3.0)
    held = half_open(address, 600)
    try:
        shut_out = client.get("/api/here").status_code == 503
        assert shut_out is (most > 600)
        for one in held[-20:]:
            with suppress(OSError):
                one.sendall(b"x")  # what drips is not waited for
        time.sleep(4)
        assert client.get("/api/here").status_code == 200
        held[-1].settimeout(5)
        with suppress(ConnectionError):
            assert held[-1].recv(100) == b""
    finally:
        for one in held:
            one.close()


def test_a_head_that_comes_in_two_is_answered(client: httpx.Client, address: str) -> None:
    (one,) = half_open(address, 1)
    with one:
        time.sleep(0.3)
        for _ in range(2):  # and a second one on the same connection
            one.sendall(b"y: 1\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 200")
            while one.recv(65536)[-8:] != b"</html>\n":
                pass
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-")
