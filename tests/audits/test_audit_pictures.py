"""Audits of pictures: folders, tables of paths, rows in Python; what is known by content, what is said."""

from __future__ import annotations

import base64
import csv
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.io.reforged import reforge

import heedful
from heedful.audits.estimate import estimate_audit
from heedful.core.errors import HeedfulError
from heedful.core.numbers import fixed, short
from heedful.io.datasets import Columns, in_random_order, open_source
from heedful.io.rationales import marks_of_mask
from heedful.modalities.image_png import from_png
from heedful.modalities.joint import JointInput
from heedful.models.image_reader import ImageReader
from heedful.reports.audit_tables import interval

SIZE, CELL = 16, 4
QUICK: dict[str, Any] = {
    "methods": ["occlusion"],
    "metrics": ["comprehensiveness", "sufficiency"],
    "operators": ["blur"],
    "draws": 5,
}


def scene(seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """(a dark picture with one bright cell, where it is, "left" or "right")"""
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 60, (SIZE, SIZE, 3)).astype(np.uint8)
    row, column = rng.integers(0, SIZE // CELL, 2) * CELL
    picture[row : row + CELL, column : column + CELL] = 255
    mask = np.zeros((SIZE, SIZE), bool)
    mask[row : row + CELL, column : column + CELL] = True
    return picture, mask, "left" if column < SIZE // 2 else "right"


def brightness(pictures: list[np.ndarray]) -> Any:
    """Left and right: how much of each half is bright. The bright cell is the whole reason."""
    halves = [np.hsplit((p > 128).mean(2), 2) for p in pictures]
    return [[40 * left.mean(), 40 * right.mean()] for left, right in halves]


@pytest.fixture(scope="module")
def model() -> heedful.Model:
    return heedful.load(
        brightness, modality="image", labels=["left", "right"], processor=ImageReader((SIZE, SIZE))
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """pictures/left/3.png, masks/3.png, rows.csv"""
    rows = []
    for seed in range(12):
        picture, mask, label = scene(seed)
        for name, array in ((f"pictures/{label}/{seed}.png", picture), (f"masks/{seed}.png", 255 * mask)):
            place = tmp_path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array.astype(np.uint8)).save(place)
        box = np.argwhere(mask)
        (top, left), (bottom, right) = box.min(0), box.max(0) + 1
        path = f"pictures/{label}/{seed}.png"
        box_text = f"{left} {top} {right} {bottom}"
        rows.append({"path": path, "label": label, "mask": f"masks/{seed}.png", "boxes": box_text})
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    return tmp_path


def test_a_folder_whose_sub_folders_are_labels(model: heedful.Model, folder: Path) -> None:
    audit = heedful.audit(model, folder / "pictures", out=folder / "run", **QUICK)
    assert (audit.texts, audit.labelled, audit.right) == (12, 12, 12)
    assert audit.made["source"]["labels"] == "names of the sub-folders"
    assert audit.verdict.headline == "Use occlusion: it beat random orders on 12 of 12 pictures."
    told = str(audit) + re.sub("<(script|style).*?</", "", audit.page(), flags=re.DOTALL)
    assert "pictures" in told
    for wrong in (" texts", " words ", "patchs", "this text"):
        assert wrong not in told, wrong
    assert heedful.Audit.load(folder / "run").verdict == audit.verdict
    comparison = heedful.explain(model, scene(0)[0], audit=folder / "run")
    assert comparison.settings["audit"]["use"] == "occlusion"


def test_sub_folders_with_other_names_are_no_labels(model: heedful.Model, folder: Path) -> None:
    (folder / "pictures" / "left").rename(folder / "pictures" / "2023")
    (folder / "pictures" / "right").rename(folder / "pictures" / "2024")
    audit = heedful.audit(model, folder / "pictures", **QUICK)
    assert (audit.labelled, audit.unknown) == (0, 0)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_tables_find_pictures_labels_and_masks_from_their_own_folder(
    model: heedful.Model, folder: Path, name: str
) -> None:
    audit = heedful.audit(
        model, folder / name, methods=["occlusion"], metrics=["pointing", "plausibility"], unit="grid:4"
    )
    assert (audit.texts, audit.right) == (12, 12)
    values = {e.metric: e.value for e in audit.table if e.method == "occlusion"}
    assert values == {"pointing": 1.0, "plausibility": 1.0}


def test_boxes_and_masks_say_the_same(model: heedful.Model, folder: Path) -> None:
    boxes = open_source(folder / "rows.csv", columns=Columns(path="path", boxes="boxes"), modality="image")
    for row, seed in zip(boxes.rows(), range(12), strict=True):
        picture, mask, _ = scene(seed)
        np.testing.assert_array_equal(model.truth_mask(row.text, row.mask), mask.ravel())
        np.testing.assert_array_equal(model.truth_mask(picture, mask), mask.ravel())


def test_rows_in_python(model: heedful.Model) -> None:
    rows = [dict(zip(("picture", "mask", "label"), scene(seed), strict=True)) for seed in range(10)]
    audit = heedful.audit(model, rows, methods=["occlusion"], metrics=["pointing-mass"], unit="grid:4")
    assert (audit.texts, audit.right) == (10, 10)
    assert audit.table[0].value == pytest.approx(1.0)
    broken = heedful.audit(model, [*rows, {"pictur": 1}, {"picture": None}, {"picture": "no.png"}], **QUICK)
    reasons = {error["row"]: error["reason"] for error in broken.errors}
    assert "unknown keys: pictur" in reasons[10]
    assert reasons[11] == "there is no picture"
    assert "there is no file no.png" in reasons[12]


def test_the_same_colours_in_two_files_are_a_copy(model: heedful.Model, folder: Path) -> None:
    first = next((folder / "pictures").rglob("*.png"))
    Image.open(first).save(folder / "pictures" / "again.bmp")
    audit = heedful.audit(model, folder / "pictures", **QUICK)
    assert (audit.rows, audit.texts, audit.copies) == (13, 12, 1)
    assert any("the same picture as row" in error["reason"] for error in audit.errors)


def test_a_run_resumes_only_with_the_same_colours_and_masks(model: heedful.Model, folder: Path) -> None:
    run = folder / "run"
    metrics = {"methods": ["occlusion"], "metrics": ["pointing"], "draws": 5}
    before = heedful.audit(model, folder / "rows.csv", out=run, **metrics)
    assert heedful.audit(model, folder / "rows.csv", out=run, **metrics).table == before.table
    Image.fromarray(np.eye(SIZE, dtype=np.uint8) * 255).save(folder / "masks" / "3.png")
    with pytest.raises(HeedfulError, match="are not those that"):
        heedful.audit(model, folder / "rows.csv", out=run, **metrics)


def test_processes_give_the_same_bytes(model: heedful.Model, folder: Path) -> None:
    one = heedful.audit(model, folder / "rows.csv", out=folder / "one", **QUICK)
    two = heedful.audit(model, folder / "rows.csv", out=folder / "two", workers=2, **QUICK)
    assert one.table == two.table
    shard = "shards/000000/scores.parquet"
    assert (folder / "one" / shard).read_bytes() == (folder / "two" / shard).read_bytes()


def test_the_judges_fitted_nothing(model: heedful.Model, folder: Path) -> None:
    audit = heedful.audit(model, folder / "pictures", **(QUICK | {"operators": None}))
    assert audit.made["settings"]["fits"] == ["mean"]
    assert audit.made["settings"]["operators"] == ["blur", "inpaint"]
    assert np.isfinite(audit.spread("comprehensiveness", "occlusion"))


def test_bad_rows_stay_with_themselves(model: heedful.Model, folder: Path) -> None:
    (folder / "pictures" / "left" / "text.png").write_text("no picture")
    whole = next((folder / "pictures" / "right").glob("*.png")).read_bytes()
    (folder / "pictures" / "right" / "cut.png").write_bytes(whole[: len(whole) // 2])
    audit = heedful.audit(model, folder / "pictures", **QUICK)
    assert (audit.rows, audit.texts) == (14, 12)
    assert all("\n" not in error["reason"] for error in audit.errors)


def test_mistakes_name_the_file_and_its_strongest_parts(model: heedful.Model, folder: Path) -> None:
    right = sorted((folder / "pictures" / "right").iterdir())[0]
    right.rename(folder / "pictures" / "left" / "wrong.png")
    audit = heedful.audit(model, folder / "pictures", **QUICK)
    (one,) = audit.mistakes
    assert (one.file, one.label, one.prediction) == ("wrong.png", "left", "right")
    assert len(one.words) == 5
    assert one.words[0].startswith("row ")
    assert "Pictures that the model got wrong" in str(audit)


def wrong(folder: Path) -> Path:
    """A picture whose label is not what the model sees."""
    right = sorted((folder / "pictures" / "right").iterdir())[0]
    return right.rename(folder / "pictures" / "left" / "wrong.png")


def images(page: str) -> list[bytes]:
    return [base64.b64decode(found) for found in re.findall(r"data:image/png;base64,([^\"]+)", page)]


def test_the_report_shows_mistakes_with_the_map_of_the_recommended_method(
    model: heedful.Model, folder: Path
) -> None:
    file = wrong(folder)
    audit = heedful.audit(model, folder / "pictures", out=folder / "run", unit="grid:4", **QUICK)
    page = audit.page()
    (shown,) = images(page)
    np.testing.assert_array_equal(from_png(shown, 96), np.asarray(Image.open(file)))
    part = page[page.index("Pictures that the model got wrong") :]
    assert part.index('class="heat"') < part.index("Skill")
    row, column = (place // CELL for place in np.argwhere(np.asarray(Image.open(file))[..., 0] == 255)[0])
    (one,) = audit.mistakes
    assert int(np.argmax(one.unit_scores)) == 4 * row + column, "the bright cell has the highest score"
    assert "<script" not in part[: part.index("Skill")]
    assert heedful.Audit.load(folder / "run").page() == page
    assert "preview" not in json.dumps(audit.to_dict()["mistakes"]).replace('"preview": ""', "")


def test_without_mistakes_a_few_examples_are_shown(model: heedful.Model, folder: Path) -> None:
    audit = heedful.audit(model, folder / "pictures", out=folder / "run", **QUICK)
    assert not audit.mistakes
    assert [one.row for one in audit.examples] == sorted(one.row for one in audit.examples)
    assert len(audit.examples) == len(images(audit.page())) == 4
    assert "The first 4 pictures of the audit. The cells are shaded by occlusion." in audit.page()
    assert "Examples" not in str(audit), "a terminal has none"
    few = heedful.audit(model, folder / "pictures", limit=3, **QUICK)
    assert "No method is recommended, so the pictures are not shaded." in few.page()
    assert 'class="heat"' not in few.page()


def test_only_the_path_is_kept_if_the_user_says_so(model: heedful.Model, folder: Path) -> None:
    file, run = wrong(folder), folder / "run"
    heedful.audit(model, folder / "pictures", out=run, keep="path", **QUICK)
    assert images((run / "report.html").read_text()) == [], "the folder has no copy"
    for each in run.rglob("*.*"):
        assert b"\x89PNG" not in each.read_bytes()
        assert b"iVBOR" not in each.read_bytes()
    assert len(images(heedful.Audit.load(run).page())) == 1, "the file is the same"
    Image.fromarray(scene(99)[0]).save(file)
    changed = heedful.Audit.load(run).page()
    assert images(changed) == []
    assert f"The picture is not shown: {file} has changed" in changed
    file.unlink()
    assert f"The picture is not shown: there is no file {file}" in heedful.Audit.load(run).page()
    with pytest.raises(HeedfulError, match="keep cannot be 'jpg'"):
        heedful.audit(model, folder / "pictures", keep="jpg", **QUICK)


def test_a_run_keeps_few_previews(model: heedful.Model) -> None:
    """Of 60 large pictures, all of them wrong, in shards of 30: at most 5 per shard, and 4 of the first."""
    other = {"left": "right", "right": "left"}
    scenes = [scene(seed) for seed in range(60)]
    rows = [
        {"picture": picture.repeat(40, 0).repeat(40, 1), "label": other[is_]} for picture, _, is_ in scenes
    ]
    audit = heedful.audit(model, rows, shard=30, unit="grid:4", **QUICK)
    assert len(audit.mistakes) == len(images(audit.page())) == 5
    assert len(audit.page()) < 1_000_000


def test_a_forged_preview_is_refused(model: heedful.Model, folder: Path) -> None:
    wrong(folder)
    audit = heedful.audit(model, folder / "pictures", **QUICK)
    audit.save(folder / "saved")
    preview = json.loads(audit.mistakes[0].preview)

    def forge(data: Any, change: dict[str, Any]) -> Any:
        data["mistakes"][0]["preview"] = json.dumps(preview | change)
        return data

    for change in ({"png": "PHN2Zz4="}, {"height": 10**6}, {"modality": "<script>"}):
        reforge(folder / "saved", partial(forge, change=change))
        with pytest.raises(HeedfulError, match="damaged"):
            heedful.Audit.load(folder / "saved")


def test_what_cannot_be_audited_is_refused_in_one_line(model: heedful.Model, folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(HeedfulError, match="has no pictures"):
        heedful.audit(model, folder / "empty")
    (folder / "texts.csv").write_text("review\ngood\n")
    with pytest.raises(HeedfulError, match="has no column 'path'"):
        heedful.audit(model, folder / "texts.csv")
    with pytest.raises(HeedfulError, match="mask-column"):
        heedful.audit(model, folder / "pictures", metrics=["pointing"])
    with pytest.raises(HeedfulError, match="unit cannot be 'word'"):
        heedful.audit(model, folder / "pictures", unit="word")
    with pytest.raises(HeedfulError, match="is not a file: it is a folder"):
        heedful.audit("zoo:sentiment", folder / "pictures")


def test_the_estimate_speaks_of_pictures(model: heedful.Model, folder: Path) -> None:
    options = {"methods": ["occlusion"], "metrics": None, "operators": None}
    told = str(estimate_audit(model, folder / "pictures", **options))
    assert "12 pictures: up to about" in told
    assert "text" not in told


def test_a_file_is_told_apart_by_its_columns_before_the_model_is_known(folder: Path) -> None:
    assert open_source(folder / "rows.csv", modality=None).modality == "image"
    (folder / "texts.csv").write_text("text,path\na,b\n")
    assert open_source(folder / "texts.csv", modality=None).modality == "text"
    rows = list(in_random_order(open_source(folder / "rows.csv", modality="image"), 0))
    assert len({row.digest for row in rows}) == 12


def test_a_column_of_texts_is_refused_where_only_pictures_are_read(folder: Path) -> None:
    table = folder / "named.csv"
    table.write_text("path,words\n3/0.png,a three\n")
    columns = Columns(text="words")
    with pytest.raises(HeedfulError, match="'words' of texts would not be read"):
        open_source(table, columns=columns, modality="image")
    assert open_source(table, columns=columns, modality=JointInput.modality).columns.caption == "words"


def test_units_of_a_mask() -> None:
    units = heedful.load(brightness, modality="image").encode(scene(0)[0]).units("grid:2")
    mask = np.zeros((SIZE, SIZE), bool)
    mask[:8, :4] = True  # half of the first cell
    assert marks_of_mask(mask.ravel(), units) == (True, False, False, False)
    mask[:8, :2] = False
    assert marks_of_mask(mask.ravel(), units) == (True, False, False, False), "the largest share"
    assert marks_of_mask(np.zeros(SIZE * SIZE, bool), units) == (False,) * 4


def test_maps_made_elsewhere_are_weighed(model: heedful.Model) -> None:
    """The mask itself as a map is a perfect explanation; by place and by unit it is the same."""
    scenes = [scene(seed) for seed in range(12)]
    pictures, masks = [one for one, _, _ in scenes], [mask.astype(float) for _, mask, _ in scenes]
    coarse = [mask.reshape(4, 4, 4, 4).mean((1, 3)) for mask in masks]
    scores = {"mine": masks, "coarse": coarse, "wrong": lambda picture: np.ones((5, 5))}
    with pytest.raises(HeedfulError, match=r"'wrong' has no usable scores.*a map of 5 × 5 scores"):
        heedful.weigh(model, pictures, scores, unit="grid:4", fitted_by="nothing")
    del scores["wrong"]
    audit = heedful.weigh(model, pictures, scores, unit="grid:4", fitted_by="nothing")
    assert [audit.verdict[name].won for name in ("mine", "coarse")] == [12, 12]


def test_without_a_metric_of_the_verdict_the_first_screen_has_the_numbers(
    model: heedful.Model, folder: Path
) -> None:
    metrics = ["pointing", "pointing-mass"]
    found = heedful.audit(model, folder / "rows.csv", methods=["occlusion", "random"], metrics=metrics)
    screen = str(found)
    assert "no metric of the verdict ran" in screen
    page = re.sub(r"<[^>]+>", " ", found.page().partition("<h2>More</h2>")[0])
    for metric in metrics:
        (heads,) = [line for line in screen.splitlines() if line.split()[:2] == ["↑", metric]]
        assert heads.split()[2:] == ["value", "chance", "skill", "(95", "%)", "pictures"]
    for one in found.table:
        control = one.method in ("edges", "smooth-random", "centre", "random")
        name = f"{one.method} (control)" if control else one.method
        row = [name, short(one.value), short(one.control), fixed(one.skill), interval(one), "12"]
        assert any(" ".join(line.split()) == " ".join(row) for line in screen.splitlines()), row
        assert " ".join(row) in " ".join(page.split()), row
    assert {one.method for one in found.table} >= {"occlusion", "edges", "smooth-random", "centre"}


def test_with_a_verdict_the_first_screen_has_no_further_table(model: heedful.Model, folder: Path) -> None:
    metrics = ["comprehensiveness", "sufficiency", "pointing"]
    found = heedful.audit(model, folder / "rows.csv", methods=["occlusion"], metrics=metrics, draws=5)
    assert "What was measured" not in str(found)
