"""The command line on pictures: a path instead of a text, one clear line for what is none."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

import heedful
from heedful.cli.main import main
from heedful.modalities.image_files import FORMATS

LABELS = {0: "dark", 1: "bright"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small transformer of pictures with random weights, in a folder."""
    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    names = {"id2label": LABELS, "label2id": {name: index for index, name in LABELS.items()}}
    config = ViTConfig(**sizes, **names, image_size=16, patch_size=4, initializer_range=0.5)
    ViTForImageClassification(config).save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for seed in range(3):
        pixels = np.random.default_rng(seed).integers(0, 256, (20, 24, 3)).astype(np.uint8)
        place = tmp_path / LABELS[seed % 2] / f"{seed}.png"
        place.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(place)
    return tmp_path


def run(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_explain_reads_a_path(capsys: Any, model: str, photos: Path) -> None:
    file, folder = str(photos / "dark" / "0.png"), str(photos / "run")
    chosen = ("--method", "occlusion,grad-l2", "--unit", "patch", "--operator", "blur", "--target", "bright")
    code, out, err = run(capsys, "explain", file, "-m", model, *chosen, "--json", "--out", folder)
    assert code == 0, err
    data = json.loads(out)
    assert data["settings"]["unit"] == "patch"
    assert data["target"]["label"] == "bright"
    assert len(data["attributions"][0]["words"]) == 16
    assert data["attributions"][0]["params"]["operator"] == "blur"
    code, out, err = run(capsys, "report", folder)
    assert code == 0, err
    assert "row 1, column 1" in out


def test_the_path_can_be_kept_instead(capsys: Any, model: str, photos: Path) -> None:
    file, folder = photos / "dark" / "0.png", photos / "run"
    options = ("--method", "grad-l2", "--no-evidence", "--out", str(folder), "--keep-picture", "path", "-q")
    assert run(capsys, "explain", str(file), "-m", model, *options)[0] == 0
    assert json.loads((folder / "result.json").read_text())["x"]["path"] == str(file)
    file.unlink()
    code, out, err = run(capsys, "report", str(folder))
    assert code == 0, err
    assert "the picture is not shown: there is no file" in " ".join((out + err).split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no.png", "there is no file"),
        ("dark", "is a folder"),
        ("notes.txt", "cannot be read as a picture"),
        ("cut.png", "cannot be read as a picture"),
        ("huge.png", "too large"),
    ],
)
def test_what_is_no_picture_is_one_line_and_exit_code_2(
    capsys: Any, model: str, photos: Path, name: str, said: str
) -> None:
    (photos / "notes.txt").write_text("not a picture")
    whole = (photos / "dark" / "0.png").read_bytes()
    (photos / "cut.png").write_bytes(whole[:200])
    head = b"IHDR" + b"\0\0\x4e\x20" * 2 + whole[24:29]  # 20,000 × 20,000
    (photos / "huge.png").write_bytes(whole[:12] + head + struct.pack(">I", zlib.crc32(head)) + whole[33:])
    code, out, err = run(capsys, "explain", str(photos / name), "-m", model, "-q")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_a_picture_for_a_model_of_texts_is_refused(capsys: Any, photos: Path) -> None:
    code, _, err = run(capsys, "explain", str(photos / "dark" / "0.png"))
    assert code == 2
    assert "is a picture: zoo:sentiment reads text" in err


def test_unknown_units_and_operators_are_refused(capsys: Any, model: str, photos: Path) -> None:
    file = str(photos / "dark" / "0.png")
    for option, value in (("--unit", "word"), ("--unit", "grid:99"), ("--operator", "delete")):
        code, _, err = run(capsys, "explain", file, "-m", model, option, value, "-q")
        assert code == 2, value
        assert err.count("\n") == 1


def test_a_dry_run_and_the_doctor(capsys: Any, model: str, photos: Path) -> None:
    code, out, _ = run(capsys, "explain", str(photos / "dark" / "0.png"), "-m", model, "--dry-run")
    assert code == 0
    assert "gradcam" in out
    code, out, _ = run(capsys, "doctor", model)
    assert code == 0
    told = " ".join(out.split())
    assert "reads pictures" in told
    assert "16 × 16" in told
    assert "mean, blur" in told


def test_an_audit_of_a_folder(capsys: Any, model: str, photos: Path) -> None:
    quick = ("--method", "occlusion", "--draws", "5", "--unit", "grid:4")
    code, out, err = run(capsys, "audit", str(photos), "-m", model, *quick, "--out", str(photos / "run"))
    assert code == 0, err
    assert "3 pictures are too few for a verdict" in out
    assert "labels: the names of the sub-folders (bright, dark)" in err
    assert "1 metric" not in out
    assert " texts" not in out + err
    code, out, _ = run(capsys, "report", str(photos / "run"))
    assert "3 pictures are too few" in out
    code, out, _ = run(capsys, "audit", str(photos), "-m", model, *quick, "--dry-run")
    assert "3 pictures" in out


def test_what_needs_text_refuses_a_model_of_pictures(capsys: Any, model: str, tmp_path: Path) -> None:
    texts, pictures = str(tmp_path / "texts.csv"), str(tmp_path / "pictures.csv")
    Path(texts).write_text("text,label\na,0\nb,1\n")
    Path(pictures).write_text("path,label\na.png,0\nb.png,1\n")
    tokens = f"needs a model that reads tokens: {model} is a classifier: it reads pictures."
    reads = f"needs a model that reads text: {model} reads pictures. For tables of pictures: heedful audit."
    for words, said in (
        (("generate", "Once"), "cannot write text: it is a classifier"),
        (("trial", texts), tokens),
        (("trial", pictures), f"a trial {reads}"),
        (("heads", "importance", texts), f"head ablation {tokens}"),
        (("heads", "importance", pictures), f"head ablation {reads}"),
        (("heads", "prune", pictures), f"head ablation {reads}"),
        (("steer", "Once", "--feature", "1=5x"), "heedful: "),
        (("attention", "Once"), "there is no file Once"),
    ):
        code, _, err = run(capsys, *words, "-m", model)
        assert code == 2, words
        assert said in err.replace("\n", " "), (words, err)
        assert "Traceback" not in err


def test_a_model_of_texts_still_hears_of_the_columns(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "pictures.csv").write_text("path,label\na.png,0\nb.png,1\n")
    for words in (("trial",), ("heads", "importance")):
        code, _, err = run(capsys, *words, str(tmp_path / "pictures.csv"), "-m", "zoo:sentiment")
        assert code == 2
        assert "has no column 'text'" in err


def pipe(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("name", FORMATS)
def test_a_picture_can_be_piped(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, model: str, photos: Path, name: str
) -> None:
    argument = ("-",) if name == "JPEG" else ()
    made = io.BytesIO()
    Image.open(photos / "dark" / "0.png").save(made, name)
    pipe(monkeypatch, made.getvalue())
    same = ("-m", model, "--method", "occlusion", "--unit", "grid:2", "--no-evidence", "--json")
    code, out, err = run(capsys, "explain", *argument, *same)
    assert code == 0, err
    file = photos / f"piped.{name.lower()}"
    file.write_bytes(made.getvalue())
    _, expected, _ = run(capsys, "explain", str(file), *same)
    piped, named = json.loads(out), json.loads(expected)
    assert piped["attributions"][0]["words"] == named["attributions"][0]["words"]
    assert not piped["settings"].get("command")


def test_what_is_piped_is_bounded_and_for_the_right_model(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, model: str, photos: Path
) -> None:
    content = (photos / "dark" / "0.png").read_bytes()
    for command in ("explain", "attention"):
        pipe(monkeypatch, content)
        code, _, err = run(capsys, command, "-m", "zoo:sentiment")
        assert (code, "standard input is a picture: zoo:sentiment reads text" in err) == (2, True), err
    pipe(monkeypatch, content)
    assert run(capsys, "attention", "-m", model, "--quiet")[0] == 0
    pipe(monkeypatch, content[:200])
    code, _, err = run(capsys, "explain", "-m", model)
    assert (code, "cannot be read as a picture" in err) == (2, True), err
    pipe(monkeypatch, b"\xfe\xfe\xfe no picture")
    code, _, err = run(capsys, "explain", "-m", model)
    assert (code, "standard input is not UTF-8 text" in err) == (2, True), err
    monkeypatch.setattr("heedful.modalities.image_files.MAX_FILE_BYTES", len(content) - 1)
    pipe(monkeypatch, content)
    code, _, err = run(capsys, "explain", "-m", model)
    assert (code, "the picture on standard input has more than" in err) == (2, True), err


def test_the_name_of_a_picture_can_be_piped(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, model: str, photos: Path
) -> None:
    pipe(monkeypatch, f"{photos / 'dark' / '0.png'}\n".encode())
    assert run(capsys, "explain", "-m", model, "--method", "occlusion", "--no-evidence")[0] == 0


def test_methods_that_need_a_picture_say_their_cost(capsys: Any) -> None:
    code, out, _ = run(capsys, "methods", "rise")
    assert code == 0
    assert "for a picture of 8 × 8 cells" in out
    assert "heedful explain PICTURE" in out


def test_help_imports_neither_torch_nor_pillow() -> None:
    code = (
        "import sys; from heedful.cli.main import main; main(['explain', '--help']); "
        "print(sorted({'torch', 'PIL', 'scipy', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "seven.png" in done.stdout
    assert done.stderr.strip() in ("[]", "['numpy']")


# --- regions -----------------------------------------------------------------------------------------------


def regions_of(capsys: Any, model: str, photos: Path, *options: str) -> list[dict[str, Any]]:
    file = str(photos / "dark" / "0.png")
    fixed = ("-m", model, "--method", "occlusion", "--no-evidence", "--json", "-q")
    code, out, err = run(capsys, "explain", file, *fixed, *options)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)["attributions"][0]["words"]
    return found


@pytest.fixture
def marked(photos: Path) -> Path:
    """mask.png and regions.json: the left half, as a mask and as a box."""
    with Image.open(photos / "dark" / "0.png") as image:
        width, height = image.size
    mask = np.zeros((height, width), np.uint8)
    mask[:, : width // 2] = 255
    Image.fromarray(mask).save(photos / "mask.png")
    (photos / "regions.json").write_text(json.dumps({"half": "mask.png"}))
    (photos / "size").write_text(f"{width} {height}")
    return photos


def test_a_box_and_its_mask_are_the_same_region(capsys: Any, model: str, marked: Path) -> None:
    width, height = map(int, (marked / "size").read_text().split())
    typed = regions_of(capsys, model, marked, "--region", f"half=0,0,{width // 2},{height}")
    from_file = regions_of(capsys, model, marked, "--regions", str(marked / "regions.json"))
    assert [one["text"] for one in typed] == ["half", "rest"]
    assert typed == from_file
    assert typed[0]["score"] != typed[1]["score"]
    right = f"right={width - 4},0,{width},4"
    both = regions_of(capsys, model, marked, "--regions", str(marked / "regions.json"), "--region", right)
    assert [one["text"] for one in both] == ["half", "right", "rest"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--region", "a=0,0,99,99"), "does not fit the picture"),
        (("--region", "a=4,4,4,8"), "does not fit the picture"),
        (("--region", "a=-1,0,4,4"), "does not fit the picture"),
        (("--region", "a=nan,0,4,4"), "the region 'a' cannot be read"),
        (("--region", "a=0,0,4"), "the region 'a' cannot be read"),
        (("--region", "0,0,4,4"), "cannot read --region"),
        (("--region", "=0,0,4,4"), "a region cannot be called ''"),
        (("--region", "rest=0,0,4,4"), "a region cannot be called 'rest'"),
        (("--region", "a=0,0,4,4", "--region", "a=4,4,8,8"), "the region 'a' is given twice"),
        (("--region", "a=0,0,8,8", "--region", "b=0,0,4,4"), "the region 'b' has no place of its own"),
        (("--region", "a=0,0,8,8", "--unit", "grid:4"), "--unit grid:4 does not score the regions"),
        (("--unit", "region"), "no regions were given"),
        (("--regions", "FILE"), "regions are too many"),
        (("--regions", "no.json"), "no.json"),
    ],
)
def test_bad_regions_are_one_line_and_exit_code_2(
    capsys: Any, model: str, photos: Path, options: tuple[str, ...], said: str
) -> None:
    many = {f"r{n}": [n % 16, n // 16, n % 16 + 1, n // 16 + 1] for n in range(300)}
    (photos / "many.json").write_text(json.dumps(many))
    options = tuple(str(photos / "many.json") if each == "FILE" else each for each in options)
    code, out, err = run(capsys, "explain", str(photos / "dark" / "0.png"), "-m", model, *options, "-q")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1, 2]", "has no regions by name"),
        ("{}", "has no regions"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"a": [NaN, 0, 4, 4]}', "the region 'a' cannot be read"),
        ('{"a": {"b": 1}}', "the region 'a' cannot be read"),
        ('{"a": null}', "the region 'a' cannot be read"),
        ('{"a": [0, 0, 4, 4], "a": [4, 4, 8, 8]}', "is given twice"),
        ('{"a": "small.png"}', "the mask has 3 × 3 pixels"),
        ('{"a": "none.png"}', "none.png"),
        ('{"a": "black.png"}', "the region 'a' is empty"),
    ],
)
def test_bad_files_of_regions_are_one_line_and_exit_code_2(
    capsys: Any, model: str, photos: Path, content: str, said: str
) -> None:
    with Image.open(photos / "dark" / "0.png") as image:
        Image.new("L", image.size).save(photos / "black.png")
    Image.new("L", (3, 3), 255).save(photos / "small.png")
    (photos / "r.json").write_text(content)
    file = str(photos / "dark" / "0.png")
    code, out, err = run(capsys, "explain", file, "-m", model, "--regions", str(photos / "r.json"), "-q")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_regions_are_for_pictures(capsys: Any) -> None:
    code, _, err = run(capsys, "explain", "a good day", "--region", "a=0,0,1,1", "-q")
    assert code == 2
    assert "regions are parts of a picture" in err


def test_overlapping_regions_say_who_has_the_shared_part(capsys: Any, model: str, photos: Path) -> None:
    file = str(photos / "dark" / "0.png")
    boxes = ("--region", "a=0,0,8,8", "--region", "b=4,4,12,12")
    options = ("--method", "occlusion", "--no-evidence", "-q")
    code, out, err = run(capsys, "explain", file, "-m", model, *boxes, *options)
    assert code == 0, err
    assert "Regions 'a' and 'b' overlap: 'a' has the shared part" in " ".join(out.split())


def test_regions_without_a_method_are_measured_and_no_method_is_judged(
    capsys: Any, model: str, photos: Path
) -> None:
    asked = ("explain", str(photos / "dark" / "0.png"), "-m", model, "--region", "a=0,0,8,8")
    said = ("No method is proven", "random orders", "heedful audit", "(control)", "Which method")
    code, out, err = run(capsys, *asked, "--html", str(photos / "a.html"))
    assert code == 0, err
    assert "Measured by blurring each region" in " ".join(out.split())
    assert not [words for words in said if words in out]
    code, out, err = run(capsys, *asked, "--method", "occlusion")
    assert code == 0, err
    assert [words for words in said if words in out] == list(said)


@pytest.mark.parametrize("size", [(1, 1), (24, 20)])
def test_a_flat_picture_is_one_sentence_without_table_and_map(
    capsys: Any, model: str, tmp_path: Path, size: tuple[int, int]
) -> None:
    Image.new("RGB", size).save(tmp_path / "black.png")
    few = ("--method", "occlusion,lime")
    code, out, err = run(capsys, "explain", str(tmp_path / "black.png"), "-m", model, *few)
    assert code == 0, err
    assert out.count("Nothing that was removed changes the output, so nothing is shaded") == 1
    assert not [words for words in ("0.000", "·", "▀", "reaches 5", "row 1", " of 16") if words in out], out


@pytest.mark.parametrize("command", ["explain", "attention"])
def test_a_bad_picture_is_refused_before_the_model_is_loaded(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, model: str, tmp_path: Path, command: str
) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    monkeypatch.setattr("heedful.load", lambda *args, **options: pytest.fail("the model was loaded"))
    for name in (model, "zoo:digits-vit", "zoo:tiny-clip"):
        code, _, err = run(capsys, command, str(tmp_path / "bad.png"), "-m", name)
        assert (code, "bad.png cannot be read as a picture" in err) == (2, True), err


def test_a_model_of_texts_does_not_look_into_the_file(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    code, _, err = run(capsys, "explain", str(tmp_path / "bad.png"), "-m", "zoo:sentiment")
    assert (code, "bad.png is a picture: zoo:sentiment reads text" in err) == (2, True), err
    assert run(capsys, "attention", str(tmp_path / "bad.png"), "-m", "zoo:sentiment", "--quiet")[0] == 0


def test_a_unit_of_texts_is_refused_before_the_picture_is_read(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, model: str, photos: Path
) -> None:
    monkeypatch.setattr("heedful.models.picture_model.PictureModel.encode", lambda *args: pytest.fail("read"))
    code, _, err = run(capsys, "explain", str(photos / "dark" / "0.png"), "-m", model, "--unit", "word")
    assert code == 2
    assert "unit cannot be 'word'. Use one of: patch, grid:N, superpixel, region, pixel." in err


@pytest.mark.parametrize("colour", [True, False])
def test_the_legend_of_an_atlas_fits_its_marks(capsys: Any, model: str, photos: Path, colour: bool) -> None:
    from rich.console import Console

    from heedful.reports import terminal

    atlas = heedful.attention(model, str(photos / "dark" / "0.png"))
    console = Console(file=io.StringIO(), color_system="truecolor" if colour else None, force_terminal=colour)
    terminal.show(atlas.document(), console)
    out = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "Strong: more attention" in out
    assert ("violet: strong" in out) == colour
    assert ("+ strong" in out) == (not colour)
    assert "Stronger violet" not in out
    assert "Stronger violet: more attention" in atlas.page()
