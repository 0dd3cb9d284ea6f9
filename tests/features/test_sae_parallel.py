"""Two workers train what one does, to rounding: started by torchrun, and by Ray Train."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import heedful
from heedful.core.errors import HeedfulError
from heedful.core.progress import Step
from heedful.features.sae import distributed, ray_train
from heedful.features.sae.settings import KINDS

SETTINGS: dict[str, Any] = {"width": 24, "steps": 30, "batch": 64, "k": 3, "lr": 3e-3, "every": 1}
SETTINGS |= {"dead_rows": 256, "threshold_from": 0.1}
WORKER = """
import json, sys, torch, heedful
from heedful.features.sae import distributed
torch.set_num_threads(1)
x = torch.load(sys.argv[1] + "/x.pt", weights_only=True)
with distributed.worker_group() as workers:
    for kind in sys.argv[3].split(","):
        told = []
        sae = heedful.train_sae(
            x, kind=kind, out=f"{sys.argv[1]}/{kind}", workers=workers,
            progress=lambda step: told.append(step.values),
            **json.loads(sys.argv[2]))
        with open(f"{sys.argv[1]}/{kind}-{workers.rank}.json", "w") as file:
            json.dump({"told": told, "world": workers.world, "sum": sae.W_dec.double().sum().item()}, file)
"""


def _x() -> Tensor:
    return torch.randn(700, 8, generator=torch.Generator().manual_seed(0)).exp()


@pytest.mark.slow  # starts processes of its own, and gloo sometimes aborts one as it ends
def test_two_workers_of_torchrun_equal_one(tmp_path: Path):
    torch.save(_x(), tmp_path / "x.pt")
    (tmp_path / "worker.py").write_text(WORKER)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = [tmp_path / "worker.py", tmp_path, json.dumps(SETTINGS), ",".join(KINDS)]
    done = subprocess.run(
        [*torchrun, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for kind in KINDS:
        steps: list[Step] = []
        alone = heedful.train_sae(_x(), kind=kind, progress=steps.append, **SETTINGS)
        told = [step.values for step in steps]
        ranks = [json.loads((tmp_path / f"{kind}-{rank}.json").read_text()) for rank in (0, 1)]
        assert [rank["world"] for rank in ranks] == [2, 2]
        assert ranks[1]["told"] == []  # one speaks for all
        assert ranks[0]["sum"] == ranks[1]["sum"]  # both hold the same weights, bit for bit
        for one, two in zip(told, ranks[0]["told"], strict=True):
            assert two == pytest.approx(one, rel=1e-3, abs=1e-5), kind
        together = heedful.SAE.load(tmp_path / kind)
        assert torch.allclose(together.W_dec, alone.W_dec, atol=2e-4), kind
        if alone.threshold is not None:
            assert torch.allclose(together.threshold, alone.threshold, rtol=1e-3)
        assert together.config.source["maxima"] == pytest.approx(alone.config.source["maxima"], rel=1e-2)
        assert together.config.source["maxima_rows"] == alone.config.source["maxima_rows"] == 640


def test_alone_without_torchrun():
    with distributed.worker_group() as workers:
        assert (workers.rank, workers.world) == (0, 1)


def test_batches_that_cannot_be_shared_are_refused():
    distributed.shares(64, 2)
    with pytest.raises(HeedfulError, match="a batch of 65 activations for 2 workers"):
        distributed.shares(65, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_two_workers_of_ray_train_equal_one(tmp_path: Path):
    ray = pytest.importorskip("ray", reason="Ray is optional")
    pytest.importorskip("ray.train.torch", reason="Ray Train is optional")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        found = ray_train.train_on_ray(
            _x(), 24, "batchtopk", tmp_path / "sae", steps=20, batch=64, k=3, lr=3e-3
        )
    finally:
        ray.shutdown()
    alone = heedful.train_sae(_x(), 24, "batchtopk", steps=20, batch=64, k=3, lr=3e-3)
    assert torch.allclose(found.W_dec, alone.W_dec, atol=2e-4)
