"""The largest activation of every feature: on rows, and kept with the autoencoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from heedful.features.activations.stream import ActivationStream
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.base import SingleWorker, WorkerGroup

MAX_CODES = 1 << 23  # activations of all features held at once


def row_maxima(
    sae: SAE,
    rows: ActivationStream,
    wanted: int,
    *,
    batch: int,
    seed: int = 0,
    workers: WorkerGroup | None = None,
) -> tuple[Tensor, int]:
    """(F,) the greatest activation of each feature on `wanted` different rows, and how many were looked at.

    The first batches of the order that `seed` settles: whole ones, at least one, at most one time through.
    Workers share each batch, and all get the same answer.
    """
    workers = workers or SingleWorker()
    number = max(1, min(-(-wanted // batch), rows.rows // batch))
    best = torch.zeros(sae.config.width, dtype=sae.W_enc.dtype)
    with torch.inference_mode():
        for _, x in zip(range(number), rows.batches(batch, seed), strict=False):
            for part in torch.split(x[workers.rank :: workers.world], max(1, MAX_CODES // sae.config.width)):
                torch.maximum(best, sae.encode(part).amax(0), out=best)
    return workers.gather(best[None].clone()).amax(0), min(number * batch, rows.rows)


def known_maxima(sae: SAE) -> Any:
    """What the autoencoder's config says, None where it says nothing."""
    return sae.config.source.get("maxima")


def with_maxima(sae: SAE, maxima: Tensor, rows: int | None = None) -> SAE:
    """The same autoencoder with maxima in its config, and on how many rows they were seen, where known.

    Saved with it, "5x" needs no texts any more.
    """
    before = {name: value for name, value in sae.config.source.items() if name != "maxima_rows"}
    observed = {} if rows is None else {"maxima_rows": rows}
    source = {**before, "maxima": [float(f"{float(v):.7g}") for v in maxima], **observed}
    return replace(sae, config=replace(sae.config, source=source))
