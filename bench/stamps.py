"""Pictures of single things with masks: the stamps of Tux Paint (a Debian package), pulled, never committed.

    apt-get download tuxpaint-stamps-default   →  checked by SHA-256  →  dpkg-deb -x into the cache

A stamp is usable if it is a photograph with a mask (1 to 95 % of its area are opaque, in many colours) and
the first line of its caption ends in a word by which ImageNet calls a class ("A frog." → tree frog, tailed
frog, bullfrog). Its alpha is the mask. Artwork GPL-2; captions in UTF-8.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

PACKAGE = "tuxpaint-stamps-default"
SHA256 = "6db6c1bfc870a47f1499d6203b083522eacb57c5f9c87d468f2e92eb6d9d5f34"
FOLDER = "usr/share/tuxpaint/stamps"
COLOURS = 2000  # least distinct colours of a photograph
OPAQUE = 0.9  # alpha from which a place belongs to the thing


@dataclass(frozen=True)
class Stamp:
    """A thing on nothing."""

    name: str
    caption: str
    colours: Any  # (h, w, 3) uint8
    alpha: Any  # (h, w) from 0 to 1
    classes: tuple[int, ...]  # of ImageNet, that its caption may mean


def fetch(cache: Path) -> Path:
    """The folder of stamps, downloaded once."""
    folder = cache / "stamps" / FOLDER
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    if not list(cache.glob(f"{PACKAGE}_*.deb")):
        subprocess.run(["apt-get", "download", PACKAGE], cwd=cache, check=True, stdout=subprocess.DEVNULL)
    (deb,) = cache.glob(f"{PACKAGE}_*.deb")
    if (found := hashlib.sha256(deb.read_bytes()).hexdigest()) != SHA256:
        raise SystemExit(f"{deb.name} has the SHA-256 {found}, not {SHA256}: another version of the package")
    subprocess.run(["dpkg-deb", "-x", str(deb), str(cache / "stamps")], check=True)
    return folder


def usable(folder: Path, labels: Sequence[str]) -> list[Stamp]:
    """All usable stamps, by name."""
    classes = by_last_word(labels)
    found = []
    for path in sorted(folder.rglob("*.png")):
        text = path.with_suffix(".txt")
        if "cartoon" in path.parts or "symbols" in path.parts or not text.exists():
            continue
        caption = text.read_text(encoding="utf-8", errors="replace").splitlines()[0].strip(" .!")
        own = classes.get(last_word(caption), ())
        if own and (stamp := _read(path, str(path.relative_to(folder)), caption, own)) is not None:
            found.append(stamp)
    return found


def _read(path: Path, name: str, caption: str, classes: tuple[int, ...]) -> Stamp | None:
    picture = Image.open(path)
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return None
    whole = np.asarray(picture.convert("RGBA"))
    alpha = whole[..., 3] / 255
    rows, columns = np.flatnonzero((alpha > OPAQUE).any(1)), np.flatnonzero((alpha > OPAQUE).any(0))
    if not 0.01 < (alpha > OPAQUE).mean() < 0.95:
        return None
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    colours, alpha = whole[box][..., :3], alpha[box]
    if len(np.unique(colours[alpha > OPAQUE], axis=0)) < COLOURS:
        return None
    return Stamp(name, caption, colours, alpha, classes)


def last_word(name: str) -> str:
    """ "A red fox" → "fox"; plurals lose their s."""
    words = re.findall(r"[a-z]+", name.lower().replace("-", " "))
    last = words[-1] if words else ""
    return last[:-1] if last.endswith("s") and not last.endswith("ss") else last


def by_last_word(labels: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Last word of any name of a class → the classes called so."""
    found: dict[str, list[int]] = {}
    for index, label in enumerate(labels):
        for name in label.split(","):
            numbers = found.setdefault(last_word(name), [])
            if index not in numbers:
                numbers.append(index)
    return {word: tuple(numbers) for word, numbers in found.items()}


def paste(background: Any, stamp: Stamp, side: int, rng: np.random.Generator, columns: range) -> Any:
    """(picture, mask): the stamp with its longer side scaled to `side`, at a random place within columns."""
    height, width = stamp.alpha.shape
    scale = side / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    colours = np.asarray(Image.fromarray(stamp.colours).resize(size, Image.Resampling.LANCZOS))
    cover = np.asarray(Image.fromarray((255 * stamp.alpha).astype(np.uint8)).resize(size)) / 255
    top = int(rng.integers(0, background.shape[0] - size[1] + 1))
    left = int(rng.integers(columns.start, columns.stop - size[0] + 1))
    picture, mask = background.copy(), np.zeros(background.shape[:2], dtype=bool)
    place = np.s_[top : top + size[1], left : left + size[0]]
    mixed = cover[..., None] * colours + (1 - cover[..., None]) * picture[place]
    picture[place], mask[place] = np.round(mixed).astype(np.uint8), cover > 0.5
    return picture, mask
