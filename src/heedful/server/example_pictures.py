"""Pictures to start with: those in the folder `examples` of a zoo model, which were not used in training."""

from __future__ import annotations

from importlib.resources import files

from heedful.core.model import Model
from heedful.modalities.image_files import read_picture
from heedful.models.zoo import resolve
from heedful.server.picture_store import PictureStore
from heedful.server.schemas import responses


def examples(name: str, model: Model, store: PictureStore) -> list[responses.ExamplePicture]:
    """Named after their files, "a-red-circle.png"; kept as long as the server runs."""
    known = [f"zoo:{entry.name}" for entry in resolve.entries() if entry.embedded]
    if name not in known or "picture" not in model.capabilities:
        return []
    folder = files("heedful").joinpath("zoo", name.removeprefix("zoo:"), "examples")
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".png")), key=lambda f: f.name)
    return [
        responses.ExamplePicture(
            id=store.keep(read_picture(file.read_bytes()), always=True).number,
            label=file.name.removesuffix(".png").replace("-", " "),
        )
        for file in found
    ]
