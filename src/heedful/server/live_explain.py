"""As one types: the prediction, the methods that cost little, and what the others would cost.

What is cheap is decided by the plan (heedful.comparisons.planning): methods are taken in their order of cost
until together they would take `LIVE_SECONDS`; those that read one trace count once. Explanations are
remembered by text, target, unit and seed, so a job does not run again what was found while typing.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

from heedful.comparisons.execute import execute
from heedful.comparisons.planning import Plan, plan
from heedful.comparisons.result import Comparison
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.core.defaults import CONTROL, DEFAULT_METHODS
from heedful.core.document import Node
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.reports import comparison as report
from heedful.reports import comparison_parts as sections
from heedful.reports.comparison_summary import explained, notes, predictions
from heedful.reports.html import nodes_html
from heedful.server.schemas import requests, responses

LIVE_SECONDS = 0.2  # seconds that the methods together may take while one types,
# and the first of them where it is more than that: a text in many windows waits for a click
FIRST_METHOD_SECONDS = 0.5
CROWD_SIZE = 8  # half of that where so many others wait, a third for twice as many, and so on
MAX_REMEMBERED_TEXTS = 64  # texts whose explanations are kept
MIN_PACE_ROWS, MAX_PACES = 8, 9  # rows from which on a method tells the pace, and how many such are looked at
WARM_UP_TEXT = "The first text takes longer than all that follow, so it is asked before anybody waits for it."
Parts = dict[str, str]


class ExplanationCache:
    """Explanations by what they depend on, the oldest forgotten; and how quick each model was, by token."""

    def __init__(self, most: int = MAX_REMEMBERED_TEXTS) -> None:
        self.most, self._explanations = most, OrderedDict[Any, dict[str, Attribution]]()
        self._paces: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def pace(self, model: str) -> float | None:
        """Seconds a token takes among many rows: the median of what was seen."""
        with self._lock:
            observed = self._paces.get(model)
            return median(observed) if observed else None

    def of(self, key: Any) -> dict[str, Attribution]:
        with self._lock:
            result = self._explanations.pop(key, {})
            self._explanations[key] = result
            return dict(result)

    def add(self, key: Any, items: Sequence[Attribution]) -> None:
        costs = [item.cost for item in items if item.cost.unique >= MIN_PACE_ROWS and not item.cost.backwards]
        with self._lock:
            observed = self._paces.setdefault(key[0], deque(maxlen=MAX_PACES))
            observed.extend(cost.seconds / cost.tokens for cost in costs if cost.tokens)
            result = self._explanations.pop(key, {})
            self._explanations[key] = result | {item.method: item for item in items}
            while len(self._explanations) > self.most:
                self._explanations.popitem(last=False)


def chosen(model: Model, methods: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """(methods to plan, method -> why not) of those asked for; None: one of each kind."""
    able = {s.method: s for s in registry.support(model)}
    wanted = (
        [name for name in DEFAULT_METHODS if able[name].ok]
        if methods is None
        else list(dict.fromkeys(methods))
    )
    for name in wanted:
        registry.get(name)
    skipped = {name: able[name].why for name in wanted if not able[name].ok}
    return [name for name in wanted if name not in skipped], skipped


def planned(
    model: Model, ask: requests.LiveRequest, memory: ExplanationCache, weigh: bool = True
) -> tuple[Plan, dict[str, str]]:
    """What is to be done, and methods that cannot be; timed by what rows took before, where that is known."""
    names, skipped = chosen(model, ask.methods)
    weigh = weigh and "values" in model.capabilities
    made = plan(
        model,
        ask.given(),
        names or [CONTROL],
        ask.spec,
        ask.unit,
        ask.seed,
        long=ask.long,
        evidence=weigh,
        timed=False,
    )
    settings = {**made.settings, "source": ask.model, "target": ask.spec, "text": ask.given(), "params": {}}
    pace = memory.pace(ask.model)
    a_row = made.seconds_per_row if pace is None else min(made.seconds_per_row, pace * len(made.pieces[0][0]))
    return replace(made, settings=settings, named=False, seconds_per_row=a_row), skipped


def cheap(made: Plan, known: dict[str, Attribution], most: float = LIVE_SECONDS) -> list[str]:
    """Methods that run while one types, or are known already."""
    live: list[str] = []
    spent, traced = 0.0, False
    for entry in made.order:
        cost = 0.0 if entry.name in known else made.seconds_of(entry)
        if entry.counts is None and traced:
            cost = 0.0
        first = not spent and cost <= FIRST_METHOD_SECONDS
        if spent + cost > most and not first:
            continue
        live.append(entry.name)
        spent += cost
        traced = traced or (entry.counts is None and cost > 0)  # the control needs no trace
    return live


def explain_live(
    model: Model, ask: requests.LiveRequest, memory: ExplanationCache, waiting: int = 0
) -> responses.LiveAnswer:
    """`waiting`: how many others are; the more, the less is done for each."""
    made, skipped = planned(model, ask, memory)
    known = memory.of(ask.key)
    names = cheap(made, known, LIVE_SECONDS / (1 + waiting / CROWD_SIZE))
    explained_now = run_some(made, [*names, *known], known)
    memory.add(ask.key, [item for item in explained_now.attributions if item.method not in known])
    skipped |= explained_now.skipped
    comparison = replace(explained_now, skipped={})
    return responses.LiveAnswer(
        text=str(made.x.raw),
        prediction=predicted(comparison),
        target=made.target.name,
        explained=explained(comparison),
        words=words_of(made.x),
        methods=costs(made, dict(comparison), names, skipped),
        weighing=made.weighing * made.seconds_per_row,
        weighing_rows=made.weighing,
        html=parts(comparison, agreement=waiting < CROWD_SIZE),
        notes=[f"{who}: {what}" for who, what in notes(comparison)],
        operators=list(model.operators),
    )


def warm_up(name: str, model: Model, memory: ExplanationCache) -> None:
    """Once after loading: what is slow the first time, and how quick rows are."""
    with suppress(HeedfulError):
        ask = requests.LiveRequest(model=name, text=WARM_UP_TEXT, methods=["occlusion", "grad-l2"])
        made, _ = planned(model, ask, memory, weigh=False)
        memory.add(ask.key, run_some(made, [entry.name for entry in made.chosen], {}).attributions)


def run_some(made: Plan, names: Sequence[str], known: Mapping[str, Attribution]) -> Comparison:
    """Some methods of a plan, without evidence and without a look at what else was seen."""
    some = [entry for entry in made.chosen if entry.name in names]
    few = replace(made, chosen=some, metrics=(), skipped={})
    return execute(few, known=known, internals=False, facts=facts_of(made.model))


_facts: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def facts_of(model: Model) -> dict[str, Any]:
    """Worked out once: the fingerprint reads weights."""
    if model not in _facts:
        _facts[model] = model.facts()
    return dict(_facts[model])


def parts(comparison: Comparison, agreement: bool = True) -> Parts:
    """Sections of the report, drawn by the report's own code."""
    drawn: dict[str, Sequence[Node]] = {
        "verdict": report.first(comparison),
        "methods": [sections.methods(comparison)],
        "numbers": report.words(comparison),
        "evidence": sections.evidence(comparison),
        "agreement": sections.agreement(comparison) if agreement else (),
        "cost": sections.cost(comparison),
        "remarks": sections.remarks(comparison),
        "made": sections.made(comparison),
    }
    return {name: nodes_html(nodes, 2) for name, nodes in drawn.items()}


def predicted(comparison: Comparison) -> list[responses.Prediction]:
    return [
        responses.Prediction(label=label, shown=shown, share=None if math.isnan(share) else share)
        for label, shown, share in predictions(comparison)
    ]


def words_of(x: Input) -> list[responses.TextPiece]:
    words = x.units("word")
    return [
        responses.TextPiece(text=label, start=start, end=end)
        for label, (start, end) in zip(words.labels, words.regions, strict=True)
    ]


def costs(
    made: Plan, have: dict[str, Attribution], live: Sequence[str], skipped: dict[str, str]
) -> list[responses.MethodCost]:
    """Every method that was asked for, with its state."""
    out = []
    for entry in made.chosen:
        least, most = made.rows[entry.name]
        state = "live" if entry.name in live else "waits"
        if entry.name in skipped:
            state = "skipped"
        elif entry.name in have and made.seconds_of(entry) > LIVE_SECONDS:
            state = "done"
        out.append(
            responses.MethodCost(
                method=entry.name,
                state=state,  # type: ignore[arg-type]
                rows=most,
                least=least,
                seconds=made.seconds_of(entry),
                why=skipped.get(entry.name, ""),
                summary=entry.summary,
            )
        )
    names = {cost.method for cost in out}
    out += [
        responses.MethodCost(method=name, state="skipped", rows=0, least=0, seconds=0.0, why=why)
        for name, why in skipped.items()
        if name not in names
    ]
    return out
