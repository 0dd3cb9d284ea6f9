"""A picture that cannot be read is refused before the model is loaded.

Only where the files of the model say that it reads pictures: a model of texts never looks into the file. The
files of a model on the hub are not known before it is loaded, so its pictures are checked later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError

PROCESSORS = ("preprocessor_config.json", "processor_config.json")  # of models that read pictures


def check_picture(model: str, given: Any) -> None:
    """The header of an existing file with the suffix of a picture."""
    from heedful.io.datasets.pictures import SUFFIXES
    from heedful.modalities.image_files import check_header

    if not isinstance(given, str) or not given.lower().endswith(SUFFIXES):
        return
    try:
        is_file = Path(given).is_file()
    except (OSError, ValueError):
        return
    if is_file and _has_processor(model):
        check_header(given)


def _has_processor(model: str) -> bool:
    from heedful.models.zoo import resolve

    try:
        folder = resolve.path(model.removeprefix("zoo:")) if model.startswith("zoo:") else Path(model)
        return any((folder / name).is_file() for name in PROCESSORS)
    except (HeedfulError, OSError, ValueError):
        return False  # what is wrong with the model is said when it is loaded
