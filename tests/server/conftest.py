"""A server on a free port, in a thread: the embedded sentiment model, and a tiny language model that has a
dictionary of random directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.server.serving import TEXTS, listening, random_dictionary

import heedful
from heedful.server import app, automatic_test, live_explain


@pytest.fixture(scope="session")
def model() -> Any:
    """The library's own, beside the server's."""
    return heedful.load("zoo:sentiment")


@pytest.fixture(scope="session")
def tiny(shared: Callable[[str], Any]) -> Any:
    """A tiny GPT-2 that came as an object."""
    return shared("gpt2").model


@pytest.fixture(scope="session")
def server_state(tmp_path_factory: pytest.TempPathFactory, tiny: Any) -> Iterator[app.ServerState]:
    root = tmp_path_factory.mktemp("runs")
    config = app.ServerConfig(
        runs=root, dictionaries={tiny.name: random_dictionary(tiny)}, texts={tiny.name: TEXTS}
    )
    found = app.load_state(["zoo:sentiment", tiny], config)
    yield found
    found.close()
    found.jobs.join()


@pytest.fixture(scope="session")
def address(server_state: app.ServerState) -> Iterator[str]:
    with listening(server_state, app.ServerConfig(runs=server_state.runs.root)) as found:
        yield found


@pytest.fixture
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine: sampling is too expensive to run while one types, and so is a test."""
    monkeypatch.setattr(live_explain, "LIVE_SECONDS", 0.0)
    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", 0.0)


@pytest.fixture
def costly_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the methods waits for a click, as of a large model."""
    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", 0.0)


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=120) as found:
        yield found
