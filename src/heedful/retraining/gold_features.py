"""Gold recall: does a method find the words that are known to decide?

A model one can read (heedful.retraining.glassbox_models) is trained on the texts and handed to the
explainers as a black box. Of every held-out text the words that decided are known: gold.

    recall(text) = |gold and top_k| / |gold|        top_k: the k = 10 words of the largest |score|
    random       = mean over texts of min(1, k / d), d words in the text: exact, no draws

Texts are given to the explainers as the glass box reads them: each word once, in lower case, no punctuation,
so that what is removed is what the model looks at (the published experiment does the same). Texts that hold
no gold word say nothing and are passed over; equal scores are ordered at random.

This is no metric of one explanation of the user's model: gold is known of the glass box alone. It weighs a
method, on a set of texts, and so stands apart from heedful.metrics.score.
Cost: a fit, then what the methods cost on a function that reads sets of words.

Ribeiro, Singh & Guestrin 2016, "Why should I trust you?", section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from heedful.comparisons.execute import explain
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.metrics.faithfulness import ranked
from heedful.modalities.text_spans import split_words
from heedful.models.load import load
from heedful.retraining.glassbox_models import GlassBox, Words, common, fit_logistic, fit_tree, presence
from heedful.stats.intervals import UNKNOWN, Interval, percentile_interval, resampled_means

TOP_WORDS = 10
MAX_FEATURES = 10
EXPLAINED_TEXTS = 100
MAX_VOCABULARY = 5000
HELD_OUT_SHARE = 0.2
BOXES: dict[str, Callable[..., GlassBox]] = {"logistic": fit_logistic, "tree": fit_tree}


@dataclass(frozen=True)
class Recall(NotebookRepr):
    """How much of what decided a method found, on n held-out texts."""

    method: str
    box: str
    recall: float
    interval: tuple[float, float]  # 95 %, over texts drawn again with repetition
    random: float  # what random orders find, exactly
    n: int
    top: int
    accuracy: float  # of the glass box, on the held-out texts
    gold: float  # gold words a text, mean

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.method}: recall {self.recall:.3f} ({low:.3f} to {high:.3f}) of the words that decided, "
            f"among its first {self.top}; random order {self.random:.3f}; {self.box}, {self.n} texts"
        )


@dataclass(frozen=True)
class GoldSettings:
    """Which model decides, and how much of it is looked for."""

    box: str = "logistic"  # or "tree"
    features: int = MAX_FEATURES  # most words the regression holds, or the tree asks about one text
    top: int = TOP_WORDS  # words of a method that count as found
    explained: int = EXPLAINED_TEXTS  # held-out texts to explain


def gold_recall(
    methods: Sequence[str],
    texts: Sequence[str],
    labels: Sequence[int],
    settings: GoldSettings | None = None,
    *,
    seed: int = 0,
    params: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Recall]:
    """Recall of every method on the same held-out texts; labels are 0 or 1."""
    settings = settings or GoldSettings()
    box, top = settings.box, settings.top
    if box not in BOXES:
        raise HeedfulError(f"unknown glass box {box!r}", fix=f"Use one of: {', '.join(BOXES)}")
    if len(texts) != len(labels) or set(labels) != {0, 1}:
        raise HeedfulError("gold recall needs a label 0 or 1 for every text", "and texts of both labels")
    rng = np.random.default_rng(seed)
    order, kept = rng.permutation(len(texts)), max(1, round(HELD_OUT_SHARE * len(texts)))
    ordered, y = [words_of(text) for text in texts], np.array(labels, dtype=np.float64)
    train, test = order[kept:], order[:kept]
    sets = [frozenset(words) for words in ordered]
    vocabulary = common([sets[i] for i in train], MAX_VOCABULARY)
    made = BOXES[box](presence([sets[i] for i in train], vocabulary), y[train], vocabulary, settings.features)
    accuracy = float(np.mean((made.probability([sets[i] for i in test]) > 0.5) == y[test]))
    usable = (ordered[i] for i in test if made.deciding(sets[i]))
    chosen = list(islice(usable, settings.explained))
    if not chosen:
        raise HeedfulError(
            "no held-out text contains a word that decides", fix="Give more texts, or longer ones"
        )
    values = recalls(made, chosen, methods, top, seed, params)  # (texts, methods)
    chance = float(np.mean([min(1.0, top / len(words)) for words in chosen]))
    gold = float(np.mean([len(made.deciding(frozenset(words))) for words in chosen]))
    return [
        Recall(
            method=name,
            box=box,
            recall=float(own.mean()),
            interval=interval(own, seed),
            random=chance,
            n=len(chosen),
            top=top,
            accuracy=accuracy,
            gold=gold,
        )
        for name, own in zip(methods, values.T, strict=True)
    ]


def words_of(text: str) -> list[str]:
    """Each word once, in lower case, in reading order. Words without letters and digits are left out."""
    words = (text[start:end].lower() for start, end in split_words(text))
    return list(dict.fromkeys(word for word in words if any(c.isalnum() for c in word)))


def function_of(made: GlassBox) -> Any:
    """The glass box as a black one: texts -> probabilities of both labels (n, 2)."""

    def glass_box(texts: list[str]) -> Floats:
        p = made.probability([frozenset(text.split()) for text in texts])
        return np.column_stack([1 - p, p])

    return glass_box


def recalls(
    made: GlassBox,
    texts: Iterable[Sequence[str]],
    methods: Sequence[str],
    top: int,
    seed: int,
    params: Mapping[str, Mapping[str, Any]] | None,
) -> Floats:
    """Recall of every method on every text: (texts, methods). Each text is a list of words."""
    model, rng = load(function_of(made)), np.random.default_rng(seed)
    results = []
    for words in texts:
        comparison = explain(
            model, " ".join(words), methods, seed=seed, params=params, evidence=False, keep_partial=False
        )
        gold = made.deciding(frozenset(words))
        results.append([recall(comparison[name], gold, top, rng) for name in methods])
    return np.array(results)


def recall(item: Attribution, gold: Words, top: int, rng: np.random.Generator) -> float:
    """Share of the gold words among the `top` of the largest |score|."""
    units = item.x.units("word")
    order = ranked(np.abs(units.sums(item.scores)), rng)[:top]
    return len(gold & {units.labels[word] for word in order.tolist()}) / len(gold)


def interval(values: Floats, seed: int) -> Interval:
    """95 % of the mean over texts drawn again with repetition; (nan, nan) for a single text."""
    return percentile_interval(resampled_means(values, seed)) if len(values) > 1 else UNKNOWN
