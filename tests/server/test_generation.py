"""Writing on the page: what is written, its probabilities, the matrix and why, compared with the library."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.server.serving import finished

import heedful
from heedful.core.advice import Advice
from heedful.core.errors import HeedfulError
from heedful.server import generation, live_explain
from heedful.server.explanation_cache import ExplanationCache
from heedful.server.job_queue import Cancelled, Job
from heedful.server.schemas import requests

TEXT = "the cat sat on the mat"


def written(client: httpx.Client, model: Any, **more: Any) -> dict[str, Any]:
    ask = {"model": model.name, "text": TEXT, "tokens": 11, **more}
    return finished(client, client.post("/api/jobs/generate", json=ask).json())


def test_it_writes_what_the_library_writes(client: httpx.Client, tiny: Any) -> None:
    """In parts of eight tokens the same text as in one, with the probabilities of the model."""
    job = written(client, tiny)
    assert job["state"] == "done", job["error"]
    ids = tiny.answer(tiny.encode(TEXT), 11)
    tokens = job["result"]["tokens"]
    assert [token["id"] for token in tokens] == ids
    assert "".join(token["text"] for token in tokens) == tiny.decode(ids)
    for k in (0, 7, 8, 10):
        logits = tiny.logits([*tiny.encode(TEXT).ids, *ids[:k]])
        assert tokens[k]["share"] == pytest.approx(float(logits.softmax(-1)[ids[k]]), abs=1e-5)


def rows_of(found: dict[str, Any], method: str) -> list[list[float]]:
    (own,) = [one for one in found["matrix"]["methods"] if one["method"] == method]
    rows: list[list[float]] = own["rows"]
    return rows


@pytest.mark.parametrize("method", ["occlusion", "grad-x-input"])
def test_the_matrix_is_that_of_the_library(client: httpx.Client, tiny: Any, method: str) -> None:
    found = written(client, tiny, tokens=4)["result"]
    own = heedful.explain_each(
        tiny, TEXT, method, "token", continuation=[token["id"] for token in found["tokens"]]
    )
    x = tiny.encode(TEXT)
    assert found["matrix"]["prompt"] == len(x)
    assert len(found["matrix"]["columns"]) == len(x) + 3
    for k, (row, step) in enumerate(zip(rows_of(found, method), own, strict=True)):
        scores = step[method].scores
        assert len(row) == len(x) + k
        np.testing.assert_allclose(row, scores / np.abs(scores).max(), atol=6e-4)


def test_the_matrix_is_measured_and_has_its_control(client: httpx.Client, tiny: Any) -> None:
    """Tokens are really removed; random scores are there to compare with, new ones in every row."""
    found = written(client, tiny, tokens=4)["result"]
    first, *_, last = found["matrix"]["methods"]
    assert (first["method"], first["operator"]) == ("occlusion", tiny.operators[0])
    assert (last["method"], last["operator"]) == ("random", "")
    ids = [*tiny.encode(TEXT).ids, *(token["id"] for token in found["tokens"])]
    place, third = len(tiny.encode(TEXT)) + 2, found["tokens"][2]["id"]
    whole = float(tiny.logits(ids[:place])[third])
    falls = [whole - float(tiny.logits([*ids[:j], *ids[j + 1 : place]])[third]) for j in range(place)]
    np.testing.assert_allclose(first["rows"][2], np.array(falls) / np.abs(falls).max(), atol=2e-3)
    assert len({tuple(row[:5]) for row in last["rows"]}) == len(last["rows"])
    assert [len(row) for row in last["rows"]] == [len(row) for row in first["rows"]]


def test_an_expensive_matrix_is_estimated_and_says_so(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.server import automatic_test

    x = tiny.encode(TEXT)
    inputs = sum(len(x) + k + 1 for k in range(3))
    limit = 2.0 * inputs * (len(x) + 3) * tiny.size
    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", limit)
    assert generation.matrix_methods(tiny, x, [1, 2, 3]) == (["occlusion", "grad-x-input"], [])
    monkeypatch.setattr(automatic_test, "MAX_OPERATIONS", limit * (1 - 1e-9))
    job = Job("generate", "me", {}, lambda job: None)
    generation.write(tiny, requests.ContinueRequest(model=tiny.name, text=TEXT, tokens=3), job)
    assert job.result is not None
    assert [one["method"] for one in job.result["matrix"]["methods"]] == ["grad-x-input", "random"]
    assert job.result["notes"] == [
        f"Removing each token would take {inputs:,} model inputs, so occlusion is not in the matrix."
    ]


def test_an_encoder_decoder_scores_what_it_wrote(shared: Callable[[str], Any]) -> None:
    model = shared("t5").model
    job = Job("generate", "me", {}, lambda job: None)
    generation.write(model, requests.ContinueRequest(model="t5", text=TEXT, tokens=3), job)
    assert job.result is not None
    ids = [token["id"] for token in job.result["tokens"]]
    width = len(model.encode(TEXT))
    for own in job.result["matrix"]["methods"]:
        assert [len(row) for row in own["rows"]] == [width + k for k in range(len(ids))], own["method"]
    ask = requests.WhyRequest(model="t5", text=TEXT, tokens=ids, at=len(ids) - 1)
    found = generation.why(model, ask, ExplanationCache())
    assert found.prediction
    assert "Measured by" in found.html


def test_why_reads_only_what_was_written_before(client: httpx.Client, tiny: Any) -> None:
    ids = [token["id"] for token in written(client, tiny)["result"]["tokens"]]
    ask = {"model": tiny.name, "text": TEXT, "tokens": ids, "at": 2}
    found = client.post("/api/why", json=ask).json()
    before = TEXT + tiny.decode(ids[:2])
    by = {"occlusion": {"operator": "swap"}}  # as a test would remove words; occlusion itself deletes them
    own = heedful.explain(tiny, before, "occlusion", params=by, evidence=False)
    assert found["token"] == own.target.label
    top = max(own["occlusion"].words(), key=lambda word: abs(word.score))
    assert f"({top.score:+.2f})".replace("-", "−") in found["html"]
    assert "Which method to use" not in found["html"]
    assert tiny.decode(ids[:4]) not in found["html"]
    _, share = tiny.predict(tiny.encode(before))[0]
    assert found["prediction"][0]["share"] == pytest.approx(share, abs=1e-5)


@pytest.mark.parametrize(
    ("place", "ask", "status", "told"),
    [
        ("jobs/generate", {"tokens": 0}, 422, "tokens"),
        ("jobs/generate", {"tokens": requests.MAX_WRITTEN + 1}, 422, "tokens"),
        ("why", {"tokens": [1], "at": 1}, 400, "no token at place 1"),
        ("why", {"tokens": [], "at": 0}, 422, "tokens"),
        ("why", {"tokens": [-1], "at": 0}, 422, "tokens"),
        ("why", {"tokens": [2**31 - 1], "at": 0}, 400, "there is no token"),
        ("why", {"tokens": [1], "at": 0, "model": "zoo:sentiment"}, 400, "cannot write text"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    client: httpx.Client, tiny: Any, place: str, ask: dict[str, Any], status: int, told: str
) -> None:
    answer = client.post(f"/api/{place}", json={"model": tiny.name, "text": TEXT} | ask)
    assert answer.status_code == status
    assert told in answer.json()["error"]


def test_a_job_that_cannot_write_says_why(client: httpx.Client, tiny: Any) -> None:
    begun = client.post("/api/jobs/generate", json={"model": "zoo:sentiment", "text": TEXT}).json()
    assert "cannot write text" in finished(client, begun)["error"]
    long = client.post("/api/jobs/generate", json={"model": tiny.name, "text": "the cat " * 2000}).json()
    assert "tokens" in finished(client, long)["error"]


def test_it_stops_when_it_is_cancelled_and_after_its_time(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = requests.ContinueRequest(model=tiny.name, text=TEXT, tokens=30)
    job = Job("generate", "me", {}, lambda job: None)
    monkeypatch.setattr(generation, "WRITE_SECONDS", 0.0)
    generation.write(tiny, ask, job)
    assert job.result is not None
    assert len(job.result["tokens"]) == generation.CHUNK
    assert job.result["notes"] == ["Writing stopped after 0 s."]
    job.stop = True
    with pytest.raises(Cancelled):
        generation.write(tiny, ask, job)


def test_of_a_long_prompt_the_end_is_in_the_matrix(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, ids = tiny.encode(TEXT), tiny.answer(tiny.encode(TEXT), 2)
    scored = heedful.explain_each(tiny, TEXT, "grad-x-input", "token", continuation=ids)
    whole = generation.matrix(tiny, x, ids, scored)
    monkeypatch.setattr(generation, "MAX_CELLS", 10)
    cut = generation.matrix(tiny, x, ids, scored)
    assert cut["hidden"] == len(x) - 3
    assert cut["columns"] == whole["columns"][cut["hidden"] :]
    for one, other in zip(cut["methods"], whole["methods"], strict=True):
        assert one["rows"][1] == other["rows"][1][cut["hidden"] :]  # relative to the whole row, as before


# --- names and limits of features --------------------------------------------------------------------


def test_features_are_named_by_rules(client: httpx.Client, server_state: Any, tiny: Any) -> None:
    from heedful.features.interpretation.interpret import split
    from heedful.features.interpretation.rules import Rules
    from heedful.features.reading.read_features import read_features

    ask = {"model": tiny.name, "features": [3, 0, 3]}
    job = finished(client, client.post("/api/jobs/names", json=ask).json())
    assert job["state"] == "done", job["error"]
    served = server_state.models.get(tiny.name)
    (own,) = read_features(tiny, served.dictionary, served.texts, [3], rows=20_000)
    parts = split(own)
    said = Rules().explain(parts.training)
    assert job["result"]["names"]["3"] == (said.text if parts.enough and said.rule.atoms else "")
    assert set(job["result"]["names"]) == {"0", "3"}
    active = client.post("/api/features", json={"model": tiny.name, "text": TEXT}).json()["features"]
    named = {one["feature"]: one["name"] for one in active}
    kept = server_state.dictionary(served).names
    assert all(name == kept.get(feature, "") for feature, name in named.items())
    wrong = client.post("/api/jobs/names", json=ask | {"features": [48]}).json()
    assert "no feature 48" in finished(client, wrong)["error"]


def test_the_slider_stops_where_text_breaks(client: httpx.Client, server_state: Any, tiny: Any) -> None:
    """The limit is not broken, the next strength is, by the perplexity of the library."""
    from heedful.features.steering.compare import before_after
    from heedful.features.steering.results import BROKEN, MAX_REPETITION
    from heedful.server.steering_limit import STRENGTHS, TOKENS

    ask = {"model": tiny.name, "text": TEXT, "feature": 5}
    job = finished(client, client.post("/api/jobs/limit", json=ask).json())
    assert job["state"] == "done", job["error"]
    found = job["result"]
    kept = server_state.dictionary(server_state.models.get(tiny.name))

    def broken(strength: float) -> bool:
        how = {5: strength * kept.max_activation(5)}
        sides = before_after(tiny, kept.sae, how, TEXT, max_new_tokens=TOKENS)
        loops = sides.after.repetition > MAX_REPETITION >= sides.before.repetition
        return sides.after.perplexity > BROKEN * sides.before.perplexity or loops

    tried = [strength for strength in STRENGTHS if strength <= (found["broken"] or STRENGTHS[-1])]
    assert [broken(strength) for strength in tried] == [strength == found["broken"] for strength in tried]
    assert found["limit"] == max([0.0, *(s for s in tried if s != found["broken"])])
    assert f"{found['limit']:g} ×" in found["note"] or found["limit"] == 0


def test_a_limit_needs_a_known_maximum(tiny: Any) -> None:
    from heedful.server import steering_limit

    class Silent:
        def check(self, feature: int) -> None: ...

        def max_activation(self, feature: int) -> None: ...

    ask = requests.LimitRequest(model=tiny.name, text=TEXT, feature=1)
    with pytest.raises(HeedfulError, match="greatest activation"):
        steering_limit.measure(tiny, ask, Silent(), Job("limit", "me", {}, lambda job: None))  # type: ignore[arg-type]


# --- the recommendation of an audit ------------------------------------------------------------------


def test_an_audit_among_the_runs_recommends(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of the same weights; its method is run and shades the text."""
    from dataclasses import replace

    from heedful.server import audit_advice
    from heedful.server.run_list import RunPlace, Runs

    own = Advice("occlusion", "Use occlusion: it is best here.", "mine", model.facts()["fingerprint"])
    known = {
        "lost": None,  # a folder that cannot be read
        "other": replace(own, fingerprint="another model"),
        "mine": own,
        "older": replace(own, sentence="not this one"),
    }
    places = [RunPlace(name, Path(name), name, "audit", "", 0.0) for name in known]
    places.insert(0, RunPlace("trial", Path("trial"), "trial", "trial", "", 0.0))
    monkeypatch.setattr(Runs, "all", lambda runs: places)
    monkeypatch.setattr(audit_advice, "_advice", lambda place: known[place.name])
    runs = Runs()
    advice = audit_advice.of(runs, model)
    assert advice == {**own.settings(), "run": "mine"}
    places.clear()
    assert audit_advice.of(runs, model) == {}
    runs.close()
    memory = ExplanationCache()
    memory.advice["zoo:sentiment"] = advice | {"use": "attention-max"}
    found = live_explain.explain_live(
        model, requests.LiveRequest(model="zoo:sentiment", text="not bad"), memory
    )
    assert found.methods[0].method == "attention-max"
    assert f"{advice['sentence']} (audit mine)" in html.unescape(found.html["verdict"])


def test_the_recommendation_of_a_stored_audit_is_found(model: Any, tmp_path: Path) -> None:
    from heedful.server import audit_advice
    from heedful.server.run_list import Runs

    pytest.importorskip("heedful.reports.audit", reason="the report of an audit is not here yet")
    texts = ["a great film", "a dull and awful film", "not bad at all", "the plot is a mess"] * 3
    audit = heedful.audit(model, texts, methods=["occlusion", "attention-max"], out=tmp_path / "mine")
    assert audit_advice.of(Runs(tmp_path), model) == {**audit.advice().settings(), "run": "mine"}
