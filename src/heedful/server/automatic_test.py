"""The test of the methods that the page runs by itself, where it is cheap, and the first screen as data.

    operations = 2 x model inputs x positions (tokens of a text) x parameters

It is the rule of the plan (heedful.comparisons.planning), never a clock: the same text of the same model is
always treated alike. A test of more operations waits for a click. So does a cheap one while others are at
work (MAX_AT_ONCE). The test is what `heedful.explain` does with the same settings, so that page, terminal,
report and notebook say the same.
"""

from __future__ import annotations

import math

import numpy as np

from heedful.comparisons.planning import Plan
from heedful.comparisons.result import Comparison, ranked_unit
from heedful.core.defaults import CONTROL
from heedful.core.document import Bullets, Node, Paragraph, nodes
from heedful.core.internals import Removal
from heedful.core.phrases import plural
from heedful.reports import comparison as report
from heedful.reports import first_screen
from heedful.reports.tested_methods import ordered, passed, removal
from heedful.server.schemas import responses

MAX_OPERATIONS = 1e12  # about five seconds on one core
MAX_AT_ONCE = 2  # tests of all visitors that the page starts by itself
KIND = "live"  # of such jobs
ASK_FOR_AUDIT = (
    "Which method to use on this model: run heedful audit on 50 texts or more. Its recommendation is shown "
    "here if --runs names the folder where the audit is stored."
)


def ask_for_audit(comparison: Comparison) -> str:
    return ASK_FOR_AUDIT.replace("texts", plural(comparison.x.noun))


def operations(inputs: float, positions: int, size: int) -> float:
    """Of so many model inputs; of a model whose size is not known, infinitely many."""
    return 2.0 * inputs * positions * (size or math.inf)


def is_cheap(made: Plan) -> bool:
    """Whether all methods of the plan and their test are cheap enough to run without a click."""
    if not made.weighing or {entry.name for entry in made.chosen} <= {CONTROL}:
        return False
    inputs = made.likely_rows + made.weighing
    return operations(inputs, made.x.read_length, made.model.size) <= MAX_OPERATIONS


def removed_alone(made: Plan, unit: str, operator: str) -> Removal:
    """The effect of each word alone: one model input per word, and one for the text."""
    d = len(made.x.units(unit))
    keep = np.ones((d + 1, d), dtype=bool)
    np.fill_diagonal(keep[1:], False)
    values = made.model.values(made.x, made.target, keep, operator, unit)
    return Removal(operator, tuple((values[0] - values[1:]).tolist()))


def untested(comparison: Comparison) -> tuple[Node, ...]:
    """The first screen until the test is done: no words are named, and the colours are only a claim."""
    method = ordered(comparison)[0]
    claim = f"Not tested yet: the colours show what {method} claims."
    use = first_screen.which_to_use(comparison, ask_for_audit(comparison))
    return nodes(report.shaded(comparison), Bullets((claim,)), Paragraph(use, "answer") if use else None)


def first_screen_of(comparison: Comparison) -> responses.FirstScreen:
    """What the first screen says, as data; the sentences are those of every other surface."""
    measured = removal(comparison)
    effects = () if measured is None else measured.leave_one_out
    labels = comparison.x.units(ranked_unit(comparison)).labels
    return responses.FirstScreen(
        sentence=first_screen.why(comparison),
        operator="" if measured is None else measured.operator,
        effects=[
            responses.WordEffect(text=text, effect=effect if math.isfinite(effect) else None)
            for text, effect in zip(labels, effects, strict=False)
        ],
        shading=report.shaded(comparison).options[0].title,
        better=[
            responses.BetterMethod(method=one.method, beat=one.beat, draws=one.draws)
            for one in passed(comparison)
        ],
        methods=first_screen.better_than_random(comparison),
        advice=first_screen.which_to_use(comparison, ask_for_audit(comparison)),
    )
