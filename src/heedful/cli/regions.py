"""Regions of a picture, as the command line gives them: boxes, and masks in files, by name.

    --region NAME=left,top,right,bottom     one box; repeatable
    --regions FILE                          JSON: {"dog": [10, 20, 110, 90], "cat": "cat-mask.png"}

Both are in pixels of the file of the picture. A mask is white inside, and its path starts at the folder of
the JSON file. Whether they fit is checked when the picture is read (heedful.models.image_reader).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.io.files import read_text
from heedful.modalities.image import MAX_REGIONS, REST
from heedful.modalities.image_masks import read_boxes

MAX_NAME = 60  # characters
EXAMPLE = 'Write {"dog": [10, 20, 110, 90], "cat": "cat-mask.png"}'
TYPED = "Write --region dog=10,20,110,90 (left, top, right, bottom), or name masks in a file: --regions FILE"


def read_region_options(file: Path | None, typed: Sequence[str]) -> dict[str, Any]:
    """By name, boxes or the path of a mask; {} if no option was given."""
    pairs = [*(_from_file(file) if file is not None else []), *map(_typed, typed)]
    regions: dict[str, Any] = {}
    for name, given in pairs:
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise HeedfulError(f"a region cannot be called {name!r:.80}", fix="Give it a short name")
        if name == REST:
            raise HeedfulError(
                f"a region cannot be called {REST!r}",
                "this is what lies in no region",
                "Give it another name",
            )
        if name in regions:
            raise HeedfulError(f"the region {name!r} is given twice", fix="Give each region its own name")
        regions[name] = given
    if len(regions) > MAX_REGIONS:
        raise HeedfulError(f"{len(regions)} regions are too many", f"at most {MAX_REGIONS} are possible")
    return regions


def _typed(option: str) -> tuple[str, Any]:
    name, equals, box = option.rpartition("=")
    if not equals:
        raise HeedfulError(f"cannot read --region {option}", fix=TYPED)
    return name.strip(), _boxes(name.strip(), box, TYPED)


def _from_file(file: Path) -> list[tuple[str, Any]]:
    try:
        pairs = json.loads(read_text(file), object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise HeedfulError(f"{file} is not JSON", str(error)[:100], EXAMPLE) from None
    if not isinstance(pairs, list) or not all(isinstance(one, tuple) for one in pairs):
        raise HeedfulError(f"{file} has no regions by name", fix=EXAMPLE)
    if not pairs:
        raise HeedfulError(f"{file} has no regions", "it is empty", EXAMPLE)
    return [(name.strip(), _given(name, given, file.parent)) for name, given in pairs]


def _given(name: str, given: Any, folder: Path) -> Any:
    if isinstance(given, str) and given.strip():
        return folder / given
    return _boxes(name, given, EXAMPLE)


def _boxes(name: str, given: Any, fix: str) -> Any:
    try:
        boxes = read_boxes(given)
    except HeedfulError:
        boxes = None
    if boxes is None:
        raise HeedfulError(f"the region {name!r:.80} cannot be read", f"it is {given!r:.60}", fix)
    return boxes
