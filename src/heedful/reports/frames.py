"""Results as pandas tables: one row per thing measured, one column per fact.

Attribution, Comparison   one row per method and unit
Audit                     one row per metric, operator and method
Trial                     one row per finding
Importance                one row per head or layer
LabReport                 its claims; `frames` has its tables by title
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

import pandas as pd

from heedful.audits.result import Audit
from heedful.comparisons.result import Comparison, ranked_unit
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import place_columns, place_of
from heedful.core.lab_report import LabReport
from heedful.heads.ablation.importance_results import Importance
from heedful.trials.result import Trial

EMPTY = ["method", "part", "index", "text", "start", "end", "score", "stderr", "signed"]
AUDIT_COLUMNS = (
    *("metric", "better", "operator", "method", "n", "value", "control", "best", "skill", "low", "high"),
    *("chance_low", "chance_high", "spread", "circular"),
)
TRIAL_COLUMNS = (
    *("test", "what", "key", "variant", "value", "low", "high", "control", "control_name", "n", "unit"),
    "extra",
)
CLAIM_COLUMNS = ("sentence", "value", "low", "high", "against", "control", "holds")


@singledispatch
def frame(result: object, **options: Any) -> pd.DataFrame:
    """The table of a result."""
    raise HeedfulError(f"there is no table for {type(result).__name__}")


@frame.register
def _attribution(result: Attribution, unit: str = "") -> pd.DataFrame:
    name = unit or result.own_unit
    return _unit_frame([result], name)


def _unit_frame(items: Sequence[Attribution], unit: str) -> pd.DataFrame:
    """The place of a unit: characters of a text, the box around part of a picture; of a pair both, and what a
    unit does not have is missing."""
    places = place_columns(items[0].x.units(unit).regions)
    rows = [row for item in items for row in _unit_rows(item, unit, places)]
    columns = ["method", "part", "index", "text", *places, "score", "stderr", "signed"]
    table = pd.DataFrame(rows, columns=columns)
    gaps = [name for name in places if table[name].hasnans]
    return table.astype(dict.fromkeys(gaps, "Int64"))  # whole numbers, though some are missing


@frame.register
def _comparison(result: Comparison, unit: str = "") -> pd.DataFrame:
    name = unit or ranked_unit(result)
    return _unit_frame(result.attributions, name) if result.attributions else pd.DataFrame(columns=EMPTY)


def _unit_rows(item: Attribution, unit: str, places: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The units of the text, then those of what was already written, where the method scores them."""
    for part, given in ((item.x.noun, item), ("written", item.of_written())):
        for index, each in enumerate(given.units(unit) if given is not None else ()):
            error = math.nan if each.stderr is None else each.stderr
            named = (item.method, part, index, each.text)
            yield (*named, *place_of(each.region, places), each.score, error, item.signed)


@frame.register
def _audit(result: Audit) -> pd.DataFrame:
    rows = []
    for e in result.table:
        numbers = (e.value, e.control, e.best, e.skill, *e.interval, *e.chance)
        named = (e.metric, result.better[e.metric], e.operator, e.method, e.n)
        rows.append((*named, *numbers, result.spread(e.metric, e.method), e.circular))
    return pd.DataFrame(rows, columns=list(AUDIT_COLUMNS))


@frame.register
def _trial(result: Trial) -> pd.DataFrame:
    """Further numbers of a finding are a dictionary in the column `extra`: tests have different ones."""
    rows = []
    for each in result.findings:
        named = (each.test, each.what, each.key, each.variant)
        numbers = (each.value, *each.interval, each.control)
        rows.append((*named, *numbers, each.control_name, each.n, each.unit, dict(each.extra)))
    return pd.DataFrame(rows, columns=list(TRIAL_COLUMNS))


@frame.register
def _importance(result: Importance) -> pd.DataFrame:
    return pd.DataFrame(result.table())


@frame.register
def _lab(result: LabReport) -> pd.DataFrame:
    rows = []
    for claim in result.claims:
        low, high = claim.interval or (claim.value, claim.value)  # an exact value has no width
        against = math.nan if claim.against is None else claim.against
        rows.append((claim.sentence, claim.value, low, high, against, claim.control, claim.holds))
    return pd.DataFrame(rows, columns=list(CLAIM_COLUMNS))


def frames(result: LabReport) -> dict[str, pd.DataFrame]:
    """The tables of a lab by title; a title that occurs again gets a number."""
    named: dict[str, pd.DataFrame] = {}
    for table in result.tables:
        title, number = table.title, 2
        while title in named:
            title, number = f"{table.title} ({number})", number + 1
        named[title] = pd.DataFrame(list(table.rows), columns=list(table.columns))
    return named
