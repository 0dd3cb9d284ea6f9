"""While one types: the prediction, the methods that cost little, and what the others would cost.

Methods are taken in the order of `live_order`, those first that most often beat random orders in audits,
until together they would take `LIVE_SECONDS`; those that read one trace count once. Costs come from the plan
(heedful.comparisons.planning) and from what the methods took before. Explanations are remembered by text,
target, unit and seed, so a job does not run again what was found while typing. Where all methods and their
test are cheap, the answer says so, and the page starts the test (heedful.server.automatic_test).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from heedful.comparisons.execute import execute
from heedful.comparisons.planning import Plan, plan
from heedful.comparisons.result import Comparison, ranked_unit
from heedful.comparisons.single_text import operator_of
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.core.defaults import CONTROL
from heedful.core.document import Node
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.modalities.image_files import Picture
from heedful.modalities.text import TextInput
from heedful.reports import comparison as report
from heedful.reports import comparison_parts as sections
from heedful.reports.comparison_summary import explained, notes
from heedful.reports.html import nodes_html
from heedful.reports.input_map import has_picture
from heedful.reports.picture_grid import by_method
from heedful.reports.prediction import predictions
from heedful.reports.tested_methods import ordered
from heedful.server.automatic_test import ask_for_audit, is_cheap, removed_alone, untested
from heedful.server.explanation_cache import ExplanationCache
from heedful.server.picture_cells import cells_of
from heedful.server.schemas import requests, responses

LIVE_SECONDS = 0.2  # seconds that the methods together may take while one types;
FIRST_METHOD_SECONDS = 0.5  # where none fits into that, the cheapest may take so long
FAITHFUL_METHODS = ("occlusion", "integrated-gradients", "lime", "grad-x-input")
CROWD_SIZE = 2  # half of that where so many others wait, a third for twice as many, and so on
QUEUE_FOR_TEST = 2  # others that wait: from so many on, no test starts by itself
QUICK_ROW = 0.02  # seconds per model input up to which sampling methods are warmed up, too
OWN = "occlusion"  # where it is cheap enough to run, so is removing each word by another operator
WARM_UP_TEXT = "The first text takes longer than all that follow, so it is asked before anybody waits for it."
WARM_UP_SIDE = 64  # pixels of a picture that does the same
Parts = dict[str, str]


def given(model: Model, ask: requests.InputRequest, memory: ExplanationCache) -> Any:
    """What the model is to read. A model of pictures gets pictures that were sent, never a string: that would
    be the path of a file."""
    if ask.picture is None and not reads_pictures(model):
        return ask.given()
    if ask.picture is None:
        raise HeedfulError(f"{ask.model[:80]} reads pictures", "no picture was sent", "Choose a picture")
    if not reads_pictures(model):
        raise HeedfulError(f"{ask.model[:80]} reads texts, not pictures", fix="Type a text")
    picture = memory.pictures.get(ask.picture).picture
    return {"picture": picture, "text": ask.text} if ask.text else picture


def reads_pictures(model: Model) -> bool:
    """Alone, or with a text."""
    return "picture" in model.capabilities


def chosen(model: Model, methods: Sequence[str] | None, use: str = "") -> tuple[list[str], dict[str, str]]:
    """(methods to plan, method -> why not) of those asked for; None: the usual ones, and the one that an
    audit recommends, in the order of `heedful.explain`."""
    able = {s.method: s for s in registry.support(model)}
    usual = [name for name in able if name in model.default_methods]
    if use in able and use not in usual:
        usual = [use, *(name for name in model.default_methods if name in able)]
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
        given(model, ask, memory),
        names or [CONTROL],
        ask.spec,
        ask.unit,
        ask.seed,
        long=ask.long,
        evidence=test and "values" in model.capabilities,
        timed=False,
    )
    settings = {**made.settings, "source": ask.model, "target": ask.spec, "params": {}}
    settings |= {"text": ask.given()} if ask.picture is None else {"picture": ask.picture, "text": ask.text}
    settings |= {"audit": advice} if (advice := memory.advice.get(ask.model)) else {}
    if ask.methods is None and set(names) <= set(model.default_methods):
        settings["methods"] = None  # so they need no name to be run again
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
    preferred = live_order(made.model)
    for entry in sorted(made.chosen, key=lambda e: _preference(e.name, preferred)):
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
        live += sorted(others, key=lambda name: (seconds[name], _preference(name, preferred)))[:1]
    return live


def live_order(model: Model) -> list[str]:
    """The usual methods, the most faithful first."""
    return [*FAITHFUL_METHODS, *(name for name in model.default_methods if name not in FAITHFUL_METHODS)]


def _preference(method: str, preferred: Sequence[str]) -> int:
    return preferred.index(method) if method in preferred else len(preferred)


def explain_live(
    model: Model, ask: requests.LiveRequest, memory: ExplanationCache, waiting: int = 0, room: bool = True
) -> responses.LiveAnswer:
    """`waiting`: how many others are; the more, the less is done for each. `room`: whether a test may start
    by itself."""
    made, skipped = planned(model, ask, memory)
    seconds = expected_seconds(made, memory, ask.model)
    names, comparison = run_cheap(made, ask, memory, seconds, waiting)
    skipped |= comparison.skipped
    comparison = replace(comparison, skipped={})
    is_small = is_cheap(made)
    automatic = room and waiting < QUEUE_FOR_TEST and is_small
    if not automatic and waiting < CROWD_SIZE:
        comparison = with_removal(comparison, made, memory, ask.key)
    return responses.LiveAnswer(
        text="" if reads_pictures(model) else str(made.x.raw),
        picture=cells_of(made.x, ranked_unit(comparison)) if has_picture(made.x) else None,
        prediction=predicted(comparison),
        target=made.target.name,
        explained=explained(comparison),
        words=words_of(made.x),
        methods=costs(made, dict(comparison), names, skipped, seconds),
        testing=made.weighing * made.seconds_per_row,
        testing_rows=made.weighing,
        automatic=automatic,
        later=is_small and not automatic,
        html=parts(comparison, ask.agreement and waiting < CROWD_SIZE, automatic),
        notes=[f"{who}: {what}" for who, what in notes(comparison)],
        operators=list(model.operators),
    )


def run_cheap(
    made: Plan,
    ask: requests.LiveRequest,
    memory: ExplanationCache,
    seconds: Mapping[str, float],
    waiting: int,
) -> tuple[list[str], Comparison]:
    """(methods that cost little, these and what was known before)"""
    known = memory.of(ask.key)
    names = cheap(made, known, seconds, LIVE_SECONDS / (1 + waiting / CROWD_SIZE))
    comparison = run_some(made, [*names, *known], known)
    memory.add(ask.key, [item for item in comparison.attributions if item.method not in known])
    return names, comparison


def claims_about(
    model: Model,
    ask: requests.WhatIfRequest | requests.BrushRequest,
    memory: ExplanationCache,
    waiting: int = 0,
) -> dict[str, Attribution]:
    """Methods whose claims are shown beside a change; those that cost little are run if they were not."""
    known = memory.of(ask.key)
    if known and known.keys() >= set(ask.methods or ()):
        return known
    shared = requests.LiveRequest.model_fields.keys() & type(ask).model_fields.keys()
    whole = requests.LiveRequest(**{name: getattr(ask, name) for name in shared})
    made, _ = planned(model, whole, memory)
    run_cheap(made, whole, memory, expected_seconds(made, memory, ask.model), waiting)
    return memory.of(ask.key)


def warm_up(name: str, model: Model, memory: ExplanationCache) -> None:
    """Once after loading: what is slow the first time, how quick model inputs are, and how many a method
    takes."""
    with suppress(HeedfulError):
        ask = _first_question(name, model, memory)
        made, _ = planned(model, ask, memory, test=False)
        memory.add(ask.key, run_some(made, [entry.name for entry in made.chosen], {}).attributions)
        if planned(model, ask, memory, test=False)[0].seconds_per_row <= QUICK_ROW:
            sampled = ask.model_copy(update={"methods": None})
            made, _ = planned(model, sampled, memory, test=False)
            memory.add(ask.key, run_some(made, [*FAITHFUL_METHODS], memory.of(ask.key)).attributions)


def _first_question(name: str, model: Model, memory: ExplanationCache) -> requests.LiveRequest:
    methods = [OWN, "grad-l2"]
    if not reads_pictures(model):
        return requests.LiveRequest(model=name, text=WARM_UP_TEXT, methods=methods)
    noise = np.random.default_rng(0).integers(0, 256, (WARM_UP_SIDE, WARM_UP_SIDE, 3), dtype=np.uint8)
    number = memory.pictures.keep(Picture(noise)).number
    return requests.LiveRequest(model=name, picture=number, methods=methods)


def run_some(made: Plan, names: Sequence[str], known: Mapping[str, Attribution]) -> Comparison:
    """Some methods of a plan, without evidence and without a look at what else was seen."""
    some = [entry for entry in made.chosen if entry.name in names]
    few = replace(made, chosen=some, metrics=(), skipped={})
    return execute(few, known=known, internals=False, facts=facts_of(made.model))


def with_removal(comparison: Comparison, made: Plan, memory: ExplanationCache, key: Any) -> Comparison:
    """With the effect of each word alone, by the operator by which a test removes words: effects are facts.
    Not where it is expensive, which is where occlusion is, or where it was measured already."""
    known = comparison.internals.removals
    operator = operator_of(made.model, [item for item in comparison.attributions if item.method != CONTROL])
    if OWN not in comparison or len(made.pieces) > 1 or operator in {removal.operator for removal in known}:
        return comparison
    unit = ranked_unit(comparison)
    removal = memory.removal(key, operator, lambda by: removed_alone(made, unit, by))
    return replace(comparison, internals=replace(comparison.internals, removals=(removal, *known)))


_facts: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def facts_of(model: Model) -> dict[str, Any]:
    """Worked out once: the fingerprint reads weights."""
    if model not in _facts:
        _facts[model] = model.facts()
    return dict(_facts[model])


def parts(comparison: Comparison, agreement: bool = True, test_follows: bool = False) -> Parts:
    """Sections of the report, drawn by the report's own code; those methods first that beat most random
    orders."""
    best_first = replace(comparison, attributions=tuple(comparison[name] for name in ordered(comparison)))
    is_picture = has_picture(comparison.x)
    drawn: dict[str, Sequence[Node]] = {
        "verdict": untested(comparison)
        if test_follows
        else report.first(comparison, ask_for_audit(comparison)),
        "methods": [by_method(comparison) if is_picture else sections.methods(best_first)],
        "numbers": [sections.claims(comparison)] if is_picture else sections.words(comparison),
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
    if not isinstance(x, TextInput):
        return []
    words = x.units("word")
    return [
        responses.TextPiece(text=label, start=region[0], end=region[1])
        for label, region in zip(words.labels, words.regions, strict=True)
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
