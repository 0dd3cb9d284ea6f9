"""An explanation as JSON and back, the text and target that all methods share written once.

    result.json      everything: the input as the model read it, the target, every method's scores
    scores.parquet   one row per method and token of a text, or per method and unit of another input

`words`, `special_mass`, `input_shares` and `agreement` in the JSON are views for other readers; loading
computes them again. `written_x` is what the model had already written, whose scores are in the JSON alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heedful._version import __version__
from heedful.comparisons.result import Comparison, matrices, share_by_count
from heedful.core.attribution import Attribution, UnitScore
from heedful.core.target import Target
from heedful.io.input_codec import input_from_dict, input_to_dict
from heedful.io.json_codec import from_jsonable, to_jsonable
from heedful.io.run_folder import refusing_damage
from heedful.io.score_table import score_table

SCORES = "scores.parquet"
MAX_METHODS = 64  # of one explanation: twice those that there are


def _scores_to_dict(item: Attribution) -> dict[str, Any]:
    """What one method says, without the text and target that all methods of a comparison share."""
    data = to_jsonable(item)
    shared = {name: data.pop(name) for name in ("x", "target", "written")}
    if not item.asked:
        data.pop("asked")
    part = item.of_written()
    written = part and {
        **{name: shared["written"][name] for name in ("scores", "stderr", "same_scale")},
        "words": [_unit(one) for one in part.words()],
    }
    views = {"words": [_unit(one) for one in item.words()], "special_mass": to_jsonable(item.special_mass)}
    return {**data, **views, "written": written}


def _unit(one: UnitScore) -> dict[str, Any]:
    """A unit with its place: characters of a text, or a box."""
    place = {"start": one.start, "end": one.end} if len(one.region) == 2 else {"box": list(one.region)}
    return {"text": one.text, "score": to_jsonable(one.score), "stderr": to_jsonable(one.stderr), **place}


def _written_x(items: Sequence[Attribution]) -> dict[str, Any] | None:
    return next((to_jsonable(item.written.x) for item in items if item.written is not None), None)


def _target(target: Target) -> dict[str, Any]:
    return {**to_jsonable(target), "name": target.name}


def to_dict(result: Attribution | Comparison) -> dict[str, Any]:
    """JSON-ready: what `.to_dict()` of both gives."""
    return comparison_to_dict(result) if isinstance(result, Comparison) else attribution_to_dict(result)


def attribution_to_dict(item: Attribution, keep: str = "png") -> dict[str, Any]:
    """One method's answer with its text and target; `keep`: what is stored of a picture."""
    return {
        "heedful": __version__,
        "x": input_to_dict(item.x, keep),
        "target": _target(item.target),
        "written_x": _written_x([item]),
        **_scores_to_dict(item),
    }


def comparison_to_dict(comparison: Comparison) -> dict[str, Any]:
    """Every method's answer, the text and target written once."""
    first = comparison.attributions[0] if comparison.attributions else None
    if first and any((item.x, item.target) != (first.x, first.target) for item in comparison.attributions):
        raise ValueError("a Comparison holds methods on one text and one target; these differ")
    return {
        "heedful": __version__,
        "x": input_to_dict(first.x, comparison.settings.get("keep", "png")) if first else None,
        "target": _target(first.target) if first else None,
        "written_x": _written_x(comparison.attributions),
        "input_shares": to_jsonable(comparison.input_shares()),
        "input_share_by_count": share_by_count(comparison),
        "model": to_jsonable(comparison.model),
        "settings": to_jsonable(comparison.settings),
        "skipped": to_jsonable(comparison.skipped),
        "evidence": to_jsonable(comparison.evidence),
        "internals": to_jsonable(comparison.internals),
        "verdict": comparison.verdict if comparison.evidence else None,
        "attributions": [_scores_to_dict(item) for item in comparison.attributions],
        "agreement": to_jsonable(matrices(comparison)) if first else None,
    }


def _attribution(data: Mapping[str, Any], shared: Mapping[str, Any]) -> Attribution:
    """`shared`: the text, the target, and what had been written, of all methods."""
    part = data.get("written") and {**data["written"], "x": shared["written_x"]}
    item = from_jsonable(Attribution, {**data, "x": shared["x"], "target": shared["target"], "written": part})
    for scored in (item,) if item.written is None else (item, item.written):
        if scored.stderr is not None and len(scored.stderr) != len(scored.scores):
            counts = f"{len(scored.stderr)} standard errors for {len(scored.scores)} scores"
            raise ValueError(f"{item.method}: {counts}")
    return item


def from_stored(cls: type[Any], data: Mapping[str, Any]) -> Attribution | Comparison:
    """The inverse of `to_dict`; what does not fit raises, in whatever way."""
    if issubclass(cls, Attribution):
        return _attribution(data, _shared(data))
    _check_methods([str(item["method"]) for item in data["attributions"]])
    shared = _shared(data) if data["attributions"] else {}
    items = [_attribution(item, shared) for item in data["attributions"]]
    return from_jsonable(Comparison, {**data, "attributions": items})


def _check_methods(methods: Sequence[str]) -> None:
    """Each once, and not more than a page can show: every pair of them is compared."""
    if len(methods) > MAX_METHODS:
        raise ValueError(f"it has {len(methods):,} methods, more than {MAX_METHODS}")
    if len(set(methods)) < len(methods):
        raise ValueError("a method is there twice")


def comparison_from_dict(data: Mapping[str, Any]) -> Comparison:
    """The inverse of `comparison_to_dict`; what does not fit is told in one sentence."""
    with refusing_damage("this explanation"):
        result = from_stored(Comparison, data)
    assert isinstance(result, Comparison)
    return result


def _shared(data: Mapping[str, Any]) -> dict[str, Any]:
    written = data.get("written_x")
    return {
        "x": input_from_dict(data["x"]),
        "target": from_jsonable(Target, data["target"]),
        "written_x": None if written is None else input_from_dict(written),
    }


def blobs(result: Attribution | Comparison) -> dict[str, bytes]:
    """The scores as a table, for other programs."""
    comparison = result if isinstance(result, Comparison) else Comparison((result,))
    return {SCORES: score_table(comparison.attributions, str(comparison.settings.get("unit") or ""))}


def run_title(result: Attribution | Comparison) -> str:
    """The prediction and the text."""
    if isinstance(result, Comparison):
        if not result.attributions:
            return ""
        predicted = result.model.get("prediction") or [[""]]
        return f"{str(predicted[0][0]).strip()}: {result.x.title}"
    return f"{result.method} of {result.target.name}: {result.x.title}"
