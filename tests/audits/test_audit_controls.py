"""Controls of pictures in an audit: they always run, are never recommended, and methods stand beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.audits.estimate import estimate_audit
from heedful.audits.settings import resolve_settings
from heedful.core import registry
from heedful.core.defaults import AUDIT_CONTROLS, CONTROLS
from heedful.core.errors import HeedfulError
from heedful.models.image_reader import ImageReader

SIZE, CELL = 16, 4
CHOSEN = {"metrics": ["comprehensiveness", "sufficiency"], "draws": 10, "unit": "grid:4"}


def pictures(n: int, noisy: bool = True) -> list[np.ndarray]:
    """One flat cell that is a little brighter than the rest, at another place each. With noise on the left,
    the edges are there; without, they are those of the cell."""
    made = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        picture = np.full((SIZE, SIZE, 3), 125, np.uint8)
        if noisy:
            picture[:, : SIZE // 2] = rng.integers(0, 125, (SIZE, SIZE // 2, 3))
        else:
            picture[:] = rng.integers(60, 62, picture.shape)  # no picture is a copy
        row, column = rng.integers(0, 4) * CELL, SIZE // 2 + rng.integers(0, 2) * CELL
        picture[row : row + CELL, column : column + CELL] = 140 if noisy else 255
        made.append(picture)
    return made


def bright(batch: list[np.ndarray]) -> Any:
    """How much of the picture is bright: the flat cell is the whole reason."""
    values = [float((p > 130).mean()) for p in batch]
    return [[40 * value, -40 * value] for value in values]


def loaded(function: Any) -> heedful.Model:
    return heedful.load(function, modality="image", labels=["yes", "no"], processor=ImageReader((SIZE, SIZE)))


COPY = "edges-under-another-name"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An audit of 22 pictures that names two controls, and a method that copies one of them."""
    registry.explainer(COPY, needs={"picture", "values"}, cite="none", signed=False)(
        registry.get("edges").run
    )
    place, given = tmp_path_factory.mktemp("controls") / "run", pictures(22, noisy=False)
    heedful.audit(loaded(bright), given, methods=["edges", "centre", COPY], out=place, **CHOSEN)
    yield place
    registry.forget(COPY)


def test_a_named_control_is_no_method_of_the_verdict(run: Path) -> None:
    verdict = heedful.Audit.load(run).verdict
    assert [one.method for one in verdict.methods] == [COPY]
    assert [one.control for one in verdict.controls] == ["edges", "smooth-random", "centre"]
    assert verdict.controls[0].share == verdict[COPY].share
    assert verdict.controlled == 22
    assert not set(verdict.better) & set(CONTROLS)


def test_a_method_not_shown_better_is_named_in_the_first_sentence_and_the_json(run: Path) -> None:
    """The only edges are those of the cell that is the reason: the copy beats random orders."""
    audit = heedful.Audit.load(run)
    assert audit.verdict.use == COPY
    assert audit.verdict.headline.startswith(f"Use {COPY}, not shown better than edges")
    data = json.loads((run / "result.json").read_text())
    assert data["verdict"]["not_shown_better"]["edges"] == [COPY]
    assert set(data["verdict"]["methods"][0]["against"]) == {"edges", "smooth-random", "centre"}
    for told in (str(audit), audit.page()):
        assert "Not shown better than edges" in " ".join(told.split())
        assert "edges (control)" in told


def test_the_numbers_are_computed_again_from_the_shards(run: Path) -> None:
    audit = heedful.Audit.load(run)
    assert audit.verified
    assert audit.check().verdict == audit.verdict


def test_both_controls_run_whatever_was_named(tmp_path: Path) -> None:
    audit = heedful.audit(loaded(bright), pictures(22), methods=["occlusion"], out=tmp_path / "run", **CHOSEN)
    assert audit.made["settings"]["methods"] == ["occlusion"]
    assert audit.made["settings"]["controls"] == list(AUDIT_CONTROLS)
    assert audit.verdict["occlusion"].not_shown_better == ()  # the reason is no edge
    assert audit.verdict.headline == "Use occlusion: it beat random orders on 22 of 22 pictures."
    assert "Better than edges and smooth-random on 22 pictures: occlusion." in audit.verdict.sentences
    assert "not shown better than" in audit.page()  # the column of the table by method


def test_defaults_are_methods_and_texts_have_no_such_controls() -> None:
    settings = resolve_settings(loaded(bright))
    assert not set(settings.methods) & set(CONTROLS)
    assert settings.controls == AUDIT_CONTROLS
    full = resolve_settings(loaded(bright), full=True)
    assert not set(full.methods) & set(CONTROLS)
    assert set(full.controls) == set(CONTROLS) - {"random"}
    assert resolve_settings(heedful.load("zoo:sentiment")).controls == ()


def test_a_control_alone_is_nothing_to_audit() -> None:
    with pytest.raises(HeedfulError, match=r"no method to audit: edges, random does not look"):
        heedful.audit(loaded(bright), pictures(3), methods=["edges", "random"], **CHOSEN)


def test_scores_from_elsewhere_are_compared_with_the_controls_and_cannot_take_their_name() -> None:
    given, model = pictures(22), loaded(bright)
    scores = {"mine": [(picture[..., 0] == 140).astype(float) for picture in given]}
    audit = heedful.weigh(model, given, scores, fitted_by="nothing", unit="grid:4", draws=10)
    assert set(audit.verdict["mine"].against) == set(AUDIT_CONTROLS)
    assert audit.verdict["mine"].not_shown_better == ()
    with pytest.raises(HeedfulError, match="name of a control"):
        heedful.weigh(model, given, {"edges": scores["mine"]}, fitted_by="nothing", unit="grid:4")


def test_the_plan_tells_what_the_controls_cost() -> None:
    options = {
        "methods": ["occlusion"],
        "metrics": ["comprehensiveness"],
        "operators": None,
        "unit": "grid:4",
    }
    plan = estimate_audit(loaded(bright), pictures(22), **options)
    assert plan.controls == AUDIT_CONTROLS
    orders = 2 * len(plan.operators)  # two controls under each operator, five steps of removal each
    assert plan.control_rows_per_text == 5 * orders
    assert (
        f"To compare with edges and smooth-random, which do not look at the model, takes {5 * orders}"
        in str(plan)
    )
    assert plan.line.startswith("1 method and 2 controls × 1 metric × 22 pictures")


def test_controls_take_every_turn_of_the_operators() -> None:
    audit = heedful.audit(loaded(bright), pictures(20), methods=["occlusion"], operators="all", **CHOSEN)
    assert audit.verdict.controlled == 20
    assert audit.verdict["occlusion"].not_shown_better == ()


def test_an_audit_that_stops_early_has_its_own_test_of_controls() -> None:
    audit = heedful.audit(loaded(bright), pictures(26), methods=["occlusion"], until_decided=True, **CHOSEN)
    verdict = audit.verdict
    assert verdict.looked_always
    assert verdict.controlled == 0 or set(verdict["occlusion"].against) == set(AUDIT_CONTROLS)


@pytest.mark.parametrize("metric", ["pointing", "pointing-mass", "pointing-iou"])
def test_metrics_of_where_a_thing_is_have_the_bump_in_the_middle(metric: str) -> None:
    settings = resolve_settings(loaded(bright), ["occlusion"], [metric, "comprehensiveness"])
    assert settings.controls == ("edges", "smooth-random", "centre")
    assert resolve_settings(loaded(bright), ["occlusion"], ["comprehensiveness"]).controls == AUDIT_CONTROLS
