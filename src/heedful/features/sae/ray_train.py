"""One dictionary trained by the workers of a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.core.errors import HeedfulError

if TYPE_CHECKING:
    from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.distributed import worker_group


def train_on_ray(
    data: Any, width: int, kind: str, out: str | Path, *, workers: int = 2, **settings: Any
) -> SAE:
    """Train with Ray Train on the cluster that Ray is connected to, or one started here.

    `data` is sent to the workers; `out` must be a folder that all of them, and this process, can see.
    """
    try:
        from ray.train import ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer
    except ImportError as error:
        raise HeedfulError("Ray Train is not installed", str(error), "pip install 'ray[train]'") from None
    from heedful.features.sae.autoencoder import SAE

    config = {
        "data": data,
        "width": width,
        "kind": kind,
        "out": str(Path(out).absolute()),
        "settings": settings,
    }
    TorchTrainer(
        _ray_worker,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=workers),
        torch_config=TorchConfig(backend="gloo"),
    ).fit()
    return SAE.load(out)


def _ray_worker(config: dict[str, Any]) -> None:
    from heedful.features.sae.train import train_sae

    with worker_group() as workers:
        train_sae(
            config["data"],
            config["width"],
            config["kind"],
            out=config["out"],
            workers=workers,
            **config["settings"],
        )
