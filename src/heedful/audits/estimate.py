"""What an audit would cost, and what so many texts would show: a few texts are planned, none is explained.

rows       model inputs of a text: what the methods ask for at most, plus the orders of methods and random
           orders under each operator that judges, plus the search for the best order (full audits), plus
           what metrics ask for that explain again (heedful.core.registry.MetricRows)
seconds    rows × the time of one in a batch; rows that several ask for are run once, so both are upper limits
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from heedful.audits.external_scores import from_file
from heedful.audits.settings import AuditSettings, resolve_settings
from heedful.comparisons.planning import GRADED, Plan, plan, seconds_in_batch
from heedful.core import registry
from heedful.core.defaults import CONTROL, MIN_COMPARED_TEXTS, MIN_TEXTS
from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable, Model
from heedful.core.numbers import duration
from heedful.core.phrases import InputWords, counted, listed
from heedful.core.registry import MetricRows
from heedful.core.result import NotebookRepr
from heedful.engine.processes import core_count
from heedful.io.datasets import DataRow, in_random_order, open_source
from heedful.io.json_codec import to_jsonable
from heedful.metrics.metric_input import inputs_per_mask
from heedful.metrics.score import RANDOM_SUBJECTS, SHORTLIST, goals_of
from heedful.metrics.verdict import visible_gap, visible_share
from heedful.metrics.verdict_sentences import TEXT, power
from heedful.modalities.kinds import KINDS, words_for

PLANNED_TEXTS = 8  # texts that are planned
# model inputs at most, model inputs to expect, seconds, model inputs to evaluate controls
Cost = tuple[float, float, float, float]


class NothingToAuditError(HeedfulError):
    """No text could be planned: the audit itself says why, text by text."""


@dataclass(frozen=True)
class AuditEstimate(NotebookRepr):
    """Of an audit that has not begun; `str()` says it in words."""

    texts: int | None  # None: only reading would tell
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    rows_per_text: int  # at most
    likely_rows_per_text: int
    seconds_per_text: float
    operators: tuple[str, ...]
    fits: tuple[str, ...]
    until_decided: bool = False
    words: InputWords = TEXT
    controls: tuple[str, ...] = ()  # that do not look at the model
    control_rows_per_text: int = 0  # of `rows_per_text`, to evaluate the controls

    def __str__(self) -> str:
        count = len(self.methods)
        fitted = (
            "each fits in turn" if len(self.fits) > 1 else f"fitted by {self.fits[0]}" if self.fits else ""
        )
        lines = [
            f"{counted(count, 'method')}, judged by {', '.join(self.operators)}"
            + (f" ({fitted})." if fitted else "."),
            f"Up to about {self.rows_per_text:,} model inputs per {self.words.noun}, "
            f"{duration(self.seconds_per_text)}.",
        ]
        if self.controls:
            names, some = listed(list(self.controls)), f"{self.control_rows_per_text:,} of these"
            lines.append(f"To compare with {names}, which do not look at the model, takes {some}.")
        if self.texts is None:
            return "\n".join([*lines, f"The number of {self.words.many} is not known before they are read."])
        rows, time = self.texts * self.rows_per_text, duration(self.texts * self.seconds_per_text)
        lines.append(f"{self.words.counted(self.texts)}: up to about {rows:,} model inputs, {time}.")
        if self.until_decided:
            lines.append(
                f"It stops as soon as the verdict is settled: after 20 {self.words.many} at the earliest."
            )
        return "\n".join([*lines, self.shows])

    @property
    def line(self) -> str:
        """What is printed before an audit starts."""
        texts = 1 if self.texts is None else self.texts
        methods = counted(len(self.methods), "method")
        methods += f" and {counted(len(self.controls), 'control')}" if self.controls else ""
        counts = [methods, counted(len(self.metrics), "metric")]
        counts += [] if self.texts is None else [self.words.counted(texts)]
        rows, time = texts * self.likely_rows_per_text, duration(texts * self.seconds_per_text)
        per = f" per {self.words.noun}" if self.texts is None else ""
        return f"{' × '.join(counts)}: about {rows:,} model inputs{per}, {time}"

    @property
    def shows(self) -> str:
        """What so many texts would show."""
        if not self.texts or self.texts < MIN_TEXTS:
            return f"That is too few for a verdict: at least {self.words.counted(MIN_TEXTS)} are needed."
        count = len(self.methods)
        typical = power(
            self.texts, visible_share(self.texts, count), visible_gap(self.texts, count), self.words
        )
        few = (
            ""
            if self.texts >= MIN_COMPARED_TEXTS
            else f" To compare methods, {self.words.counted(MIN_COMPARED_TEXTS)} are needed."
        )
        return f"{typical} (Typical {self.words.many}; the audit says what yours show.){few}"

    def to_dict(self) -> dict[str, Any]:
        count = len(self.methods)
        shows = (
            {}
            if not self.texts
            else {
                "visible_share": visible_share(self.texts, count),
                "visible_gap": visible_gap(self.texts, count),
            }
        )
        return dict(to_jsonable({**vars(self), **shows, "said": str(self)}))


def estimate_audit(model: Loadable, texts: Any, **options: Any) -> AuditEstimate:
    """Takes the arguments of heedful.audit that its cost depends on."""
    from heedful.models.load import load

    columns, limit = options.pop("columns", None), options.pop("limit", None)
    scores = options.pop("scores", None)
    workers = min(options.pop("workers", None) or 1, core_count())
    external = from_file(scores) if scores else None
    loaded = load(model)
    source = open_source(texts, None, None, columns, limit, modality=loaded.modality, known=loaded.labels)
    kind = KINDS[loaded.modality]
    operators = options.pop("operators") or (external.judges(loaded) if external else None)
    given = external.methods if external else ()
    methods, metrics = options.pop("methods"), options.pop("metrics")
    settings = resolve_settings(loaded, methods, metrics, operators, given=given, **options)
    rows = in_random_order(source, settings.seed)
    usable = (row for row in rows if not row.broken and not kind.unfit(row.text))
    costs = (_cost(loaded, row, settings) for row in islice(usable, PLANNED_TEXTS))
    tried = [cost for cost in costs if cost is not None]
    if not tried:
        raise NothingToAuditError(
            f"there is no {kind.noun} to audit", fix="Check the column: --text-column or --path-column NAME"
        )
    most, likely, seconds, controls = np.mean(tried, axis=0)
    return AuditEstimate(
        texts=source.count(),
        methods=(*settings.methods, *settings.given),
        metrics=settings.metrics,
        rows_per_text=round(float(most)),
        likely_rows_per_text=round(float(likely)),
        seconds_per_text=float(seconds) / workers,  # processes share the texts
        operators=settings.operators,
        fits=settings.fits if settings.methods else (),
        until_decided=settings.until_decided,
        words=words_for(loaded.modality, settings.unit),
        controls=settings.controls,
        control_rows_per_text=round(float(controls)),
    )


def _cost(model: Model, row: DataRow, settings: AuditSettings) -> Cost | None:
    """Of one text; None where the model cannot read it."""
    try:
        return _cost_of(model, row, settings)
    except Exception:  # whatever a model raises on an odd text: the audit reports it as that text's error
        return None


def _cost_of(model: Model, row: DataRow, settings: AuditSettings) -> Cost:
    most = likely = forwards = 0.0
    for fit in settings.rounds:
        made = plan(
            model,
            row.text,
            settings.runs,
            settings.target,
            settings.unit,
            0,
            long="truncate",
            params=_known(settings.params_for(fit)),
            evidence=False,
            timed=False,
        )
        most += made.most_rows
        likely += made.likely_rows
        forwards += made.seconds / made.seconds_per_row  # a pass with gradients counts as several
    d = len(made.x.units(settings.unit))
    turns = len(settings.fits if settings.turns else [0])
    count, controls = len(settings.methods) + len(settings.given), len(settings.controls)
    # an operator that draws at random takes several model inputs per removal
    drawn = {
        name: inputs_per_mask(model, made.x, made.target, name, settings.unit) for name in _used(settings)
    }
    judged, without = (
        sum(drawn[name] for name in settings.operators) * (_judging(settings, d, turns * orders) if d else 0)
        for orders in (count + controls, count)
    )
    again = _explaining_again(settings, made, settings.runs, drawn)
    own = _explaining_again(settings, made, settings.methods, drawn)
    more = sum(_drawn_again(made, settings, fit, drawn) for fit in settings.rounds)
    seconds = (forwards + more + judged + again.forwards + GRADED * again.graded) * seconds_in_batch(made)
    asked = judged + again.forwards + again.graded
    looked = judged - without + again.forwards + again.graded - own.forwards - own.graded
    return most + more + asked, likely + more + asked, seconds, looked


def _used(settings: AuditSettings) -> set[str]:
    """Operators that judge or fit."""
    own = {given.get("operator") for fit in settings.rounds for given in settings.params_for(fit).values()}
    return {name for name in (*settings.operators, *own) if name}


def _drawn(params: Mapping[str, Any], drawn: Mapping[str, int]) -> int:
    """Model inputs per removal, of a method with these parameters."""
    return drawn.get(params.get("operator") or "", 1)


def _drawn_again(made: Plan, settings: AuditSettings, fit: str, drawn: Mapping[str, int]) -> int:
    """What an operator that draws at random adds to the rows of the methods it fits."""
    params = settings.params_for(fit)
    each = ((name, _drawn(params.get(name, {}), drawn)) for name in settings.methods)
    return sum((count - 1) * made.rows[name][1] for name, count in each)


def _explaining_again(
    settings: AuditSettings, made: Plan, runs: Sequence[str], drawn: Mapping[str, int]
) -> MetricRows:
    """Of all metrics that explain again, for `runs`, scores from elsewhere and the random control."""
    forwards = graded = 0
    names = [name for name in runs if name != CONTROL]
    subjects = len(names) + len(settings.given) + RANDOM_SUBJECTS
    for metric in map(registry.get_metric, settings.metrics):
        if metric.kind != "re-explain":
            continue
        rows, times = metric.rows(made.model, made.x, made.target, settings.unit), 1 + metric.smooths
        forwards += times * subjects * rows.forwards
        graded += times * subjects * rows.graded
        for entry in map(registry.get, names):
            params = made.own[entry.name]
            most = sum(entry.rows(x, made.target, params)[1] for x in rows.again)
            most *= times * _drawn(params, drawn)
            forwards, graded = (
                (forwards, graded + most) if "gradients" in entry.needs else (forwards + most, graded)
            )
    return MetricRows(forwards, graded)


def _known(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(given) for name, given in params.items()}


def _judging(settings: AuditSettings, d: int, methods: int) -> int:
    """Rows under one operator."""
    rng, scores = np.random.default_rng(0), np.arange(d, dtype=float)
    metrics = [registry.get_metric(name) for name in settings.metrics]
    per_order = sum(len(m.run(scores, rng).keep) for m in metrics if m.kind == "removal" and not m.shuffled)
    shared = sum(len(m.run(scores, rng).keep) for m in metrics if m.kind == "removal" and m.shuffled)
    goals = goals_of(settings.metrics)
    search = {name: param.default for name, param in registry.get("search").params.items()}
    most = 1 + d + search["beam"] * min(search["depth"], d) * min(d, SHORTLIST)
    looked = len(goals) * most if settings.search else 0
    return 2 + (methods + settings.draws) * per_order + shared + looked
