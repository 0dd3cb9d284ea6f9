"""TopK training steps, ours against dictionary-learning, SAELens and a dense loop by hand, in one process.

Runs in an environment of its own, with SAELens and dictionary-learning beside heedful. Prints the ratios as
JSON on standard output. `bench/sae_topk.py` starts it.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import torch
from torch import Tensor

from bench.rivals.bare_sae import BATCH, D, K, Step, activations, topk
from bench.timing import Rivals, Work, compare_all
from heedful.features.activations.stream import InMemoryRows
from heedful.features.sae import train
from heedful.features.sae.settings import resolve_settings

WIDTH, PAIRS, CURVE = 12_288, 7, 15


def main() -> None:
    torch.manual_seed(0)
    x = activations()
    settings = resolve_settings("topk", D, WIDTH, 1_000_000, batch=BATCH, k=K)
    apart = _curves(x, settings)
    run = train.begin(InMemoryRows(x), settings)
    dense = topk(run.params["dec"].detach(), run.params["b_dec"].detach(), settings.lr)
    rivals: Rivals = {
        "a hand-written dense loop": (_each(x, dense), 1 / 3),
        "dictionary-learning's TopKTrainer": (_each(x, _dictionary_learning(settings.lr)), 1 / 4),
        "SAELens's SAETrainer": (_each(x, _saelens(settings.lr)), 1 / 4),
    }
    ours = _each(x, lambda batch: train.take_step(run, batch).total)
    found = compare_all(f"a step at width {WIDTH:,}, k = {K}", ours, rivals, pairs=PAIRS)
    told = f"over {CURVE} steps, heedful's loss differs by {apart:.1e} from the loss of the dense loop"
    note = f"{torch.get_num_threads()} threads; {told}"
    print(json.dumps([ratio.told(note).as_dict() for ratio in found]))


def _each(x: Tensor, step: Step) -> Work:
    batches = itertools.cycle(x.split(BATCH))
    return lambda: float(step(next(batches)))


def _curves(x: Tensor, settings: Any) -> float:
    """The largest relative difference of our losses and the dense loop's, from the same first weights."""
    run = train.begin(InMemoryRows(x), settings)
    assert abs(run.scale - 1) < 1e-3
    run.scale = 1.0
    dense = topk(run.params["dec"].detach(), run.params["b_dec"].detach(), settings.lr)
    batches = itertools.islice(itertools.cycle(x.split(BATCH)), CURVE)
    pairs = [(float(train.take_step(run, batch).total), float(dense(batch))) for batch in batches]
    return max(abs(a - b) / b for a, b in pairs)


def _dictionary_learning(lr: float) -> Step:
    from dictionary_learning.trainers.top_k import TopKTrainer

    trainer = TopKTrainer(
        steps=1_000_000, activation_dim=D, dict_size=WIDTH, k=K, layer=0, lm_name="none", device="cpu", lr=lr
    )
    count = itertools.count()
    return lambda batch: trainer.update(next(count), batch)


def _saelens(lr: float) -> Step:
    from sae_lens.config import LoggingConfig, SAETrainerConfig
    from sae_lens.saes import TopKTrainingSAE, TopKTrainingSAEConfig
    from sae_lens.training.sae_trainer import SAETrainer

    config = SAETrainerConfig(
        10**9, BATCH, lr=lr, lr_end=lr, logger=LoggingConfig(log_to_wandb=False), device="cpu"
    )
    sae = TopKTrainingSAE(TopKTrainingSAEConfig(d_in=D, d_sae=WIDTH, k=K))
    trainer: Any = SAETrainer(config, sae, iter(()))
    return lambda batch: trainer.step(batch).loss


if __name__ == "__main__":
    main()
