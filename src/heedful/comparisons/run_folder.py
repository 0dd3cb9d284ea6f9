"""Run folders: an explanation on disk, opened again without torch or the model.

    run/manifest.json     format, heedful version, settings, model facts, SHA-256 of the other files
    run/comparison.json   everything: the encoded text, the target, every method's scores
    run/scores.parquet    one row per method x token: method, position, token, word, start, end, score, stderr

Numbers are written as Python prints float64, so they come back bit for bit. JSON has no NaN: a NaN is written
as null and an infinity as "Infinity" or "-Infinity". `words`, `special_mass`, `input_shares` and `agreement`
in the JSON are views for other readers; loading works them out again. `written_x` is what the model had
already written, whose scores stand in the JSON alone. Each file is written beside its place and renamed into
it, the manifest last, so a folder is either whole or is refused when opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from heedful._version import __version__
from heedful.comparisons.result import Comparison, matrices, share_by_count
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution, Written
from heedful.core.cost import Cost
from heedful.core.errors import HeedfulError
from heedful.core.evidence import Evidence
from heedful.core.internals import ActiveFeatures, AttentionSummary, FeatureEffect, Internals, Removal
from heedful.core.target import Target
from heedful.io.files import read_file, write_atomic
from heedful.io.json_codec import floats_from_json, json_bytes, json_number, parse, to_jsonable
from heedful.modalities.text import TextInput, text_of

FORMAT = 1


FILES = ("comparison.json", "scores.parquet")


def _scores_to_dict(item: Attribution) -> dict[str, Any]:
    """What one method says, without the text and target that all methods of a comparison share."""
    words = (asdict(word) for word in item.words())
    return {
        "method": item.method,
        "signed": item.signed,
        "output": json_number(item.output),
        "base": None if item.base is None else json_number(item.base),
        "scores": [json_number(value) for value in item.scores.tolist()],
        "stderr": None if item.stderr is None else [json_number(value) for value in item.stderr.tolist()],
        "words": [to_jsonable(word) for word in words],
        "special_mass": json_number(item.special_mass),
        "params": to_jsonable(item.params),
        "cost": asdict(item.cost),
        "notes": list(item.notes),
        "fitted_by": None if item.fitted_by is None else list(item.fitted_by),
        "written": None if (part := item.of_written()) is None else _written_to_dict(item, part),
    }


def _written_to_dict(item: Attribution, part: Attribution) -> dict[str, Any]:
    """Scores of what was written, without its text, which all methods of a comparison share."""
    assert item.written is not None
    return {
        "scores": [json_number(value) for value in part.scores.tolist()],
        "stderr": None if part.stderr is None else [json_number(value) for value in part.stderr.tolist()],
        "same_scale": item.written.same_scale,
        "words": [to_jsonable(asdict(word)) for word in part.words()],
    }


def _written_x(items: Sequence[Attribution]) -> dict[str, Any] | None:
    found = [to_jsonable(item.written.x.to_dict()) for item in items if item.written is not None]
    return found[0] if found else None


def to_dict(result: Attribution | Comparison) -> dict[str, Any]:
    """JSON-ready: what `.to_dict()` of both gives."""
    return comparison_to_dict(result) if isinstance(result, Comparison) else attribution_to_dict(result)


def attribution_to_dict(item: Attribution) -> dict[str, Any]:
    """One method's answer with its text and target."""
    return {
        "heedful": __version__,
        "format": FORMAT,
        "x": to_jsonable(item.x.to_dict()),
        "target": {**to_jsonable(asdict(item.target)), "name": item.target.name},
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
        "format": FORMAT,
        "x": to_jsonable(first.x.to_dict()) if first else None,
        "target": {**to_jsonable(asdict(first.target)), "name": first.target.name} if first else None,
        "written_x": _written_x(comparison.attributions),
        "input_shares": to_jsonable(comparison.input_shares()),
        "input_share_by_count": share_by_count(comparison),
        "model": to_jsonable(comparison.model),
        "settings": to_jsonable(comparison.settings),
        "skipped": to_jsonable(comparison.skipped),
        "evidence": [to_jsonable(asdict(found)) for found in comparison.evidence],
        "internals": to_jsonable(asdict(comparison.internals)),
        "verdict": comparison.verdict if comparison.evidence else None,
        "attributions": [_scores_to_dict(item) for item in comparison.attributions],
        "agreement": to_jsonable(matrices(comparison)) if first else None,
    }


def _encoded(data: Mapping[str, Any]) -> TextInput:
    spans = {name: tuple((int(a), int(b)) for a, b in data[name]) for name in ("offsets", "word_spans")}
    x = TextInput(
        text=data["text"],
        ids=tuple(data["ids"]),
        tokens=tuple(data["tokens"]),
        offsets=spans["offsets"],
        special=tuple(data["special"]),
        words=tuple(data["words"]),
        word_spans=spans["word_spans"],
        segments=tuple(data["segments"]),
        type_ids=None if data["type_ids"] is None else tuple(data["type_ids"]),
        notes=tuple(data["notes"]),
    )
    lengths = {len(x.tokens), len(x.offsets), len(x.special), len(x.words), len(x.segments), len(x.ids)}
    if len(lengths) > 1 or any(not -1 <= word < len(x.word_spans) for word in x.words):
        raise ValueError("the parts of the encoded text do not fit together")
    return x


def _target(data: Mapping[str, Any]) -> Target:
    return Target(
        kind=data["kind"],
        index=data["index"],
        label=data["label"],
        position=data["position"],
        sequence=tuple(data["sequence"]),
        given=tuple(data.get("given", ())),
        contrast=data["contrast"],
        contrast_label=data["contrast_label"],
        contrast_sequence=tuple(data.get("contrast_sequence", ())),
    )


def _errors(data: Mapping[str, Any], x: TextInput, method: str) -> Floats | None:
    stderr = None if data["stderr"] is None else floats_from_json(data["stderr"])
    if stderr is not None and len(stderr) != len(x):
        raise ValueError(f"{method}: {len(stderr)} standard errors for {len(x)} tokens")
    return stderr


def _written(data: Mapping[str, Any], x: TextInput | None) -> Written | None:
    """Runs of before what was written was scored have none."""
    part = data.get("written")
    if part is None:
        return None
    if x is None:
        raise ValueError("there are scores of what was written, but not what it was")
    return Written(x, floats_from_json(part["scores"]), _errors(part, x, data["method"]), part["same_scale"])


def _attribution(
    data: Mapping[str, Any], x: TextInput, target: Target, written: TextInput | None
) -> Attribution:
    return Attribution(
        x=x,
        target=target,
        scores=floats_from_json(data["scores"]),
        method=data["method"],
        params=data["params"],
        stderr=_errors(data, x, data["method"]),
        output=float(floats_from_json([data["output"]])[0]),
        base=None if data["base"] is None else float(data["base"]),
        signed=data["signed"],
        cost=Cost(**data["cost"]),
        notes=tuple(data["notes"]),
        fitted_by=None if data.get("fitted_by", ()) is None else tuple(data.get("fitted_by", ())),
        written=_written(data, written),
    )


def _evidence(data: Mapping[str, Any]) -> Evidence:
    numbers = {
        name: float(floats_from_json([data[name]])[0]) for name in ("value", "control", "best", "skill")
    }
    pairs = {name: tuple(floats_from_json(data[name]).tolist()) for name in ("interval", "chance")}
    return Evidence(**{**data, **numbers, **pairs, "orders": _row(data.get("orders", ()))})


def _inside(data: Mapping[str, Any]) -> Internals:
    """Runs of before it was kept have none."""
    looked, fired = data.get("looked"), data.get("fired")
    return Internals(
        tuple(map(_removal, data.get("removals", ()))),
        looked and AttentionSummary(_rows(looked["weights"]), _row(looked["special"]), looked["cross"]),
        fired and _fired(fired),
    )


def _removal(data: Mapping[str, Any]) -> Removal:
    curves = {method: _rows(points) for method, points in data["curves"].items()}
    return Removal(data["operator"], _row(data["alone"]), curves, _rows(data["band"]))


def _fired(data: Mapping[str, Any]) -> ActiveFeatures:
    together, everything = _row([data["together"], data["everything"]])
    firings = tuple(map(_firing, data["features"]))
    band, control = _row(data["band"]), _row(data["control"])
    return ActiveFeatures(
        site=data["site"],
        features=firings,
        active=data["active"],
        together=together,
        everything=everything,
        band=band,
        control=control,
        notes=tuple(data["notes"]),
    )


def _firing(data: Mapping[str, Any]) -> FeatureEffect:
    effect, estimate, strength = _row([data[name] for name in ("effect", "estimate", "strength")])
    return FeatureEffect(data["feature"], effect, estimate, strength, tuple(data["words"]))


def _row(values: Any) -> Any:
    return tuple(floats_from_json(values).tolist())


def _rows(values: Any) -> Any:
    return tuple(map(_row, values))


def comparison_from_dict(data: Mapping[str, Any]) -> Comparison:
    """The inverse of `comparison_to_dict`."""
    try:
        if not isinstance(data["format"], int) or data["format"] > FORMAT:
            raise HeedfulError(
                f"This run has format {data['format']}",
                f"heedful {__version__} reads up to {FORMAT}",
                "Upgrade heedful with: pip install --upgrade heedful",
            )
        items: tuple[Attribution, ...] = ()
        if data["attributions"]:
            x, target = _encoded(data["x"]), _target(data["target"])
            written = _encoded(data["written_x"]) if data.get("written_x") else None
            items = tuple(_attribution(item, x, target, written) for item in data["attributions"])
        evidence = tuple(_evidence(found) for found in data.get("evidence", ()))
        model, settings, skipped = (dict(data[name]) for name in ("model", "settings", "skipped"))
        return Comparison(
            attributions=items,
            model=model,
            settings=settings,
            skipped=skipped,
            evidence=evidence,
            internals=_inside(data.get("internals") or {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HeedfulError("This is not a heedful comparison", f"{type(error).__name__}: {error}") from error


def _parquet(comparison: Comparison) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def safe(text: str) -> str:  # half of a surrogate pair is no UTF-8; the JSON keeps it as it is
        return text.encode("utf-8", "replace").decode()

    rows: list[tuple[Any, ...]] = []
    for item in comparison.attributions:
        x, errors = text_of(item.x), [None] * len(item.x) if item.stderr is None else item.stderr.tolist()
        for position, (token, word, (start, end)) in enumerate(
            zip(x.tokens, x.words, x.offsets, strict=True)
        ):
            score = float(item.scores[position])
            rows.append((item.method, position, safe(token), word, start, end, score, errors[position]))
    fields = [
        ("method", pa.string()),
        ("position", pa.int64()),
        ("token", pa.string()),
        ("word", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("score", pa.float64()),
        ("stderr", pa.float64()),
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    table = pa.table(
        [pa.array(c, kind) for c, (_, kind) in zip(columns, fields, strict=True)], pa.schema(fields)
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def save(comparison: Comparison, folder: Path) -> Path:
    """Write a run folder. Other files in the folder are left alone."""
    folder = Path(folder)
    data = comparison_to_dict(comparison)
    contents = dict(zip(FILES, (json_bytes(data), _parquet(comparison)), strict=True))
    manifest = {
        "heedful": __version__,
        "format": FORMAT,
        "methods": list(comparison),
        "settings": data["settings"],
        "model": data["model"],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomic(folder / name, content)
        write_atomic(folder / "manifest.json", json_bytes(manifest))
    except OSError as error:
        raise HeedfulError(
            f"Cannot write the run to {folder}", error.strerror or str(error), "Name another folder"
        ) from error
    return folder


def load(folder: Path) -> Comparison:
    """Open a run folder, after comparing every file with the manifest's checksum."""
    folder = Path(folder)
    manifest = parse(read_file(folder / "manifest.json"), folder / "manifest.json")
    sums = manifest.get("files")
    contents = {name: read_file(folder / name) for name in FILES}
    for name, content in contents.items():
        if not isinstance(sums, dict) or hashlib.sha256(content).hexdigest() != sums.get(name):
            raise HeedfulError(
                f"{folder / name} is damaged", "its checksum is not the manifest's", "Make the run again"
            )
    return comparison_from_dict(parse(contents[FILES[0]], folder / FILES[0]))
