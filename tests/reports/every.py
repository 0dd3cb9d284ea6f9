"""One result of every kind that has a page, made by hand: markup, right-to-left text and emoji stand in every
place that comes from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.reports.conftest import chart, compare

from heedful.core.evidence import Evidence, MeasuredValue
from heedful.core.internals import ActiveFeatures, AttentionSummary, FeatureEffect, Internals, Removal

# run, each of these would leave a mark on the page's window
EVIL = (
    '</script></style></title></svg><img src=x onerror="window.ran=1"><script>window.ran=2</script>'
    " שלום 👩‍👩‍👧 & \u202e\"'"
)


def seen(words: int) -> Internals:
    rng = np.random.default_rng(1)
    alone = tuple(rng.normal(size=words).tolist())
    partly = tuple(v if i % 2 else float("nan") for i, v in enumerate(alone))
    steps = (0.0, 0.1, 0.2, 0.5, 1.0)
    curve = {EVIL: tuple((s, 1.0 - s) for s in steps), "lime": tuple((s, -s) for s in steps)}
    band = tuple((s, 0.5 - s, 0.9 - s) for s in steps)
    weights = tuple(tuple(rng.random(words).tolist()) for _ in range(3))
    firing = FeatureEffect(7, 0.5, 0.4, 3.0, (EVIL,))
    fired = ActiveFeatures(EVIL, (firing,), 9, 0.5, 0.7, (-0.1, 0.2), (0.1,), (EVIL,))
    return Internals(
        (Removal(EVIL, alone, curve, band), Removal("mask", partly)),
        AttentionSummary(weights, (0.1, 0.2, 0.3)),
        fired,
    )


def evidence(method: str, metric: str | None = None) -> Evidence:
    numbers: Any = (0.5, 0.1, 0.9, 0.5, (0.2, 0.8), 20, (-0.1, 0.3))
    return Evidence(EVIL if metric is None else metric, "delete", method, *numbers)


def explanation() -> Any:
    model = {"name": EVIL, "kind": "classifier", "prediction": [[EVIL, 0.9], ["ok", 0.1]]}
    settings = {"unit": "word", "source": EVIL, "versions": {"x": EVIL}, "seed": 0}
    found = compare(EVIL, model=model, settings=settings, skipped={EVIL: EVIL})
    orders = tuple(np.linspace(-0.1, 0.3, 20))
    weighed = tuple(
        replace(evidence(method, "aopc"), n=1, orders=orders, family="remove-top")
        for method in ("lime", "grad-l2")
    )
    return replace(found, evidence=weighed, internals=seen(len(found.x.word_spans)))


def audit() -> Any:
    from heedful.audits.result import Audit
    from heedful.audits.shown_rows import ShownRow
    from heedful.metrics.random_orders import MetricCell
    from heedful.metrics.verdict_types import MethodVerdict, Verdict

    methods = ("lime", EVIL)
    shares: Any = {"by_family": {"remove-top": 0.9, EVIL: 0.4}, "by_operator": {"delete": 0.9, EVIL: 0.3}}
    shares["fitted_by"] = (EVIL,)
    judged = tuple(
        MethodVerdict(m, 20, 18, 0.9, 0.001, better, 2.0, 0.1, better, better, True, 9.0, **shares)
        for m, better in zip(methods, (False, True), strict=True)
    )
    said = Verdict(
        20, judged, EVIL, True, (MetricCell("remove-top", EVIL, "delete"),), 20, 1, left_out={EVIL: EVIL}
    )
    errors = [{"row": 3, "method": EVIL, "reason": EVIL}]
    made = {"name": EVIL, "source": {"path": EVIL}, "settings": {"methods": methods}, "model": {"name": EVIL}}
    return Audit(
        Path("run"),
        [evidence(m) for m in methods],
        said,
        23,
        20,
        {"asked": 100, "run": 50, "naive": 400},
        copies=2,
        labelled=20,
        right=15,
        unknown=1,
        unknown_labels=[{"row": 1, "name": EVIL, "there": EVIL}],
        mistakes=(ShownRow(3, EVIL, EVIL, EVIL, (EVIL, "b"), (0.5, -1.0)),),
        errors=errors,
        failed={EVIL: 1},
        silent=(EVIL,),
        better={EVIL: "high"},
        made=made,
    )


def trial() -> Any:
    from heedful.core.charts import Scatter, Series
    from heedful.trials.result import Trial
    from heedful.trials.rows import TrialRow, TrialStatement

    def finding(test: str, what: str) -> Any:
        return TrialRow(test, what, 0.3, (0.1, 0.5), 0.2, EVIL, 20, "Kendall tau-b", {EVIL: 0.4})

    found = (finding("correlation", f"attention and gradients {EVIL}"), finding("correlation", "all layers"))
    settings = {"texts": EVIL, "seed": 0}
    words = (TrialStatement("correlation", EVIL, EVIL, EVIL, EVIL, {"Kendall tau-b": EVIL}),)
    points = ((0.1, 0.2), (0.3, 0.1))
    charts = {"correlation": Scatter((Series(EVIL, points),), EVIL, EVIL, EVIL)}
    return Trial(found, 20, {"name": EVIL}, settings, {}, {"frozen": EVIL}, (EVIL,), words, EVIL, charts)


def atlas() -> Any:
    model = {"name": EVIL, "kind": "classifier", "prediction": [[EVIL, 0.9], ["ok", 0.1]], "dtype": EVIL}
    return chart(EVIL, split=False, model=model, notes=(EVIL,))


def picture() -> Any:
    from tests.reports import every_picture

    return every_picture.explanation(EVIL)


def picture_atlas() -> Any:
    from tests.reports import every_picture

    return every_picture.atlas(EVIL)


def features() -> Any:
    from heedful.features.interpretation.results import Explanation, Interpretation, Scores
    from heedful.features.interpretation.scores import AgreementScore
    from heedful.features.reading.examples import Context, Snippet
    from heedful.features.reading.results import (
        Effects,
        FeatureMean,
        FeaturePages,
        LogitEffect,
        Neighbours,
        Page,
        Quantile,
        Reading,
        Readings,
    )

    snippet = Snippet(Context((1, 2, 3), ("the ", EVIL, " cat")), (0.0, 2.0, 0.5), 1, 4)
    scores = Scores(*[AgreementScore(0.7, 0.6, 0.8)] * 3)
    said = Interpretation(3, Explanation(EVIL, EVIL), scores, {"shuffled": scores}, (20, 30), (EVIL,))
    effect = FeatureMean(0.1, (0.0, 0.2), 0.05, (0.0, 0.1), 12)
    logit_effects = (LogitEffect(EVIL, 0.5, 0.1), LogitEffect(" ", -0.2, float("nan")))
    effects = Effects("token", logit_effects, logit_effects, effect, (EVIL,))

    def one(number: int, fired: int) -> Any:
        counts = (fired, 0, 3) if fired else ()
        reading = Reading(
            number,
            fired,
            900,
            (snippet,) * bool(fired),
            (Quantile(0.0, 1.0, (snippet,)),) * bool(fired),
            (snippet,),
            (snippet,),
            counts,
            (0.0, 1.0, 2.0, 3.0) if fired else (),
        )
        return Page(reading, effects, Neighbours((3, 5), (0.4, 0.2), 0.3), 1.0, said, (snippet,))

    pages = (one(3, 40), one(5, 0))
    settings = {"tokens": 900, "context": 32}
    readings = Readings(tuple(p.reading for p in pages), EVIL, EVIL, EVIL, "named", settings, (EVIL,))
    return FeaturePages(pages, readings, {"features": 64, "kind": EVIL})


def sweep() -> Any:
    from heedful.features.steering.results import SteeredText, Sweep, SweepPoint

    def point(method: str, strength: str, size: float) -> Any:
        texts = tuple(SteeredText(p, 0, EVIL, 20.0 + size, 0.1 * size + p, 0.2) for p in range(2))
        return SweepPoint(method, strength, size, texts, MeasuredValue(1.0 + size, 1.0, 3.0))

    points = (point("none", "0", 0.0), point(EVIL, "1x", 1.0), point("random", "1x", 1.0))
    return Sweep(points, (EVIL, "b"), {"name": EVIL}, {"site": EVIL, "seed": 0}, (EVIL,))


def sides() -> Any:
    from heedful.features.steering.results import Continuation, Sides

    before, after = Continuation(EVIL, 20.0, 0.1), Continuation(EVIL, 30.0, 0.2)
    return Sides(EVIL, before, after, 1.5, False, {"name": EVIL}, {"site": EVIL}, (EVIL,))


def splitting() -> Any:
    from heedful.features.measures.splitting import Splitting, WidthStep

    parent = np.array([0, 0, 1, -1, 2, 2, 2, 3])
    cosine = np.array([0.9, 0.8, 0.7, 0.1, 0.6, 0.9, 0.55, 0.99])
    return Splitting((4, 8), (WidthStep(parent, cosine, cosine / 4),), 0.5, 0)


def lab() -> Any:
    from heedful.core import charts
    from heedful.core.document import Figure, Paragraph
    from heedful.core.lab_report import Claim, LabReport, NumberTable

    panel = charts.Panel(EVIL, [[0.1, -0.2], [0.3, 0.4]], EVIL)
    two = [charts.Series(EVIL, [(0.0, 1.0), (1.0, 2.0)], True), charts.Series("b", [(0.5, 0.5)])]
    tree = {"feature": EVIL, "cosine": 1.0, "children": [{"feature": EVIL, "cosine": 0.5, "children": []}]}
    drawn: list[charts.Chart] = [
        charts.Forest([charts.Line(EVIL, 0.5, 0.2, 0.8, 0.1)], EVIL, EVIL, "high", 0.0, EVIL),
        charts.Scatter(two, EVIL, EVIL, EVIL),
        charts.Heat([panel], EVIL),
        charts.Arrows([panel], EVIL),
        charts.Curves([charts.Curve(EVIL, [(1, 2), (2, 3)], [1, 2], [3, 4])], EVIL, EVIL, EVIL),
        charts.Boxes([charts.Box(EVIL, [1.0, 2.0], [1.5])], EVIL, EVIL, [EVIL]),
        charts.Bars([charts.BarGroup(EVIL, [1.0, 2.0])], [EVIL, "b"], EVIL, EVIL),
        charts.BandCurves([charts.BandCurve(EVIL, [(0, 1), (1, 0)], [(0, 0, 1)], EVIL)], EVIL, EVIL, EVIL),
        charts.Matrices([charts.Matrix(EVIL, [[0.5]], [EVIL], [EVIL])], EVIL),
        charts.WordGrid([EVIL], [charts.Scored(EVIL, [0.5], True)], EVIL),
        charts.Histogram([1, 2], [0.0, 1.0, 2.0], EVIL, EVIL),
        charts.Trees([tree], [4, 8], EVIL),
    ]
    parts = [
        Paragraph(EVIL),
        NumberTable(EVIL, ("a", EVIL), ((EVIL, 1.5), ("b", None))),
        Claim(EVIL, 0.5, True, (0.2, 0.8), 0.1, EVIL),
        Claim("another", 0.5, False),
        *(Figure(chart, EVIL, f"f{n}") for n, chart in enumerate(drawn)),
    ]
    return LabReport("toy", EVIL, EVIL, tuple(parts), {"fast": True, "seed": 0, "versions": {"x": EVIL}})


def feature() -> Any:
    from heedful.features.reading.results import SavedFeature

    return SavedFeature(EVIL, "blocks.0.resid", 64, EVIL, features().pages[0])


def pages() -> dict[str, Callable[[], str]]:
    """Kind of page -> how it is made."""
    from tests.reports import every_head

    from heedful.reports import html
    from heedful.reports import splitting as splits

    return {
        "explanation": lambda: explanation().page(),
        "audit": lambda: audit().page(),
        "trial": lambda: trial().page(),
        "atlas": lambda: atlas().page(),
        "picture": lambda: picture().page(),
        "picture_atlas": lambda: picture_atlas().page(),
        "features": lambda: features().page(),
        "sweep": lambda: sweep().page(),
        "sides": lambda: sides().page(),
        "splitting": lambda: html.page(splits.document(splitting(), [EVIL, "b"])),
        "lab": lambda: lab().page(),
        "feature": lambda: feature().page(),
        **{name: lambda make=make: make().page() for name, make in every_head.made(EVIL).items()},
    }


KINDS = tuple(pages())
