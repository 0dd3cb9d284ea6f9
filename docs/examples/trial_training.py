"""The trained half of the trial on zoo:one-layer: numbers of the docs, made again.

Run: python docs/examples/trial_training.py PART OUT.json [--rationales movies.jsonl]
PART is frozen (with seeds and guide), adversary, or improve. Reviews come from zoo/data.py (fetched once,
never kept here); rationales are a JSON-lines file of marked reviews, see heedful.io.rationales.
A few minutes of one core each.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "zoo"))

import data
import heedful
from heedful.io.rationales import passages, read, telling
from heedful.modalities.encode import fit as shortened
from heedful.trials.adversary_search import Search
from heedful.trials.batches import PaddedTexts, joined, marked, rows
from heedful.trials.examples import prepare
from heedful.trials.tests.adversary import adversary
from heedful.trials.tests.correlation import correlation
from heedful.trials.tests.guided_classifier import guide
from heedful.trials.tests.regularised_training import improve
from heedful.trials.tests.retrain_uniform import frozen
from heedful.trials.tests.seeds import seeds
from heedful.trials.tests.trained_adversary import AdversaryTraining, trained_adversary

TRAIN, TEST, LENGTH, FEW = 4000, 500, 128, 10
LABELS = {"NEG": 0, "POS": 1, "0": 0, "1": 1, "negative": 0, "positive": 1}


def reviews(model: Any) -> tuple[PaddedTexts, PaddedTexts]:
    found = data.imdb()
    parts = [found["train"][:TRAIN], found["test"][:TEST]]
    train, test = (rows(model, [t for t, _ in part], [c for _, c in part], LENGTH) for part in parts)
    return train, test


def told(done: int, total: int) -> None:
    print(f"{done} of {total}", file=sys.stderr, flush=True)


def by_training(model: Any) -> dict[str, Any]:
    """Frozen, seeds and guides share the freely trained models."""
    train, test = reviews(model)
    cold = frozen(model, train, test, (0, 1, 2), progress=told)
    chance = seeds(model, train, test, (0, 1, 2), students=cold.students)
    rival = (
        trained_adversary(model, train, test, AdversaryTraining(weights=(0.03,)), progress=told)
        .points[0]
        .models[0]
    )
    led = guide(model, train, test, (0, 1, 2), others={"adversary": rival}, progress=told)
    return {"frozen": cold, "seeds": chance, "guide": led}


def by_adversary(model: Any) -> dict[str, Any]:
    train, test = reviews(model)
    return {"trained adversary": trained_adversary(model, train, test, progress=told)}


def by_terms(model: Any, path: Path) -> dict[str, Any]:
    """Reviews and marked passages are trained on together; every fifth marked review is held out."""
    train, test = reviews(model)
    films = list(read(path))
    split: dict[bool, list[Any]] = {True: [], False: []}
    for number, film in enumerate(films):
        split[number % 5 == 0] += telling(passages(film))
    held, known = (
        marked(model, items, [LABELS[item.label] for item in items], LENGTH)
        for items in (split[True], split[False])
    )
    both = joined(train, known)
    texts = [text for text, _ in data.imdb()["validation"][:FEW]]

    def on_trial(own: Any) -> dict[str, Any]:
        """Agreement with gradients and leave-one-out, and how far attention can go at the same answer."""
        cases = prepare(
            own, [shortened(own.encode(text, long="truncate"), LENGTH, "truncate") for text in texts]
        )
        found = correlation(cases)
        tau = {f"tau of attention and {to}": found.tau[:, i] for i, (_, to) in enumerate(found.pairs[:2])}
        return tau | {
            "JSD of an adversary": adversary(cases, search=Search(starts=2, steps=60)).distance[:, 0]
        }

    return {"training": improve(model, both, test, held, measures=on_trial, progress=told)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["frozen", "adversary", "improve"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rationales", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, start = heedful.load("zoo:one-layer"), time.process_time()
    if args.part == "improve":
        found = by_terms(model, args.rationales)
    else:
        found = {"frozen": by_training, "adversary": by_adversary}[args.part](model)
    out: dict[str, Any] = {name: result.to_dict() for name, result in found.items()}
    out["findings"] = [line.to_dict() for result in found.values() for line in result.findings()]
    out["seconds of one core"] = round(time.process_time() - start)
    args.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
