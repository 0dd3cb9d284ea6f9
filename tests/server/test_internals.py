"""Features and steering, held to the library."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.io.reforged import reforge
from tests.reports.opened import without_note
from tests.server.serving import TEXTS, finished, random_dictionary

import heedful
from heedful.models.zoo import resolve
from heedful.reports.html_parts import esc
from heedful.server import app, run_list
from heedful.server.model_pool import ModelPool

TEXT = "the service is not bad"
ASK = {"model": "zoo:sentiment", "text": TEXT}


def test_features_on_a_text(client: httpx.Client, tiny: Any) -> None:
    from heedful.features.reading.feature_pages import own_text

    text = "the cat sat on the mat"
    found = client.post("/api/features", json={"model": tiny.name, "text": text}).json()
    sae = random_dictionary(tiny)
    _, values, _ = own_text(tiny, sae, "blocks.0.resid", text)
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


def test_steered_writing_is_stored(client: httpx.Client, tiny: Any, server_state: app.ServerState) -> None:
    ask = {"model": tiny.name, "text": "the cat sat", "feature": 3, "strength": 8.0, "tokens": 8}
    job = finished(client, client.post("/api/jobs/steer", json=ask).json())
    assert job["state"] == "done", job["error"]
    assert job["result"]["before"]["text"] == tiny.generate("the cat sat", max_new_tokens=8)
    page = client.get(f"/api/runs/{job['run']}").json()
    assert page["kind"] == "steer"
    assert "feature 3 set to" in page["html"]
    assert "Difference of means" in page["html"]
    beside = job["result"]["beside"]["difference of means"]
    with heedful.steer(tiny, contrasted(tiny).scaled(job["result"]["size"]), 1.0):
        assert beside["text"] == tiny.generate("the cat sat", max_new_tokens=8)
    assert esc(beside["text"]) in page["html"]
    assert client.get(f"/api/runs/{job['run']}/report").status_code == 200


@pytest.mark.parametrize("kind", ["attention", "feature", "steer"])
def test_heedful_report_opens_what_the_page_stored(
    client: httpx.Client,
    tiny: Any,
    server_state: app.ServerState,
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same file as the page saves, and its numbers as one document; what is damaged is told."""
    from heedful.cli.main import main

    text = {} if kind == "feature" else {"text": "the cat sat"}
    more = {"attention": {}, "feature": {"feature": 3}, "steer": {"feature": 3, "strength": 2.0, "tokens": 4}}
    begun = client.post(f"/api/jobs/{kind}", json={"model": tiny.name} | text | more[kind]).json()
    job = finished(client, begun)
    assert job["state"] == "done", job["error"]
    folder, file = server_state.runs.root / job["id"], tmp_path / "page.html"
    assert main(["report", str(folder), "--html", str(file), "--json"]) == 0
    assert file.read_text(encoding="utf-8") == client.get(f"/api/runs/{job['run']}/report").text
    assert json.loads(capsys.readouterr().out)["model"]
    copied = tmp_path / "cut"
    shutil.copytree(folder, copied)
    (copied / "result.json").write_text('{"x": 1}')
    assert main(["report", str(copied)]) == 2
    error = capsys.readouterr().err
    assert "is damaged" in error
    assert error.count("\n") == 1


def contrasted(tiny: Any) -> Any:
    """The library's own difference of means of feature 3, on the same texts."""
    from heedful.features.steering.diff_of_means import contrast

    return contrast(tiny, random_dictionary(tiny), {3: 1.0}, TEXTS, rows=5_000)


def test_numbers_that_are_none_come_back(tmp_path: Path) -> None:
    """JSON has no NaN, and a steer of no token has no perplexity."""
    from heedful.features.steering.results import Continuation, Sides

    one = Continuation("said", float("nan"), 0.5)
    sides = Sides("so", one, one, 1.0, False, {"name": "m"}, {}, ("a note",), {"difference of means": one})
    assert without_note(Sides.load(sides.save(tmp_path)).page()) == sides.page()


def test_an_atlas_is_stored_and_drawn_the_same(
    client: httpx.Client, server_state: app.ServerState, model: Any
) -> None:
    job = finished(client, client.post("/api/jobs/attention", json=ASK).json())
    assert job["state"] == "done", job["error"]
    atlas = heedful.Atlas.load(server_state.runs.root / job["id"])
    own = heedful.attention(model, TEXT)
    for stored, made in zip(atlas.stacks, own.stacks, strict=True):
        np.testing.assert_allclose(stored.weights, made.weights, atol=1e-6)
        np.testing.assert_allclose(stored.grads, made.grads, atol=1e-5)
        assert (stored.keys, stored.queries, stored.causal) == (made.keys, made.queries, made.causal)
    assert (atlas.x, atlas.target, atlas.unit) == (own.x, own.target, own.unit)
    assert atlas.kinds() == own.kinds()
    page = client.get(f"/api/runs/{job['run']}").json()
    assert page["kind"] == "attention"
    drawn = [re.sub(r"\bh[0-9a-f]{8}-", "", html) for html in (page["html"], job["result"]["html"])]
    assert without_note(drawn[0]) == drawn[1]  # but for the ids, which are new each time
    assert page["data"] == job["result"]["data"]
    assert page["ask"] == {"model": "zoo:sentiment", "text": TEXT}
    assert client.get(f"/api/runs/{job['run']}/report").text.startswith("<!DOCTYPE html>")
    damaged = server_state.runs.root / "damaged"  # a copy: what was opened is remembered
    shutil.copytree(server_state.runs.root / job["id"], damaged)
    (damaged / "maps.safetensors").write_bytes(b"not maps at all")
    assert client.get(f"/api/runs/{run_list.number('damaged')}").status_code == 400


def test_hostile_runs_are_shown_and_not_run(
    client: httpx.Client, server_state: app.ServerState, tiny: Any
) -> None:
    """What a run folder says is text, whoever wrote it."""
    job = finished(client, client.post("/api/jobs/feature", json={"model": tiny.name, "feature": 2}).json())
    hostile = dict.fromkeys(("about", "model", "site"), "<img src=x onerror=alert(1)>")
    reforge(server_state.runs.root / job["id"], lambda data: data | hostile)
    for found in (
        client.get(f"/api/runs/{job['run']}").json()["html"],
        client.get(f"/api/runs/{job['run']}/report").text,
    ):
        assert "<img src=x" not in found
        assert "&lt;img src=x" in found


def test_the_page_of_a_feature(client: httpx.Client, server_state: app.ServerState, tiny: Any) -> None:
    job = finished(client, client.post("/api/jobs/feature", json={"model": tiny.name, "feature": 5}).json())
    assert job["state"] == "done", job["error"]
    assert "Feature 5" in job["result"]["html"]
    assert "Fires on" in job["result"]["html"]
    page = client.get(f"/api/runs/{job['run']}").json()
    assert page["kind"] == "feature"
    listed = {run["id"]: run for run in client.get("/api/runs").json()["runs"]}
    assert listed[job["run"]]["title"] == f"feature 5 of {tiny.name}"
    section = job["result"]["html"].partition("Fires on")[2].partition("</p>")[0]
    assert section in page["html"]
    report = client.get(f"/api/runs/{job['run']}/report").text
    assert section in report
    assert "<style" in report


def test_active_features_are_counted_on_the_tokens_of_the_text(shared: Any) -> None:
    """BERT's [CLS] and [SEP] have no activations there, and do not count as tokens without any."""
    from tests.features.test_feature_attributions import output_of, random_sae

    from heedful.models.sites.access import reading
    from heedful.server import internals
    from heedful.server.model_pool import ServedModel
    from heedful.server.schemas import requests

    model, site = shared("bert").model, "blocks.0.resid"
    sae = random_sae(site, seed=21)
    served = ServedModel("bert", None, model, dictionary=sae)
    found = internals.active_features(
        model, requests.FeaturesRequest(model="bert", text=TEXTS[0]), internals.Dictionary(served)
    )
    x = model.encode(TEXTS[0])
    with reading(model, [site]) as seen:
        output_of(model, x, model.target(x))
    codes = sae.encode(seen[site])[0]
    own = [place for place, special in enumerate(x.special) if not special]
    assert found.active == pytest.approx(float((codes[own] > 0).sum(1).double().mean()))
    assert found.active != pytest.approx(float((codes > 0).sum(1).double().mean()))


def test_the_features_of_an_embedded_model_are_served_without_being_named() -> None:
    pool = ModelPool()
    assert pool.add("zoo:one-layer").dictionary is None
    place = pool.add("zoo:lm").dictionary
    assert place == resolve.dictionary("lm")
    assert heedful.SAE.load(place).config.width == 1536
