"""A ReLU autoencoder's training step against the same written by hand in torch."""

from __future__ import annotations

import itertools

from bench.rivals.bare_sae import BATCH, D, activations, relu
from bench.timing import Ratio, compare
from heedful.features.activations.stream import InMemoryRows
from heedful.features.sae import train
from heedful.features.sae.settings import resolve_settings

TITLE = "Training a ReLU autoencoder: width 384 to 3,072, batch 4,096"
WIDTH, PAIRS = 3072, 9


def run() -> list[Ratio]:
    x = activations()
    settings = resolve_settings("relu", D, WIDTH, 1_000_000, batch=BATCH, sparsity_rise=0.0)
    ours = train.begin(InMemoryRows(x), settings)
    bare = relu(ours.params["dec"].detach(), settings.lr, settings.sparsity)
    mine, theirs = (itertools.cycle(x.split(BATCH)) for _ in range(2))
    apart: list[float] = []

    def step() -> None:
        apart.append(float(train.take_step(ours, next(mine)).total))

    def by_hand() -> None:
        loss = float(bare(next(theirs)))
        apart[-1] = abs(apart[-1] - loss) / loss

    found = compare(
        f"a step at width {WIDTH:,}", "a hand-written loop", step, by_hand, at_most=1 / 0.95, pairs=PAIRS
    )
    note = f"over {len(apart)} steps, the losses differ by {max(apart):.1e}; heedful also counts dead latents"
    return [found.told(note)]
