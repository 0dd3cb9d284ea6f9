"""Everything by default on one text, in units of one forward F, against ferret's recorded figure.

ferret runs only on transformers < 5; its figure (6 explainers and their evaluation, 4,600 F) was recorded on
two cores with an older one. F is timed before and after each run, in this process.
"""

from __future__ import annotations

import statistics

import heedful
from bench.models import classifier, one_forward, question
from bench.timing import Ratio, quartiles, seconds

TITLE = "All methods except expensive ones, on one text of 128 tokens, with evidence"
FERRET, ALLOWED, METHODS = 4600, 460, 12
RUNS = 2


def run() -> list[Ratio]:
    model, x, _ = question()
    forward, costs, taken = one_forward(), [], []
    forward()
    for _ in range(RUNS):
        before = [seconds(forward) for _ in range(10)]
        spent = model.spent
        found = heedful.explain(model, x.text, "all")
        spent = model.spent - spent
        taken.append(found.settings["seconds"])
        after = [seconds(forward) for _ in range(10)]
        costs.append(taken[-1] / statistics.median(before + after))
    low, middle, high = quartiles(costs)
    measured = dict.fromkeys(e.metric for e in found.evidence)
    methods = sum(a.cost.seconds for a in found.values())
    expensive = sorted(found.values(), key=lambda a: -a.cost.seconds)[:6]
    unit = taken[-1] / costs[-1]  # seconds of F in the last run
    parts = ", ".join(f"{a.method} {a.cost.seconds / unit:.0f} F" for a in expensive)
    parts += f", evidence {(taken[-1] - methods) / unit:.0f} F"
    note = (
        f"{len(found)} methods (at least {METHODS} are required), {spent.unique:,} model inputs, "
        f"{spent.backwards:,} of them with a gradient; most expensive: {parts}; "
        f"F is {statistics.median(taken) / middle * 1e3:.0f} ms; "
        f"on {classifier()[1]}"
    )
    return [
        Ratio(
            work=f"{len(found)} methods and {len(measured)} metrics",
            rival="ferret, 6 explainers and evaluation (measured once)",
            ratio=middle / FERRET,
            low=low / FERRET,
            high=high / FERRET,
            at_most=ALLOWED / FERRET if len(found) >= METHODS else 0.0,
            pairs=RUNS,
            ours=middle,
            theirs=FERRET,
            unit="F",
            rows=(spent.unique, None),
            note=note,
        )
    ]
