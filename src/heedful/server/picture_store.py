"""Pictures that visitors sent, in memory alone: nothing of them is written unless a run is saved.

    file -> header checked -> decoded -> at most MAX_SIDE pixels per side -> colours, kept by their hash

Only colours are kept, so whatever else was in the file (place and time of a photograph, comments, scripts) is
gone. The page shows a PNG that is made here. The oldest pictures are forgotten; a page that still needs one
sends it again.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

from heedful.core.errors import HeedfulError
from heedful.modalities.image_files import Picture, Pixels, read_picture, resized
from heedful.modalities.image_png import png

MAX_SIDE = 2048  # pixels per side that are kept
PREVIEW_SIDE = 512  # of the PNG that the page shows
MAX_PICTURES = 64
MAX_BYTES = 96 << 20  # of colours, all pictures together


class PictureNotFound(HeedfulError):
    """It was never here, or it was forgotten."""

    def __init__(self) -> None:
        super().__init__(
            "this picture is not here",
            "the server keeps the last pictures, and none after a restart",
            "Choose it again",
        )


@dataclass(frozen=True, eq=False)
class StoredPicture:
    """Colours, and the PNG that the page shows."""

    number: str
    picture: Picture
    preview: bytes

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)"""
        height, width = self.picture.pixels.shape[:2]
        return width, height


class PictureStore:
    """Pictures by a hash of their colours, the oldest forgotten."""

    def __init__(self, most: int = MAX_PICTURES, most_bytes: int = MAX_BYTES) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._pictures = OrderedDict[str, StoredPicture]()
        self._fixed: dict[str, StoredPicture] = {}
        self._lock, self._decoding = threading.Lock(), threading.Lock()

    def add(self, file: bytes) -> StoredPicture:
        """Decode a file that somebody sent. One at a time, so that many large ones take the memory of one."""
        with self._decoding:
            return self.keep(read_picture(file, MAX_SIDE))

    def keep(self, picture: Picture, always: bool = False) -> StoredPicture:
        """`always`: it is never forgotten."""
        pixels = picture.pixels
        content = str(pixels.shape).encode() + pixels.tobytes()
        stored = StoredPicture(hashlib.sha256(content).hexdigest()[:32], picture, png(_preview(picture)))
        with self._lock:
            if always:
                self._fixed[stored.number] = stored
            if stored.number in self._fixed:
                return stored
            self._pictures[stored.number] = stored
            self._pictures.move_to_end(stored.number)
            while len(self._pictures) > 1 and (
                len(self._pictures) > self.most or self._size > self.most_bytes
            ):
                self._pictures.popitem(last=False)
        return stored

    def get(self, number: str) -> StoredPicture:
        with self._lock:
            if number in self._fixed:
                return self._fixed[number]
            if number not in self._pictures:
                raise PictureNotFound
            self._pictures.move_to_end(number)
            return self._pictures[number]

    def __contains__(self, number: object) -> bool:
        return number in self._pictures or number in self._fixed

    @property
    def _size(self) -> int:
        return sum(one.picture.pixels.nbytes + len(one.preview) for one in self._pictures.values())


def _preview(picture: Picture) -> Pixels:
    height, width = picture.pixels.shape[:2]
    share = PREVIEW_SIDE / max(height, width)
    if share >= 1:
        return picture.pixels
    return resized(picture.pixels, (max(1, round(height * share)), max(1, round(width * share))))
