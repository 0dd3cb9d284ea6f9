"""Harvesting beside the bare model on the same batches: python -m bench.harvest [MODEL SITE ROUNDS TOKENS].

Three things are run in turn on the same windows: the bare model (`module(ids)` in inference mode, no hooks),
the whole harvest (tokenize, pass up to the site, shuffle, write), and the same with passes that do not end at
the site. Throughput is told in tokens a second of processor time, which other work on the machine disturbs
less, and in seconds. Not among the workloads of `make bench`: its texts are fetched (zoo/data.py).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

import heedful
from heedful.features import harvest as harvesting
from heedful.features.windows import Batch, Texts, batches, cut_for, open_texts, windows
from heedful.models.base import Inputs
from heedful.models.sites import reading

AT_LEAST = 0.85


def texts() -> list[str]:
    from zoo.data import speeches

    return [text for _, text in speeches()["train"]]


def whole_pass(model: Any, inputs: Inputs, names: list[str]) -> Any:
    """Like heedful.models.sites.read, but to the end of the model."""
    with reading(model, names) as seen:
        model.backend.forward(inputs)
    return seen


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of processor, seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def bare(model: Any, made: list[Batch]) -> None:
    with torch.inference_mode():
        for batch in made:
            model.module(input_ids=batch.ids, attention_mask=batch.mask, use_cache=False)


def main(name: str, site: str, rounds: int, most: int) -> None:
    model, corpus = heedful.load(name), texts()
    cut = cut_for(model, None, None, True)
    found = windows(Texts(open_texts(corpus, "text")), model.tokenizer, cut)
    made, tokens = [], 0
    for batch in batches(found, harvesting.BATCH_TOKENS, cut.pad):
        made.append(batch)
        tokens += int(batch.keep.sum())
        if tokens >= most:
            break
    short = harvesting.read

    def run(read: Any) -> None:
        harvesting.read = read
        with tempfile.TemporaryDirectory() as folder:
            heedful.harvest(model, corpus, site, Path(folder) / "acts", rows=tokens, dtype="float16")
        harvesting.read = short

    work: dict[str, Callable[[], None]] = {
        "bare": lambda: bare(model, made),
        "harvest": lambda: run(short),
        "harvest, whole passes": lambda: run(whole_pass),
    }
    spent: dict[str, list[tuple[float, float]]] = {what: [] for what in work}
    bare(model, made[:1])
    for _ in range(rounds):
        for what, each in work.items():
            spent[what].append(timed(each))
    print(f"{name}, {site}, {tokens:,} tokens, {torch.get_num_threads()} threads, {rounds} rounds")
    for what, times in spent.items():
        cpu, wall = (median(tokens / pair[at] for pair in times) for at in (0, 1))
        pairs = list(zip(spent["bare"], times, strict=True))
        ratios = [median(b[at] / t[at] for b, t in pairs) for at in (0, 1)]
        rate = f"{cpu:>9,.0f} tokens a second of processor, {wall:>9,.0f} a second"
        print(f"{what:24}{rate}; of bare: {ratios[0]:.2f}, {ratios[1]:.2f} (should be ≥ {AT_LEAST})")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        given[0] if given else "zoo:lm",
        given[1] if len(given) > 1 else "blocks.2.resid",
        int(given[2]) if len(given) > 2 else 5,
        int(given[3]) if len(given) > 3 else 40_000,
    )
