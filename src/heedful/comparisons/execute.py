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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heedful.comparisons.audit_advice import advice_of, with_advice
from heedful.comparisons.internals import Explained, internals_of, with_features
from heedful.comparisons.planning import Plan, plan
from heedful.comparisons.result import Comparison
from heedful.comparisons.single_text import remove_alone, weighed
from heedful.core.attribution import Attribution
from heedful.core.defaults import CONTROL
from heedful.core.errors import HeedfulError
from heedful.core.evidence import Evidence
from heedful.core.input import Input
from heedful.core.model import Loadable
from heedful.core.progress import Report, Step
from heedful.core.registry import Explainer
from heedful.core.versions import versions
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.modalities.kinds import Piece
from heedful.models.load import load
from heedful.models.passes import BudgetSpentError, check_budget

EVIDENCE = "evidence"  # the step at which methods are weighed
AGAIN = 2.0  # seconds within which a second Ctrl-C means: stop everything


_interrupted_at = float("-inf")
Watch = Callable[[Attribution, Comparison], None]


def explain(
    model: Loadable | Session,
    text: Any,
    methods: Iterable[str] | str | None = None,
    target: Any = None,
    unit: str = "",
    seed: int = 0,
    budget: int | None = None,
    *,
    long: str = "error",
    params: Mapping[str, Mapping[str, Any]] | None = None,
    evidence: bool | Iterable[str] = True,
    draws: int | None = None,
    features: Any = None,
    audit: Any = None,
    progress: Report | None = None,
    keep_partial: bool = True,
) -> Comparison:
    """Explain one prediction with several methods.

    The result also contains `random`, a method with random scores. Do not trust a method that is no better
    than `random`.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    text
        A text, a pair of texts, or a list of chat messages.
    methods
        Names of methods. If `None`, the seven default methods (`heedful.core.defaults`). If "all", every
        method that the model supports, except expensive methods.
    target
        What to explain: a label, an index, a token, or a mapping such as `{"label": "a", "contrast": "b"}`
        ("a rather than b"). If `None`, the prediction.
    unit
        What is removed and scored as one piece: "word", "token" or "sentence".
    seed
        Random seed.
    budget
        The largest number of model inputs that all methods together may use. If `None`, there is no limit.
    long
        What to do with a text that is too long for the model: "error", "truncate" or "window".
    params
        Parameters per method, such as `{"occlusion": {"operator": "delete"}}`.
    evidence
        Test the methods on this text by removing words: True, False, or names of metrics.
    draws
        Number of random orders to compare the methods with. If `None`, the number depends on the cost.
    features
        A `heedful.SAE` of this model. Its active features and their effects are added to the result.
    audit
        The result of `heedful.audit` for this model, or its run folder. The method that it recommends is
        shown first.
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.
    keep_partial
        After Ctrl-C, return the finished methods with a warning. If False, raise KeyboardInterrupt.

    Returns
    -------
    Comparison
        A mapping from method name to `Attribution`.

    Examples
    --------
    >>> import heedful
    >>> comparison = heedful.explain("zoo:sentiment", "The food was great", methods=["occlusion", "lime"])
    >>> list(comparison)
    ['occlusion', 'lime', 'random']
    >>> comparison.target.name
    'positive'
    >>> comparison["occlusion"].top(1)[0].text
    'great'
    """
    session = model if isinstance(model, Session) else Session(load(model))
    advice = None if audit is None else advice_of(audit)
    planned = plan(
        session.model,
        text,
        with_advice(session.model, methods, advice),
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
    comparison = execute(planned, session, progress=progress, keep_partial=keep_partial)
    if isinstance(model, str | Path):  # a name by which it is loaded again
        comparison = replace(comparison, settings={**comparison.settings, "source": str(model)})
    if advice is not None:
        comparison = replace(comparison, settings={**comparison.settings, "audit": advice.settings()})
    if features is None or not comparison.attributions:
        return comparison
    return with_features(comparison, session.model, features)


def execute(
    planned: Plan,
    session: Session | None = None,
    *,
    progress: Report | None = None,
    keep_partial: bool = True,
    known: Mapping[str, Attribution] | None = None,
    watch: Watch | None = None,
    internals: bool = True,
    facts: Mapping[str, Any] | None = None,
) -> Comparison:
    """Run a plan.

    known      explanations that were made before, by method: they are not made again
    watch      called with each explanation when it is finished, and the comparison so far
    internals  also tell what was seen on the way (heedful.comparisons.internals), which takes time
    facts      of the model, where they were asked before
    """
    run = _Execution(planned, session or Session(planned.model), dict(known or {}), watch, facts)
    run.session.progress = progress
    try:
        with run.session.at_most(planned.budget):
            run.methods()
            run.weigh()
    except KeyboardInterrupt:
        if not keep_partial or not run.done.keys() - {CONTROL} or interrupted_twice():
            raise
        run.stop()
    comparison = run.comparison()
    if not internals or not comparison.attributions or len(planned.pieces) > 1:
        return comparison  # of a text in windows nothing is known as a whole
    unit, seed = planned.settings["unit"], planned.settings["seed"]
    explained = Explained(comparison.attributions, unit, seed)
    return replace(comparison, internals=internals_of(run.session, explained))


def _asked(planned: Plan) -> str:
    """A text is listed by words; of other inputs, all methods of a comparison by the same units."""
    return "" if planned.x.scored_by_atom else str(planned.settings["unit"])


class _Execution:
    """A plan while it is run: what is done stays, whatever interrupts it."""

    def __init__(
        self,
        planned: Plan,
        session: Session,
        done: dict[str, Attribution],
        watch: Watch | None,
        facts: Mapping[str, Any] | None,
    ) -> None:
        self.planned, self.session, self.done, self.watch = planned, session, done, watch
        self.skipped = dict(planned.skipped)
        self.settings: dict[str, Any] = {}  # how it went: interrupted, evidence_skipped
        self.evidence: tuple[Evidence, ...] = ()
        self._facts = facts
        self._earlier = sum(item.cost.seconds for item in done.values())
        self._started = time.perf_counter()

    def comparison(self) -> Comparison:
        """What there is."""
        planned = self.planned
        seconds = planned.seconds_taken + self._earlier + time.perf_counter() - self._started
        facts = planned.model.facts() if self._facts is None else self._facts
        return Comparison(
            attributions=tuple(self.done[e.name] for e in planned.chosen if e.name in self.done),
            model={**facts, **planned.predicted},
            settings={**planned.settings, "seconds": seconds, **self.settings},
            skipped=self.skipped,
            evidence=self.evidence,
        )

    def methods(self) -> None:
        """One after the other, cheap ones first."""
        planned, session = self.planned, self.session
        order = [entry for entry in planned.order if entry.name not in self.done]
        for index, entry in enumerate(order):
            before, started = session.spent, time.perf_counter()
            try:
                with session.at_most(_share(session, planned, order[index:])):
                    step = Step(entry.name, index + 1, len(order))
                    joined = _explain_pieces(session, planned, entry, step)
            except HeedfulError as error:
                if planned.named and not isinstance(error, BudgetSpentError):
                    raise  # asked for by name: the reason is the answer
                self.skipped[entry.name] = str(error)
                continue
            cost = replace(session.spent - before, seconds=time.perf_counter() - started)
            self.done[entry.name] = replace(joined, cost=cost, asked=_asked(planned))
            if self.watch is not None:
                self.watch(self.done[entry.name], self.comparison())

    def weigh(self) -> None:
        """The methods that ran beside random orders; where the budget is spent, a setting says so."""
        planned, session = self.planned, self.session
        chosen = [entry.name for entry in planned.chosen if entry.name != CONTROL]
        items = [self.done[name] for name in chosen if name in self.done]
        unit, seed = planned.settings["unit"], planned.settings["seed"]
        if not planned.metrics or not items or not planned.x.units(unit):
            return
        steps = len(planned.order) + 1
        session.begin(Step(EVIDENCE, steps, steps, total=planned.weighing))
        try:
            self.evidence = weighed(session, items, planned.metrics, unit, seed, planned.draws)
            remove_alone(session, items, unit)
        except BudgetSpentError as error:
            self.settings["evidence_skipped"] = str(error)

    def stop(self) -> None:
        """Say what was not finished; a sampled method is estimated from the rows it has."""
        planned, done = self.planned, self.done
        left = [e for e in planned.order if e.name not in done and e.name not in self.skipped]
        if not left:
            self.settings |= {"interrupted": EVIDENCE, "evidence_skipped": "interrupted"}
            warnings.warn("interrupted while the methods were tested: they are in the result", stacklevel=4)
            return
        current, *later = left
        if estimate := _from_memory(self.session, planned, current):
            done[current.name] = replace(estimate, asked=_asked(planned))
        else:
            self.skipped[current.name] = "interrupted"
        self.skipped |= {entry.name: "interrupted before its turn" for entry in later}
        count = f"{len(done)} of {len(planned.chosen)} methods"
        warnings.warn(f"interrupted in {current.name}: {count} are in the result", stacklevel=4)
        self.settings["interrupted"] = current.name


def _share(session: Session, planned: Plan, order: list[Explainer]) -> int | None:
    """What the first of these methods may run of what is left."""
    entry, left = order[0], session.left
    if left is None or entry.counts is None:
        return left  # no budget, or one trace for all
    least = planned.rows[entry.name][0]
    if planned.flexible(entry):
        check_budget(left, least)
        return max(least, left // sum(map(planned.flexible, order)))
    if len(planned.pieces) > 1:
        check_budget(left, least)  # or the first pieces would be run for nothing
    return left


def _explain_pieces(session: Session, planned: Plan, entry: Explainer, step: Step) -> Attribution:
    parts = []
    for number, (piece, _) in enumerate(planned.pieces):
        least, most = planned.rows_of(entry.name, number)
        session.begin(replace(step, part=number + 1, parts=len(planned.pieces), total=most))
        left = session.left if planned.flexible(entry) else None
        with session.at_most(None if left is None else max(least, left // (len(planned.pieces) - number))):
            parts.append(run_explainer(entry, session, piece, planned.target, **planned.own[entry.name]))
    return parts[0] if len(parts) == 1 else _join(planned.x, planned.pieces, parts)


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


def interrupted_twice() -> bool:
    """Whether an interruption came so soon after another that everything is meant, a loop around us too."""
    global _interrupted_at
    before, _interrupted_at = _interrupted_at, time.monotonic()
    return _interrupted_at - before < AGAIN


def _from_memory(session: Session, planned: Plan, entry: Explainer) -> Attribution | None:
    """A sampled method again, with as many samples as it has finished: each is remembered, none is run."""
    if "samples" not in entry.params or len(planned.pieces) > 1 or session.step.method != entry.name:
        return None
    requested, cost = session.done, session.spent - session.began
    session.progress = None
    session.planned = planned.rows[entry.name][1]
    try:
        with session.at_most(0):
            params = {**planned.own[entry.name], "samples": requested}
            attribution = run_explainer(entry, session, planned.x, planned.target, **params)
    except HeedfulError:
        return None  # too few for an estimate
    text = f"interrupted: estimated from the {requested:,} model inputs that were finished"
    return replace(attribution, notes=(*attribution.notes, text), cost=cost)


__all__ = ["BudgetSpentError", "Session", "execute", "explain", "versions"]
