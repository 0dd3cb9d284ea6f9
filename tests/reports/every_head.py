"""One result of every kind about heads, made by hand; `evil` is in every place that comes from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heedful.heads.ablation.ablate_text import AblationResult
from heedful.heads.ablation.importance_results import Drop, Importance, Reference, Unit
from heedful.heads.ablation.pruning_results import Pruning, PruningStep
from heedful.heads.roles.induction import AttentionShare, HeadRole, Induction, Loss
from heedful.heads.roles.pronoun_bias import Bias, HeadBias, MeanBias, Preference
from heedful.heads.roles.syntax import HeadAccuracy, Relation, Syntax


def made(evil: str) -> dict[str, Callable[[], Any]]:
    """Kind -> how it is made."""
    return {
        make.__name__: lambda make=make: make(evil)
        for make in (importance, pruning, ablation, induction, syntax, bias, saved_feature)
    }


def importance(evil: str) -> Importance:
    def unit(name: str, value: float) -> Unit:
        drop = Drop(value, (value - 0.1, value + 0.1), (value - 0.05, value + 0.05), 0.01)
        return Unit(name, "self", 0, 1, {evil: drop, "accuracy": drop}, 0.1, 0.2)

    return Importance(
        model=evil,
        model_kind="classifier",
        how="zero",
        level="head",
        metric=evil,
        metrics=(evil, "accuracy"),
        about=evil,
        texts=9,
        rows=3,
        seed=0,
        base={evil: 0.5, "accuracy": 0.9},
        chance={evil: 0.7, "accuracy": 0.1},
        units=(unit(evil, 0.3), unit("0.1", 0.02), unit("0.2", -0.4)),
        references=(Reference(evil, 3, {evil: 0.5}, {evil: (0.4, 0.6)}),),
        agreement=0.5,
        notes=(evil,),
    )


def pruning(evil: str) -> Pruning:
    steps = tuple(
        PruningStep(
            name=evil,
            gone=n,
            chosen=0.9,
            value=0.9 - 0.1 * n,
            drop=0.1 * n,
            interval=(0.0, 0.02 * n),
            one_shot=0.8,
            random=0.7,
            random_range=(0.6, 0.8),
        )
        for n in (1, 2)
    )
    return Pruning(
        model=evil,
        how="zero",
        level="head",
        metric=evil,
        about=evil,
        units=4,
        texts=(10, 11),
        draws=5,
        seed=0,
        shortlist=8,
        base=0.9,
        base_chosen=0.95,
        one_shot=(evil,),
        steps=steps,
        notes=(evil,),
    )


def ablation(evil: str) -> AblationResult:
    said = ((evil, 0.9), ("b", 0.1))
    return AblationResult(
        heads=(evil,),
        of=16,
        how="zero",
        before=said,
        after=said[::-1],
        metric=evil,
        about=evil,
        value=0.9,
        drop=0.2,
        draws=10,
        random=0.1,
        random_range=(0.0, 0.3),
        notes=(evil,),
    )


def induction(evil: str) -> Induction:
    strong, none = AttentionShare(0.5, 0.02, (0.3, 0.6)), AttentionShare(0.01, 0.01, (-0.1, 0.1))
    heads = (HeadRole(0, 1, strong, none, none, ("induction",)), HeadRole(0, 2, none, none, none, ()))
    loss = Loss(9.0, 2.0, -7.0, (-7.5, -6.5), 0.25)
    return Induction(evil, 50, 8, 0, 0.1, 0.014, heads, loss, (evil,))


def syntax(evil: str) -> Syntax:
    right = HeadAccuracy(0.6, 0.4, 0.2, (0.1, 0.3))
    rows = (Relation(evil, 40, 0.1, 1, 2, "to", -1, right, right, False),)
    return Syntax(evil, 41, 20, 0, rows, {evil: np.zeros((1, 2, 2))}, (evil,))


def bias(evil: str) -> Bias:
    head = HeadBias(0, 1, 0.3, 0.6, MeanBias(0.2, (0.1, 0.3), 0.01), MeanBias(-0.1, (-0.2, 0.0), 0.4))
    return Bias(
        evil, 27, 0, head, (head,), 0.03, Preference(-2.0, (-2.4, -1.6), 0.04, (-0.1, 0.1), 27), (evil,)
    )


def saved_feature(evil: str) -> Any:
    from tests.reports import every

    from heedful.reports.saved_feature import SavedFeature

    return SavedFeature(evil, evil, 64, evil, every.features().pages[0])
