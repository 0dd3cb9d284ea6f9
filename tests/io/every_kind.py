"""One run folder of every registered kind, small and made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.reports import every, every_head


def _pruning() -> Any:
    from heedful.heads.ablation.pruning_results import Pruning, PruningStep

    step = PruningStep("0.1", 1, 0.9, 0.88, 0.02, (0.0, 0.04), 0.87, 0.8, (0.7, 0.85))
    return Pruning(
        model=every.EVIL,
        how="zero",
        level="head",
        metric="accuracy",
        about="labels",
        units=4,
        texts=(10, 11),
        draws=3,
        seed=0,
        shortlist=None,
        base=0.9,
        base_chosen=0.91,
        one_shot=("0.1", "0.0"),
        steps=(step,),
        notes=(every.EVIL,),
    )


def _explanation() -> Any:
    from dataclasses import replace

    found = every.explanation()
    return replace(found, settings=found.settings | {"text": "a text", "target": {"label": "ok"}})


RESULTS: dict[str, Callable[[], Any]] = {  # kind -> its result, of those that are written in one go
    "attention": every.atlas,
    "attribution": lambda: every.explanation()["lime"],
    "explanation": _explanation,
    "feature": every.feature,
    "feature-pages": every.features,
    "head-importance": lambda: every_head.importance(every.EVIL),
    "lab": every.lab,
    "pruning": _pruning,
    "steer": every.sides,
    "sweep": every.sweep,
    "trial": every.trial,
}


def _audit(folder: Path) -> None:
    """A real one, in two shards: its numbers must be those of its shards."""
    import heedful

    def score(texts: list[str]) -> Any:
        return [[float(text.count("a")), float(text.count("b"))] for text in texts]

    score.__name__ = every.EVIL
    texts = [f"a b {word} {every.EVIL}" for word in ("one a", "two b", "three a a")]
    heedful.audit(
        heedful.load(score, labels=["a", every.EVIL]),
        texts,
        methods=["occlusion"],
        metrics=["comprehensiveness"],
        operators=["delete"],
        shard=2,
        out=folder,
    )


def _activations(folder: Path) -> None:
    from heedful.features.activations.shuffle import ScatterWriter, Shape, remove_parts
    from heedful.features.activations.store_facts import KIND, StoreFacts
    from heedful.io.sharded_run import ShardedRun, shard_entry

    run = ShardedRun(folder, KIND, "harvest")
    with run.opened({"name": every.EVIL, "texts": {"kind": "csv"}}, "activations"):
        scatter = ScatterWriter(folder, Shape(3, "float32", 4, seed=0))
        scatter.add(np.arange(18, dtype=np.float32).reshape(6, 3))
        done = scatter.finish().shards
        shards = [
            shard_entry(folder, f"shards/{s['file']}", rows=s["rows"], sha256=s["sha256"]) for s in done
        ]
        facts = StoreFacts(every.EVIL, "blocks.0.resid", 3, "float32", 6, (7.5, 8.5, 9.5), 200.0)
        run.finish(facts, shards)
        remove_parts(folder)


def _sae(folder: Path) -> None:
    import torch

    from heedful import SAE
    from heedful.features.sae.config import Config

    weights = torch.arange(12.0).reshape(3, 4)
    config = Config("topk", 3, 4, k=2, source={"site": every.EVIL, "maxima": [1.0, 2.0]}, notes=(every.EVIL,))
    SAE(config, weights, torch.zeros(4), weights.T.contiguous(), torch.zeros(3), torch.tensor(0.1)).save(
        folder
    )


OTHERS: dict[str, Callable[[Path], None]] = {"activations": _activations, "audit": _audit, "sae": _sae}
KINDS = sorted({*RESULTS, *OTHERS})


def make(kind: str, folder: Path) -> Path:
    """Write a run folder of one kind."""
    if kind in RESULTS:
        RESULTS[kind]().save(folder)
    else:
        OTHERS[kind](folder)
    return folder
