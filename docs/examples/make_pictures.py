"""Writes the example pictures: digit scenes with masks for pictures.csv, and shape scenes with captions.

    pictures.csv, pictures/*.png    24 scenes with one digit: path, label, mask
    scenes.csv, scenes/*.png        6 scenes with shapes: path, caption, and one mask per thing

Drawn from digits and backgrounds that no embedded model was trained on. Run:
python docs/examples/make_pictures.py
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from PIL import Image

from heedful.labs.data.digit_scenes import digit_scenes
from heedful.labs.data.shape_scenes import shape_scenes

HERE = Path(__file__).resolve().parent
DIGITS, SHAPES = 24, 6
SEED = 29


def save(array: Any, path: str) -> str:
    """A PNG beside this script; masks in one bit per pixel."""
    file = HERE / path
    file.parent.mkdir(exist_ok=True)
    Image.fromarray(array).save(file, optimize=True)
    return path


def write_table(name: str, rows: list[dict[str, str]]) -> None:
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    rows = []
    for number, scene in enumerate(digit_scenes(DIGITS, split="test", seed=SEED), 1):
        name = f"pictures/{number:02}"
        mask = save(scene.masks[0], f"{name}-mask.png")
        rows.append({"path": save(scene.picture, f"{name}.png"), "label": scene.labels[0], "mask": mask})
    write_table("pictures.csv", rows)
    scenes = shape_scenes(SHAPES // 2, count=1, seed=SEED) + shape_scenes(SHAPES // 2, count=2, seed=SEED)
    rows = []
    for number, scene in enumerate(scenes, 1):
        name = f"scenes/{number}"
        masks = [save(mask, f"{name}-mask-{at}.png") for at, mask in enumerate(scene.masks, 1)]
        row = {"path": save(scene.picture, f"{name}.png"), "caption": scene.caption}
        rows.append(row | {"mask_1": masks[0], "mask_2": masks[1] if len(masks) > 1 else ""})
    write_table("scenes.csv", rows)


if __name__ == "__main__":
    main()
