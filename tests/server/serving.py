"""What tests of the server share: a server in a thread, a dictionary without training, a job awaited."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import torch

from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.features.sae.maxima import with_maxima
from heedful.server import app

TEXTS = ["the cat sat on the mat. hello world!", "a dog ran to the low house", "don't stop, the cat ran"] * 4


def random_dictionary(model: Any, features: int = 48, site: str = "blocks.0.resid") -> SAE:
    """Directions drawn at random, read by ReLU: no training, all the parts."""
    d = model.module.config.n_embd
    draw = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(features, d, generator=draw), dim=1)
    source = {"site": site, "name": model.name}
    sae = SAE(
        Config("relu", d, features, source=source),
        rows.T.clone(),
        torch.zeros(features),
        rows.clone(),
        torch.zeros(d),
    )
    return with_maxima(sae, torch.full((features,), 2.0))


@contextmanager
def listening(state: app.ServerState, config: app.ServerConfig) -> Iterator[str]:
    """The address of a server that answers."""
    bound = app.listen(config.host, 0)
    running = app.uvicorn_server(state, config, lifespan="off")
    thread = threading.Thread(target=running.run, args=([bound],), daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    running.should_exit = True
    thread.join(10)
    bound.close()


def finished(client: httpx.Client, job: dict[str, Any], seconds: float = 120) -> dict[str, Any]:
    """The job when it has ended."""
    end = time.monotonic() + seconds
    while job["state"] not in ("done", "failed", "cancelled"):
        assert time.monotonic() < end, job
        time.sleep(0.05)
        job = client.get(f"/api/jobs/{job['id']}").json()
    return job
