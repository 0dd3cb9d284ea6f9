"""Pictures to start with: of a zoo model, some that come with the package and were not used in training."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np

from heedful.core.model import Model
from heedful.modalities.image_files import Picture, read_picture
from heedful.server.picture_store import PictureStore
from heedful.server.schemas import responses

DIGITS = (3, 5, 8, 0, 7, 4)
PHOTOGRAPHS = ("chelsea", "coffee", "rocket")
DATA = files("heedful").joinpath("labs", "data")


def examples(name: str, model: Model, store: PictureStore) -> list[responses.ExamplePicture]:
    """Kept as long as the server runs."""
    if not name.startswith("zoo:") or "picture" not in model.capabilities:
        return []
    found = digits() if tuple(model.labels) == tuple("0123456789") else photographs()
    return [
        responses.ExamplePicture(id=store.keep(picture, always=True).number, label=label)
        for label, picture in found.items()
    ]


def digits() -> dict[str, Picture]:
    """The first of a few digits in the test data."""
    with as_file(DATA.joinpath("digits.npz")) as path, np.load(path, allow_pickle=False) as kept:
        images, labels = kept["test_images"], kept["test_labels"]
    return {str(digit): read_picture(images[int(np.flatnonzero(labels == digit)[0])]) for digit in DIGITS}


def photographs() -> dict[str, Picture]:
    return {name: read_picture(DATA.joinpath(f"{name}.jpg").read_bytes()) for name in PHOTOGRAPHS}
