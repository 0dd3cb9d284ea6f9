"""Does GradCAM on MobileNetV2 point at the thing? All usable stamps on gravel, the mask known.

    one thing    half the width of the picture, at a random place; the class is that of the caption
    two things   one in each half, of different classes; each class is asked for in turn. Every thing is in
                 one picture only, so that pictures are independent of each other
    dog and cat  a dingo of the stamps beside a photograph of a cat, at twenty pairs of places

    python -m bench.pointing [--stamps N] [--pairs N] [--model zoo:mobilenet]

A hit: the maximum of the map lies in the mask. Controls: chance by area, a bump in the middle, edges.
Intervals are 95 %, over pictures. A thing counts as recognised if its class is among the five that the model
puts first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.stamps import fetch, usable
from heedful.core.arrays import Floats
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.labs.data.photo_stamps import SIDE, Stamp, cat, gravel, likeliest, paste, side_by_side
from heedful.metrics.pointing import hit, mass, overlap, painted, spread
from heedful.models.load import load
from heedful.models.zoo.cache import cache_dir
from heedful.stats.intervals import mean_of, share_of_count

METHODS = ("gradcam", "occlusion", "centre", "edges")
SMALL = 100  # of one of two things in a picture of 224; a single one has SIDE
SEED = 29


def asked(model: Any, x: Any, stamp: Stamp) -> tuple[int, bool]:
    """The likeliest class of those that the caption may mean, and whether it is among the first five."""
    scores = model.scores_of(x)
    best = likeliest(scores, stamp)
    return best, best in np.argsort(-scores)[:5]


def one_thing(model: Any, stamps: list[Stamp], methods: Sequence[str] = METHODS) -> dict[str, Floats]:
    """method -> (n, 4): hit, mass, overlap, recognised; "area" -> (n, 4) of chance."""
    rng = np.random.default_rng(SEED)
    found: dict[str, list[list[float]]] = {name: [] for name in (*methods, "area")}
    for number, stamp in enumerate(stamps):
        picture, mask = paste(gravel(rng), stamp, SIDE, rng, range(224))
        x, session = model.encode(picture), Session(model)
        index, known = asked(model, x, stamp)
        flat, area = mask.ravel(), float(mask.mean())
        found["area"].append([area, area, area / (2 - area), known])
        for name in methods:
            item = run_explainer(name, session, x, model.target(x, index))
            scores = painted(item)
            found[name].append([hit(scores, flat), mass(spread(item), flat), overlap(scores, flat), known])
        if number % 20 == 19:
            print(f"{number + 1} of {len(stamps)} stamps", file=sys.stderr)
    return {name: np.array(rows) for name, rows in found.items()}


def two_things(
    model: Any, stamps: list[Stamp], pairs: int, methods: Sequence[str] = METHODS
) -> dict[str, Floats]:
    """method -> (pairs, 2): hits of the thing asked for and of the other thing, mean over the two classes."""
    rng = np.random.default_rng(SEED + 1)
    found: dict[str, list[Floats]] = {name: [] for name in methods}
    for first, second in couples(stamps, rng)[:pairs]:
        picture, left = paste(gravel(rng), first, SMALL, rng, range(112))
        picture, right = paste(picture, second, SMALL, rng, range(112, 224))
        x, session = model.encode(picture), Session(model)
        questions = [(asked(model, x, first)[0], left, right), (asked(model, x, second)[0], right, left)]
        for name in methods:
            both = []
            for index, own, other in questions:
                scores = painted(run_explainer(name, session, x, model.target(x, index)))
                both.append([hit(scores, own.ravel()), hit(scores, other.ravel())])
            found[name].append(np.mean(both, axis=0))
    return {name: np.array(rows) for name, rows in found.items()}


def dog_and_cat(
    model: Any, stamps: list[Stamp], pictures: int = 20, methods: Sequence[str] = METHODS
) -> dict[str, Floats]:
    """method -> (2 * pictures, 2): hits of the one asked for and of the other, first all dogs, then all cats.
    One dog and one cat: this shows what a map does with them, and no more."""
    rng = np.random.default_rng(SEED + 2)
    feline, canine = cat(model.labels), next(stamp for stamp in stamps if stamp.caption == "A dingo")
    found: dict[str, list[list[list[float]]]] = {name: [] for name in methods}
    for number in range(pictures):
        picture, (first, second) = side_by_side(canine, feline, rng, swapped=number % 2 == 1)
        x, session = model.encode(picture), Session(model)
        for name in methods:
            both = []
            for stamp, own, other in ((canine, first, second), (feline, second, first)):
                item = run_explainer(name, session, x, model.target(x, asked(model, x, stamp)[0]))
                both.append([hit(painted(item), own.ravel()), hit(painted(item), other.ravel())])
            found[name].append(both)
    return {name: np.concatenate(np.array(rows).transpose(1, 0, 2)) for name, rows in found.items()}


def couples(stamps: list[Stamp], rng: np.random.Generator) -> list[tuple[Stamp, Stamp]]:
    """Stamps of different classes two by two, each at most once."""
    left = [stamps[i] for i in rng.permutation(len(stamps))]
    found = []
    while left:
        first = left.pop(0)
        for place, second in enumerate(left):
            if not set(first.classes) & set(second.classes):
                found.append((first, left.pop(place)))
                break
    return found


def share(hits: Floats) -> str:
    if not len(hits):
        return "–"
    _, (low, high) = share_of_count(round(float(hits.sum())), len(hits))
    return f"{hits.mean():.2f} ({low:.2f} to {high:.2f})"


def mean(shares: Floats) -> str:
    """Over pictures, whose shares are 0, 0.5 or 1."""
    value, (low, high) = mean_of(shares, (0.0, 1.0))
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stamps", type=int, default=0, help="only so many, drawn at random")
    parser.add_argument("--pairs", type=int, default=1000, help="at most so many pictures of two things")
    parser.add_argument("--model", default="zoo:mobilenet")
    given = parser.parse_args()
    report(load(given.model), given.stamps, given.pairs, cache_dir() / "carriers")


def report(model: Any, most: int, pairs: int, cache: Path) -> None:
    stamps = usable(fetch(cache), model.labels)
    if most:
        picked = np.sort(np.random.default_rng(SEED).permutation(len(stamps))[:most])
        stamps = [stamps[i] for i in picked]
    results = one_thing(model, stamps)
    known = results["area"][:, 3] > 0
    print(f"\nOne thing on gravel: {len(stamps)} stamps, of which {known.sum()} are recognised.\n")
    print("| map | hits, all | hits, recognised | mass inside | overlap (IOU) |\n|---|---|---|---|---|")
    for name, rows in results.items():
        hits = (share(rows[:, 0]), share(rows[known, 0]))
        if name == "area":
            name, hits = "chance by area", (f"{rows[:, 0].mean():.2f}", f"{rows[known, 0].mean():.2f}")
        print(f"| {name} | {hits[0]} | {hits[1]} | {rows[:, 1].mean():.2f} | {rows[:, 2].mean():.2f} |")
    if not pairs:
        return
    seen = [stamp for stamp, own in zip(stamps, known, strict=True) if own]
    both = two_things(model, seen, pairs)
    count = len(both[METHODS[0]])
    print(f"\nTwo things, {count} pictures of things that are recognised alone, each class asked for.\n")
    print("| map | maximum in the thing asked for | in the other thing |\n|---|---|---|")
    for name, rows in both.items():
        print(f"| {name} | {mean(rows[:, 0])} | {mean(rows[:, 1])} |")
    print("\nA dog and a cat, 20 pictures.\n")
    print("| map | asked for the dog: in the dog, in the cat | for the cat: in the cat, in the dog |")
    print("|---|---|---|")
    for name, rows in dog_and_cat(model, usable(fetch(cache), model.labels)).items():
        dogs, cats = (f"{own:.2f}, {other:.2f}" for own, other in rows.reshape(2, -1, 2).mean(1))
        print(f"| {name} | {dogs} | {cats} |")


if __name__ == "__main__":
    main()
