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
from pathlib import Path

import numpy as np

from heedful.labs.data.photo_stamps import FOLDER, OPAQUE, PACKAGE, Stamp, read_stamp

SHA256 = "6db6c1bfc870a47f1499d6203b083522eacb57c5f9c87d468f2e92eb6d9d5f34"
COLOURS = 2000  # least distinct colours of a photograph


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
    """A photograph with a mask; None of other stamps."""
    stamp = read_stamp(path, name, caption, classes)
    if stamp is None or len(np.unique(stamp.colours[stamp.alpha > OPAQUE], axis=0)) < COLOURS:
        return None
    return stamp


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
