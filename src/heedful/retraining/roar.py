"""Remove and retrain: does a model trained without the words an explanation ranks first still do the task?

    for every share t of (10, 30, 50, 70, 90) %, method, and seed:
        remove the best t of the units of each text, of train AND test, by that text's own scores
        train from scratch on what is left, and count right answers on the test texts that are left
    fall   mean over shares of  accuracy(random) - accuracy(method)          high is good

Training again answers the objection that removal makes texts no model has seen. It asks another question
than the faithfulness of one model: whether the information is gone, not whether this model used it. Words
that repeat each other hide each other's removal.

`roar` takes scores and a fit function; `roar_model` makes both from a loaded classifier.

Intervals   over seeds and over test texts, both (heedful.retraining.roar_stats); the training texts are
            taken as given. Random scores are drawn afresh for every seed.
Leakage     which places were removed can tell the label by itself, whatever stood there. So the same fit is
            given the bare pattern (heedful.retraining.impute). Where it reads the label better than chance
            AND better than from the pattern of random scores, which shows the length of the text alone, the
            method is flagged: its accuracy may be kept up by the pattern, so a small fall says nothing.
            The pattern is shown plainly: a flag warns of what could be read, not of what was. What it tells
            only together with the words that are left is not found in this way.
Cost        2 * methods * shares * seeds fits; half of it with leakage=False.

Hooker et al. 2019, "A benchmark for interpretability methods in deep neural networks"; Rong et al. 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heedful.comparisons.execute import explain
from heedful.core.arrays import Floats
from heedful.core.defaults import CONTROL
from heedful.core.errors import HeedfulError
from heedful.metrics.faithfulness import ranked
from heedful.modalities.neighbours import SMOOTHED, smoothed_row
from heedful.modalities.text import text_of
from heedful.retraining.impute import Imputer, masked, mean_embedding, mean_vector, noisy_linear
from heedful.retraining.retrain import Fit, as_labels, like, trainer
from heedful.retraining.roar_stats import RightAnswers, Roar, conclude
from heedful.stats.linear_imputation import Gone

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
SEEDS = 5
Scores = tuple[Sequence[Floats], Sequence[Floats]]  # text by text, one per unit: of train, of test


@dataclass(frozen=True)
class TokenSplit:
    """Texts as sequences of tokens, their labels, and the positions of each unit that can be removed."""

    tokens: tuple[Sequence[Any], ...]
    labels: tuple[int, ...]
    units: tuple[Sequence[Sequence[int]], ...]

    @classmethod
    def of(cls, tokens: Sequence[Sequence[Any]], labels: Sequence[int]) -> TokenSplit:
        """Every token a unit of its own."""
        return cls(tuple(tokens), tuple(labels), tuple([[t] for t in range(len(text))] for text in tokens))


@dataclass(frozen=True)
class RoarSettings:
    """How often models are retrained, and which shares of the units are removed."""

    shares: tuple[float, ...] = SHARES  # of the units, removed in turn
    seeds: int = SEEDS  # trainings of each
    seed: int = 0  # of the first
    leakage: bool = True  # train on the bare pattern of what was removed, too


def roar(
    train: TokenSplit,
    test: TokenSplit,
    scores: Mapping[str, Scores],
    fit: Fit,
    imputer: Imputer,
    settings: RoarSettings | None = None,
) -> Roar:
    """Retrain models without the units that each method ranks first.

    scores    by method: for each text of train and of test, one score per unit, high first; the random
              control is added
    fit       (inputs, labels, seed) -> predict (heedful.retraining.retrain)
    imputer   what stands where something was removed (heedful.retraining.impute)
    """
    settings = settings or RoarSettings()
    shares, seeds, seed = settings.shares, settings.seeds, settings.seed
    _check(train, test, scores, shares)
    names = [*(name for name in scores if name != CONTROL), CONTROL]
    shape = (len(names), len(shares), seeds, len(test.labels))
    right, result = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    whole = np.zeros(shape[2:], dtype=bool)
    chance = [_drawn(train, test, np.random.default_rng([seed, s])) for s in range(seeds)]
    nothing = (_none(train), _none(test))
    for s in range(seeds):
        whole[s] = _retrained(train, test, nothing, fit, imputer, (seed, s, 0))
    for m, k, s in np.ndindex(*shape[:3]):  # seeds last: most of them remove the same, which is filled once
        given = chance[s] if names[m] == CONTROL else scores[names[m]]
        gone = _removed(train, test, given, shares[k], (seed, s, k))
        right[m, k, s] = _retrained(train, test, gone, fit, imputer, (seed, s, k))
        if settings.leakage:
            result[m, k, s] = _retrained(train, test, gone, fit, imputer, (seed, s, k), bare=True)
    usual = np.bincount(train.labels).argmax() == np.array(test.labels)
    answers = RightAnswers(
        names=tuple(names),
        shares=tuple(shares),
        right=right,
        told=result if settings.leakage else None,
        whole=whole,
        usual=usual,
    )
    return conclude(answers, imputer.name)


def _check(
    train: TokenSplit, test: TokenSplit, scores: Mapping[str, Scores], shares: Sequence[float]
) -> None:
    if not all(0 < share < 1 for share in shares) or not shares:
        raise HeedfulError("shares lie between 0 and 1", f"not {tuple(shares)}", "For instance (0.1, 0.5)")
    if not set(scores) - {CONTROL}:
        raise HeedfulError(
            "there is no method to try", "the random control is only what methods are compared with"
        )
    for name, both in scores.items():
        for where, split, result in zip(("train", "test"), (train, test), both, strict=True):
            if [len(units) for units in split.units] != [len(values) for values in result]:
                raise HeedfulError(
                    f"{name} has no score for every unit of every text of {where}",
                    "texts are ranked one by one, in training and in test",
                )


def _drawn(train: TokenSplit, test: TokenSplit, rng: np.random.Generator) -> Scores:
    """Random scores for every text."""
    first, last = ([rng.normal(size=len(units)) for units in split.units] for split in (train, test))
    return first, last


def _none(split: TokenSplit) -> list[Gone]:
    return [np.zeros(len(text), dtype=bool) for text in split.tokens]


def _removed(
    train: TokenSplit, test: TokenSplit, scores: Scores, share: float, draw: tuple[int, ...]
) -> tuple[list[Gone], list[Gone]]:
    """Positions that go, text by text; the same draw for every method, so equal scores remove the same."""
    rng = np.random.default_rng(draw)
    first, last = (
        [
            _top(text, units, values, share, rng)
            for text, units, values in zip(split.tokens, split.units, result, strict=True)
        ]
        for split, result in zip((train, test), scores, strict=True)
    )
    return first, last


def _top(
    text: Sequence[Any],
    units: Sequence[Sequence[int]],
    scores: Floats,
    share: float,
    rng: np.random.Generator,
) -> Gone:
    gone = np.zeros(len(text), dtype=bool)
    best = ranked(scores, rng)[: round(share * len(units))].tolist()
    gone[[t for unit in best for t in units[unit]]] = True
    return gone


def _retrained(
    train: TokenSplit,
    test: TokenSplit,
    gone: tuple[Sequence[Gone], Sequence[Gone]],
    fit: Fit,
    imputer: Imputer,
    draw: tuple[int, int, int],
    bare: bool = False,
) -> npt.NDArray[np.bool_]:
    """(texts,) right answers on test after training on train; bare: from the pattern of removal alone."""
    rng = np.random.default_rng([*draw, 1])
    inputs = [
        [
            imputer.pattern(out) if bare else imputer.fill(text, out, rng)
            for text, out in zip(split.tokens, where, strict=True)
        ]
        for split, where in zip((train, test), gone, strict=True)
    ]
    predict = fit(inputs[0], train.labels, draw[0] + draw[1])
    return np.asarray(as_labels(predict(inputs[1])) == np.array(test.labels))


IMPUTERS = ("mask", "mean", "linear")
Labelled = tuple[Sequence[str], Sequence[int]]  # texts, labels


def roar_model(
    model: TokenModel,
    train: Labelled,
    test: Labelled,
    methods: Sequence[str],
    settings: RoarSettings | None = None,
    *,
    imputer: str = "mask",
    fit: Fit | None = None,
    smooth: Sequence[str] = (),
    **explaining: Any,
) -> Roar:
    """Explain every text's prediction with a loaded classifier, then `roar`.

    imputer      "mask" (its mask token), "mean" or "linear" (vectors from its embedding table, which is then
                 kept as it is: what the table learned from the labels stays with the retrained model)
    fit          None: a classifier of the same architecture, trained as heedful.retraining.retrain does
    smooth       methods whose scores are also tried smoothed over neighbours; "random" gives smoothed random
                 scores. Smoothing adds no information: what it gains is no evidence for a method
    explaining   of `explained`: unit, params
    """
    settings = settings or RoarSettings()
    explaining = {"seed": settings.seed, **explaining}
    train_split, of_train = explained(model, *train, methods, **explaining)
    test_split, of_test = explained(model, *test, methods, **explaining)
    scores: dict[str, Scores] = {name: (of_train[name], of_test[name]) for name in methods}
    rng = np.random.default_rng([settings.seed, settings.seeds])  # none of the seeds of the control
    plain = scores | {CONTROL: _drawn(train_split, test_split, rng)}
    for name in smooth:
        first, last = ([smoothed_row(own) for own in each] for each in plain[name])
        scores[name + SMOOTHED] = first, last
    retrain = trainer(like(model.module)) if fit is None else fit
    return roar(train_split, test_split, scores, retrain, imputer_of(model, train_split, imputer), settings)


def explained(
    model: TokenModel,
    texts: Sequence[str],
    labels: Sequence[int],
    methods: Sequence[str],
    *,
    unit: str = "word",
    seed: int = 0,
    params: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[TokenSplit, dict[str, list[Floats]]]:
    """Texts as the model reads them, and each method's scores by unit; a text too long is cut."""
    results: dict[str, list[Floats]] = {name: [] for name in methods}
    read = []
    for text in texts:
        comparison = explain(
            model,
            text,
            methods,
            unit=unit,
            seed=seed,
            params=params,
            long="truncate",
            evidence=False,
            keep_partial=False,
        )
        read.append(text_of(comparison[CONTROL].x))
        for name in methods:
            results[name].append(read[-1].units(unit).sums(comparison[name].scores))
    split = TokenSplit(tuple(x.ids for x in read), tuple(labels), tuple(list(x.units(unit)) for x in read))
    return split, results


def imputer_of(model: TokenModel, train: TokenSplit, name: str) -> Imputer:
    """One of IMPUTERS, with the tokens and the embedding table of a loaded model."""
    if name not in IMPUTERS:
        raise HeedfulError(f"unknown imputer {name!r}", fix=f"Use one of: {', '.join(IMPUTERS)}")
    if name == "mask":
        mask = model.special_id("mask")
        if mask is None:
            raise HeedfulError(f"{model.name} has no mask token", fix="Use imputer='mean' or 'linear'")
        words = [
            text[t] for text, units in zip(train.tokens, train.units, strict=True) for u in units for t in u
        ]
        ids, counts = np.unique([word for word in words if word != mask], return_counts=True)
        return masked(int(mask), int(ids[counts.argmax()]))
    layer = model.token_table
    if layer is None:
        raise HeedfulError(f"{model.name} has no token table of its own", fix="Use imputer='mask'")
    table = next(layer.parameters()).detach().double().numpy()
    mean = mean_vector(table, train.tokens)
    return mean_embedding(table, mean) if name == "mean" else noisy_linear(table, mean)
