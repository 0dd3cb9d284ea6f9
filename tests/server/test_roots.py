"""Run folders and model folders: what is under the roots is there, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import heedful
from heedful.server import app

TEXT = "the service is not bad"
ASK = {"model": "zoo:sentiment", "text": TEXT}


def test_runs_outside_the_root_are_not_there(tmp_path: Path, model: Any) -> None:
    from heedful.server.run_list import Runs, number

    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    own = heedful.explain(model, TEXT, ["grad-l2"])
    own.save(outside)
    own.save(root / "below" / "mine")
    (root / "link").symlink_to(outside)
    (root / "half").mkdir()
    (root / "half" / "manifest.json").symlink_to(outside / "manifest.json")
    (root / "model").mkdir()
    (root / "model" / "manifest.json").write_text('{"files": {}}')  # of something else
    (root / ".hidden").mkdir()
    runs = Runs(root)
    assert [place.name for place in runs.all()] == ["below/mine"]
    assert runs.listed().temporary is False
    runs.close()
    assert root.is_dir()
    assert runs.get(number("../outside")) is None
    assert runs.get(number("link")) is None
    assert runs.get(number("below/mine")) is not None


def test_damaged_runs_are_told(client: httpx.Client, server_state: app.ServerState) -> None:
    begun = {"format": 3, "kind": "audit", "version": 1, "title": ""}
    bad = {
        "bad-cut": "[1, 2",
        "bad-audit": json.dumps(begun),  # not finished
        "bad-older": json.dumps({"format": 2, "kind": "audit"}),
        "bad-newer": json.dumps(begun | {"format": 4}),
        "bad-kind": json.dumps(begun | {"kind": "dream", "files": {}}),
    }
    for name, manifest in bad.items():
        (server_state.runs.root / name).mkdir(exist_ok=True)
        (server_state.runs.root / name / "manifest.json").write_text(manifest)
    listed = {run["name"]: run["id"] for run in client.get("/api/runs").json()["runs"]}
    for name in bad:
        answer = client.get(f"/api/runs/{listed[name]}")
        assert answer.status_code == 400, name
        assert answer.json()["error"]


def test_audits_labs_and_trials_are_drawn(
    client: httpx.Client, server_state: app.ServerState, model: Any
) -> None:
    from heedful.core.lab_report import Claim, LabReport

    heedful.audit(
        model,
        ["not bad", "very good", "a mess"],
        methods=["grad-l2"],
        out=server_state.runs.root / "an-audit",
    )
    lab = LabReport("a-lab", "A lab", "Somebody 2020", (Claim("It holds.", 1.0, True),))
    lab.save(server_state.runs.root / "labs" / "a-lab")
    listed = {run["name"]: run for run in client.get("/api/runs").json()["runs"]}
    for name, kind in (("an-audit", "audit"), ("labs/a-lab", "lab")):
        assert listed[name]["kind"] == kind
        page = client.get(f"/api/runs/{listed[name]['id']}").json()
        assert "<header>" in page["html"]
        report = client.get(f"/api/runs/{listed[name]['id']}/report")
        assert report.text.startswith("<!DOCTYPE html>")
        # beside the policy of every answer: the folder may be a stranger's
        assert "sandbox" in report.headers.get_list("content-security-policy")


def test_models_are_those_that_were_given(client: httpx.Client) -> None:
    answer = client.post("/api/models", json={"model": "zoo:lm"})
    assert answer.status_code == 400
    assert "--allow-load" in answer.json()["error"]


def test_allowed_loading_stays_in_its_root(tmp_path: Path, model: Any) -> None:
    from heedful.core.errors import HeedfulError
    from heedful.server.model_pool import ModelPool

    root = tmp_path / "models"
    model.module.save_pretrained(root / "mine")
    model.tokenizer.save_pretrained(root / "mine")
    model.module.save_pretrained(tmp_path / "outside")
    (root / "link").symlink_to(tmp_path / "outside")
    pool = ModelPool(allow_load=True, root=root)
    assert "mine" in pool.offered()
    assert "link" not in pool.offered()
    for name in (
        "../outside",
        str(tmp_path / "outside"),
        "link",
        "mine/../../outside",
        ".",
        "..",
        "/etc",
        "~",
    ):
        with pytest.raises(HeedfulError):
            pool.load(name)
    with pytest.raises(HeedfulError, match=r"no model that may be loaded.*owner/name"):
        pool.load("gpt2")  # no folder, and no id of a hub
    assert pool.load("mine").model.kind == "classifier"
    assert pool.load("zoo:one-layer").name == "zoo:one-layer"
    pool.close()


def test_pickled_weights_are_not_loaded_for_a_client(tmp_path: Path, model: Any) -> None:
    import torch

    from heedful.core.errors import HeedfulError
    from heedful.server.model_pool import ModelPool

    folder = tmp_path / "models" / "pickled"
    model.module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    torch.save(model.module.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    pool = ModelPool(allow_load=True, root=tmp_path / "models")
    with pytest.raises(HeedfulError, match="pickle"):
        pool.load("pickled")
    pool.close()
