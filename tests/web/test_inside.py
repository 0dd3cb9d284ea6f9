"""Features and steering, held to the library."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.web.serving import finished, random_dictionary

import heedful
from heedful.web import server

TEXT = "the service is not bad"
ASK = {"model": "zoo:sentiment", "text": TEXT}


def test_features_on_a_text(client: httpx.Client, tiny: Any) -> None:
    from heedful.features.pages import own_text

    text = "the cat sat on the mat"
    found = client.post("/api/features", json={"model": tiny.name, "text": text}).json()
    sae = random_dictionary(tiny)
    _, values = own_text(tiny, sae, "blocks.0.resid", text)
    most = values.max(0)
    assert found["features"]
    for one in found["features"]:
        assert one["most"] == pytest.approx(float(most[one["feature"]]), rel=1e-5)
        assert one["share"] == pytest.approx(one["most"] / 2.0, rel=1e-6)
    order = [one["most"] for one in found["features"]]  # rows of length 1: by activation alone
    assert order == sorted(order, reverse=True)
    assert client.post("/api/features", json=ASK).status_code == 400


def test_steering_the_next_token(client: httpx.Client, tiny: Any) -> None:
    ask = {"model": tiny.name, "text": "the cat sat", "feature": 3, "strength": 4.0}
    found = client.post("/api/next", json=ask).json()
    x = tiny.encode("the cat sat")
    assert [one["share"] for one in found["base"]] == pytest.approx(
        [s for _, s in tiny.predict(x, 8)], abs=1e-6
    )
    with heedful.steer(tiny, random_dictionary(tiny), {3: "4x"}):
        own = tiny.predict(x, 8)
    assert [one["share"] for one in found["steered"]] == pytest.approx([s for _, s in own], abs=1e-6)
    assert found["base"] != found["steered"]
    assert client.post("/api/next", json=ask | {"feature": 48}).status_code == 400
    assert client.post("/api/next", json=ask | {"strength": -1}).status_code == 422


def test_steered_writing_is_stored(client: httpx.Client, tiny: Any, house: server.House) -> None:
    ask = {"model": tiny.name, "text": "the cat sat", "feature": 3, "strength": 8.0, "tokens": 8}
    job = finished(client, client.post("/api/jobs/steer", json=ask).json())
    assert job["state"] == "done", job["error"]
    assert job["result"]["before"]["text"] == tiny.generate("the cat sat", max_new_tokens=8)
    page = client.get(f"/api/runs/{job['run']}").json()
    assert page["kind"] == "steer"
    assert "Before and after" in page["html"]
    assert client.get(f"/api/runs/{job['run']}/report").status_code == 200


def test_the_page_of_a_feature(client: httpx.Client, tiny: Any) -> None:
    job = finished(client, client.post("/api/jobs/feature", json={"model": tiny.name, "feature": 5}).json())
    assert job["state"] == "done", job["error"]
    assert "Feature 5" in job["result"]["html"]
    assert "fires on" in job["result"]["html"]
