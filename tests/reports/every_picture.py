"""An explanation and an atlas of one picture, made by hand; `evil` is in every place from outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.cost import Cost
from heedful.core.evidence import Evidence
from heedful.core.internals import AttentionSummary, Internals, Removal
from heedful.core.target import Target
from heedful.heads.atlas import Atlas
from heedful.heads.maps import Maps
from heedful.heads.picture_capture import patch_side
from heedful.modalities.image import ImageInput

METHODS = (("occlusion", True), ("gradcam", False), ("lime", True), ("edges", False), ("random", True))
SKILLS = {"occlusion": 0.9, "gradcam": 0.2, "lime": 0.8, "edges": 0.4}
ORDERS = tuple(np.linspace(-0.5, 0.1, 99))


def shown(evil: str = "cat.png", size: tuple[int, int] = (32, 48), regions: Any = ()) -> ImageInput:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    return ImageInput(pixels, (4, 6), 1, regions, evil, (evil,))


def explanation(evil: str = "cat", unit: str = "patch", x: ImageInput | None = None) -> Comparison:
    x = x or shown(evil)
    d, rng = len(x.units(unit)), np.random.default_rng(1)
    items = []
    for name, signed in METHODS:
        scores = rng.normal(size=d)
        found = scores if signed else np.abs(scores)
        cost = Cost(10, 1, 9, 1234, 0.5)
        target = Target("class", 1, evil)
        items.append(
            Attribution(x, target, found, name, output=2.5, signed=signed, cost=cost, over=x.units(unit).name)
        )
    weighed = tuple(
        Evidence(
            metric,
            "blur",
            name,
            skill,
            0.0,
            1.0,
            skill,
            (np.nan, np.nan),
            1,
            (-0.5, 0.1),
            False,
            ORDERS,
            "high",
            family,
        )
        for name, skill in SKILLS.items()
        for metric, family in (("comprehensiveness", "remove-top"), ("sufficiency", "keep-top"))
    )
    steps = (0.0, 0.1, 0.2, 0.5, 1.0)
    curve = {name: tuple((s, 1.0 - s) for s in steps) for name in (evil, "lime")}
    band = tuple((s, 0.5 - s, 0.9 - s) for s in steps)
    alone = items[0].unit_scores(unit)
    partly = tuple(float(v) if i % 2 else float("nan") for i, v in enumerate(alone))
    removals = (Removal("blur", partly, curve, band, curve, band), Removal(evil, tuple(alone.tolist())))
    weights = tuple(tuple(rng.random(d).tolist()) for _ in range(2))
    return Comparison(
        tuple(items),
        model={"name": evil, "kind": "classifier", "prediction": [[evil, 0.9], ["ok", 0.1]]},
        settings={"unit": unit, "source": evil, "versions": {"x": evil}, "seed": 0},
        skipped={evil: evil},
        evidence=weighed,
        internals=Internals(removals, AttentionSummary(weights, (0.1, 0.2))),
    )


def atlas(evil: str = "cat") -> Atlas:
    x, rng = shown(evil), np.random.default_rng(2)
    side = patch_side(x)
    weights = rng.random((2, 3, 25, 25)).astype(np.float32) ** 8
    maps = Maps("self", weights / weights.sum(-1, keepdims=True), side, side, grid=x.grid)
    model = {"name": evil, "kind": "classifier", "prediction": [[evil, 0.9], ["ok", 0.1]], "dtype": evil}
    return Atlas(x, (maps,), model, unit="patch", notes=(evil,))
