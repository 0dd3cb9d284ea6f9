"""Does a positive score mean that more of the word raises the output? How often it does not, by method.

A critique of the field says: "positive attribution does not imply that increasing the feature increases the
output". A word can be increased in several ways; e_j are the embeddings of its tokens, f the explained logit:

    1 % or 10 % more   f(e_j times 1 + s) - f       s = 0.01, 0.1
    put back           f(word j alone) - f(no word)
    not removed        f - f(all words but j)       words are deleted

Counted: of the words that a method scores above zero, the share for which that difference is below zero.
Beside each method stands a random score, which is right as often as words have positive differences.
Gradient x input is the slope of the first: df((1 + s) e_j)/ds at s = 0, so it is right for small s.
Occlusion by deletion is the last difference itself. Intervals: 95 %, texts drawn again.
Cost per text of n words: 4n + 2 rows, and what the methods take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.labs.base.registry import LabRun
from heedful.labs.errata_checks.formula import texts
from heedful.modalities.text import TextInput
from heedful.models.load import load_token_model
from heedful.stats.intervals import Interval, bootstrap_ratio, share_of_count

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

STEPS = (0.01, 0.1)
WAYS = (*(f"{step:.0%} more" for step in STEPS), "put back", "not removed")
OTHERS = ("integrated-gradients", "occlusion", "lime", "kernel-shap")
REMOVING: dict[str, Any] = {"operator": "delete"}
SETTINGS: dict[str, dict[str, Any]] = {"occlusion": REMOVING, "lime": REMOVING, "kernel-shap": REMOVING}
# Methods without a sign say nothing here; guided-backprop needs ReLUs and the exact ones a single layer,
# which these models do not have; grad-avg gave no word a positive score.
METHODS = ("grad-x-input", "smoothgrad", *OTHERS, "random")


def more(model: TokenModel, x: TextInput, target: Target, step: float) -> Floats:
    """(words,) what the output gains when the embeddings of a word's tokens grow by `step`."""
    embeds = model.lookup(x, target)  # (T, d)
    groups = x.units("word")
    points = embeds.repeat(len(groups) + 1, 1, 1)
    for row, group in enumerate(groups):
        points[row, group] *= 1 + step
    values = model.gradients(x, target, points)[0].numpy()
    return np.asarray(values[:-1] - values[-1])


def differences(model: TokenModel, x: TextInput, target: Target) -> dict[str, Floats]:
    """Way of increasing -> (words,) differences of the output."""
    results = {way: more(model, x, target, step) for way, step in zip(WAYS, STEPS, strict=False)}
    n = len(x.units("word"))
    alone, without = np.eye(n, dtype=bool), ~np.eye(n, dtype=bool)
    ends = np.array([[False] * n, [True] * n])
    values = model.values(x, target, np.concatenate([ends, alone, without]), "delete", "word")
    nothing, everything = values[:2]
    return results | {"put back": values[2 : n + 2] - nothing, "not removed": everything - values[n + 2 :]}


def wrong(scores: Floats, gained: Floats) -> tuple[int, int]:
    """(positive scores whose word lowers the output, positive scores)."""
    positive = scores > 0
    return int((gained[positive] < 0).sum()), int(positive.sum())


def counted(model: TokenModel, some: Sequence[str], methods: Sequence[str], seed: int) -> dict[str, Floats]:
    """Method -> (texts, ways, 2): how often it is wrong, of how many positive scores."""
    results: dict[str, list[list[tuple[int, int]]]] = {name: [] for name in methods}
    for number, text in enumerate(some):
        x = model.encode(text, long="truncate")
        target = model.target(x)
        gained = differences(model, x, target)
        for name in methods:
            method = registry.get(name)
            draws = {"seed": seed + number} if "seed" in method.params else {}
            item = run_explainer(method, model, x, target, **SETTINGS.get(name, {}), **draws)
            scores = item.unit_scores()
            results[name].append([wrong(scores, gained[way]) for way in WAYS])
    return {name: np.array(rows, dtype=np.float64) for name, rows in results.items()}


def share(rows: Floats, way: int, seed: int) -> tuple[float, Interval]:
    """(share, 95 %) of positive scores that are wrong: texts drawn again, and never narrower than that of so
    many independent words, which is not of width zero when all are right."""
    over, under = rows[:, way, 0], rows[:, way, 1]
    k, n = int(over.sum()), int(under.sum())
    value, (low, high) = share_of_count(k, n)
    again = bootstrap_ratio(over, under, seed)
    return value, (min(low, again[0]), max(high, again[1]))


def positive_scores(run: LabRun, name: str, count: int) -> None:
    """The shares of one model: a table, and what they say about the sentence."""
    model = load_token_model(name)
    result = counted(model, texts(count, run.seed), METHODS, run.seed)
    shares = {
        method: [share(rows, way, run.seed) for way in range(len(WAYS))] for method, rows in result.items()
    }
    run.table(
        f"Share of words with a positive score that lower the output when they are increased ({name}, "
        f"{count} film sentences)",
        ["method", "positive words", *WAYS],
        [
            [
                method,
                int(result[method][:, 0, 1].sum()),
                *(f"{v:.0%} ({a:.0%} to {b:.0%})" for v, (a, b) in cells),
            ]
            for method, cells in shares.items()
        ],
    )
    small = {method: cells[0] for method, cells in shares.items()}
    value, span = small["grad-x-input"]
    run.claim(
        f"{name}: gradient x input is the slope of the output. So its positive scores are wrong less often "
        f"than positive random scores when the embedding of a word gets {STEPS[0]:.0%} longer (number: share "
        "of words with a positive score that lower the output).",
        value=value,
        interval=span,
        holds=span[1] < small["random"][1][0],
        against=small["random"][0],
        control="share with random scores",
    )
    value, span = min((small[method] for method in OTHERS), key=lambda cell: cell[1][0])
    run.claim(
        f"{name}: a positive score by {', '.join(OTHERS[:-1])} or {OTHERS[-1]} does not mean that more of "
        f"the word raises the output. If its embedding gets {STEPS[0]:.0%} longer, the output falls more "
        "often than for words with a positive score by gradient x input (number: share for the method that "
        "is wrong least often).",
        value=value,
        interval=span,
        holds=span[0] > small["grad-x-input"][1][1],
        against=small["grad-x-input"][0],
        control="share with gradient x input",
    )
