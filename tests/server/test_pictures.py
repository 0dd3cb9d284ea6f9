"""The page beside its pictures in docs/: what was looked at once is what is drawn now."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageChops, ImageDraw
from PIL.PngImagePlugin import PngInfo
from tests.server.alike import alike, differ
from tests.server.chromium import visits
from tests.server.pictures import taken
from tests.server.serving import listening

from heedful.models.zoo import resolve
from heedful.server import app

IMAGES = Path(__file__).parents[2] / "docs" / "images"
NAMES = ("methods", "dark", "narrow", "try", "attention", "picture", "generate", "features")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = app.ServerConfig(runs=tmp_path_factory.mktemp("runs"))
    server_state = app.load_state(["zoo:sentiment", "zoo:lm", "zoo:digits-vit"], config)
    with listening(server_state, config) as found:
        yield found
    server_state.close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(
    not (resolve.dictionary("lm") / "manifest.json").is_file(), reason="needs the dictionary of zoo:lm"
)
def test_pictures_are_as_they_were(address: str, tmp_path: Path) -> None:
    with visits(address) as visit:
        found = {made.stem: made for made in taken(visit, tmp_path)}
    assert sorted(found) == sorted(f"serve-{name}" for name in NAMES)
    told = {name: differ(made, IMAGES / made.name) for name, made in found.items()}
    assert all(alike(made, IMAGES / made.name) for made in found.values()), told


@pytest.fixture(
    params=[pytest.param(n, marks=() if n in ("try", "narrow") else pytest.mark.slow) for n in NAMES]
)
def picture(request: pytest.FixtureRequest) -> Path:
    return IMAGES / f"serve-{request.param}.png"


def opened(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def background(image: Image.Image) -> tuple[int, ...]:
    return max(image.getcolors(1 << 24))[1]  # type: ignore[return-value]


@pytest.mark.parametrize("top", [0.0, 0.2, 0.4, 0.6, 0.8])
def test_a_panel_that_is_missing_is_seen(picture: Path, top: float, tmp_path: Path) -> None:
    """A fifth of the height blanked, wherever it is, if more is drawn there than a line or two."""
    image = opened(picture)
    wide, high = image.size
    box = (0, int(top * high), wide, int((top + 0.2) * high))
    drawn = np.asarray(ImageChops.difference(image, Image.new("RGB", image.size, background(image))))
    if (drawn[box[1] : box[3]].max(-1) > 12).mean() < 0.01:
        pytest.skip("nothing is drawn there")
    ImageDraw.Draw(image).rectangle(box, fill=background(image))
    image.save(blank := tmp_path / "blank.png")
    assert not alike(blank, picture), differ(blank, picture)


def test_gross_changes_are_seen(picture: Path, tmp_path: Path) -> None:
    """All blank, half of the width blank, upside down, another panel, pale."""
    image = opened(picture)
    half = image.copy()
    ImageDraw.Draw(half).rectangle((image.width // 2, 0, *image.size), fill=background(image))
    paler = Image.blend(image, Image.new("RGB", image.size, background(image)), 0.7)
    changed = (
        Image.new("RGB", image.size, background(image)),
        half,
        paler,
        image.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
    )
    for number, each in enumerate(changed):
        each.save(other := tmp_path / f"{number}.png")
        assert not alike(other, picture), (number, differ(other, picture))
    others = [IMAGES / f"serve-{name}.png" for name in NAMES if not picture.stem.endswith(name)]
    assert not any(alike(other, picture) for other in others)


def test_what_no_reader_sees_is_let_pass(picture: Path, tmp_path: Path) -> None:
    """The same picture, one moved by three pixels, one a little noisy."""
    assert differ(picture, picture) == (0.0, 0.0)
    image = opened(picture)
    noise = np.random.default_rng(0).integers(-3, 4, (image.height, image.width, 3))
    noisy = Image.fromarray((np.asarray(image).astype(int) + noise).clip(0, 255).astype(np.uint8))
    for number, each in enumerate((ImageChops.offset(image, 3, 0), noisy)):
        each.save(other := tmp_path / f"{number}.png")
        assert alike(other, picture), (number, differ(other, picture))


def test_only_what_was_timed_is_masked(tmp_path: Path) -> None:
    """A box of the picture's own list may change; the same change elsewhere may not."""
    image = opened(IMAGES / "serve-methods.png")
    info, box = PngInfo(), (40, 420, 860, 640)
    info.add_text("masks", json.dumps([box]))
    image.save(kept := tmp_path / "kept.png", pnginfo=info)
    for top, passes in ((0, True), (500, False)):
        changed = image.copy()
        ImageDraw.Draw(changed).rectangle((box[0], box[1] + top, box[2], box[3] + top), fill="white")
        changed.save(other := tmp_path / "other.png")
        assert alike(other, kept) == passes
