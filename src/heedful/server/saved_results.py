"""What is made inside the page, as run folders: an atlas, the page of a feature, a steer.

    atlas     atlas.json and maps.safetensors: the maps themselves, so any view of them can be drawn again
    feature   feature.json
    steer     steer.json

Numbers are stored, never HTML: a run folder that came from elsewhere is drawn, and escaped, by the code of
the report. JSON has no NaN: it is written as a word, and read back as a number where one belongs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.features.reading.feature_pages import Page
from heedful.features.steering.results import Continuation, Sides
from heedful.heads.atlas import Atlas
from heedful.heads.maps import MapAxis, Maps
from heedful.modalities.text import TextInput
from heedful.reports import atlas_page, feature_page, sides_page
from heedful.reports.comparison_page import component, document
from heedful.reports.html_parts import esc
from heedful.server.drawn import Drawn

MAX_FILE_BYTES = 64 * 1024 * 1024  # bytes of a file that is opened
FORMAT = 1
MAPS = ("weights", "grads", "allowed")
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Featured:
    """The page of a feature, and on what it was read."""

    model: str
    site: str
    width: int  # features of the dictionary
    about: str
    page: Page


# --- JSON ------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise HeedfulError(f"{path.name} is larger than {MAX_FILE_BYTES // 2**20} MB")
    with path.open(encoding="utf-8") as file:
        data = json.load(file)
    if not isinstance(data, dict):
        raise ValueError("it should hold a JSON object")
    return data


def _write(folder: Path, name: str, data: Mapping[str, Any]) -> None:
    """Whole, or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_plain({"format": FORMAT, **data}), ensure_ascii=False, allow_nan=False)
    beside = folder / f".{name}.tmp"
    beside.write_text(text, encoding="utf-8")
    beside.replace(folder / name)


def _plain(value: Any) -> Any:
    """What is no finite number is written by name: pydantic reads it back as a number."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _as(kind: type[Kind], data: Any) -> Kind:
    """A dataclass from what `asdict` made of it."""
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        raise ValueError(str(error.errors()[0]["msg"])) from None


# --- an atlas --------------------------------------------------------------------------------------


def save_atlas(atlas: Atlas, ask: Mapping[str, Any], folder: Path) -> None:
    from safetensors.numpy import save_file

    stacks = [
        {"stack": m.stack, "queries": asdict(m.queries), "keys": asdict(m.keys), "causal": m.causal}
        for m in atlas.stacks
    ]
    held = {
        f"{at}.{name}": array
        for at, maps in enumerate(atlas.stacks)
        for name in MAPS
        if (array := getattr(maps, name)) is not None
    }
    if sum(array.nbytes for array in held.values()) > MAX_FILE_BYTES:
        raise HeedfulError("this atlas is too large to be stored")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(held, folder / "maps.safetensors")
    _write(
        folder,
        "atlas.json",
        {
            "x": asdict(atlas.x),
            "stacks": stacks,
            "model": dict(atlas.model),
            "ask": dict(ask),
            "target": None if atlas.target is None else asdict(atlas.target),
            "readout": atlas.readout,
            "unit": atlas.unit,
            "notes": atlas.notes,
        },
    )


def load_atlas(folder: Path) -> tuple[Atlas, dict[str, Any]]:
    """(the atlas, what was asked for)"""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    data = read(folder / "atlas.json")
    try:
        held = load_file(folder / "maps.safetensors")
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    held_of: Any = held.get
    stacks = tuple(
        Maps(
            str(one["stack"]),
            queries=_as(MapAxis, one["queries"]),
            keys=_as(MapAxis, one["keys"]),
            causal=bool(one["causal"]),
            **{name: held_of(f"{at}.{name}") for name in MAPS},
        )
        for at, one in enumerate(data["stacks"])
    )
    target = None if data["target"] is None else _as(Target, data["target"])
    readout, notes = tuple(map(float, data["readout"])), tuple(map(str, data["notes"]))
    atlas = Atlas(
        x=_as(TextInput, data["x"]),
        stacks=stacks,
        model=data["model"],
        target=target,
        readout=readout,
        unit=data["unit"],
        notes=notes,
    )
    return atlas, data["ask"]


def atlas(folder: Path) -> Drawn:
    found, ask = load_atlas(folder)
    html, data = atlas_page.parts(found)
    return Drawn(lambda: html, lambda: atlas_page.page(found), found.to_dict, _question(ask), data)


def _question(ask: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the page explains when it is opened there."""
    names = ("model", "text", "pair", "turns")
    return {name: ask[name] for name in names if ask.get(name) is not None} or None


# --- a feature -------------------------------------------------------------------------------------


def save_feature(found: Featured, folder: Path) -> None:
    _write(folder, "feature.json", asdict(found))


def feature(folder: Path) -> Drawn:
    held = read(folder / "feature.json")
    found = _as(Featured, held)
    title = f"Feature {found.page.feature}"
    return Drawn(
        lambda: _featured(found, 2),
        lambda: document(title, _featured(found, 1), style=component("features.css")),
        lambda: held,
    )


def _featured(found: Featured, size: int) -> str:
    where = f"at <b>{esc(found.site)}</b> of <b>{esc(found.model)}</b>"
    kicker = f'<p class="kicker">Dictionary of {found.width:,} features {where}</p>'
    title = f'<h{size} class="verdict">Feature {found.page.feature}</h{size}>'
    about = f'<ul class="sentences"><li>{esc(found.about)}</li></ul>'
    drawn = feature_page.feature(found.page, size + 1)
    return f"<header>{kicker}{title}{about}</header>\n{drawn}"


# --- a steer ---------------------------------------------------------------------------------------


def save_steer(result: Mapping[str, Any], folder: Path) -> None:
    _write(folder, "steer.json", result)


def steer(folder: Path) -> Drawn:
    data = read(folder / "steer.json")
    before, after = (_side(data[name]) for name in ("before", "after"))
    beside = {str(name): _side(side) for name, side in (data.get("beside") or {}).items()}
    told = {name: data[name] for name in ("size", "same", "model", "settings")}
    found = Sides(data["prompt"], before, after, notes=tuple(data["notes"]), beside=beside, **told)
    return Drawn(lambda: sides_page.body(found, 2), lambda: sides_page.page(found), lambda: data)


def _side(data: Mapping[str, Any]) -> Continuation:
    numbers = {
        name: math.nan if data[name] is None else float(data[name]) for name in ("perplexity", "repetition")
    }
    return _as(Continuation, {**data, **numbers})


DRAWN: dict[str, Callable[[Path], Drawn]] = {"steer": steer, "attention": atlas, "feature": feature}
