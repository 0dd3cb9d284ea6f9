"""Errata: formulas that circulate in a wrong form, each put beside the right one before a judge.

Every line is an experiment: the formula as printed, ours, and a truth got in a third way (autograd,
quadrature, every subset, another library), on drawn instances. The number is the distance of the printed form
to that truth, relative to its size where it has one; beside it that of ours. A line holds if the printed form
misses the truth on every instance and ours on none. Two lines, marked sound, are right as printed; a control
stands in for a misprint there.

The experiments stand in files of their own, misprints_*.py; docs/errata.md has the table. Two sentences that
are about models are measured on zoo:sentiment and on a real model (special_tokens, positive_scores). What
cannot be computed (years, missing rows of tables, what a paper's code contains) is listed with the reason and
claims nothing.
"""

from __future__ import annotations

import math

import numpy as np

from heedful.core.charts import Forest, Line
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.errata_checks import (
    attention_formulas,
    autoencoder_formulas,
    lime_formulas,
    score_formulas,
    transformer_formulas,
)
from heedful.labs.errata_checks.formula import Misprint
from heedful.labs.measures.positive_scores import positive_scores
from heedful.labs.measures.special_tokens import special_tokens
from heedful.models.zoo import resolve
from heedful.stats.intervals import mean_of

REAL = "zoo:prompt-injection"
CHECKS = (
    *lime_formulas.CHECKS,
    *score_formulas.CHECKS,
    *transformer_formulas.CHECKS,
    *attention_formulas.CHECKS,
    *autoencoder_formulas.CHECKS,
)

NOT_COMPUTED = (
    (
        "E7",
        "an L1 norm with 1/d in front",
        "all tokens get the same factor, so the ranking is the same and there is no difference to measure",
    ),
    (
        "E9",
        "a constraint without its right-hand side",
        "a constraint without a right-hand side cannot be computed; the stopping rule is checked above",
    ),
    ("E10", "where 50,304 comes from", "a re-implementation pads its table to this size: a fact about code"),
    ("E10", "f(x) at x_{t+1}, without a position", "a missing index does not define another formula"),
    ("E11", "an argmax of the ratio", "an argmax is a position, but the definition needs a number"),
    (
        "E12",
        "ROAR removes 0, 10, …, 100 %",
        "the protocol removes 0, 10, 30, 50, 70, 90 % (from memory): a choice of the authors",
    ),
    (
        "E14",
        "histogram task: tied weights, identity values",
        "what the released code trains is a fact about code",
    ),
    ("E15", "years of three papers", "bibliography: NeurIPS 2023, ICLR 2015, NeurIPS 2024"),
    (
        "E16",
        "LIME: ridge of 1, bandwidth 0.25, first sample not perturbed",
        "facts about the official code; the text does not state them and prints no other number",
    ),
    ("E19", "an index of 1 at a gradient", "a typing error in one line"),
    (
        "E20",
        "the usual baseline is the last layer",
        "a convention; the check above shows where the answer is read",
    ),
    ("E21", "input size 128", "the paper states how many activations its autoencoder reads (512)"),
    (
        "E22",
        "a table without its adversary row",
        "the numbers of the row are from memory and were not computed again",
    ),
    (
        "E23",
        "released code of Grad-ECLIP: one head over the full width",
        "a fact about code; a test shows on a random CLIP that its similarity is not that of the model",
    ),
    ("OK", "toy cross entropies 0.82 and 0.69", "the lab superposition computes them exactly"),
)


@lab(
    "errata",
    title="Errata: the printed formula, the correct one, and the difference in numbers",
    minutes=0.4,
    cite="Abnar & Zuidema 2020; Chefer et al. 2021; Mardaoui & Garreau 2021; Lopardo et al. 2024; others",
)
def errata(run: LabRun) -> None:
    n = 5 if run.fast else 40
    run.say(
        "Some formulas appear in lecture notes and papers in a wrong form. This lab compares the printed "
        "form and the form that heedful computes with a reference that is computed in a third way. The error "
        "is the distance to this reference, unless the text below says otherwise. The first number of "
        "each claim about a formula is the error of the printed form."
    )
    results = []
    for done, check in enumerate(CHECKS):
        run.progress(done, len(CHECKS), check.__name__)
        results.append(check(run.seed, n))
    results.sort(key=lambda each: int(each.number.removeprefix("E").replace("OK", "99")))
    for each in results:
        run.say(formulas(each))
    run.table(
        "Errors of the printed and of the correct form",
        [
            "number",
            "printed: mean error",
            "printed: smallest error",
            "correct: mean error",
            "correct: largest error",
            "instances",
        ],
        [
            [
                each.number,
                each.wrong.mean(),
                each.wrong.min(),
                each.right.mean(),
                each.right.max(),
                len(each.wrong),
            ]
            for each in results
        ],
    )
    for each in results:
        told(run, each)
    lines = [
        Line(label, float(each.wrong.mean()), *span_of(each), control=float(each.right.mean()))
        for label, each in zip(labels(results), results, strict=True)
    ]
    run.figure(
        "errata",
        Forest(lines, "error", "Errors of printed and correct formulas", better="low"),
        "Mean error of the printed form (dot, with its 95 % interval) and of the correct form (hollow mark).",
    )
    run.table("Errata that are not computed", ["number", "subject", "why it is not computed"], NOT_COMPUTED)
    measured(run)


def measured(run: LabRun) -> None:
    """Two sentences of the field that are about models, not formulas: one model here, and a real one."""
    run.say(
        "E13. Special tokens get much attention. One conjecture says that this is because they are never "
        "split into pieces. If the conjecture were true, whole words would get as much attention as "
        "special tokens. Split words would get less attention than whole words. If a special token were "
        "written twice, as if it were split, its two copies together would get no more attention than a "
        "single one."
    )
    names = [("zoo:sentiment", 12, 20)] if run.fast else [("zoo:sentiment", 60, 24), (REAL, 60, 16)]
    ready = [each for each in names if resolve.pulled(each[0])]
    for name, count, _ in ready:
        run.progress(0, 1, f"special tokens of {name}")
        special_tokens(run, name, count)
    run.say(
        "A common criticism says: 'positive attribution does not imply that increasing the feature increases "
        "the output'. How often is this true? The output is the explained logit. A word is increased in "
        "three ways: its embedding gets longer (1% or 10% more), the word alone is put back into the empty "
        "text (put back), or the full text is compared with the text without the word (not removed)."
    )
    for name, _, count in ready:
        run.progress(0, 1, f"positive scores on {name}")
        positive_scores(run, name, count)
    if run.fast:
        run.say(
            f"The full run also tests the real model {REAL}, if it has been downloaded with heedful zoo pull."
        )
    elif len(ready) < len(names):
        run.say(
            f"To test both on a real model: heedful zoo pull {REAL.removeprefix('zoo:')}, then run the "
            "lab again."
        )


def formulas(each: Misprint) -> str:
    if each.number == "OK":
        control = f"A wrong form as a control: {each.printed}"
        return f"Correct as printed: {each.correct}. {control}. Reference: {each.judge}."
    return f"{each.number}. Printed: {each.printed}. Correct: {each.correct}. Reference: {each.judge}."


def span_of(each: Misprint) -> tuple[float, float]:
    """95 % of the printed form's mean error; one instance has no interval: nothing was drawn."""
    if len(each.wrong) == 1:
        return float("nan"), float("nan")
    return mean_of(each.wrong, (0.0, math.inf))[1]  # a distance


def told(run: LabRun, each: Misprint) -> None:
    """One claim: the printed form's mean error, beside ours."""
    once = len(each.wrong) == 1
    run.claim(
        each.sentence,
        value=float(each.wrong.mean()),
        interval=None if once else span_of(each),
        exact=once,
        holds=each.holds,
        against=float(np.mean(each.right)),
        control="error of the correct form",
    )


def labels(found: list[Misprint]) -> list[str]:
    """E5, E5 (2), E5 (3): a name for each line of the figure."""
    numbers: dict[str, int] = {}
    names = []
    for each in found:
        numbers[each.number] = numbers.get(each.number, 0) + 1
        names.append(each.number if numbers[each.number] == 1 else f"{each.number} ({numbers[each.number]})")
    return names
