"""Texts of different words before one-layer attention models, for labs that compare with exact answers.

A `Case` is a text, a model and the number explained, with the model as one game a head:
f(z) = mean over heads of N(z) / D(z), z_j = 1 where word j is there and 0 where UNK stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

import heedful
from heedful.core import registry
from heedful.core.model import Model
from heedful.engine.question import run_explainer
from heedful.explainers.exact_one_layer import games
from heedful.labs.data.reviews import reviews
from heedful.nn import OneLayerClassifier
from heedful.retraining.gold_features import words_of
from heedful.stats import ratio_game
from heedful.stats.lime_limit import PUBLISHED, Floats
from heedful.stats.ratio_game import RatioGame


@dataclass(frozen=True)
class OneLayerCase:
    """A text of different words before a model: one game a head, the model being their mean."""

    model: Model
    x: Any
    target: Any
    heads: list[RatioGame]

    def mean(self, solve: Callable[[RatioGame], Floats]) -> Floats:
        return np.asarray(np.mean([solve(head) for head in self.heads], axis=0))

    def exact(self, nu: float = PUBLISHED) -> Floats:
        return self.mean(partial(ratio_game.lime, nu=nu))

    def sampled(self, rows: int, seed: int, operator: str = "unk") -> Floats:
        """One run of LIME as published, every word kept in the line."""
        d, lime = len(self.x.units("word")), registry.get("lime")
        settings = {"variant": "published", "samples": rows, "features": d, "operator": operator}
        attribution = run_explainer(lime, self.model, self.x, self.target, **settings, seed=seed)
        return np.array([attribution.scores[group].sum() for group in self.x.units("word")])


def documents(count: int, d: int, rng: np.random.Generator) -> list[str]:
    """Texts of d different words each, in the order in which film reviews use them."""
    sentences, lines = [review.text for review in reviews("held")], []
    for _ in range(count):
        words: list[str] = []
        while len(words) < d:
            words = words_of(" ".join([*words, sentences[int(rng.integers(len(sentences)))]]))
        lines.append(" ".join(words[:d]))
    return lines


def fresh(trained: Any, seed: int, sharpness: float) -> Any:
    """The same architecture with weights as they are drawn; sharpness multiplies every attention score."""
    module = OneLayerClassifier(trained.module.config, seed).eval()
    with torch.no_grad():
        module.query.mul_(sharpness)
    return heedful.load(module, tokenizer=trained)


def case(model: Model, text: str) -> OneLayerCase:
    x = model.encode(text)
    target = model.target(x)
    return OneLayerCase(model, x, target, games(model, x, target, "word"))


def error(found: Floats, exact: Floats) -> float:
    """Distance as a share of what is to be found."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
