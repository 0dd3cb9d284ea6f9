"""The report of a picture: the picture once, every map where it belongs, numbers that sentences name."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

import html5lib
import numpy as np
import pytest
from PIL import Image
from tests.reports import every_picture
from tests.reports.every_picture import SKILLS, explanation, shown

import heedful
from heedful.comparisons.result import Comparison
from heedful.comparisons.single_text import lower_than_controls
from heedful.core.document import Part, PictureMap
from heedful.core.input import Rectangle
from heedful.modalities.image import image_of
from heedful.reports import first_screen, html
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.half_blocks import cells, half_blocks
from heedful.reports.picture_grid import by_method, most_measured, standing_text
from heedful.reports.picture_map import picture_map
from heedful.reports.picture_svg import PictureDefinitions, draw
from heedful.reports.shading import level

SVG = "{http://www.w3.org/2000/svg}"


def tree_of(page: str) -> Element:
    parsed: Element = html5lib.parse(page, namespaceHTMLElements=False)
    return parsed


def column_of(found: Comparison, method: str) -> ScoreColumn:
    return next(col for col in columns(found) if col.method == method)


def every_svg(page: str) -> list[Element]:
    return [
        e
        for e in tree_of(page).iter()
        if isinstance(e.tag, str) and "picture" in (e.get("class") or "").split()
    ]


@pytest.mark.parametrize("unit", ["patch", "grid:5", "superpixel", "region"])
def test_the_picture_is_in_the_file_once(unit: str) -> None:
    mask = np.zeros((32, 48), bool)
    mask[4:9, 5:20] = mask[10:30, 30:32] = True
    x = shown(regions=(("<b>thing</b>", mask),))
    found = explanation(unit=unit, x=x)
    page = found.page()
    (data,) = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))), x.pixels)
    assert (
        len(every_svg(page)) == 5 + 1 + 1 + 5
    )  # the choice; the grid: the picture, what was measured, methods
    assert "<b>thing" not in page
    numbers = json.loads(re.search(r'id="heedful-data">(.*?)</script>', page, re.DOTALL).group(1))  # type: ignore[union-attr]
    assert "pixels" not in numbers["x"]
    boxes = [tuple(word["box"]) for word in numbers["attributions"][0]["words"]]
    assert boxes == [tuple(region) for region in x.units(unit).regions]
    assert len(found._repr_html_().split("data:image/png")) == 2


def test_references_lead_to_what_is_defined() -> None:
    tree = tree_of(explanation().page())
    ids = {e.get("id") for e in tree.iter() if isinstance(e.tag, str)}
    links = [
        e.get("href") or e.get("{http://www.w3.org/1999/xlink}href")
        for e in tree.iter()
        if str(e.tag).endswith("use")
    ]
    assert links
    assert {link.removeprefix("#") for link in links if link} <= ids
    fills = re.findall(r"url\(#([\w-]+)\)", explanation().page())
    assert fills
    assert set(fills) <= ids


def test_paths_cover_the_parts_of_their_level_and_no_others() -> None:
    """Drawn again from the paths, every place has the level and the hue of its part."""
    rng = np.random.default_rng(5)
    shares = rng.uniform(-1, 1, (6, 7))
    parts = tuple(
        Part((c * 3, r * 2, c * 3 + 3, r * 2 + 2), float(shares[r, c])) for r in range(6) for c in range(7)
    )
    shared = PictureDefinitions("t-")
    draw(PictureMap(b"", (21, 12), parts), shared)
    drawn = np.zeros((12, 21))
    for fill, opacity, path in re.findall(
        r'<path fill="([^"]+)" fill-opacity="([\d.]+)" d="([^"]+)"', shared.svg()
    ):
        sign = -1 if fill.startswith("url") else 1
        for left, top, right, bottom in re.findall(r"M(\d+) (\d+)H(\d+)V(\d+)", path):
            place = drawn[int(top) : int(bottom), int(left) : int(right)]
            assert not place.any()  # nothing is drawn twice
            place[:] = sign * float(opacity)
    expected = np.sign(shares) * np.round(0.85 * np.vectorize(level)(shares) / 9, 2)
    np.testing.assert_allclose(drawn, np.kron(expected, np.ones((2, 3))), atol=1e-9)


def test_units_of_a_sentence_are_outlined_and_numbered_in_its_order() -> None:
    found = explanation()
    sentence, named = first_screen.why(found), first_screen.named_units(found)
    labels = found.x.units("patch").labels
    effects = most_measured(found)
    assert effects is not None
    assert 1 <= len(named) <= 3
    told = re.findall(r"([①②③]) (row \d+, column \d+) \(([+−])", sentence)
    assert [place for _, place, _ in told] == [labels[i] for i in named]
    assert [mark for mark, *_ in told] == list("①②③"[: len(named)])
    assert [sign for *_, sign in told] == ["+" if effects.leave_one_out[i] > 0 else "−" for i in named]
    first = every_svg(found.page())[0]
    numbers = [e for e in first.iter() if e.get("class") == "number"]
    assert [e.text for e in numbers] == [str(n) for n in range(1, len(named) + 1)]
    for element, i in zip(numbers, named, strict=True):
        left, top, right, bottom = found.x.units("patch").regions[i]  # type: ignore[misc]
        assert left <= float(element.get("x") or "") <= right
        assert top <= float(element.get("y") or "") <= bottom


def test_a_map_that_scored_lower_than_edges_is_named_and_nothing_is_claimed() -> None:
    found = explanation()
    below = lower_than_controls(found.evidence)
    assert below == {
        name: ("edges",) if SKILLS[name] < SKILLS["edges"] else ()
        for name in ("occlusion", "gradcam", "lime")
    }
    sentence = first_screen.scored_lower(found)
    assert sentence == (
        "Scored lower than edges on this picture: gradcam. One picture is no test: use heedful.audit."
    )
    assert standing_text(found, "gradcam") == "beat 99 of 99 random orders; scored lower than edges here"
    assert standing_text(found, "occlusion") == "beat 99 of 99 random orders"
    assert standing_text(found, "edges").endswith("does not look at the model")
    page = tree_of(found.page())
    said = " ".join("".join(page.find("body").itertext()).split())  # type: ignore[union-attr]
    assert said.count("scored lower than edges") == 1
    assert sentence in said


def test_methods_and_controls_are_compared_on_the_cells_that_both_have() -> None:
    """A method that was not judged by a metric is not compared by it; equal scores are not lower."""
    found = explanation()
    edges = [replace(e, skill=0.9 if e.metric == "sufficiency" else 0.1) for e in found.evidence]
    mixed = [
        e if e.method == "edges" else original for e, original in zip(edges, found.evidence, strict=True)
    ]
    only = [e for e in mixed if (e.method, e.metric) != ("gradcam", "sufficiency")]
    assert lower_than_controls(mixed)["gradcam"] == ("edges",)  # 0.2 and 0.2 beside 0.1 and 0.9
    assert lower_than_controls(only)["gradcam"] == ()  # 0.2 beside 0.1
    same = [replace(e, skill=0.4) for e in found.evidence]
    assert set(lower_than_controls(same).values()) == {()}


def test_the_grid_has_what_was_measured_first_and_says_how_much() -> None:
    titles = [(tile.title, tile.lead) for tile in by_method(explanation()).nodes[1].nodes]  # type: ignore[union-attr]
    assert titles[0] == ("the picture", "as the model sees it")
    assert titles[1] == (
        "measured effect",
        "each patch really removed (cat)",
    )  # all, and not the half by blur
    assert [title for title, _ in titles[2:]][-2:] == ["edges", "random (control)"]


def test_pieces_of_any_shape_are_outlined_around() -> None:
    """Each edge of the outline separates the piece from something else: drawn cells agree with the pixels."""
    x = shown(size=(56, 56))
    found = explanation(unit="superpixel", x=x)
    node = picture_map(column_of(found, "lime"), x, "superpixel")
    owner = x.units("superpixel").owner.reshape(56, 56)
    for part in node.parts:  # 56 cells per side: each is one pixel
        left, top, *_ = part.box
        assert owner[top, left] == part.unit
    assert node.grid == (0, 0)


def test_sentences_speak_of_pictures() -> None:
    found = explanation()
    page = re.sub(r"<(style|script).*?</\1>", "", found.page(), flags=re.DOTALL)
    said = "".join(tree_of(page).find("body").itertext())  # type: ignore[union-attr]
    assert not re.search(r"\b(texts?|words?|patchs)\b", said.replace("in words", ""), re.IGNORECASE), said
    shown_in_terminal = str(found)
    assert not re.search(r"\b(texts?|words?|patchs)\b", shown_in_terminal)
    assert "50 pictures or more" in shown_in_terminal


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize("colour", [True, False], ids=["colours", "marks"])
def test_in_a_terminal_the_named_units_have_their_numbers(width: int, colour: bool) -> None:
    found = explanation()
    named = first_screen.named_units(found)
    node = replace(picture_map(column_of(found, "lime"), image_of(found.x), "patch"), named=tuple(named))
    lines = [line.plain for line in half_blocks(node, plain=not colour, columns=width)]
    assert max(map(len, lines)) == min(width, 28)
    for number, unit in enumerate(named, 1):
        (row, text) = next((row, text) for row, text in enumerate(lines) if str(number) in text)
        left, top, right, bottom = image_of(found.x).units("patch").regions[unit]  # type: ignore[misc]
        assert left <= (text.index(str(number)) + 0.5) * 48 / len(text) <= right
        assert top - 4 <= (row + 0.5) * 32 / len(lines) <= bottom + 4  # a line is two rows of cells
    if not colour:
        assert set("".join(lines)) <= set("·+-123")


def test_half_blocks_show_each_cell() -> None:
    found = explanation()
    node = picture_map(column_of(found, "lime"), image_of(found.x), "patch")
    grid = cells(node)
    for part in node.parts:
        left, top, right, bottom = part.box
        r, c = (top + bottom) / 2 * len(grid) / 32, (left + right) / 2 * grid.shape[1] / 48
        assert grid[int(r), int(c)] == part.share


def test_a_table_has_the_boxes() -> None:
    pytest.importorskip("pandas", reason="tables need pandas")
    found = explanation()
    table = found["lime"].to_frame()
    boxes = [Rectangle(*row) for row in table[["left", "top", "right", "bottom"]].itertuples(index=False)]
    assert tuple(boxes) == found.x.units("patch").regions
    assert set(table["part"]) == {"picture"}
    np.testing.assert_array_equal(table["score"], found["lime"].unit_scores("patch"))
    assert len(found.to_frame()) == 5 * 24
    assert found["lime"].to_csv().splitlines()[0] == "method,unit,left,top,right,bottom,score,stderr"


PLACE = ["left", "top", "right", "bottom", "start", "end"]


def pair() -> heedful.Comparison:
    def see(pictures: list[np.ndarray]) -> list[list[float]]:
        return [[1.0, float(each[:16].mean())] for each in pictures]

    def read(texts: list[str]) -> list[list[float]]:
        return [[1.0, float(text.count("r"))] for text in texts]

    model = heedful.load((see, read), modality="image+text")
    picture = np.random.default_rng(0).integers(0, 256, (32, 48, 3)).astype(np.uint8)
    raw = {"picture": picture, "text": "a red ring"}
    return heedful.explain(model, raw, ["occlusion", "lime"], unit="grid:2", evidence=False)


def test_a_table_of_a_pair_has_boxes_and_characters(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="tables need pandas")
    import pyarrow.parquet as pq

    found = pair()
    item = found["occlusion"]
    boxes = [*item.x.units("grid:2").regions[:4]]
    rows: list[list[int | None]] = [[*box, None, None] for box in boxes]
    rows += [[None] * 4 + list(span) for span in ((0, 1), (2, 5), (6, 10))]
    lines = list(csv.DictReader(io.StringIO(item.to_csv())))
    assert [[int(line[name]) if line[name] else None for name in PLACE] for line in lines] == rows
    assert [float(line["score"]) for line in lines] == item.unit_scores().tolist()
    frame = item.to_frame()
    places = [[None if pandas.isna(n) else int(n) for n in row] for row in frame[PLACE].values.tolist()]
    assert places == rows
    assert frame["score"].tolist() == item.unit_scores().tolist()
    assert found.to_frame()["start"].dropna().tolist() == len(found) * [0, 2, 6]
    stored = pq.read_table(found.save(tmp_path / "run") / "scores.parquet").to_pylist()
    assert [[row[name] for name in PLACE] for row in stored[:7]] == rows
    assert [row["score"] for row in stored[:7]] == item.unit_scores().tolist()


def test_a_figure_has_the_colours_of_the_scores() -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    from heedful.reports.picture_plots import heat

    found = explanation()
    node = picture_map(column_of(found, "lime"), image_of(found.x), "patch")
    drawn = heat(node)
    for part in node.parts:
        left, top, right, bottom = part.box
        assert drawn[top:bottom, left:right, 3] == pytest.approx(0.85 * abs(part.share))
        blue_first = drawn[top, left, 2] > drawn[top, left, 0]
        assert blue_first == (part.share >= 0)
    for result in (found, found["gradcam"]):
        out = io.BytesIO()
        result.plot().savefig(out, format="svg")
        assert b"<image" in out.getvalue()


def test_one_method_alone_is_shown_on_the_picture() -> None:
    found = explanation()["lime"]
    page = found.page()
    assert page.count("data:image/png") == 1
    order = np.argsort(-np.abs(found.unit_scores("patch")))
    labels = found.x.units("patch").labels
    assert f"Strongest patches: “{labels[order[0]]}”" in str(found).replace("\n", " ")


def test_live_parts_have_their_definitions() -> None:
    """Nodes that a page asks for alone bring the picture along, under ids of their own."""
    node = picture_map(column_of(explanation(), "lime"), shown("cat"), "patch")
    one, other = html.nodes_html([node], 2), html.nodes_html([node], 2)
    assert one.count("data:image/png") == other.count("data:image/png") == 1
    ids = [set(re.findall(r'id="([^"]+)"', each)) for each in (one, other)]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_an_atlas_without_a_class_token_shows_the_mean() -> None:
    from heedful.heads.maps import Maps
    from heedful.heads.picture_capture import patch_side
    from heedful.reports import atlas_patches

    atlas = every_picture.atlas()
    x = replace(atlas.x, special=0)
    side = patch_side(x)  # type: ignore[arg-type]
    weights = atlas.maps[..., 1:, 1:]
    maps = Maps("self", weights, side, side, grid=(4, 6))
    found = atlas_patches.seen(maps, weights[0, 0])
    np.testing.assert_allclose(found, weights[0, 0].mean(0).reshape(4, 6))
    with_token = atlas_patches.seen(atlas.stacks[0], atlas.maps[0, 0])
    np.testing.assert_allclose(with_token, atlas.maps[0, 0, 0, 1:].reshape(4, 6))
