"""The folder of a store while it is harvested: one writer, files whole or not there, settings kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.features.activations.store import manifest_of
from heedful.io.files import locked, write_file, writing
from heedful.io.json_codec import json_bytes, to_jsonable

PART = ".part"  # what is not a store yet


@contextmanager
def opened(folder: Path, made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Alone in the folder: begin, or go on with a harvest made in the same way. Gives its manifest."""
    with locked(folder, "harvest"):
        yield _begun(folder, to_jsonable(made))


def _begun(folder: Path, made: dict[str, Any]) -> dict[str, Any]:
    if not (folder / "manifest.json").exists():
        if (folder / "shards").exists():
            raise HeedfulError(f"{folder} contains shards but no manifest", fix="Name another folder")
        with writing(folder):
            write_file(folder / "manifest.json", json_bytes(made))
        return made
    there = manifest_of(folder)
    differ = [name for name in made if there.get(name) != made[name] and name != "name"]
    if differ:
        text = "; ".join(_difference(name, there.get(name), made[name]) for name in differ)
        raise HeedfulError(
            f"{folder} was harvested differently: {text}", fix="Name another folder, or remove this one"
        )
    return there


def _difference(name: str, there: Any, here: Any) -> str:
    if isinstance(there, dict) and isinstance(here, dict):
        keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
        return ", ".join(f"{name} {key} was {there.get(key)}, is {here.get(key)}" for key in keys)
    return f"{name} was {there}, is {here}"


def complete(folder: Path, manifest: Mapping[str, Any]) -> None:
    """The manifest of a finished store; nothing else is left."""
    with writing(folder):
        write_file(folder / "manifest.json", json_bytes(manifest))
        shutil.rmtree(folder / PART, ignore_errors=True)
