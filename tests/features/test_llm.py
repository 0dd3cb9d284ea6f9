"""A language model behind an endpoint: a local server answers as asked, or breaks as asked."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from heedful.core.errors import HeedfulError
from heedful.features.interpretation.interpret import interpret
from heedful.features.interpretation.llm import KEY, URL, DryRunEndpoint, Endpoint
from heedful.features.interpretation.prompts import LanguageModelInterpreter, marked, parsed, strengths
from heedful.features.reading.examples import Context, Snippet
from heedful.features.reading.results import Quantile, Reading

SECRET = "sk-not-to-be-seen"


def good(text: str, usage: bool = True) -> bytes:
    counted = {"usage": {"prompt_tokens": 11, "completion_tokens": 3}} if usage else {}
    return json.dumps({"choices": [{"message": {"content": text}}], **counted}).encode()


@dataclass
class Server:
    url: str = ""
    script: list[Any] = field(default_factory=list)  # (status, body, headers), bytes, or a function
    seen: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.seen.append(asked)
            state.keys.append(self.headers.get("Authorization"))
            state.paths.append(self.path)
            step = state.script.pop(0) if len(state.script) > 1 else state.script[0]
            step = step(asked) if callable(step) else step
            status, body, headers = step if isinstance(step, tuple) else (200, step, {})
            if status == 0:  # hang up
                self.connection.close()
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    monkeypatch.setenv(URL, state.url)
    monkeypatch.setenv(KEY, SECRET)
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def waits() -> list[float]:
    return []


def endpoint(waits: list[float], **more: Any) -> Endpoint:
    return Endpoint("tiny", wait=waits.append, timeout=5.0, **more)


ASK = [{"role": "user", "content": "what?"}]


def test_it_speaks_the_protocol(server: Server, waits: list[float]):
    server.script = [good("numbers")]
    chat = endpoint(waits)
    assert chat.ask(ASK, 7) == "numbers"
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == [f"Bearer {SECRET}"]
    assert server.seen[0]["model"] == "tiny"
    assert server.seen[0]["messages"] == ASK
    assert (server.seen[0]["max_tokens"], server.seen[0]["temperature"]) == (7, 0)
    assert (chat.cost.requests, chat.cost.prompt, chat.cost.completion, chat.cost.guessed) == (
        1,
        11,
        3,
        False,
    )


def test_no_key_no_header(server: Server, waits: list[float], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(KEY)
    server.script = [good("x", usage=False)]
    chat = endpoint(waits)
    chat.ask(ASK, 7)
    assert server.keys == [None]
    assert chat.cost.guessed
    assert "about" in str(chat.cost)


@pytest.mark.parametrize(
    "trouble",
    [
        (429, b"slow down", {}),
        (500, b"", {}),
        (503, b"busy", {}),
        b"not json",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": null}}]}',
        b"[1]",
        (0, b"", {}),
    ],
    ids=["429", "500", "503", "no json", "empty", "no choice", "no text", "a list", "hung up"],
)
def test_trouble_is_tried_again_with_longer_waits(server: Server, waits: list[float], trouble: Any):
    server.script = [trouble, trouble, good("at last")]
    assert endpoint(waits).ask(ASK, 5) == "at last"
    assert waits == [1.0, 2.0]
    assert len(server.seen) == 3


def test_the_server_says_how_long_to_wait(server: Server, waits: list[float]):
    server.script = [
        (429, b"", {"Retry-After": "7"}),
        (429, b"", {"Retry-After": "9999"}),
        (429, b"", {"Retry-After": "Fri, 31 Dec 2038 23:59:59 GMT"}),
        good("ok"),
    ]
    assert endpoint(waits).ask(ASK, 5) == "ok"
    assert waits == [7.0, 60.0, 4.0]


def test_it_gives_up_and_says_why(server: Server, waits: list[float]):
    server.script = [(429, b"slow down", {})]
    with pytest.raises(HeedfulError, match="no answer in 3 tries: HTTP 429") as caught:
        endpoint(waits, tries=3).ask(ASK, 5)
    assert len(server.seen) == 3
    assert len(waits) == 2
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("code", "fix"), [(401, KEY), (404, "name of the model"), (400, "")])
def test_refusals_are_told_at_once(server: Server, waits: list[float], code: int, fix: str):
    server.script = [(code, b"no such thing", {})]
    with pytest.raises(HeedfulError, match=f"HTTP {code}.*no such thing") as caught:
        endpoint(waits).ask(ASK, 5)
    assert fix in str(caught.value)
    assert SECRET not in str(caught.value)
    assert (len(server.seen), waits) == (1, [])


def test_redirects_do_not_take_the_key_elsewhere(server: Server, waits: list[float]):
    server.script = [(302, b"", {"Location": f"{server.url}/elsewhere"}), good("stolen")]
    with pytest.raises(HeedfulError, match="HTTP 302"):
        endpoint(waits).ask(ASK, 5)
    assert len(server.seen) == 1


def test_a_server_that_is_not_there(waits: list[float], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(URL, "http://127.0.0.1:9")
    with pytest.raises(HeedfulError, match="2 tries"):
        endpoint(waits, tries=2).ask(ASK, 5)
    monkeypatch.delenv(URL)
    with pytest.raises(HeedfulError, match=f"{URL} is not set"):
        endpoint(waits)
    with pytest.raises(HeedfulError, match="not one of http"):
        endpoint(waits, url="file:///etc")


def test_answers_are_paid_for_once(server: Server, waits: list[float], tmp_path: Path):
    server.script = [good("one"), good("two")]
    chat = endpoint(waits, cache=tmp_path)
    assert [chat.ask(ASK, 5), chat.ask(ASK, 5), chat.ask(ASK, 6)] == ["one", "one", "two"]
    assert len(server.seen) == 2
    assert (chat.cost.requests, chat.cost.cached, chat.cost.prompt) == (3, 1, 22)
    kept = [path.read_text() for path in tmp_path.iterdir()]
    assert len(kept) == 2
    assert not any(SECRET in text for text in kept)
    for path in tmp_path.iterdir():
        path.write_text("{ broken")
    assert endpoint(waits, cache=tmp_path).ask(ASK, 5) == "two"  # damaged: asked again


# --- what is asked and how answers are read --------------------------------------------------------


def snippet(word: str, value: float, window: int) -> Snippet:
    pieces = (" a", " b", f" {word}", " c")
    return Snippet(Context((1, 2, 3, 4), pieces, 0), (0.0, 0.0, value, 0.0), 2, window)


def reading(feature: int, word: str) -> Reading:
    firing = tuple(snippet(word, 1.0 + n % 5, n) for n in range(40))
    silent = tuple(snippet("other", 0.0, n) for n in range(40))
    return Reading(
        feature, 40, 400, firing[:5], (Quantile(1.0, 5.0, firing[:2]),), firing, silent, (1,), (0.0, 1.0)
    )


def clever(asked: dict[str, Any]) -> bytes:
    """Explains by the word in braces, and finds that word again."""
    task, text = (m["content"] for m in asked["messages"])
    if "Say in one line" in task:
        return good("the word " + re.findall(r"\{\{ (\w+)\}\}", text)[0])
    match = re.search(r"fires on: the word (\w+)", task)
    word = match.group(1) if match else "nothing"
    found = {
        number: dict.fromkeys(re.findall(rf'(\d+):" {word}"', body), 6)
        for number, body in re.findall(r'<text number="(\d+)">(.*?)</text>', text)
    }
    return good("Sure!\n```json\n" + json.dumps(found) + "\n```")


def test_a_language_model_explains_and_is_scored(server: Server, waits: list[float]):
    server.script = [clever]
    mind = LanguageModelInterpreter(endpoint(waits), "tiny")
    found = interpret([reading(0, "dog"), reading(1, "cat")], mind, mind, controls=("shuffled",), held=1)
    assert [one.explanation.text for one in found] == ["the word dog", "the word cat"]
    assert [one.explanation.by for one in found] == ["tiny", "tiny"]
    for one in found:
        assert one.scores is not None
        assert one.scores.detection.value == 1.0
        assert one.controls["shuffled"].detection.value == 0.5
    assert mind.chat.cost.unread == 0


def test_nonsense_counts_as_silence_and_is_counted(server: Server, waits: list[float]):
    server.script = [good("I cannot do that")]
    mind = LanguageModelInterpreter(endpoint(waits), "tiny")
    (one,) = interpret([reading(0, "dog")], mind, mind, controls=(), held=1)
    assert one.scores is not None
    assert one.scores.detection.value == 0.5
    assert mind.chat.cost.unread > 0


def test_strengths_are_read_with_care():
    assert parsed("no") is None
    assert parsed("{broken") is None
    assert parsed('so: {"0": {"1": 5}} indeed') == {"0": {"1": 5}}
    given = {"0": {"1": 5, "9": 5, "x": 1, "2": "3", "0": True, "3": 99, "-1": 2}}
    assert strengths(given, 0, 4, 2.0) == [0.0, 1.0, 0.0, 2.0]
    assert strengths({"0": [1, 2]}, 0, 2, 1.0) == [0.0, 0.0]
    assert strengths(json.loads('{"0": {"0": NaN, "1": 1e999}}'), 0, 2, 1.0) == [0.0, 0.0]


def test_firing_tokens_are_marked():
    assert marked(snippet("dog", 2.0, 0), 4.0) == " a b{{ dog}}(5) c"


def test_a_rehearsal_sends_nothing(server: Server, monkeypatch: pytest.MonkeyPatch):
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("something was sent")

    monkeypatch.setattr("urllib.request.OpenerDirector.open", never)
    chat = DryRunEndpoint("tiny")
    mind = LanguageModelInterpreter(chat, "tiny")
    interpret([reading(0, "dog"), reading(1, "cat")], mind, mind, controls=("shuffled",), held=1)
    assert server.seen == []
    assert chat.cost.requests == len(chat.asked) > 4
    assert any("{{ dog}}" in m["content"] for messages in chat.asked for m in messages)
    assert chat.cost.prompt > 100


def test_rules_never_ask(server: Server, monkeypatch: pytest.MonkeyPatch):
    from heedful.features.interpretation.rules import Rules

    rules = Rules()
    interpret([reading(0, "dog"), reading(1, "cat")], rules, rules)
    assert server.seen == []
