"""While one types: the prediction, the methods that cost little, and what the others would cost.

Methods are taken in the order of `LIVE_ORDER`, those first that most often beat random orders in audits,
until together they would take `LIVE_SECONDS`; those that read one trace count once. Costs come from the plan
(heedful.comparisons.planning) and from what the methods took before. Explanations are remembered by text,
target, unit and seed, so a job does not run again what was found while typing.
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
from heedful.comparisons.result import Comparison, ranked_unit
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.core.defaults import CONTROL, DEFAULT_METHODS
from heedful.core.document import Node
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.internals import Removal
from heedful.core.model import Model
from heedful.reports import comparison as report
from heedful.reports import comparison_parts as sections
from heedful.reports.comparison_summary import explained, notes
from heedful.reports.html import nodes_html
from heedful.reports.prediction import predictions
from heedful.server.schemas import requests, responses

LIVE_SECONDS = 0.2  # seconds that the methods together may take while one types;
FIRST_METHOD_SECONDS = 0.5  # where none fits into that, the cheapest may take so long
FAITHFUL_METHODS = ("occlusion", "integrated-gradients", "lime", "grad-x-input")
LIVE_ORDER = (*FAITHFUL_METHODS, *(name for name in DEFAULT_METHODS if name not in FAITHFUL_METHODS))
CROWD_SIZE = 8  # half of that where so many others wait, a third for twice as many, and so on
MAX_REMEMBERED_TEXTS = 64  # texts whose explanations are kept
MIN_PACE_ROWS, MAX_PACES = 8, 9  # rows from which on a method tells the pace, and how many such are looked at
QUICK_ROW = 0.02  # seconds per model input up to which sampling methods are warmed up, too
OWN = "occlusion"  # its scores are effects of removals, so they are facts
ASK_FOR_AUDIT = (
    "Which method to use on this model: run heedful audit on 50 texts or more. Its recommendation is shown "
    "here if --runs names the folder where the audit is stored."
)
WARM_UP_TEXT = "The first text takes longer than all that follow, so it is asked before anybody waits for it."
Parts = dict[str, str]


class ExplanationCache:
    """Explanations by what they depend on, the oldest forgotten; how quick each model was, by token; and how
    many model inputs each method ran."""

    def __init__(self, most: int = MAX_REMEMBERED_TEXTS) -> None:
        self.most, self._explanations = most, OrderedDict[Any, dict[str, Attribution]]()
        self._paces: dict[str, deque[float]] = {}
        self._rows: dict[tuple[str, str], deque[int]] = {}
        self.advice: dict[str, dict[str, Any]] = {}  # model -> what an audit recommends, as settings
        self._lock = threading.Lock()

    def pace(self, model: str) -> float | None:
        """Seconds a token takes among many rows: the median of what was seen."""
        with self._lock:
            observed = self._paces.get(model)
            return median(observed) if observed else None

    def rows(self, model: str, method: str) -> float | None:
        """Model inputs that a method ran: the median of what was seen."""
        with self._lock:
            observed = self._rows.get((model, method))
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
            for item in items:
                own = self._rows.setdefault((key[0], item.method), deque(maxlen=MAX_PACES))
                own.append(item.cost.unique)
            result = self._explanations.pop(key, {})
            self._explanations[key] = result | {item.method: item for item in items}
            while len(self._explanations) > self.most:
                self._explanations.popitem(last=False)


def chosen(model: Model, methods: Sequence[str] | None, use: str = "") -> tuple[list[str], dict[str, str]]:
    """(methods to plan, method -> why not) of those asked for; None: the usual ones, and the one that an
    audit recommends."""
    able = {s.method: s for s in registry.support(model)}
    usual = dict.fromkeys([*([use] if use in able else []), *LIVE_ORDER])
    wanted = [name for name in usual if able[name].ok] if methods is None else list(dict.fromkeys(methods))
    for name in wanted:
        registry.get(name)
    skipped = {name: able[name].why for name in wanted if not able[name].ok}
    return [name for name in wanted if name not in skipped], skipped


def planned(
    model: Model, ask: requests.LiveRequest, memory: ExplanationCache, test: bool = True
) -> tuple[Plan, dict[str, str]]:
    """What is to be done, and methods that cannot be."""
    names, skipped = chosen(model, ask.methods, str(memory.advice.get(ask.model, {}).get("use", "")))
    made = plan(
        model,
        ask.given(),
        names or [CONTROL],
        ask.spec,
        ask.unit,
        ask.seed,
        long=ask.long,
        evidence=test and "values" in model.capabilities,
        timed=False,
    )
    settings = {**made.settings, "source": ask.model, "target": ask.spec, "text": ask.given(), "params": {}}
    settings |= {"audit": advice} if (advice := memory.advice.get(ask.model)) else {}
    return replace(paced(made, memory, ask.model), settings=settings, named=False), skipped


def paced(made: Plan, memory: ExplanationCache, model: str) -> Plan:
    """Timed by what model inputs took before, where that is known."""
    pace = memory.pace(model)
    a_row = made.seconds_per_row if pace is None else min(made.seconds_per_row, pace * len(made.pieces[0][0]))
    return replace(made, seconds_per_row=a_row)


def expected_seconds(made: Plan, memory: ExplanationCache, model: str) -> dict[str, float]:
    """method -> seconds; of a method that may stop early, by the model inputs it ran on other texts."""
    seconds = {}
    for entry in made.chosen:
        planned_seconds, (least, most) = made.seconds_of(entry), made.rows[entry.name]
        seen = memory.rows(model, entry.name) if least < most else None
        if seen is not None and planned_seconds:
            planned_seconds *= min(max(seen, least), most) / math.sqrt(least * most)
        seconds[entry.name] = planned_seconds
    return seconds


def cheap(
    made: Plan, known: Mapping[str, Attribution], seconds: Mapping[str, float], most: float = LIVE_SECONDS
) -> list[str]:
    """Methods that run while one types, or are known already, in the order of preference; where none fits,
    the cheapest."""
    live: list[str] = []
    spent, traced = 0.0, False
    for entry in sorted(made.chosen, key=lambda e: _preference(e.name)):
        cost = 0.0 if entry.name in known else seconds[entry.name]
        if entry.counts is None and traced:
            cost = 0.0
        if spent + cost > most:
            continue
        live.append(entry.name)
        spent += cost
        traced = traced or (entry.counts is None and cost > 0)  # the control needs no trace
    if set(live) <= {CONTROL}:
        others = [name for name in seconds if name != CONTROL and seconds[name] <= FIRST_METHOD_SECONDS]
        live += sorted(others, key=lambda name: (seconds[name], _preference(name)))[:1]
    return live


def _preference(method: str) -> int:
    return LIVE_ORDER.index(method) if method in LIVE_ORDER else len(LIVE_ORDER)


def explain_live(
    model: Model, ask: requests.LiveRequest, memory: ExplanationCache, waiting: int = 0
) -> responses.LiveAnswer:
    """`waiting`: how many others are; the more, the less is done for each."""
    made, skipped = planned(model, ask, memory)
    known, seconds = memory.of(ask.key), expected_seconds(made, memory, ask.model)
    names = cheap(made, known, seconds, LIVE_SECONDS / (1 + waiting / CROWD_SIZE))
    explained_now = run_some(made, [*names, *known], known)
    memory.add(ask.key, [item for item in explained_now.attributions if item.method not in known])
    skipped |= explained_now.skipped
    comparison = with_removals(replace(explained_now, skipped={}), made)
    return responses.LiveAnswer(
        text=str(made.x.raw),
        prediction=predicted(comparison),
        target=made.target.name,
        explained=explained(comparison),
        words=words_of(made.x),
        methods=costs(made, dict(comparison), names, skipped, seconds),
        testing=made.weighing * made.seconds_per_row,
        testing_rows=made.weighing,
        html=parts(comparison, agreement=ask.agreement and waiting < CROWD_SIZE),
        notes=[f"{who}: {what}" for who, what in notes(comparison)],
        operators=list(model.operators),
    )


def warm_up(name: str, model: Model, memory: ExplanationCache) -> None:
    """Once after loading: what is slow the first time, how quick model inputs are, and how many a method
    takes."""
    with suppress(HeedfulError):
        ask = requests.LiveRequest(model=name, text=WARM_UP_TEXT, methods=[OWN, "grad-l2"])
        made, _ = planned(model, ask, memory, test=False)
        memory.add(ask.key, run_some(made, [entry.name for entry in made.chosen], {}).attributions)
        if planned(model, ask, memory, test=False)[0].seconds_per_row <= QUICK_ROW:
            sampled = requests.LiveRequest(model=name, text=WARM_UP_TEXT, methods=None)
            made, _ = planned(model, sampled, memory, test=False)
            memory.add(ask.key, run_some(made, [*FAITHFUL_METHODS], memory.of(ask.key)).attributions)


def run_some(made: Plan, names: Sequence[str], known: Mapping[str, Attribution]) -> Comparison:
    """Some methods of a plan, without evidence and without a look at what else was seen."""
    some = [entry for entry in made.chosen if entry.name in names]
    few = replace(made, chosen=some, metrics=(), skipped={})
    return execute(few, known=known, internals=False, facts=facts_of(made.model))


def with_removals(comparison: Comparison, made: Plan) -> Comparison:
    """With the effects that occlusion measured, where nothing else was recorded: each word was removed."""
    if comparison.internals.removals or OWN not in comparison or len(made.pieces) > 1:
        return comparison
    item = comparison[OWN]
    effects = tuple(float(score) for score in item.unit_scores(ranked_unit(comparison)))
    removal = Removal(str(item.params["operator"]), effects)
    return replace(comparison, internals=replace(comparison.internals, removals=(removal,)))


_facts: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def facts_of(model: Model) -> dict[str, Any]:
    """Worked out once: the fingerprint reads weights."""
    if model not in _facts:
        _facts[model] = model.facts()
    return dict(_facts[model])


def parts(comparison: Comparison, agreement: bool = True) -> Parts:
    """Sections of the report, drawn by the report's own code."""
    drawn: dict[str, Sequence[Node]] = {
        "verdict": report.first(comparison, ASK_FOR_AUDIT),
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
        for label, shown, share in predictions(comparison.model)
    ]


def words_of(x: Input) -> list[responses.TextPiece]:
    words = x.units("word")
    return [
        responses.TextPiece(text=label, start=start, end=end)
        for label, (start, end) in zip(words.labels, words.regions, strict=True)
    ]


def costs(
    made: Plan,
    have: dict[str, Attribution],
    live: Sequence[str],
    skipped: dict[str, str],
    seconds: Mapping[str, float],
) -> list[responses.MethodCost]:
    """Every method that was asked for, with its state."""
    out = []
    for entry in made.chosen:
        least, most = made.rows[entry.name]
        state = "live" if entry.name in live else "waits"
        if entry.name in skipped:
            state = "skipped"
        elif entry.name in have and seconds[entry.name] > LIVE_SECONDS:
            state = "done"
        out.append(
            responses.MethodCost(
                method=entry.name,
                state=state,  # type: ignore[arg-type]
                rows=most,
                least=least,
                seconds=seconds[entry.name],
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
