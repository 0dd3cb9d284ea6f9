"""Pictures that are sent to the page: what is kept of them, what is refused, and what is measured on them."""

from __future__ import annotations

import asyncio
import base64
import html
import io
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.server.picture_models import CORNER, NAME, SIDE, file_of, planted, scene, tiny_vit
from tests.server.serving import finished, listening

import heedful
from heedful.modalities.image_files import Picture, read_picture
from heedful.reports import comparison as report
from heedful.reports import first_screen
from heedful.reports.tested_methods import passed, removal
from heedful.server import app, brush, security
from heedful.server.picture_store import MAX_SIDE, PREVIEW_SIDE, PictureNotFound, PictureStore

PNG = {"content-type": "image/png"}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app.ServerState]:
    config = app.ServerConfig(runs=tmp_path_factory.mktemp("runs"))
    found = app.load_state([planted(), tiny_vit(), "zoo:sentiment"], config)
    yield found
    found.close()
    found.jobs.join()


@pytest.fixture(scope="module")
def served(state: app.ServerState) -> Iterator[httpx.Client]:
    config = app.ServerConfig(runs=state.runs.root)
    with listening(state, config) as address, httpx.Client(base_url=address, timeout=120) as found:
        yield found


def sent(client: httpx.Client, file: bytes, kind: str = "image/png") -> httpx.Response:
    return client.post("/api/pictures", content=file, headers={"content-type": kind})


@pytest.fixture(scope="module")
def ask(served: httpx.Client) -> dict[str, Any]:
    answer = sent(served, file_of(scene()))
    assert answer.status_code == 201
    return {"model": NAME, "picture": answer.json()["id"]}


# --- what is kept ------------------------------------------------------------------------------------


def test_colours_come_back_as_they_were(served: httpx.Client, ask: dict[str, Any]) -> None:
    answer = served.get(f"/api/pictures/{ask['picture']}")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    with Image.open(io.BytesIO(answer.content)) as image:
        assert np.array_equal(np.asarray(image), scene())


@pytest.mark.parametrize(
    ("kind", "name"),
    [("image/png", "PNG"), ("image/bmp", "BMP"), ("image/tiff", "TIFF"), ("image/x-portable-pixmap", "PPM")],
)
def test_the_same_colours_have_one_number(
    served: httpx.Client, ask: dict[str, Any], kind: str, name: str
) -> None:
    """Of every format without loss."""
    answer = sent(served, file_of(scene(), name), kind)
    assert answer.json() == {"id": ask["picture"], "width": 64, "height": 64, "notes": []}


def test_place_and_comments_of_a_photograph_are_gone(served: httpx.Client) -> None:
    exif = Image.Exif()
    exif[0x010E] = "SECRET-DESCRIPTION"
    exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 8.0, 14.0)})
    exif[0x0112] = 6  # turned by a quarter
    file = file_of(scene()[:32], "JPEG", exif=exif, comment=b"SECRET-COMMENT")
    assert b"SECRET-DESCRIPTION" in file
    assert b"SECRET-COMMENT" in file
    found = sent(served, file, "image/jpeg").json()
    assert (found["width"], found["height"]) == (32, 64)
    shown = served.get(f"/api/pictures/{found['id']}").content
    assert b"SECRET" not in shown
    chunks = chunk_names(shown)
    assert chunks == ["IHDR", "IDAT", "IEND"]
    with Image.open(io.BytesIO(shown)) as image:
        assert len(image.getexif()) == 0
        assert image.info == {}


def chunk_names(png: bytes) -> list[str]:
    names, at = [], 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        names.append(png[at + 4 : at + 8].decode())
        at += 12 + length
    return names


def test_large_pictures_are_made_smaller_and_that_is_said(served: httpx.Client) -> None:
    wide = np.zeros((30, MAX_SIDE + 500, 3), dtype=np.uint8)
    found = sent(served, file_of(wide)).json()
    assert (found["width"], found["height"]) == (MAX_SIDE, round(30 * MAX_SIDE / (MAX_SIDE + 500)))
    assert any("made smaller" in note for note in found["notes"])
    with Image.open(io.BytesIO(served.get(f"/api/pictures/{found['id']}").content)) as image:
        assert max(image.size) == PREVIEW_SIDE


def test_the_oldest_are_forgotten() -> None:
    store = PictureStore(most=3)
    numbers = [store.keep(Picture(np.full((4, 4, 3), value, np.uint8))).number for value in range(4)]
    assert [number in store for number in numbers] == [False, True, True, True]
    store.get(numbers[1])  # used again, so the next to go is another
    store.keep(Picture(np.full((4, 4, 3), 9, np.uint8)))
    assert [number in store for number in numbers] == [False, True, False, True]
    with pytest.raises(PictureNotFound, match="Choose it again"):
        store.get(numbers[0])


def test_a_store_has_a_size_too() -> None:
    store = PictureStore(most_bytes=5 * 3 * 64 * 64)
    noise = np.random.default_rng(0).integers(0, 256, (8, 64, 64, 3), dtype=np.uint8)
    numbers = [store.keep(Picture(one)).number for one in noise]
    assert [number in store for number in numbers] == 6 * [False] + 2 * [True]  # colours, and a PNG as large


def test_nothing_is_written(served: httpx.Client, state: app.ServerState) -> None:
    """Neither the picture nor what is explained of it, unless a run is saved."""
    before = sorted(state.runs.root.rglob("*"))
    number = sent(served, file_of(255 - scene())).json()["id"]
    served.post("/api/look", json={"model": NAME, "picture": number})
    served.post("/api/brush", json={"model": NAME, "picture": number, "cells": [0]})
    ask = {"model": NAME, "picture": number, "automatic": True}
    assert finished(served, served.post("/api/jobs/explain", json=ask).json())["state"] == "done"
    assert sorted(state.runs.root.rglob("*")) == before


# --- what is refused ---------------------------------------------------------------------------------


def png_of_size(width: int, height: int) -> bytes:
    """A header of that size, and a few compressed zeros: what a decompression bomb looks like."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1 << 20), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HOSTILE = {
    "20,000 x 20,000 by its header": (png_of_size(20_000, 20_000), "too large"),
    "10,000 x 10,000 by its header": (png_of_size(10_000, 10_000), "10,000 × 10,000"),
    "a bomb": (png_of_size(60_000, 60_000), "too large"),
    "fewer colours than it says": (png_of_size(4000, 4000), "cannot be read"),
    "cut off": (file_of(scene())[:2000], "cannot be read"),
    "an SVG": (SVG, "Known formats"),
    "HTML": (b"<!DOCTYPE html><script>alert(1)</script>", "Known formats"),
    "HTML behind a signature": (b"\x89PNG\r\n\x1a\n<script>alert(1)</script>", "cannot be read"),
    "an EPS": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "Known formats"),
    "nothing": (b"", "Known formats"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_get_one_clear_line(served: httpx.Client, name: str) -> None:
    file, words = HOSTILE[name]
    answer = sent(served, file)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert words in error
    assert "\n" not in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "kind",
    [
        "image/svg+xml",
        "text/html",
        "application/json",
        "application/octet-stream",
        "text/plain",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
        "",
    ],
)
def test_another_type_is_refused(served: httpx.Client, kind: str) -> None:
    """Neither what is no picture nor what a form of another site can send."""
    assert sent(served, file_of(scene()), kind).status_code == 415
    other = served.post("/api/look", content=file_of(scene()), headers=PNG)
    assert other.status_code == 415  # pictures go to their own place


def test_a_large_body_is_refused_before_it_has_come(
    served: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "MAX_PICTURE_BYTES", 1 << 20)
    answer = served.post("/api/pictures", headers=PNG, content=bytes((1 << 20) + 1))
    assert answer.status_code == 413
    assert "1 MB" in answer.json()["error"]


def test_a_body_without_a_length_is_not_read_to_its_end() -> None:
    """The answer comes when the limit is passed; what follows is not taken in."""
    taken, said = 0, []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": bytes(1 << 20), "more_body": True}

    async def send(message: Any) -> None:
        said.append(message)

    async def never(*_: Any) -> None:
        raise AssertionError("a body that is too large was handed on")

    scope = {"type": "http", "method": "POST", "path": "/api/pictures", "query_string": b""}
    headers = [(b"host", b"localhost"), (b"content-type", b"image/png")]
    guarded = security.Guarded(never, security.Guard())
    asyncio.run(guarded({**scope, "headers": headers}, receive, send))
    assert said[0]["status"] == 413
    assert taken == (security.MAX_PICTURE_BYTES >> 20) + 1
    assert not guarded.uploads


def test_few_pictures_are_on_their_way_at_once(served: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MAX_UPLOADS", 0)
    assert sent(served, file_of(scene())).status_code == 429
    monkeypatch.undo()
    assert sent(served, file_of(scene())).status_code == 201


def test_other_sites_neither_send_nor_see_pictures(served: httpx.Client, ask: dict[str, Any]) -> None:
    place, file = f"/api/pictures/{ask['picture']}", file_of(scene())
    cross = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    for headers, status in (
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 421),
        (cross, 403),
    ):
        assert served.post("/api/pictures", content=file, headers=PNG | headers).status_code == status
        assert served.get(place, headers=headers).status_code == status
    shown = served.get(place)
    assert "access-control-allow-origin" not in shown.headers
    assert shown.headers["cross-origin-resource-policy"] == "same-origin"
    preflight = served.request("OPTIONS", "/api/pictures", headers={"origin": "http://evil.example"})
    assert preflight.status_code == 403


def test_strangers_need_the_token(state: app.ServerState) -> None:
    config = app.ServerConfig(host="0.0.0.0", token="a-token-of-good-length", runs=state.runs.root)
    with listening(state, config) as address, httpx.Client(base_url=address) as client:
        assert sent(client, file_of(scene())).status_code == 401


def test_an_unknown_picture(served: httpx.Client) -> None:
    for answer in (
        served.get(f"/api/pictures/{'0' * 32}"),
        served.post("/api/look", json={"model": NAME, "picture": "0" * 32}),
    ):
        assert answer.status_code == 404
        assert "Choose it again" in answer.json()["error"]


def test_a_text_is_never_the_path_of_a_picture(
    served: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of pictures reads paths; a client must not name one."""
    path = tmp_path / "private.png"
    path.write_bytes(file_of(scene()))
    opened: list[Any] = []
    monkeypatch.setattr("heedful.modalities.image_files._from_path", lambda *args: opened.append(args))
    for place, more in (
        ("look", {}),
        ("try", {"edits": []}),
        ("brush", {"cells": [0]}),
        ("jobs/explain", {}),
        ("jobs/attention", {}),
        ("jobs/generate", {}),
        ("features", {}),
    ):
        answer = served.post(f"/api/{place}", json={"model": NAME, "text": str(path), **more})
        if answer.status_code == 202:
            job = finished(served, answer.json())
            assert job["state"] == "failed", place
        else:
            assert answer.status_code == 400, (place, answer.text)
    assert opened == []


def test_a_model_of_texts_gets_no_picture(served: httpx.Client, ask: dict[str, Any]) -> None:
    answer = served.post("/api/look", json=ask | {"model": "zoo:sentiment"})
    assert answer.status_code == 400
    assert "reads texts" in answer.json()["error"]
    assert served.post("/api/look", json=ask | {"pair": "x"}).status_code == 422


# --- what is explained -------------------------------------------------------------------------------


def test_the_page_knows_what_a_model_reads(served: httpx.Client) -> None:
    models = {one["name"]: one for one in served.get("/api/here").json()["models"]}
    assert models[NAME]["modality"] == "image"
    assert models["zoo:sentiment"]["modality"] == "text"
    assert models[NAME]["units"][0] == "grid:4"
    assert "gradcam" in models[NAME]["few"]
    assert "gradcam" not in models["zoo:sentiment"]["few"]


@pytest.mark.parametrize("name", [NAME, "ViTForImageClassification"])
def test_the_page_says_what_explain_says(
    served: httpx.Client, state: app.ServerState, ask: dict[str, Any], name: str
) -> None:
    """The same words and numbers as `heedful.explain` of the file."""
    question = ask | {"model": name}
    look = served.post("/api/look", json=question).json()
    assert look["automatic"]
    job = finished(served, served.post("/api/jobs/explain", json=question | {"automatic": True}).json())
    assert job["state"] == "done", job["error"]
    found = job["result"]["first"]
    own = heedful.explain(state.models.get(name).model, file_of(scene()))
    measured = removal(own)
    assert measured is not None
    assert found["operator"] == measured.operator
    assert [one["text"] for one in found["effects"]] == list(own.x.units().labels)
    for one, effect in zip(found["effects"], measured.leave_one_out, strict=True):
        assert (
            math.isnan(effect) if one["effect"] is None else one["effect"] == pytest.approx(effect, abs=1e-6)
        )
    assert found["sentence"] == first_screen.why(own)
    assert found["methods"] == first_screen.better_than_random(own)
    assert found["shading"] == report.shaded(own).options[0].title
    assert found["better"] == [
        {"method": one.method, "beat": one.beat, "draws": one.draws} for one in passed(own)
    ]
    shown = html.unescape(job["result"]["html"]["verdict"])
    assert found["sentence"] in shown
    assert '<svg class="picture"' in shown


def test_a_run_of_a_picture_is_saved_and_opens(served: httpx.Client, ask: dict[str, Any]) -> None:
    job = finished(served, served.post("/api/jobs/explain", json=ask).json())
    assert job["state"] == "done", job["error"]
    run = served.get(f"/api/runs/{job['run']}").json()
    assert run["kind"] == "explanation"
    assert '<svg class="picture"' in run["html"]
    whole = served.get(f"/api/runs/{job['run']}/report")
    assert whole.status_code == 200
    assert '<svg class="picture"' in whole.text
    assert run["ask"]["picture"] == ask["picture"]
    assert served.post("/api/look", json={**ask, "unit": run["ask"]["unit"]}).status_code == 200


# --- a region is removed -----------------------------------------------------------------------------


def test_a_region_against_the_mechanism(served: httpx.Client, ask: dict[str, Any]) -> None:
    """bright = 4 x mean of the corner - 2. By hand: the corner's colours against the mean colour."""
    seen = planted().encode(read_picture(file_of(scene()))).pixels / 255
    corner, mean = seen[:CORNER, :CORNER], seen.mean((0, 1))
    found = served.post("/api/brush", json=ask | {"cells": [0, 1, 8, 9], "operator": "mean"}).json()
    assert found["before"] == pytest.approx(4 * corner.mean() - 2, abs=1e-5)
    assert found["after"] == pytest.approx(4 * mean.mean() - 2, abs=1e-5)
    assert found["area"] == pytest.approx(CORNER**2 / SIDE**2)
    claims = {one["method"]: one for one in found["claims"]}
    effect = found["after"] - found["before"]
    for method in ("occlusion", "integrated-gradients", "lime"):  # exact for a linear model
        assert claims[method]["claimed"] == pytest.approx(effect, abs=1e-4), method
        # the other sixty cells have scores of float32 rounding, about 1e-7 each against an effect near 1
        assert claims[method]["share"] == pytest.approx(1.0, abs=1e-4), method
    assert claims["grad-l2"]["signed"] is False
    assert claims["grad-l2"]["share"] == pytest.approx(1.0)
    assert claims["random"]["share"] < 0.5
    outside = served.post("/api/brush", json=ask | {"cells": [63, 62], "operator": "mean"}).json()
    assert outside["after"] == pytest.approx(outside["before"], abs=1e-6)


@pytest.mark.parametrize("operator", ["mean", "blur", "noise", "inpaint"])
def test_the_effect_is_that_of_the_library(served: httpx.Client, ask: dict[str, Any], operator: str) -> None:
    cells = [3, 4, 5, 11, 12]
    found = served.post("/api/brush", json=ask | {"cells": cells, "operator": operator}).json()
    model = planted()
    x = model.encode(file_of(scene()))
    keep = np.ones((1, 64), dtype=bool)
    keep[0, cells] = False
    own = model.values(x, model.target(x), keep, operator, "grid:8")
    assert found["after"] == pytest.approx(float(own[0]), abs=1e-6)
    assert found["operators"] == [operator]
    with Image.open(io.BytesIO(base64.b64decode(found["picture"]))) as image:
        shown = np.asarray(image)
    gone = ~keep.reshape(8, 8).repeat(4, 0).repeat(4, 1)
    assert np.array_equal(shown[~gone], x.pixels[~gone])
    assert not np.array_equal(shown[gone], x.pixels[gone])


def test_patches_hidden_from_attention_keep_their_colours(
    served: httpx.Client, ask: dict[str, Any], state: app.ServerState
) -> None:
    """The effect is measured; there is no other picture to show, and no prediction of it."""
    question = ask | {"model": "ViTForImageClassification", "unit": "patch", "methods": ["grad-l2"]}
    answer = served.post("/api/brush", json=question | {"cells": [0, 5], "operator": "pad"})
    assert answer.status_code == 200, answer.text
    found, model = answer.json(), tiny_vit()
    x = model.encode(file_of(scene()))
    keep = np.ones((2, 16), dtype=bool)
    keep[1, [0, 5]] = False
    own = model.values(x, model.target(x), keep, "pad", "patch")
    assert [found["before"], found["after"]] == pytest.approx(own.tolist(), abs=1e-6)
    assert (found["picture"], found["prediction"]) == ("", [])


def test_the_control_is_the_same_shape_elsewhere(served: httpx.Client, ask: dict[str, Any]) -> None:
    region = np.zeros(20, dtype=bool)
    region[[0, 1, 5]] = True
    found = brush.shifted(region, 4, 5, seed=3)
    assert len(found) == brush.PLACES
    places = {tuple(np.flatnonzero(one)) for one in found}
    assert len(places) == brush.PLACES
    assert tuple(np.flatnonzero(region)) not in places
    turned = {
        tuple(np.flatnonzero(np.roll(region.reshape(4, 5), (r, c), (0, 1)).ravel()))
        for r in range(4)
        for c in range(5)
    }
    assert places <= turned
    assert brush.shifted(np.ones(20, dtype=bool), 4, 5, 0) == []  # there is no other place
    answers = [served.post("/api/brush", json=ask | {"cells": [0, 1]}).json() for _ in range(2)]
    assert answers[0]["elsewhere"] == answers[1]["elsewhere"]
    assert len(answers[0]["elsewhere"]) == brush.PLACES


def test_the_model_inputs_of_a_region_are_bounded(ask: dict[str, Any], state: app.ServerState) -> None:
    from heedful.server.schemas import requests

    model = state.models.get(NAME).model
    question = requests.BrushRequest(**ask, cells=[0], operator="noise")
    brush.remove_region(model, question, state.memory)
    before = model.meter.forwards
    brush.remove_region(model, question, state.memory)
    assert model.meter.forwards - before <= 1 + (1 + brush.PLACES) * 4 + 4


@pytest.mark.parametrize("unit", ["grid:5", "superpixel"])
def test_cells_are_where_the_page_says(served: httpx.Client, ask: dict[str, Any], unit: str) -> None:
    """Of a grid that does not divide the picture, too; pieces of any shape are brushed over by cells."""
    cells = served.post("/api/look", json=ask | {"unit": unit, "methods": ["occlusion"]}).json()["picture"]
    x = planted().encode(file_of(scene()))
    boxes = [
        (left, top, right, bottom)
        for top, bottom in zip(cells["rows"], cells["rows"][1:], strict=False)
        for left, right in zip(cells["columns"], cells["columns"][1:], strict=False)
    ]
    assert boxes == [tuple(region) for region in x.units(cells["unit"]).regions]
    last = served.post("/api/brush", json=ask | {"unit": unit, "cells": [len(boxes) - 1]})
    assert last.status_code == 200
    beyond = served.post("/api/brush", json=ask | {"unit": unit, "cells": [len(boxes)]})
    assert beyond.status_code == 400
    assert f"no cell {len(boxes)}" in beyond.json()["error"]


def test_heads_of_a_vision_transformer(served: httpx.Client, ask: dict[str, Any]) -> None:
    """As maps on the picture, here and in the stored run; a model without attention says so."""
    question = ask | {"model": "ViTForImageClassification"}
    job = finished(served, served.post("/api/jobs/attention", json=question).json())
    assert job["state"] == "done", job["error"]
    assert job["result"]["component"] == "patches"
    assert job["result"]["data"]["levels"][0]["stacks"][0]["grid"] == [4, 4]
    run = served.get(f"/api/runs/{job['run']}").json()
    assert run["component"] == "patches"
    assert run["data"]["levels"] == job["result"]["data"]["levels"]
    failed = finished(served, served.post("/api/jobs/attention", json=ask).json())
    assert failed["state"] == "failed"
    assert "attention" in failed["error"]


def test_a_picture_with_a_text(tmp_path: Path) -> None:
    """A model that compares the two: cells are brushed over, words stay."""
    from tests.models import dual_models

    model = heedful.load(dual_models.module("clip"), processor=dual_models.processor())
    config = app.ServerConfig(runs=tmp_path)
    state = app.load_state([model], config)
    with listening(state, config) as address, httpx.Client(base_url=address, timeout=120) as client:
        number = sent(client, file_of(scene())).json()["id"]
        ask = {"model": model.name, "picture": number, "text": "a red circle"}
        look = client.post("/api/look", json=ask).json()
        found = client.post("/api/brush", json=ask | {"cells": [0, 1], "operator": "blur"}).json()
        alone = client.post("/api/look", json=ask | {"text": ""})
    state.close()
    state.jobs.join()
    assert look["picture"]["unit"] == "patch"
    assert look["prediction"][0]["label"] == "a red circle"
    x = model.encode({"picture": file_of(scene()), "text": "a red circle"})
    keep = np.ones((2, len(x.units("patch+word"))), dtype=bool)
    keep[1, :2] = False
    own = model.values(x, model.target(x), keep, "blur", "patch+word")
    assert [found["before"], found["after"]] == pytest.approx(own.tolist(), abs=1e-9)
    assert alone.status_code == 400


def test_examples_are_those_of_the_zoo_model(tmp_path: Path) -> None:
    """Scenes as it was trained on, under names that are true: it reads them right."""
    config = app.ServerConfig(runs=tmp_path)
    state = app.load_state(["zoo:digits-vit", "zoo:sentiment"], config)
    with listening(state, config) as address, httpx.Client(base_url=address, timeout=120) as client:
        known = {one["name"]: one for one in client.get("/api/here").json()["models"]}
        examples = known["zoo:digits-vit"]["examples"]
        answers = [
            client.post("/api/look", json={"model": "zoo:digits-vit", "picture": one["id"]}).json()
            for one in examples
        ]
    state.close()
    state.jobs.join()
    assert known["zoo:sentiment"]["examples"] == []
    assert [one["label"] for one in examples] == ["2", "3", "5", "9"]
    assert [answer["prediction"][0]["label"] for answer in answers] == ["2", "3", "5", "9"]
