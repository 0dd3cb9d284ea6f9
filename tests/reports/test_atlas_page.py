"""The page of an atlas without its script: complete, escaped, self-contained, true to the weights."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from heedful.heads.atlas import Atlas
from heedful.heads.head_distance import heads_layout
from heedful.reports import atlas_data, atlas_image, atlas_layout


def page(atlas: Atlas) -> str:
    return atlas.page()


def fragment(atlas: Atlas) -> str:
    return atlas._repr_html_()


Make = Callable[..., Atlas]
VOID = {"meta", "br", "img", "input"}


class Reader(HTMLParser):
    """Elements and the text between, with every element closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.said, self.data, self.scripts = "", "", []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        place = self.open[-1] if self.open else ""
        if place == "script":
            self.scripts.append(data)
        elif place != "style":
            self.said += data + " "


def numbers(source: str) -> dict[str, Any]:
    return json.loads(Reader(source).scripts[0])


def test_page_is_one_document_and_fetches_nothing(make_atlas: Make) -> None:
    source = page(make_atlas(kind="both"))
    reader = Reader(source)
    tags = Counter(tag for tag, _ in reader.elements)
    assert all(tags[once] == 1 for once in ("html", "head", "body", "main", "h1"))
    assert tags["svg"] == 3  # a plot a stack; each has a title, and so has each of its marks
    assert tags["title"] > 1 + tags["svg"]
    assert not {"link", "iframe", "object", "form"} & set(tags)
    for tag, attrs in reader.elements:
        assert not {"href", "style"} & set(attrs), (tag, attrs)
        assert not [name for name in attrs if name.startswith("on")]
        assert (attrs.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")
    addresses = re.findall(r"https?:[^\s\"'`<>]*", source)
    assert set(addresses) == {"http://www.w3.org/2000/svg"}, (
        "the name of SVG in saved files; nothing is fetched"
    )
    assert not re.search(r"@import|url\(", source)


def test_policy_names_style_and_script_by_hash(make_atlas: Make) -> None:
    source = page(make_atlas())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', source)
    assert policy is not None
    style, script = re.findall(r"<style>(.*?)</style>|<script>(.*?)</script>", source, re.S)
    for text in (style[0], script[1]):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]


def test_hostile_text_stays_text(hostile_atlas: Atlas) -> None:
    for source in (page(hostile_atlas), fragment(hostile_atlas)):
        assert "<script>alert" not in source
        assert "<b>evil" not in source
        assert "<img src=x" not in source
        assert "</script><img" not in source
        reader = Reader(source)
        assert reader.said.count("<b>evil</b>") >= 4, "name, prediction, note, dtype"
        assert "\x00" not in source
        assert "\x1b" not in source


def test_labels_reach_the_script_as_they_are_shown(make_atlas: Make) -> None:
    atlas = make_atlas(kind="both")
    found = numbers(page(atlas))
    assert [level["unit"] for level in found["levels"]] == ["token", "word"]
    stacks = {stack["stack"]: stack for stack in found["levels"][0]["stacks"]}
    assert list(stacks) == ["self", "decoder", "cross"]
    assert stacks["self"]["queries"]["labels"] == list(atlas.x.tokens)
    assert stacks["self"]["queries"]["special"] == [0, 6]
    assert stacks["self"]["keys"] is None, "the same as the queries"
    assert stacks["cross"]["keys"]["labels"] == list(atlas.x.tokens)
    assert [stacks[name]["causal"] for name in stacks] == [False, True, False]
    assert stacks["cross"]["shape"] == [2, 3, 4, 7]
    words = found["levels"][1]["stacks"][1]["queries"]["labels"]
    assert len(words) == 3
    assert found["kinds"]["cross"] == [kind.kind for kind in atlas.kinds("cross")]


def test_words_are_left_out_where_no_word_is_split(make_atlas: Make) -> None:
    assert [level["unit"] for level in numbers(page(make_atlas(split=False)))["levels"]] == ["token"]


def test_an_atlas_of_words_brings_its_tokens(make_atlas: Make) -> None:
    found = numbers(page(make_atlas().words()))
    assert [level["unit"] for level in found["levels"]] == ["word", "token"]


def test_numbers_in_the_page_are_the_weights(make_atlas: Make) -> None:
    atlas = make_atlas(kind="decoder")
    stack = numbers(page(atlas))["levels"][0]["stacks"][0]
    assert stack["dense"]
    blobs = tuple(map(base64.b64decode, stack["heads"]))
    packed = atlas_data.Packed(blobs, tuple(stack["shape"]), stack["top"], True, 0.0, 0, np.zeros(6), 0.0)
    for place in range(6):
        found = atlas_data.decode(packed, place).weights
        assert np.abs(found - atlas.maps[place // 3, place % 3]).max() <= 1 / 509


def test_grid_shows_every_head_with_kind_and_mass(make_atlas: Make) -> None:
    atlas = make_atlas(shape=(2, 3))
    source = page(atlas)
    pictures = [attrs for tag, attrs in Reader(source).elements if tag == "img"]
    assert [p["alt"] for p in pictures] == [f"layer {n // 3}, head {n % 3}" for n in range(6)]
    cells = re.findall(
        r'<td data-layer="(\d)" data-head="(\d)">.*?<small>(.*?)</small><small>(\d+) %</small>', source
    )
    mass = atlas.special_mass()
    kinds = {(kind.layer, kind.head): kind.kind for kind in atlas.kinds()}
    assert len(cells) == 6
    for layer, head, kind, share in cells:
        assert kind == kinds[int(layer), int(head)]
        assert int(share) == round(100 * mass[int(layer), int(head)])


def test_header_tells_the_mass_beside_its_control(make_atlas: Make) -> None:
    atlas = make_atlas()
    said = " ".join(Reader(page(atlas)).said.split())
    assert (
        f"Words give {100 * atlas.special_mass().mean():.0f} % of their attention to special tokens" in said
    )
    assert f"uniform attention would give them {100 * atlas.special_share():.0f} %" in said


def test_no_mass_is_told_where_nothing_is_special(make_atlas: Make) -> None:
    from dataclasses import replace

    atlas = make_atlas()
    maps = atlas.stacks[0]
    plain = replace(maps.queries, special=(False,) * len(maps.queries))
    atlas = replace(atlas, stacks=(replace(maps, queries=plain, keys=plain),))
    said = Reader(page(atlas)).said
    assert "special tokens, mean" not in said
    assert numbers(page(atlas))["special"] == {}


def test_what_is_left_out_is_told(make_atlas: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    atlas = make_atlas("a " * 300, split=False)
    monkeypatch.setattr("heedful.reports.atlas_numbers.pack", lambda stacks: atlas_data.pack(stacks, 30_000))
    packed = atlas_data.pack(atlas.stacks, 30_000)[0]
    kept = sum(
        atlas.maps[n // 3, n % 3][atlas_data.decode(packed, n).kept].sum(dtype=float) for n in range(6)
    )
    share = 100 * (1 - kept / atlas.maps.sum(dtype=float))
    said = " ".join(Reader(page(atlas)).said.split())
    assert share > 5
    assert f"together {share:.1f} % of the mass" in said
    assert f"weights under {packed.threshold:.2g} or a 510th of their row's largest are left out" in said


def test_all_weights_are_told_to_be_there_with_the_error(make_atlas: Make) -> None:
    said = " ".join(Reader(page(make_atlas())).said.split())
    assert "Self-attention between tokens: every weight. No weight shown is off by more than 0.002." in said


def test_notes_are_shown_once(make_atlas: Make) -> None:
    said = Reader(page(make_atlas(notes=("attention switched to eager", "attention switched to eager")))).said
    assert said.count("attention switched to eager") == 1


def test_fragment_is_static_and_keeps_to_itself(make_atlas: Make) -> None:
    source = fragment(make_atlas())
    tags = Counter(tag for tag, _ in Reader(source).elements)
    assert tags["script"] == 1, "the house script, which may be missing"
    assert tags["img"] == 6
    assert not re.search(r"(^|[},\s])\.heedful", source), "a style that reaches out of the cell"
    assert fragment(make_atlas()) != source, "two cells have two ids"


@pytest.mark.parametrize("kind", ["encoder", "decoder", "both", "pooled"])
def test_every_kind_of_model_has_a_page(make_atlas: Make, kind: str) -> None:
    assert "Every head" in Reader(page(make_atlas(kind=kind))).said


def test_picture_is_a_png_of_the_block_means() -> None:
    from PIL import Image

    rows = np.zeros((4, 6))
    rows[0, 0], rows[2:, 4:] = 0.4, 0.1  # blocks of 2 by 2: means 0.1, 0.1, else 0
    rows[0, 2] = 0.1  # mean 0.025: half the strength
    small = atlas_image.shrink(rows, 3)
    assert small.shape == (3, 3)
    picture = atlas_image.png(atlas_image.strengths(rows[:, :6], 2))
    assert Image.open(io.BytesIO(picture)).size == (2, 2)
    exact = atlas_image.strengths(np.array([[0.4, 0.1, 0.0]]))
    assert exact.tolist() == [[1.0, 0.5, 0.0]]
    pixels = np.asarray(Image.open(io.BytesIO(atlas_image.png(exact))).convert("RGBA"))
    assert pixels[0, :, 3].tolist() == [255, 136, 0]  # sixteen levels: 8 / 15
    assert pixels[0, 0, :3].tolist() == list(atlas_image.HUE)


def test_blocks_of_uneven_size_have_their_own_mean() -> None:
    rows = np.arange(35.0).reshape(5, 7)
    small = atlas_image.shrink(rows, 3)
    edges = [[0, 1, 3, 5], [0, 2, 4, 7]]
    for i in range(3):
        for j in range(3):
            block = rows[edges[0][i] : edges[0][i + 1], edges[1][j] : edges[1][j + 1]]
            assert small[i, j] == pytest.approx(block.mean())


# --- which heads look alike -------------------------------------------------------------------------------


def test_every_head_is_a_point_of_a_plot(make_atlas: Make) -> None:
    for shape, names in (((2, 3), ["layer 0", "layer 1"]), ((6, 2), ["layers 0 to 1", "layers 4 to 5"])):
        atlas = make_atlas(shape=shape)
        for source in (page(atlas), fragment(atlas)):
            plot = re.search(r'<svg class="plot".*?</svg>', source, re.S)
            assert plot is not None
            legend = len(re.findall(r"<text[^>]*>layers? ", plot[0]))
            assert plot[0].count('class="mark') == shape[0] * shape[1] + legend
            assert all(f">{name}<" in plot[0] for name in names)
            assert f"shows {100 * heads_layout(atlas).kept:.0f} % of the spread, by chance" in plot[0]


def test_a_layout_that_takes_long_is_left_out_and_told(
    make_atlas: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atlas_layout, "MAX_COMPARED_NUMBERS", 10)
    source = page(make_atlas(kind="both"))
    assert '<svg class="plot"' not in source
    assert source.count("not drawn here") == 3
    assert "stack=&#x27;cross&#x27;" in source
