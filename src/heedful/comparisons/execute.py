"""`explain`: every method on one prediction, sharing one trace and one memory of rows.

A text longer than the window is explained piece by piece. The explained number is then the mean over the
pieces, and scores are the mean of the pieces' scores, each at its own tokens. It is exact for methods linear
in the explained function (gradients, leave-one-out, Shapley values); for the others (norms, attention, ranks)
it is the convention.

A budget caps what the model is given by all methods together. Methods that need a fixed number of rows go
first, cheap ones first; those that can do with fewer (sampled ones, integrated gradients) share the rest
evenly, and what one leaves over goes to the next.

Ctrl-C keeps what is finished.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heedful.comparisons.internals import Explained, internals_of, with_features
from heedful.comparisons.planning import Piece, Plan, plan
from heedful.comparisons.result import Comparison
from heedful.comparisons.single_text import weighed
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.evidence import Evidence
from heedful.core.input import Input
from heedful.core.internals import Internals
from heedful.core.model import Loadable
from heedful.core.progress import Report, Step
from heedful.core.registry import Explainer
from heedful.core.versions import versions
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.models.load import load
from heedful.models.passes import BudgetSpentError, check_budget

AGAIN = 2.0  # seconds within which a second Ctrl-C means: stop everything


_interrupted_at = float("-inf")


def explain(
    model: Loadable | Session,
    text: Any,
    methods: Iterable[str] | str | None = None,
    target: Any = None,
    unit: str = "word",
    seed: int = 0,
    budget: int | None = None,
    *,
    long: str = "error",
    params: Mapping[str, Mapping[str, Any]] | None = None,
    evidence: bool | Iterable[str] | None = None,
    draws: int | None = None,
    features: Any = None,
    progress: Report | None = None,
    keep_partial: bool = True,
) -> Comparison:
    """Explain one prediction with several methods, side by side.

    methods   names, or None for every method the model supports except expensive ones (a pass per token or
              more); `random`, the control, is always there
    target    None (the prediction), a label, an index, a token, or a mapping (see heedful.models.targets)
    unit      "word", "token" or "sentence": what is removed as one by the methods that remove
    budget    most model inputs that all methods together may run, passes with gradients included
    long      what to do with a text longer than the model reads: "error", "truncate" or "window"
    params    parameters by method, e.g. {"occlusion": {"operator": "delete"}}
    evidence  weigh the methods on this text: True (comprehensiveness and sufficiency), names of metrics, or
              False; None: when every method runs
    draws     random orders beside which the methods are weighed; None: as many as a test of all of them takes
              if that costs at most a third of what they ask for, else 20
    features  a heedful.SAE of the model: its features that are active on the text, with their effects
    progress  called with a heedful.core.progress.Step as rows are run
    keep_partial   after Ctrl-C, return what is finished, with a warning (twice within two seconds raises
              KeyboardInterrupt all the same); False: raise at once, as a loop over texts may want
    """
    run = model if isinstance(model, Session) else Session(load(model))
    made = plan(
        run.model,
        text,
        methods,
        target,
        unit,
        seed,
        budget,
        long=long,
        params=params,
        evidence=evidence,
        draws=draws,
        timed=False,
    )
    found = execute(made, progress, keep_partial, run)
    if isinstance(model, str | Path):  # a name by which it is loaded again
        found = replace(found, settings={**found.settings, "source": str(model)})
    return found if features is None or not found.attributions else with_features(found, run.model, features)


def execute(
    made: Plan,
    progress: Report | None = None,
    keep_partial: bool = True,
    run: Session | None = None,
    look: bool = True,
) -> Comparison:
    """Run a plan; `look` also tells what was seen on the way (heedful.comparisons.internals), which takes
    time."""
    started = time.perf_counter()
    run = run or Session(made.model)
    run.progress = progress
    found: dict[str, Attribution] = {}
    skipped = dict(made.skipped)
    stopped: dict[str, Any] = {}
    evidence: tuple[Evidence, ...] = ()
    try:
        with run.at_most(made.settings["budget"]):
            run_methods(run, made, found, skipped)
            evidence, told = _weighed(run, made, found)
            stopped |= told
    except KeyboardInterrupt:
        if not keep_partial or not found.keys() - {"random"} or _twice():
            raise
        stopped = _stop(run, made, found, skipped)
    ordered = [found[entry.name] for entry in made.chosen if entry.name in found]
    facts = made.model.facts() | made.predicted
    seconds = made.seconds_taken + time.perf_counter() - started
    settings = {**made.settings, "seconds": seconds} | stopped
    inside = _inside(run, made, ordered) if look else Internals()
    return Comparison(tuple(ordered), facts, settings, skipped, evidence, inside)


def _inside(run: Session, made: Plan, items: list[Attribution]) -> Internals:
    """What was seen on the way; of a text in windows nothing is known as a whole."""
    if not items or len(made.pieces) > 1:
        return Internals()
    return internals_of(run, Explained(items, made.settings["unit"], made.settings["seed"]))


def _weighed(
    run: Session, made: Plan, found: Mapping[str, Attribution]
) -> tuple[tuple[Evidence, ...], dict[str, str]]:
    """The methods that ran, weighed, or a setting that tells why not."""
    items = [found[entry.name] for entry in made.chosen if entry.name in found and entry.name != "random"]
    unit = made.settings["unit"]
    if not made.metrics or not items or not made.x.units(unit):
        return (), {}
    run.begin(Step("evidence", len(made.order) + 1, len(made.order) + 1, total=made.weighing))
    try:
        seed = made.settings["seed"]
        return weighed(run, items, made.metrics, unit, seed, made.draws), {}
    except BudgetSpentError as error:
        return (), {"not weighed": str(error)}


def run_methods(run: Session, made: Plan, found: dict[str, Attribution], skipped: dict[str, str]) -> None:
    """Fill `found` and `refused` as methods finish, so that an interruption loses nothing."""
    order = made.order
    for index, entry in enumerate(order):
        before, started = run.spent, time.perf_counter()
        try:
            with run.at_most(_share(run, made, order[index:])):
                joined = _explain_pieces(run, made, entry, Step(entry.name, index + 1, len(order)))
        except HeedfulError as error:
            if made.named and not isinstance(error, BudgetSpentError):
                raise  # asked for by name: the reason is the answer
            skipped[entry.name] = str(error)
            continue
        cost = replace(run.spent - before, seconds=time.perf_counter() - started)
        found[entry.name] = replace(joined, cost=cost)


def _share(run: Session, made: Plan, order: list[Explainer]) -> int | None:
    """What the first of these methods may run of what is left."""
    entry, left = order[0], run.left
    if left is None or entry.counts is None:
        return left  # no budget, or one trace for all
    least = made.rows[entry.name][0]
    if made.flexible(entry):
        check_budget(left, least)
        return max(least, left // sum(map(made.flexible, order)))
    if len(made.pieces) > 1:
        check_budget(left, least)  # or the first pieces would be run for nothing
    return left


def _explain_pieces(run: Session, made: Plan, entry: Explainer, step: Step) -> Attribution:
    parts = []
    for number, (piece, _) in enumerate(made.pieces):
        least, most = made.rows_of(entry.name, number)
        run.begin(replace(step, part=number + 1, parts=len(made.pieces), total=most))
        left = run.left if made.flexible(entry) else None
        with run.at_most(None if left is None else max(least, left // (len(made.pieces) - number))):
            parts.append(run_explainer(entry, run, piece, made.target, **made.own[entry.name]))
    return parts[0] if len(parts) == 1 else _join(made.x, made.pieces, parts)


def _join(x: Input, pieces: list[Piece], parts: list[Attribution]) -> Attribution:
    """Means at each token; errors of the pieces, drawn apart, add in squares."""
    scores, squares = np.zeros(len(x)), np.zeros(len(x))
    for (_, positions), part in zip(pieces, parts, strict=True):
        np.add.at(scores, positions, part.scores / len(parts))
        if part.stderr is not None:
            np.add.at(squares, positions, (part.stderr / len(parts)) ** 2)
    sampled = any(part.stderr is not None for part in parts)
    bases = [part.base for part in parts if part.base is not None]
    return replace(
        parts[0],
        x=x,
        scores=scores,
        output=float(np.mean([part.output for part in parts])),
        base=float(np.mean(bases)) if len(bases) == len(parts) else None,
        stderr=np.sqrt(squares) if sampled else None,
        notes=_joined_notes(parts),
        fitted_by=tuple(sorted({operator for part in parts for operator in part.fitted_by or ()})),
    )


def _joined_notes(parts: list[Attribution]) -> tuple[str, ...]:
    """What all parts say, once; what some say, with the part that says it."""
    every = [note for note in parts[0].notes if all(note in part.notes for part in parts)]
    own = [
        f"part {number}: {note}"
        for number, part in enumerate(parts, 1)
        for note in part.notes
        if note not in every
    ]
    return (*every, *own)


def _twice() -> bool:
    """Whether an interruption came so soon after another that everything is meant, a loop around us too."""
    global _interrupted_at
    before, _interrupted_at = _interrupted_at, time.monotonic()
    return _interrupted_at - before < AGAIN


def _stop(run: Session, made: Plan, found: dict[str, Attribution], skipped: dict[str, str]) -> dict[str, Any]:
    """Say what was not finished; a sampled method is estimated from the rows it has."""
    left = [e for e in made.order if e.name not in found and e.name not in skipped]
    if not left:
        return {}
    current, *later = left
    if estimate := _from_memory(run, made, current):
        found[current.name] = estimate
    else:
        skipped[current.name] = "interrupted"
    skipped |= {entry.name: "interrupted before its turn" for entry in later}
    done = f"{len(found)} of {len(made.chosen)} methods"
    warnings.warn(f"interrupted in {current.name}: {done} are in the result", stacklevel=4)
    return {"interrupted": current.name}


def _from_memory(run: Session, made: Plan, entry: Explainer) -> Attribution | None:
    """A sampled method again, with as many samples as it has finished: each is remembered, none is run."""
    if "samples" not in entry.params or len(made.pieces) > 1 or run.step.method != entry.name:
        return None
    asked, cost = run.done, run.spent - run.began
    run.progress = None
    run.planned = made.rows[entry.name][1]
    try:
        with run.at_most(0):
            params = {**made.own[entry.name], "samples": asked}
            found = run_explainer(entry, run, made.x, made.target, **params)
    except HeedfulError:
        return None  # too few for an estimate
    told = f"interrupted: estimated from the {asked:,} rows that were finished"
    return replace(found, notes=(*found.notes, told), cost=cost)


__all__ = ["BudgetSpentError", "Session", "execute", "explain", "versions"]
