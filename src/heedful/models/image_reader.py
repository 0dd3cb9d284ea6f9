"""How a picture becomes what a network reads: resized and cropped to colours a person sees, then normalised.

    seen    (H, W, 3) 8-bit colours after resizing and cropping: what is explained, shown and cut into units
    read    (seen / 255 - mean) / std, per channel: what the network reads

An image processor of the transformers library is split into these two steps by switching off its rescaling
and normalising. When it is loaded, one picture is used to check that both steps give what it gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.modalities.image import ImageInput, overlap_notes, read_regions, refuse_hidden
from heedful.modalities.image_files import MAX_PIXELS, Picture, Pixels, read_picture, resized
from heedful.modalities.image_masks import Mask

KEYS = {"picture", "regions"}
MAX_SIDE = 1024  # of a picture for a function: every removal makes a copy of it
WHOLE = (0.0, 0.0, 1.0, 1.0)  # all of a picture
MAX_SIZE = 4096  # pixels per side that a processor may resize, crop or pad to
FEW_PIXELS = 16  # per side: fewer are enlarged by most networks
FLAT = 1.5 / 255  # colours that differ by rounding alone
TRIED_SIZE = (61, 83)  # of the picture that a processor is tried on: odd, and neither square


@dataclass(frozen=True)
class ImageReader:
    """How pictures are resized and normalised for a network.

    Parameters
    ----------
    size
        Height and width that the network reads; one number for a square. If `None`, pictures keep their size,
        up to 1,024 pixels per side.
    mean
        Subtracted from the colours (red, green, blue), which go from 0 to 1.
    std
        The colours are divided by it after that.
    processor
        An image processor of transformers that resizes and crops. If `None`, a picture is resized as a whole.

    Examples
    --------
    >>> import heedful
    >>> from torch import nn
    >>> module = nn.Sequential(nn.Conv2d(3, 2, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> model = heedful.load(module, processor=heedful.ImageReader(32), labels=["cat", "dog"])
    >>> model.labels
    ('cat', 'dog')
    """

    size: tuple[int, int] | None = None  # height, width
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    processor: Any = None
    _windows: dict[tuple[int, int], tuple[float, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """One number is a square."""
        if self.size is None:
            return
        given = (self.size, self.size) if isinstance(self.size, int) else self.size
        sides = tuple(given) if isinstance(given, Sequence) else ()
        if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
            raise HeedfulError(
                f"{self.size!r} is no size of a picture", fix="Give height and width: ImageReader((224, 224))"
            )
        object.__setattr__(self, "size", sides)

    def normalise(self, seen: Tensor) -> Tensor:
        """Colours from 0 to 1 (..., 3) as the network reads them."""
        return (seen - seen.new_tensor(self.mean)) / seen.new_tensor(self.std)

    def read(self, raw: Any, grid: tuple[int, int] = (0, 0), special: int = 0) -> ImageInput:
        """A picture, or {"picture": ..., "regions": {name: mask or box}}. Masks and boxes are in pixels of
        the picture that is given, not of what the model sees."""
        regions: Any = {}
        if isinstance(raw, Mapping):
            if unknown := set(raw) - KEYS:
                raise HeedfulError(f"unknown keys: {', '.join(map(str, sorted(unknown)))}")
            regions, raw = raw.get("regions", {}), raw.get("picture")
        picture = read_picture(raw)
        pixels, notes = self._seen(picture)
        masks = tuple((name, self.see_mask(mask)) for name, mask in read_regions(regions, picture))
        refuse_hidden(masks)
        window = self._window(*picture.pixels.shape[:2])
        notes = (*picture.notes, *notes, *overlap_notes(masks))
        return ImageInput(pixels, grid, special, masks, picture.source, notes, window)

    def _window(self, height: int, width: int) -> tuple[float, ...]:
        """The part of a picture of this size that is seen, as shares: what is left of two ramps of
        brightness, one along and one down, says where the first and the last place came from."""
        if self.processor is None:
            return WHOLE
        if (height, width) not in self._windows:
            ramps = np.empty((height, width, 3), dtype=np.uint8)  # a large picture would be large in floats
            ramps[..., 0] = np.round(255 * (np.arange(width) + 0.5) / width)
            ramps[..., 1] = np.round(255 * (np.arange(height) + 0.5) / height)[:, None]
            ramps[..., 2] = 128
            seen = processed(self.processor, ramps) / 255.0
            left, right = _ends(seen[..., 0].mean(0), width)
            top, bottom = _ends(seen[..., 1].mean(1), height)
            self._windows[height, width] = (left, top, right, bottom)
        return self._windows[height, width]

    def see_mask(self, mask: Mask) -> Mask:
        """A mask (H, W) of the upright picture, resized and cropped as the picture is: where at least half
        of what a place shows was inside."""
        grey = np.repeat(255 * mask[..., None].astype(np.uint8), 3, axis=2)
        return np.asarray(self._seen(Picture(grey))[0][..., 0] >= 128)

    def _seen(self, picture: Picture) -> tuple[Pixels, tuple[str, ...]]:
        height, width = picture.pixels.shape[:2]
        if self.processor is not None:
            pixels = processed(self.processor, picture.pixels)
        else:
            share = min(1.0, MAX_SIDE / max(height, width))
            size = self.size or (max(1, round(height * share)), max(1, round(width * share)))
            pixels = picture.pixels if (height, width) == size else resized(picture.pixels, size)
        note = f"resized from {width} × {height} to {pixels.shape[1]} × {pixels.shape[0]} pixels"
        changed = pixels.shape != picture.pixels.shape
        return pixels, (note,) if changed else ()


def _ends(ramp: Any, side: int) -> tuple[float, float]:
    """Where a line through a ramp of n places begins and ends, half a place before the first and behind the
    last; the outer places are left out, which resampling bends. `side`: pixels that the ramp was made of. A
    few pixels that were enlarged are flat at both ends; one pixel has no ramp and is seen whole."""
    n = len(ramp)
    places = np.arange(n) + 0.5
    inner = np.zeros(n, dtype=bool)
    inner[slice(n // 8, n - n // 8) if n >= 16 else slice(n)] = True
    if side < FEW_PIXELS:
        inner &= (ramp > 0.5 / side + FLAT) & (ramp < 1 - 0.5 / side - FLAT)
    if inner.sum() < 2:
        return 0.0, 1.0
    slope, start = np.polyfit(places[inner], ramp[inner], 1)
    return float(np.clip(start, 0, 1)), float(np.clip(start + n * slope, 0, 1))


def processed(processor: Any, pixels: Pixels) -> Pixels:
    """What a processor leaves to see: resized and cropped, neither rescaled nor normalised."""
    _refuse_strip(processor, *pixels.shape[:2])
    out = processor(
        images=pixels,
        do_rescale=False,
        do_normalize=False,
        return_tensors="np",
        input_data_format="channels_last",  # else a picture of one or three rows is taken for channels
    )
    seen = np.asarray(out["pixel_values"])[0]
    seen = seen.transpose(1, 2, 0) if seen.shape[0] in (1, 3) else seen
    return np.asarray(np.clip(np.round(seen), 0, 255), dtype=np.uint8)


def _refuse_strip(processor: Any, height: int, width: int) -> None:
    """A long strip is enlarged until its short side fits, before it is cropped: that can take any memory."""
    size = getattr(processor, "size", None) or {}
    short = size.get("shortest_edge") if hasattr(size, "get") else None
    limited = hasattr(size, "get") and size.get("longest_edge")
    if short and not limited and short * short * max(height, width) / min(height, width) > MAX_PIXELS:
        raise HeedfulError(
            f"a picture of {width:,} × {height:,} pixels is too long and thin",
            f"the model enlarges its short side to {short} pixels before it crops",
            "Crop the picture first",
        )


def _refuse_sizes(processor: Any) -> None:
    """Before anything is processed: a config decides how large every picture becomes."""
    share = getattr(processor, "crop_pct", None)  # ConvNeXt enlarges by 1 / share before it crops
    share = min(share, 1.0) if isinstance(share, int | float) else 1.0
    for name, value in vars(processor).items():
        if not name.endswith(("size", "divisor")):
            continue
        # sizes of transformers are no mappings, but give pairs of names and numbers
        numbers = value is None or isinstance(value, int | float | str | list | tuple)
        parts = {"": value} if numbers else dict(value)
        for part, given in parts.items():
            for side in given if isinstance(given, list | tuple) else [given]:
                limit = MAX_SIZE**2 if str(part).endswith("pixels") else MAX_SIZE
                if isinstance(side, int | float) and not side <= limit * share:
                    raise HeedfulError(
                        f"{type(processor).__name__} makes pictures too large",
                        f"{name} is {side:,}"
                        + (f", enlarged by 1 / {share:g}" if share < 1 else "")
                        + f", and the limit is {limit:,}",
                        "Check preprocessor_config.json",
                    )


def reader_of(processor: Any) -> ImageReader:
    """The two halves of a processor of transformers, tried together."""
    _refuse_sizes(processor)
    mean, std = _three(processor, "image_mean", 0.0), _three(processor, "image_std", 1.0)
    if not getattr(processor, "do_normalize", False):
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (*TRIED_SIZE, 3)).astype(np.uint8)
    seen = processed(processor, pixels)
    reader = ImageReader((seen.shape[0], seen.shape[1]), mean, std, processor)
    made = processor(images=pixels, return_tensors="np", input_data_format="channels_last")
    expected = np.asarray(made["pixel_values"])[0]
    read = reader.normalise(torch.from_numpy(seen / np.float32(255))).permute(2, 0, 1).numpy()
    # 8-bit colours are exact in both; resampling in floats may differ by one step of 255
    close = 1.5 / 255 / min(std)
    if expected.shape != read.shape or not np.allclose(expected, read, atol=close):
        raise HeedfulError(
            f"{type(processor).__name__} does more than resize, crop, rescale and normalise",
            fix="Load the module with processor=heedful.ImageReader(size, mean, std)",
        )
    return reader


def _three(processor: Any, name: str, default: float) -> tuple[float, float, float]:
    given = getattr(processor, name, None)
    values: Sequence[float] = [default] if given is None else [given] if isinstance(given, float) else given
    three = [float(value) for value in values] * (3 if len(values) == 1 else 1)
    return three[0], three[1], three[2]
