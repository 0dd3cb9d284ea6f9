"""A job: methods one after the other, each shown when it is finished, then tested; stored as a run.

What was found while typing is not run again. What removing words did is read from the memory of the run
(heedful.comparisons.internals), so the report that is stored has it, too. The test that the page starts by
itself runs all methods anew, in one go, so that it gives what `heedful.explain` gives; it is not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.comparisons.execute import EVIDENCE, execute
from heedful.comparisons.planning import Plan
from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.model import Model
from heedful.core.progress import Step
from heedful.server.automatic_test import first_screen_of
from heedful.server.explanation_cache import ExplanationCache
from heedful.server.job_queue import Job
from heedful.server.live_explain import (
    costs,
    expected_seconds,
    facts_of,
    parts,
    planned,
    predicted,
    with_removal,
)
from heedful.server.schemas import requests

TESTING = "testing the methods"
CUT = "the job was cancelled before"
Keep = Callable[[Comparison], None]


def explain(
    model: Model, ask: requests.ExplainJobRequest, memory: ExplanationCache, job: Job, keep: Keep
) -> Comparison:
    """All methods that were asked for, and the evidence; `job` is shown what is finished, and `keep` is given
    it as it would be stored if nothing more came."""
    job.report("planning")
    made, skipped = planned(model, ask, memory, ask.test)
    known, seconds = memory.of(ask.key), expected_seconds(made, memory, ask.model)

    def watch(item: Attribution, comparison: Comparison) -> None:
        """A method is done: remember it, store what there is, show it."""
        memory.add(ask.key, [item])
        refused = skipped | dict(comparison.skipped)
        later = [e.name for e in made.order if e.name not in comparison and e.name not in refused]
        keep(replace(comparison, skipped={**refused, **dict.fromkeys(later, CUT)}))
        shown = with_removal(comparison, made, memory, ask.key)
        job.show(_job_result(shown, made, skipped, seconds))

    progress = JobProgress(job, made, known)
    comparison = execute(made, progress=progress, known=known, watch=watch, facts=facts_of(model))
    comparison = replace(comparison, skipped={**skipped, **comparison.skipped})
    shown = with_removal(comparison, made, memory, ask.key)
    job.show(_job_result(shown, made, skipped, seconds))
    return comparison


def explain_at_once(
    model: Model, ask: requests.ExplainJobRequest, memory: ExplanationCache, job: Job
) -> None:
    """All methods and the evidence as `heedful.explain` gives them, shown when everything is there."""
    job.report("planning")
    made, skipped = planned(model, ask, memory)
    comparison = execute(made, progress=JobProgress(job, made, {}), facts=facts_of(model))
    memory.add(ask.key, comparison.attributions)
    seconds = expected_seconds(made, memory, ask.model)
    comparison = replace(comparison, skipped={**skipped, **comparison.skipped})
    job.show(_job_result(comparison, made, skipped, seconds))


class JobProgress:
    """Rows of all methods as one number: a method that stops early has no more to do."""

    def __init__(self, job: Job, made: Plan, known: Mapping[str, Attribution]) -> None:
        self.job, self.made = job, made
        left = [entry.name for entry in made.order if entry.name not in known]
        self.total = sum(made.rows[name][1] for name in left) + made.weighing
        self.before, self.method, self.parts = 0, "", dict[int, int]()

    def __call__(self, step: Step) -> None:
        if step.method != self.method:
            self._finish()
            self.method = step.method
        self.parts[step.part] = step.done
        what = TESTING if step.method == EVIDENCE else step.method
        self.job.report(what, min(self.before + sum(self.parts.values()), self.total), self.total)

    def _finish(self) -> None:
        """The method before this one is done with fewer rows than it might have run."""
        if self.method in self.made.rows:
            least, most = self.made.rows[self.method]
            ran = min(most, max(least, sum(self.parts.values())))
            self.before, self.total = self.before + ran, self.total - (most - ran)
        self.parts.clear()


def _job_result(
    comparison: Comparison, made: Plan, skipped: dict[str, str], seconds: Mapping[str, float]
) -> dict[str, Any]:
    refused = skipped | dict(comparison.skipped)
    methods = [cost.model_dump() for cost in costs(made, dict(comparison), [], refused, seconds)]
    for cost in methods:
        if cost["method"] in comparison:
            cost["state"] = "done"
    return {
        "html": parts(comparison),
        "first": first_screen_of(comparison).model_dump(),
        "methods": methods,
        "prediction": [label.model_dump() for label in predicted(comparison)],
        "tested": bool(comparison.evidence),
    }


def stored(comparison: Comparison, root: Path, name: str) -> str:
    """As a run folder that `heedful report` opens."""
    comparison.save(root / name)
    return name
