"""The long way: methods one after the other, each shown when it is finished, then weighed; kept as a run.

What was found while typing is not run again. What removing words did is read from the memory of the run
(heedful.comparisons.internals), so the report that is stored has it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.comparisons.internals import Explained, internals_of
from heedful.comparisons.planning import Plan
from heedful.comparisons.result import Comparison
from heedful.comparisons.single_text import weighed
from heedful.core.attribution import Attribution
from heedful.core.defaults import CONTROL
from heedful.core.evidence import Evidence
from heedful.core.model import Model
from heedful.core.progress import Step
from heedful.engine.session import Session
from heedful.server.job_queue import Job
from heedful.server.live_explain import ExplanationCache, compared, costs, parts, planned, predicted, run_some
from heedful.server.schemas import requests

CUT = "the job was cancelled before"
Keep = Callable[[Comparison], None]


def explain(
    model: Model, ask: requests.Explain, memory: ExplanationCache, job: Job, keep: Keep
) -> Comparison:
    """All methods that were asked for, and the evidence; `job` is shown what is finished, and `keep` is given
    it as it would be stored if nothing more came."""
    job.tell("planning")
    made, skipped = planned(model, ask, memory, ask.weigh)
    have = memory.of(ask.key)
    run, left = Session(model), [e for e in made.order if e.name not in have]
    total = sum(made.rows[e.name][1] for e in left) + (made.weighing if ask.weigh else 0)
    before, parts_done = 0, dict[int, int]()

    def progress(step: Step) -> None:
        parts_done[step.part] = step.done
        job.tell(step.method, min(before + sum(parts_done.values()), total), total)

    for number, entry in enumerate(left):
        parts_done.clear()
        job.tell(entry.name, before, total)
        found = run_some(run, made, [entry.name], progress)
        memory.add(ask.key, found.attributions)
        have, skipped = have | dict(found), skipped | dict(found.skipped)
        least, most = made.rows[entry.name]
        ran = min(most, max(least, sum(parts_done.values())))
        before, total = before + ran, total - (most - ran)  # a method that stops early has no more to do
        keep(compared(made, have, skipped | {later.name: CUT for later in left[number + 1 :]}))
        job.show(_drawn(compared(made, have, skipped), made, have, skipped))
    comparison = compared(made, have, skipped)
    if ask.weigh and _can_weigh(made, comparison):
        job.tell("weighing", before, total)
        run.progress = lambda step: job.tell("weighing", min(before + step.done, total), total)
        run.begin(Step("weighing", 1, 1, total=made.weighing))
        evidence = _weighed(run, made, comparison)
        inside = internals_of(run, Explained(comparison.attributions, ask.unit, ask.seed))
        comparison = replace(comparison, evidence=evidence, internals=inside)
    job.show(_drawn(comparison, made, have, skipped))
    return comparison


def _can_weigh(made: Plan, comparison: Comparison) -> bool:
    return bool(made.weighing) and len(made.pieces) == 1 and any(name != CONTROL for name in comparison)


def _weighed(run: Session, made: Plan, comparison: Comparison) -> tuple[Evidence, ...]:
    items = [item for item in comparison.attributions if item.method != CONTROL]
    settings = made.settings
    unit, seed = settings["unit"], settings["seed"]
    return weighed(run, items, made.metrics, unit, seed, made.draws)


def _drawn(
    comparison: Comparison, made: Plan, have: dict[str, Attribution], skipped: dict[str, str]
) -> dict[str, Any]:
    html = parts(comparison)
    told = [cost.model_dump() for cost in costs(made, have, [], skipped)]
    for cost in told:
        if cost["method"] in have:
            cost["state"] = "done"
    shown = [found.model_dump() for found in predicted(comparison)]
    return {"html": html, "methods": told, "prediction": shown, "weighed": bool(comparison.evidence)}


def stored(comparison: Comparison, root: Path, name: str) -> str:
    """As a run folder that `heedful report` opens."""
    comparison.save(root / name)
    return name
