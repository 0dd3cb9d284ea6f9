"""Pictures from a stranger: small files that ask for much work or memory are refused, or cost little."""

from __future__ import annotations

import asyncio
import io
import struct
import zlib
from typing import Any

import pytest
from PIL import GifImagePlugin, Image, TiffImagePlugin

from heedful.core.errors import HeedfulError
from heedful.modalities import png_length
from heedful.modalities.image_files import MAX_PIXELS, read_picture
from heedful.server import security
from heedful.server.security import MAX_UPLOADS, MAX_UPLOADS_PER_PEER, Guard, Guarded


@pytest.mark.parametrize("form", ["TIFF", "GIF"])
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_frames_are_not_counted(form: str, frames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow reads the whole file for that: a TIFF of 16 MB has 140,000 of them, which took minutes."""
    made = io.BytesIO()
    each = [Image.new("RGB", (4, 3), (40 * i, 0, 0)) for i in range(frames)]
    each[0].save(made, form, save_all=True, append_images=each[1:])

    def count(image: Any) -> int:
        assert image._n_frames is not None, "the frames were counted"
        return int(image._n_frames)

    for kind in (TiffImagePlugin.TiffImageFile, GifImagePlugin.GifImageFile):
        monkeypatch.setattr(kind, "n_frames", property(count))
    picture = read_picture(made.getvalue())
    assert picture.pixels.shape == (3, 4, 3)
    assert picture.pixels.max() == 0  # the first
    assert picture.notes == (("the first of several frames",) if frames > 1 else ())


def tiff(tile: tuple[int, int]) -> bytes:
    """One grey pixel in one tile of this size."""
    data = zlib.compress(b"\0" * 100)
    entries = [(256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]
    entries += [(322, 4, 1, tile[0]), (323, 4, 1, tile[1]), (324, 4, 1, 8), (325, 4, 1, len(data))]
    words = b"".join(struct.pack("<HHII", *entry) for entry in entries)  # a short value lies in the low half
    head = struct.pack("<2sHI", b"II", 42, 8 + len(data))
    return head + data + struct.pack("<H", len(entries)) + words + struct.pack("<I", 0)


def test_a_tile_is_no_larger_than_a_picture_may_be() -> None:
    """A tile is decoded whole: one of 2 GB was read for a picture of one pixel."""
    with pytest.raises(HeedfulError, match="tiles of 16,384 × 130,816 pixels"):
        read_picture(tiff((16384, 130816)))
    with pytest.raises(HeedfulError, match="too large"):
        read_picture(tiff((16, MAX_PIXELS // 16 + 16)))
    with pytest.raises(HeedfulError, match="cannot be read"):  # passes the check; its data are too few
        read_picture(tiff((16, 16)))


def test_a_file_of_many_parts_is_refused_before_pillow_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made = io.BytesIO()
    Image.new("RGB", (4, 3)).save(made, "PNG")
    content = made.getvalue()
    part = struct.pack(">I4sI", 0, b"teXt", zlib.crc32(b"teXt"))
    many = content[:33] + 100 * part + content[33:]
    assert read_picture(many).pixels.shape == (3, 4, 3)
    monkeypatch.setattr(png_length, "MAX_CHUNKS", 100)
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("Pillow was asked"))
    with pytest.raises(HeedfulError, match="it has too many parts"):
        read_picture(many)


def test_one_machine_cannot_keep_others_from_sending_pictures() -> None:
    """Half-sent pictures wait for their rest; others are taken in meanwhile, up to a limit for all."""

    async def attack() -> dict[str, list[int]]:
        handed_on, go = asyncio.Event(), asyncio.Event()
        answers: dict[str, list[int]] = {}

        async def app(scope: Any, receive: Any, send: Any) -> None:
            handed_on.set()
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        guarded = Guarded(app, Guard())

        async def upload(peer: str, whole: bool) -> None:
            async def receive() -> dict[str, Any]:
                if not whole:
                    await go.wait()
                return {"type": "http.request", "body": b"x", "more_body": False}

            async def send(message: Any) -> None:
                if "status" in message:
                    answers.setdefault(peer, []).append(message["status"])

            headers = [(b"host", b"localhost"), (b"content-type", b"image/png")]
            scope = {"type": "http", "method": "POST", "path": "/api/pictures", "query_string": b""}
            await guarded({**scope, "headers": headers, "client": (peer, 1)}, receive, send)

        slow = [asyncio.create_task(upload("10.0.0.1", whole=False)) for _ in range(10)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert guarded.uploads["10.0.0.1"] == MAX_UPLOADS_PER_PEER
        await upload("10.0.0.2", whole=True)
        others = [asyncio.create_task(upload(f"10.0.1.{i}", whole=False)) for i in range(MAX_UPLOADS)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert guarded.uploads.total() == MAX_UPLOADS
        await upload("10.0.0.3", whole=True)
        go.set()
        await asyncio.gather(*slow, *others)
        assert not guarded.uploads
        return answers

    answers = asyncio.run(attack())
    assert answers["10.0.0.2"] == [201]
    assert answers["10.0.0.3"] == [429]
    assert sorted(answers["10.0.0.1"]) == [201] * MAX_UPLOADS_PER_PEER + [429] * (10 - MAX_UPLOADS_PER_PEER)


@pytest.mark.parametrize("host", ["evil@127.0.0.1", "evil.example@localhost:8765", "a:b@localhost"])
def test_a_name_before_the_host_is_refused(host: str) -> None:
    assert not security.Guard().knows(host)
    assert security.Guard().knows(host.rpartition("@")[2])
