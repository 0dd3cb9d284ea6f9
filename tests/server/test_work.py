"""Jobs: stored, streamed, cancelled, found again; nobody waits for another."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.server.serving import finished

import heedful
from heedful.comparisons.result import Comparison
from heedful.core.errors import MEMORY_SENTENCE
from heedful.server import app, explain_job, live_explain
from heedful.server.job_queue import ENDED
from heedful.server.model_pool import ModelPool
from heedful.server.run_list import Runs

TEXT = "the service is not bad"
ASK = {"model": "zoo:sentiment", "text": TEXT}


def test_an_explanation_is_stored_and_equals_the_library(
    client: httpx.Client, server_state: app.ServerState, model: Any
) -> None:
    methods = ["occlusion", "lime"]
    text = "the food was great but the service was slow"
    begun = client.post("/api/jobs/explain", json=ASK | {"text": text, "methods": methods, "owner": "me"})
    assert begun.status_code == 202
    job = finished(client, begun.json())
    assert job["state"] == "done", job["error"]
    stored = Comparison.load(server_state.runs.root / job["id"])
    own = heedful.explain(model, text, methods, evidence=True)
    for method in own:
        np.testing.assert_allclose(stored[method].scores, own[method].scores, atol=1e-5)
    assert [e.method for e in stored.evidence] == [e.method for e in own.evidence]
    assert stored.verdict == own.verdict
    assert job["result"]["tested"]
    assert "random orders" in job["result"]["html"]["verdict"]
    again = client.get(f"/api/runs/{job['run']}").json()
    assert again["kind"] == "explanation"
    assert again["ask"]["text"] == text
    report = client.get(f"/api/runs/{job['run']}/report")
    assert report.headers["content-disposition"].startswith("attachment")
    assert report.text.startswith("<!DOCTYPE html>")


def test_a_job_is_there_after_a_reload_and_after_a_restart(
    client: httpx.Client, server_state: app.ServerState
) -> None:
    begun = client.post("/api/jobs/explain", json=ASK | {"methods": ["grad-l2"], "test": False}).json()
    with httpx.Client(base_url=client.base_url) as other:  # another visit
        job = finished(other, begun)
    assert job["ask"]["text"] == TEXT
    assert job["result"]["html"]["methods"]
    del server_state.jobs.jobs[job["id"]]  # as if the server had been started anew
    stored = client.get(f"/api/jobs/{job['id']}").json()
    assert (stored["state"], stored["run"]) == ("done", job["run"])
    assert client.get("/api/jobs/20200101-000000-explain-00000000").status_code == 404


def events(client: httpx.Client, number: str) -> list[dict[str, Any]]:
    with client.stream("GET", f"/api/jobs/{number}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line[5:]) for line in stream.iter_lines() if line.startswith("data:")]


def test_methods_stream_as_they_finish(client: httpx.Client) -> None:
    text = " ".join(f"word{n}" for n in range(40))  # long enough to be listened to before it is done
    ask = ASK | {
        "text": f"one more text that nobody explained {text}",
        "methods": ["occlusion", "kernel-shap"],
    }
    begun = client.post("/api/jobs/explain", json=ask).json()
    told = events(client, begun["id"])
    assert told[-1]["state"] == "done"
    drawn = [one["result"]["html"] for one in told if one["result"]]
    assert len(drawn) >= 2
    assert "kernel-shap" in drawn[-1]["methods"]
    assert drawn[-1]["evidence"]
    done = [one["done"] for one in told if one["total"]]
    assert done == sorted(done)
    assert events(client, begun["id"])[-1]["state"] == "done"  # listened to again, it is told at once


def test_a_job_is_cancelled(client: httpx.Client, server_state: app.ServerState) -> None:
    text = " ".join(f"word{n}" for n in range(60))
    ask = ASK | {"text": text, "methods": ["grad-l2", "kernel-shap"], "owner": "canceller"}
    begun = client.post("/api/jobs/explain", json=ask).json()
    while client.get(f"/api/jobs/{begun['id']}").json()["label"] != "kernel-shap":
        time.sleep(0.01)
    client.post(f"/api/jobs/{begun['id']}/cancel", json={})
    job = finished(client, begun)
    assert job["state"] == "cancelled"
    assert "grad-l2" in job["result"]["html"]["methods"]  # what was finished is kept
    stored = Comparison.load(server_state.runs.root / job["id"])
    assert [name for name in stored if name != "random"] == ["grad-l2"]
    assert "cancelled" in stored.skipped["kernel-shap"]
    assert client.get(f"/api/runs/{job['run']}").status_code == 200
    assert client.post("/api/jobs/nobody/cancel", json={}).status_code == 404


def test_progress_counts_what_was_run(model: Any) -> None:
    """A sampled method may stop early: then there is less to do, and no more was done."""
    from heedful.server import explain_job
    from heedful.server.explanation_cache import ExplanationCache
    from heedful.server.job_queue import Job
    from heedful.server.schemas import requests

    told: list[tuple[str, int, int]] = []

    class Heard(Job):
        def report(self, label: str, done: int = 0, total: int = 0) -> None:
            told.append((label, done, total))

    text = "the food is great but the service is not good at all and the menu is small"
    ask = requests.ExplainJobRequest(
        model="zoo:sentiment", text=text, methods=["occlusion", "lime", "kernel-shap"]
    )
    found = explain_job.explain(
        model, ask, ExplanationCache(), Heard("explain", "a", {}, lambda job: None), list
    )
    begun = {label: (done, total) for label, done, total in reversed(told)}  # the first of each label
    order = [name for name in dict.fromkeys(label for label, _, _ in told) if name in found]
    planned = heedful.plan(model, text, ask.methods, evidence=True)
    ran = most = 0
    for name, after in zip(order, [*order[1:], explain_job.TESTING], strict=True):
        ran, most = ran + found[name].cost.forwards, most + planned.rows[name][1]
        assert begun[after][0] == ran
    assert ran < most  # one of them did stop early
    assert begun[explain_job.TESTING][1] == begun[order[0]][1] - (most - ran)


def test_two_users_do_not_block_each_other(client: httpx.Client, server_state: app.ServerState) -> None:
    """A long job of the same model holds its own replica: typing goes on, and so does another's job."""
    go, began = threading.Event(), threading.Event()

    def hold(model: Any, job: Any) -> None:
        model.values(model.encode(TEXT), model.target(model.encode(TEXT)), np.ones((1, 5), bool))
        began.set()
        while not go.wait(0.01):
            job.report("holding")

    from heedful.server.schemas.requests import AttentionRequest

    held = server_state.start(
        "test", AttentionRequest(model="zoo:sentiment", text=TEXT, owner="greedy"), hold
    )
    assert began.wait(60)
    try:
        assert client.post("/api/look", json=ASK | {"text": "typing meanwhile"}).status_code == 200
        other = client.post(
            "/api/jobs/explain", json=ASK | {"methods": ["grad-l2"], "owner": "modest"}
        ).json()
        assert finished(client, other)["state"] == "done"
        assert held.state == "running"
    finally:
        go.set()


def test_replicas_share_weights_and_nothing_else(server_state: app.ServerState) -> None:
    served = server_state.models.get("zoo:sentiment")
    with served.replica(90) as one, served.replica(91) as two:
        assert one is not two
        assert one is not served.model
        pairs = zip(one.module.parameters(), two.module.parameters(), strict=True)
        assert all(a.data_ptr() == b.data_ptr() for a, b in pairs)
        assert one.module is not two.module
        x = one.encode(TEXT)
        np.testing.assert_array_equal(one.logits(x).numpy(), served.model.logits(x).numpy())


def test_a_function_has_no_replica_and_takes_turns() -> None:
    pool = ModelPool()
    served = pool.add(lambda texts: [[float(len(text)), 0.0] for text in texts])
    with served.replica(0) as replica:
        assert replica is served.model
    pool.close()


def test_jobs_give_way_unless_questions_wait_for_them(server_state: app.ServerState, tmp_path: Path) -> None:
    """A job on a copy of the model stands still for questions. One that holds the only copy does not: the
    questions wait for it."""
    from heedful.server.schemas.requests import AttentionRequest

    def given_way(state: app.ServerState, name: str) -> bool:
        seen: list[bool] = []
        ask = AttentionRequest(model=name, text=TEXT, owner="one")
        job = state.start("test", ask, lambda _, own: seen.append(own.give_way is not None))
        while job.state not in ENDED:
            time.sleep(0.01)
        return seen[0]

    assert given_way(server_state, "zoo:sentiment")
    pool = ModelPool()
    served = pool.add(lambda texts: [[float(len(text)), 0.0] for text in texts])
    state = app.ServerState(pool, Runs(tmp_path))
    assert not given_way(state, served.name)
    state.close()


def test_attention(client: httpx.Client, model: Any) -> None:
    job = finished(client, client.post("/api/jobs/attention", json=ASK).json())
    assert job["state"] == "done", job["error"]
    config = model.module.config
    assert job["result"]["data"]["levels"][0]["stacks"][0]["shape"][:2] == [
        config.num_hidden_layers,
        config.num_attention_heads,
    ]
    assert "Every head" in job["result"]["html"]


NO_MEMORY = [
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 999 bytes."),
]


@pytest.mark.parametrize("error", NO_MEMORY)
def test_too_little_memory_is_told_as_by_the_command_line(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Of a question and of a job; what else goes wrong inside is still an error of the program."""
    raised = [error]

    def full(*_: Any, **__: Any) -> None:
        raise raised[0]

    monkeypatch.setattr(live_explain, "explain_live", full)
    monkeypatch.setattr(explain_job, "explain", full)
    answer = client.post("/api/look", json=ASK)
    assert answer.status_code == 507
    assert answer.json()["error"] == f"{MEMORY_SENTENCE}."
    job = finished(client, client.post("/api/jobs/explain", json=ASK).json())
    assert (job["state"], job["error"]) == ("failed", f"{MEMORY_SENTENCE}.")
    raised[0] = RuntimeError("shapes do not fit")
    assert client.post("/api/look", json=ASK).status_code == 500
    job = finished(client, client.post("/api/jobs/explain", json=ASK).json())
    assert job["error"] == "This should not have happened: RuntimeError."
