"""What the server answers, held to what the library says by itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import httpx
import pytest

import heedful
from heedful.server.explanation_cache import ExplanationCache

TEXT = "the service is not bad"
ASK = {"model": "zoo:sentiment", "text": TEXT}


def test_what_is_here(client: httpx.Client, tiny: Any) -> None:
    found = client.get("/api/here").json()
    assert [one["name"] for one in found["models"]] == ["zoo:sentiment", tiny.name]
    first, second = found["models"]
    assert (first["kind"], first["labels"], first["features"]) == ("classifier", ["negative", "positive"], 0)
    assert (second["kind"], second["features"]) == ("causal-lm", 48)
    assert "lime-exact" in first["skipped"]
    assert "occlusion" not in first["skipped"]


def test_looking_agrees_with_the_library(client: httpx.Client, model: Any) -> None:
    found = client.post("/api/look", json=ASK | {"methods": ["grad-x-input", "occlusion"]}).json()
    own = heedful.explain(model, TEXT, ["grad-x-input", "occlusion"])
    label, share = model.predict(model.encode(TEXT))[0]
    assert found["prediction"][0]["label"] == label
    assert found["prediction"][0]["share"] == pytest.approx(share, abs=1e-6)
    assert [word["text"] for word in found["words"]] == [word.text for word in own["occlusion"].words()]
    from heedful.reports import comparison_parts, html

    best_first = replace(
        own, attributions=tuple(own[name] for name in ("occlusion", "grad-x-input", "random"))
    )
    drawn = html.nodes_html([comparison_parts.methods(best_first)], 2)  # by the report, from the same numbers
    assert found["html"]["methods"] == drawn


@pytest.mark.usefixtures("little_time")
def test_dear_methods_wait_and_say_what_they_cost(client: httpx.Client, model: Any) -> None:
    text = (
        "a text of its own, long enough that sampling it takes a while, and never seen before by anybody here"
    )
    found = client.post("/api/look", json=ASK | {"text": text, "methods": ["grad-l2", "kernel-shap"]}).json()
    costs = {cost["method"]: cost for cost in found["methods"]}
    assert costs["grad-l2"]["state"] != "waits"
    assert costs["kernel-shap"]["state"] == "waits"
    made = heedful.plan(model, text, ["kernel-shap"])
    least, most = made.rows["kernel-shap"]
    assert (costs["kernel-shap"]["least"], costs["kernel-shap"]["rows"]) == (least, most)
    assert costs["kernel-shap"]["seconds"] > 0
    assert "kernel-shap" not in found["html"]["methods"]


def test_in_a_crowd_less_is_done_for_each(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods that ran as one typed wait for a click; the prediction and the trace are always there."""
    from heedful.server import live_explain
    from heedful.server.schemas import requests

    monkeypatch.setattr(live_explain, "LIVE_SECONDS", 60.0)  # on a busy machine, too
    ask = requests.LiveRequest(**ASK, methods=["grad-l2", "occlusion"], agreement=True)
    alone = live_explain.explain_live(model, ask, ExplanationCache(), waiting=0)
    crowd = live_explain.explain_live(model, ask, ExplanationCache(), waiting=1_000_000)
    assert {cost.method: cost.state for cost in alone.methods}["grad-l2"] == "live"
    assert {cost.method: cost.state for cost in alone.methods}["occlusion"] == "live"
    assert {cost.method: cost.state for cost in crowd.methods}["occlusion"] == "waits"
    assert crowd.prediction == alone.prediction
    assert alone.html["agreement"]
    assert not crowd.html["agreement"]


def test_a_target_and_a_contrast(client: httpx.Client, model: Any, tiny: Any) -> None:
    found = client.post("/api/look", json=ASK | {"target": "negative", "contrast": "positive"}).json()
    assert found["target"] == "negative rather than positive"
    answer = client.post("/api/look", json=ASK | {"target": "splendid"})
    assert answer.status_code == 400
    assert "unknown label 'splendid'" in answer.json()["error"]


def test_unsupported_methods_are_refused_with_a_reason(client: httpx.Client) -> None:
    found = client.post("/api/look", json=ASK | {"methods": ["lime-exact", "grad-l2"]}).json()
    (skipped,) = [cost for cost in found["methods"] if cost["state"] == "skipped"]
    assert skipped["method"] == "lime-exact"
    assert "single layer" in skipped["why"]


@pytest.mark.parametrize(
    ("ask", "status", "told"),
    [
        ({"text": ""}, 400, "empty"),
        ({"text": "   "}, 400, ""),
        ({"model": "zoo:nothing"}, 400, "no model"),
        ({"model": "/etc/passwd"}, 400, "no model"),
        ({"methods": ["alchemy"]}, 400, "unknown method"),
        ({"unit": "page"}, 422, "unit"),
        ({"seed": -1}, 422, "seed"),
        ({"seed": "1"}, 422, "seed"),
        ({"txet": "x"}, 422, "txet"),
        ({"text": 5}, 422, "text"),
        ({"text": "a\0b"}, 422, "NUL"),
        ({"text": "x " * 3000}, 400, "tokens"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    client: httpx.Client, ask: dict[str, Any], status: int, told: str
) -> None:
    answer = client.post("/api/look", json=ASK | ask)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert told in answer.json()["error"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b'{"model": "\\ud800", "text": "x"}', b"\xff\xfe", b"1e999", b""]
)
def test_what_is_no_question(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/api/look", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_hostile_text_is_shown_and_not_run(client: httpx.Client) -> None:
    text = "</script><img src=x onerror=alert(1)> & good"
    found = client.post("/api/look", json=ASK | {"text": text}).json()
    for part in found["html"].values():
        assert "<img" not in part
        assert "<script" not in part
    assert "&lt;" in found["html"]["methods"]


def test_a_text_in_many_windows_waits_for_a_click(model: Any) -> None:
    """What runs while one types is kept to its seconds, though the control comes first and costs nothing."""
    from heedful.server import live_explain
    from heedful.server.schemas import requests

    memory = ExplanationCache()
    ask = requests.LiveRequest(model="zoo:sentiment", text="not bad at all " * 1300, long="window")
    made, _ = live_explain.planned(model, ask, memory, test=False)

    def seconds(of: Any) -> dict[str, float]:
        return live_explain.expected_seconds(of, memory, ask.model)

    cheap = [entry.name for entry in made.chosen if entry.counts is None and entry.name != "random"]
    slow = replace(made, seconds_per_row=1.0)
    assert live_explain.cheap(slow, {}, seconds(slow)) == ["random"]
    quick = replace(made, seconds_per_row=0.01 / len(made.pieces))
    assert set(cheap) < set(live_explain.cheap(quick, {}, seconds(quick)))
    crowded = live_explain.cheap(quick, {}, seconds(quick), most=0.0)
    assert len(crowded) >= 2  # however many wait, one method does run


def test_the_page_names_capabilities_that_exist() -> None:
    from importlib.resources import files

    from heedful.core.model import CAPABILITIES

    scripts = [
        file for file in files("heedful.server").joinpath("static").iterdir() if file.name.endswith(".js")
    ]
    source = "".join(file.read_text(encoding="utf-8") for file in scripts)
    named = re.findall(r'capabilities\.includes\("([^"]*)"\)', source)
    assert {"values", "attentions"} == set(named)
    assert set(named) <= set(CAPABILITIES)


def test_faithful_methods_run_first(model: Any) -> None:
    """What fits into the time is taken by preference, not by cost: occlusion first."""
    from heedful.server import live_explain
    from heedful.server.schemas import requests

    memory = ExplanationCache()
    ask = requests.LiveRequest(**ASK)
    made, _ = live_explain.planned(model, ask, memory)
    names = [entry.name for entry in made.chosen]
    seconds = dict.fromkeys(names, 0.01)
    assert live_explain.cheap(made, {}, seconds, 0.02)[:2] == ["occlusion", "integrated-gradients"]
    one = live_explain.cheap(made, {}, seconds | {"occlusion": 9.0, "integrated-gradients": 9.0}, 0.011)
    assert one[0] == "lime"
    none = live_explain.cheap(made, {}, dict.fromkeys(names, 0.4) | {"lime": 0.3, "random": 0.0}, 0.2)
    assert none == ["random", "lime"]  # none fits: the cheapest, and no second one


def test_a_method_that_stops_early_costs_what_it_took_before(model: Any) -> None:
    from heedful.server import live_explain
    from heedful.server.schemas import requests

    memory = ExplanationCache()
    ask = requests.LiveRequest(**ASK, methods=["integrated-gradients", "occlusion"])
    made, _ = live_explain.planned(model, ask, memory)
    before = live_explain.expected_seconds(made, memory, ask.model)
    memory.add(ask.key, live_explain.run_some(made, ["integrated-gradients", "occlusion"], {}).attributions)
    after = live_explain.expected_seconds(made, memory, ask.model)
    ran = memory.rows(ask.model, "integrated-gradients")
    least, most = made.rows["integrated-gradients"]
    assert ran is not None
    assert least <= ran < most
    assert after["integrated-gradients"] == pytest.approx(
        before["integrated-gradients"] * ran / (least * most) ** 0.5
    )
    assert after["occlusion"] == before["occlusion"]  # its model inputs are known


def test_why_is_said_before_any_test(
    client: httpx.Client, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an expensive model: effects of removing words are facts; the sentence names the strongest with its
    number, by the operator of the test and not by that of occlusion."""
    from heedful.server import automatic_test

    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", 0.0)
    found = client.post("/api/look", json=ASK | {"methods": ["occlusion"]}).json()
    item = heedful.explain(model, TEXT, ["occlusion"], params={"occlusion": {"operator": "delete"}})
    top = max(item["occlusion"].words(), key=lambda word: abs(word.score))
    assert f"“{top.text}” ({top.score:+.2f})".replace("-", "−") in found["html"]["verdict"]
    assert "deleting each word" in found["html"]["verdict"]
    other = client.post("/api/look", json=ASK | {"methods": ["grad-l2"], "seed": 7}).json()
    assert "deleting" not in other["html"]["verdict"]
    assert "no words are named" in other["html"]["verdict"]


def test_no_method_gives_the_prediction_alone(client: httpx.Client) -> None:
    """As the page asks of a slow model."""
    found = client.post("/api/look", json=ASK | {"text": "nobody asked this before", "methods": []}).json()
    assert found["prediction"]
    assert [cost["method"] for cost in found["methods"]] == ["random"]
