"""The evidence of a single text: who does better than random orders here. It ranks nobody.

comprehensiveness and sufficiency, beside random orders. The operator is `delete` where the model has it: the
methods that remove words do so by another one by default, and a method is not judged by what it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heedful.types import Evidence
from heedful.wording import listed

if TYPE_CHECKING:
    from heedful.models.base import Model
    from heedful.types import Attribution

METRICS = ("comprehensiveness", "sufficiency")
DRAWS = 10  # random orders: to do better than each of them has a chance of 1 in 11


def operator_of(model: Model) -> str:
    return "delete" if "delete" in model.operators else model.operators[0]


def rows_of(d: int, methods: int, metrics: Sequence[str] = METRICS) -> int:
    """Most rows that weighing asks for."""
    import numpy as np

    from heedful import registry

    chosen = [registry.get_metric(name) for name in metrics]
    asked = [m for m in chosen if m.asks == "rows"]
    scores = np.arange(d, dtype=float)
    return 2 + (methods + DRAWS) * sum(len(m.run(scores, np.random.default_rng(0)).keep) for m in asked)


def weighed(
    model: Model,
    items: Sequence[Attribution],
    metrics: Sequence[str] = METRICS,
    unit: str = "word",
    seed: int = 0,
) -> tuple[Evidence, ...]:
    from heedful.evidence.summary import summarise
    from heedful.evidence.weigh import weigh

    scores = weigh(
        model, items, metrics, [operator_of(model)], unit=unit, draws=DRAWS, seed=seed, searched={}
    )
    return tuple(summarise([scores]))


def said(evidence: Sequence[Evidence], items: Sequence[Attribution] = (), little: str = "") -> str:
    """In words, a line a metric and operator.

    items    what was weighed: how those that remove words do it is told
    little   a sentence where there is little to explain
    """
    if not evidence:
        how = "pass evidence=True to heedful.explain"
        return f"Nothing was weighed, so nothing can be said about which method to heed: {how}."
    pairs = dict.fromkeys((e.metric, e.operator) for e in evidence)
    lines = [_line([e for e in evidence if (e.metric, e.operator) == pair]) for pair in pairs]
    lines += filter(None, (_removed(evidence, items), little))
    last = "One text ranks no methods against each other: heedful audit weighs them on many."
    return "\n".join([*lines, last])


def _removed(evidence: Sequence[Evidence], items: Sequence[Attribution]) -> str:
    """By what the evidence removes words, and by what the methods that remove some do."""
    here = next((e.operator for e in evidence if e.operator), "")
    own: dict[str, list[str]] = {}
    for item in items:
        if operator := item.params.get("operator"):
            own.setdefault(str(operator), []).append(item.method)
    if not here or not own:
        return ""
    same = own.pop(here, [])
    said = [f"{listed(names)} by {operator}" for operator, names in own.items()]
    are = "it is judged by its" if len(same) == 1 else "they are judged by their"
    said += [f"{listed(same)} by {here} too, so {are} own removal"] if same else []
    rest = "" if same else ": no method is judged by its own removal"
    return f"The evidence removes words by {here}; {'; '.join(said)}{rest}."


def _line(found: Sequence[Evidence]) -> str:
    judged = [e for e in found if not e.circular]
    better = sorted((e for e in judged if e.above_chance), key=lambda e: -e.skill)
    worse = [e.method for e in judged if not e.above_chance]
    under = f" under {found[0].operator}" if found[0].operator else ""
    does = "does" if len(better) == 1 else "do"
    who = f"{listed([e.method for e in better])} {does} better" if better else "no method does better"
    rest = f"; not so {listed(worse)}" if better and worse else ""
    return f"On this text, by {found[0].metric}{under}, {who} than {DRAWS} random orders did{rest}."
