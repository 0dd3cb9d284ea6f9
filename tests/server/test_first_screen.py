"""The first screen of the page says what `heedful.explain` says: words, operator, numbers, methods, advice.

The page starts the test of the methods by itself where it is cheap by a rule; else the button is there.
"""

from __future__ import annotations

import html
import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.server.serving import finished, listening

import heedful
from heedful.reports import comparison as report
from heedful.reports import first_screen
from heedful.reports.tested_methods import ordered, passed, removal
from heedful.server import app, automatic_test, live_explain
from heedful.server.explanation_cache import ExplanationCache
from heedful.server.schemas import requests

PASTA = "The pasta was not great, but the staff were wonderful and I would come back"
CASES = [
    ("zoo:sentiment", PASTA, "delete"),
    ("zoo:sentiment", "the selection on the menu is great and so is the food, the service is bad", "delete"),
    ("zoo:lm", "The state of the union is", "swap"),
    ("zoo:lm", "My fellow citizens, we must", "swap"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Both models of `heedful serve`."""
    config = app.ServerConfig(runs=tmp_path_factory.mktemp("runs"))
    state = app.load_state(["zoo:sentiment", "zoo:lm"], config)
    with listening(state, config) as address, httpx.Client(base_url=address, timeout=120) as found:
        yield found
    state.close()
    state.jobs.join()


def after_test(client: httpx.Client, ask: dict[str, Any]) -> dict[str, Any]:
    """As the page does it: a look, which says that the test is cheap, and the test."""
    look = client.post("/api/look", json=ask).json()
    assert look["automatic"]
    job = finished(client, client.post("/api/jobs/explain", json=ask | {"automatic": True}).json())
    assert job["state"] == "done", job["error"]
    assert isinstance(job["result"], dict)
    return job["result"]


@pytest.mark.parametrize(("name", "text", "operator"), CASES)
def test_the_page_says_what_explain_says(served: httpx.Client, name: str, text: str, operator: str) -> None:
    result = after_test(served, {"model": name, "text": text})
    found, own = result["first"], heedful.explain(name, text)
    measured = removal(own)
    assert measured is not None
    assert found["operator"] == measured.operator == operator
    assert [word["text"] for word in found["effects"]] == list(own.x.units("word").labels)
    for word, effect in zip(found["effects"], measured.leave_one_out, strict=True):
        assert (
            math.isnan(effect)
            if word["effect"] is None
            else word["effect"] == pytest.approx(effect, abs=1e-4)
        )
    assert found["sentence"] == first_screen.why(own)  # the words, their numbers, and how they were removed
    standing = [{"method": one.method, "beat": one.beat, "draws": one.draws} for one in passed(own)]
    assert found["better"] == standing
    assert found["methods"] == first_screen.better_than_random(own)
    assert found["shading"] == report.shaded(own).options[0].title
    shown = html.unescape(result["html"]["verdict"])
    for sentence in (found["sentence"], found["methods"], found["advice"]):
        assert sentence in shown
    assert found["advice"] == automatic_test.ASK_FOR_AUDIT


def test_the_words_of_the_readme(served: httpx.Client) -> None:
    """The review found “would” on the page where all others name “not”."""
    found = after_test(served, {"model": "zoo:sentiment", "text": PASTA})["first"]
    for word in ("“wonderful” (+0.85)", "“great” (+0.69)", "“not” (−0.25)"):
        assert word in found["sentence"]
    assert "would" not in found["sentence"]
    assert "deleting" in found["sentence"]
    assert found["shading"] == found["better"][0]["method"] == "occlusion"


def test_other_settings_are_those_of_explain(served: httpx.Client) -> None:
    ask = {"model": "zoo:sentiment", "text": PASTA, "target": "negative", "seed": 3}
    methods = ["occlusion", "grad-x-input"]
    found = after_test(served, ask | {"methods": methods})["first"]
    own = heedful.explain("zoo:sentiment", PASTA, methods, "negative", seed=3)
    assert found["sentence"] == first_screen.why(own)
    assert found["methods"] == first_screen.better_than_random(own)


def test_methods_are_those_of_explain_in_its_order(model: Any) -> None:
    """Ties between methods are broken by their order."""
    ask = requests.LiveRequest(model="zoo:sentiment", text=PASTA)
    made, _ = live_explain.planned(model, ask, ExplanationCache())
    own = heedful.plan(model, PASTA)
    assert [entry.name for entry in made.chosen] == [entry.name for entry in own.chosen]
    assert made.settings["methods"] is own.settings["methods"] is None
    assert made.draws == own.draws


def test_what_is_cheap_is_a_rule_and_no_clock(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = heedful.plan(model, PASTA, timed=False)
    assert automatic_test.is_cheap(made)
    assert automatic_test.is_cheap(replace(made, seconds_per_row=1e9))  # however slow the machine is
    assert not automatic_test.is_cheap(replace(made, metrics=()))  # nothing to test
    assert not automatic_test.is_cheap(replace(made, chosen=[e for e in made.chosen if e.name == "random"]))
    size = model.size
    inputs = made.likely_rows + made.weighing
    at = 2.0 * inputs * len(made.x) * size
    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", at)
    assert automatic_test.is_cheap(made)
    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", at * (1 - 1e-9))
    assert not automatic_test.is_cheap(made)
    function = heedful.plan(heedful.load(lambda texts: [float(len(text)) for text in texts]), PASTA)
    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", 1e300)
    assert not automatic_test.is_cheap(function)  # nobody knows what it costs


def live(model: Any, **more: Any) -> Any:
    ask = requests.LiveRequest(model="zoo:sentiment", text=PASTA, methods=["occlusion", "lime"])
    return live_explain.explain_live(model, ask, ExplanationCache(), **more)


def test_an_expensive_model_keeps_the_button(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sentence has the numbers of the test to come: words are removed by the same operator."""
    monkeypatch.setattr(live_explain, "LIVE_SECONDS", 60.0)
    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", 0.0)
    found = live(model)
    assert not found.automatic
    verdict = html.unescape(found.html["verdict"])
    assert "“wonderful” (+0.85)" in verdict
    assert "deleting" in verdict
    assert "random orders" not in verdict
    assert found.testing_rows > 0


def test_in_a_crowd_no_test_starts_by_itself(model: Any) -> None:
    assert live(model).automatic
    assert not live(model, waiting=live_explain.QUEUE_FOR_TEST).automatic
    assert not live(model, room=False).automatic
    assert live(model, room=False).later  # the page asks again
    assert not live(model).later


def test_until_the_test_is_done_no_word_is_named(model: Any) -> None:
    verdict = html.unescape(live(model).html["verdict"])
    assert "Not tested yet: the colours show what occlusion claims." in verdict
    assert automatic_test.ASK_FOR_AUDIT in verdict
    assert "(+0." not in verdict


def test_the_panel_has_the_best_methods_first(served: httpx.Client) -> None:
    result = after_test(served, {"model": "zoo:sentiment", "text": PASTA})
    own = ordered(heedful.explain("zoo:sentiment", PASTA))
    places = [result["html"]["methods"].index(f">{method}") for method in own]
    assert places == sorted(places)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Automatic tests wait inside, and report, until the test lets them go."""
    from heedful.server import explain_job

    go = threading.Event()
    whole = explain_job.explain_at_once

    def slow(model: Any, ask: Any, memory: Any, job: Any) -> None:
        while not go.wait(0.01):
            job.report("held")
        whole(model, ask, memory, job)

    monkeypatch.setattr(explain_job, "explain_at_once", slow)
    yield go
    go.set()


def test_the_next_text_ends_the_test_of_the_one_before(served: httpx.Client, held: threading.Event) -> None:
    ask = {"model": "zoo:sentiment", "text": "not bad", "automatic": True, "owner": "me-live"}
    first = served.post("/api/jobs/explain", json=ask).json()
    other = served.post("/api/jobs/explain", json=ask | {"owner": "you-live"}).json()
    look = served.post("/api/look", json={"model": "zoo:sentiment", "text": "not bad at all"})
    assert look.status_code == 200  # typing goes on meanwhile
    assert not look.json()["automatic"]  # two are at work
    second = served.post("/api/jobs/explain", json=ask | {"text": "not bad at all"}).json()
    assert finished(served, first)["state"] == "cancelled"
    held.set()
    assert finished(served, second)["state"] == "done"
    assert finished(served, other)["state"] == "done"


def test_an_automatic_test_is_not_stored(served: httpx.Client) -> None:
    before = served.get("/api/runs").json()["runs"]
    ask = {"model": "zoo:sentiment", "text": "nothing of this is kept", "automatic": True}
    job = finished(served, served.post("/api/jobs/explain", json=ask).json())
    assert (job["state"], job["run"], job["kind"]) == ("done", None, automatic_test.KIND)
    assert served.get("/api/runs").json()["runs"] == before
