"""Texts before classifiers whose answer follows a linear rule, for the lab on the theory of anchors.

Linear      TF-IDF and logistic regression: the weight of the word at each place (heedful.labs.models.tfidf).
One head    a model of one head of zoo:one-layer: the sign of N / D with D > 0 is that of N, which is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heedful.core.model import Model
from heedful.explainers.exact_one_layer import games
from heedful.labs.models.tfidf import TfidfModel
from heedful.nn import OneLayerClassifier
from heedful.stats import linear_anchors
from heedful.stats.linear_anchors import LinearRule

MAX_SURE_SHARE = 0.85  # texts of whose answer more is sure with every word tossed need no anchor
MAX_FREE_WORDS = 16  # most words of weight in a text whose precision is counted exactly


@dataclass(frozen=True)
class AnchorCase:
    """A text, the model, and the linear rule that says when its answer stands."""

    model: Model
    x: Any
    target: Any
    rule: LinearRule
    operator: str


def bag_case(bag: TfidfModel, text: str) -> AnchorCase:
    """The rule of a linear model: the weight of the word at each place."""
    model = bag.model()
    x = model.encode(text.lower())
    target = model.target(x)
    sign = 1 if target.index == 1 else -1
    weights = np.array([bag.weights.get(token, 0.0) for token in x.tokens])
    return AnchorCase(model, x, target, LinearRule(sign * weights, sign * bag.bias), "delete")


def one_head(module: OneLayerClassifier, head: int) -> OneLayerClassifier:
    """A model of one trained head, the others gone."""
    made = OneLayerClassifier(replace(module.config, heads=1)).eval()
    state = module.state_dict()
    for name in ("query", "key", "value", "readout"):
        state[name] = state[name][head : head + 1]
    made.load_state_dict(state)
    return made


def head_case(model: Model, text: str) -> AnchorCase:
    """The rule of a one-head model: N of its answer less N of the other class."""
    x = model.encode(text)
    target = model.target(x)
    (game,) = games(model, x, replace(target, contrast=1 - target.index), "word")
    return AnchorCase(model, x, target, linear_anchors.of_head(game), "unk")


def chosen(texts: list[str], made: Callable[[str], AnchorCase], count: int) -> list[AnchorCase]:
    """The first texts whose precision can be counted, and whose answer hangs on words at all."""
    anchor_cases: list[AnchorCase] = []
    for text in texts:
        case = made(text)
        free = int(np.count_nonzero(case.rule.weights))
        if free <= MAX_FREE_WORDS and linear_anchors.exact(case.rule, ()) < MAX_SURE_SHARE:
            anchor_cases.append(case)
        if len(anchor_cases) == count:
            break
    return anchor_cases
