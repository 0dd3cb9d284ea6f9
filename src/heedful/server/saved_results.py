"""What is made inside the page, as run folders: an atlas, the page of a feature, a steer.

    atlas     atlas.json and maps.safetensors: the maps themselves, so any view of them can be drawn again
    feature   feature.json
    steer     steer.json

Numbers are stored, never HTML: a run folder that came from elsewhere is drawn, and escaped, by the code of
the report, after heedful.io.json_codec has checked every value by the type it must have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from heedful.core.document import Island
from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.features.steering.results import Sides
from heedful.heads.atlas import Atlas
from heedful.heads.maps import MapAxis, Maps
from heedful.io.files import write_file
from heedful.io.json_codec import from_jsonable, json_object, json_text, to_jsonable
from heedful.modalities.text import TextInput
from heedful.reports import html
from heedful.reports.saved_feature import SavedFeature
from heedful.server.run_view import RunView

MAX_FILE_BYTES = 64 * 1024 * 1024  # bytes of a file that is opened
FORMAT = 1
MAPS = ("weights", "grads", "allowed")


# --- JSON ------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise HeedfulError(f"{path.name} is larger than {MAX_FILE_BYTES // 2**20} MB")
    return json_object(path.read_bytes())


def _write(folder: Path, name: str, data: Mapping[str, Any]) -> None:
    write_file(folder / name, json_text({"format": FORMAT, **data}))


# --- an atlas --------------------------------------------------------------------------------------


def save_atlas(atlas: Atlas, ask: Mapping[str, Any], folder: Path) -> None:
    from safetensors.numpy import save

    stacks = [
        {"stack": m.stack, "queries": m.queries, "keys": m.keys, "causal": m.causal} for m in atlas.stacks
    ]
    results = {
        f"{at}.{name}": array
        for at, maps in enumerate(atlas.stacks)
        for name in MAPS
        if (array := getattr(maps, name)) is not None
    }
    if sum(array.nbytes for array in results.values()) > MAX_FILE_BYTES:
        raise HeedfulError("this atlas is too large to be stored")
    write_file(folder / "maps.safetensors", save(results))
    _write(
        folder,
        "atlas.json",
        {
            "x": atlas.x,
            "stacks": stacks,
            "model": atlas.model,
            "ask": ask,
            "target": atlas.target,
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
        kept = load_file(folder / "maps.safetensors")
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    array_of: Any = kept.get
    stacks = tuple(
        Maps(
            str(one["stack"]),
            queries=from_jsonable(MapAxis, one["queries"]),
            keys=from_jsonable(MapAxis, one["keys"]),
            causal=bool(one["causal"]),
            **{name: array_of(f"{at}.{name}") for name in MAPS},
        )
        for at, one in enumerate(data["stacks"])
    )
    target = None if data["target"] is None else from_jsonable(Target, data["target"])
    readout, notes = tuple(map(float, data["readout"])), tuple(map(str, data["notes"]))
    atlas = Atlas(
        x=from_jsonable(TextInput, data["x"]),
        stacks=stacks,
        model=data["model"],
        target=target,
        readout=readout,
        unit=data["unit"],
        notes=notes,
    )
    return atlas, data["ask"]


def atlas(folder: Path) -> RunView:
    result, ask = load_atlas(folder)
    shown, data = atlas_parts(result)
    return RunView(lambda: shown, result.page, result.to_dict, _question(ask), data)


def atlas_parts(result: Atlas) -> tuple[str, dict[str, Any]]:
    """What is shown without scripts, and the numbers that scripts draw from: for a page that has more."""
    made = result.document()
    (island,) = (node for node in made.nodes if isinstance(node, Island))
    return html.body(made, 2, "atlas-"), dict(island.data)


def _question(ask: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the page explains when it is opened there."""
    names = ("model", "text", "pair", "turns")
    return {name: ask[name] for name in names if ask.get(name) is not None} or None


# --- a feature -------------------------------------------------------------------------------------


def save_feature(saved: SavedFeature, folder: Path) -> None:
    _write(folder, "feature.json", to_jsonable(saved))


def feature(folder: Path) -> RunView:
    kept = read(folder / "feature.json")
    result = from_jsonable(SavedFeature, kept)
    return RunView(lambda: html.body(result.document(), 2), result.page, lambda: kept)


# --- a steer ---------------------------------------------------------------------------------------


def save_steer(result: Mapping[str, Any], folder: Path) -> None:
    _write(folder, "steer.json", result)


def steer(folder: Path) -> RunView:
    data = read(folder / "steer.json")
    result = from_jsonable(Sides, data)
    return RunView(lambda: html.body(result.document(), 2), result.page, lambda: data)


VIEWS: dict[str, Callable[[Path], RunView]] = {"steer": steer, "attention": atlas, "feature": feature}
