"""Figures: every view in both formats, repeatable, with the labels of the text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.attack.full_disk import full_disk

from heedful.core.errors import HeedfulError
from heedful.heads.atlas import Atlas
from heedful.heads.head_distance import heads_layout
from heedful.reports import atlas_figure
from heedful.reports.atlas_figure import draw

pytest.importorskip("matplotlib", reason="figures are an extra: pip install 'heedful[plots]'")
Make = Callable[..., Atlas]


@pytest.mark.parametrize("view", atlas_figure.VIEWS)
@pytest.mark.parametrize("kind", ["encoder", "both", "pooled"])
def test_every_view_is_drawn_as_png_and_svg(make_atlas: Make, tmp_path: Path, view: str, kind: str) -> None:
    atlas = make_atlas(kind=kind, shape=(2, 2))
    stack = "cross" if kind == "both" else "self"
    draw(atlas, tmp_path / "a.png", view=view, stack=stack)
    draw(atlas, tmp_path / "a.svg", view=view, stack=stack)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    said = " ".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())
    assert "zoo:toy" in said
    named = {"grid": ("head 1", "layer 1"), "layout": ("1.1", "of the spread, by chance", "layer")}
    wanted = named.get(view, ("surprisingly", "[SEP]"))
    assert all(word in said for word in wanted)
    if kind == "both" and view not in named:
        assert "Ess" in said


def test_the_same_figure_is_the_same_file(make_atlas: Make, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(make_atlas(), tmp_path / name, view="head")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("name", ["a.svg", "a.PNG"])
def test_a_figure_is_whole_or_not_there(make_atlas: Make, tmp_path: Path, name: str) -> None:
    """On a full disk, the figure of before stays."""
    draw(make_atlas(), tmp_path / name)
    before = (tmp_path / name).read_bytes()
    with full_disk(), pytest.raises(OSError, match="File too large"):
        draw(make_atlas(), tmp_path / name, view="head")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == before


def test_signs_that_mean_something_to_matplotlib_are_text(make_atlas: Make, tmp_path: Path) -> None:
    atlas = make_atlas("pay $x^2$ or $\\frac$ _a_ <b> 很好 שלום 👩‍👧 now", split=False)
    for name in ("matrix.png", "matrix.svg", "head.png"):
        draw(atlas, tmp_path / name, view=name[:-4])
    said = " ".join(ElementTree.parse(tmp_path / "matrix.svg").getroot().itertext())
    assert "$x^2$" in said
    assert "$\\frac$" in said
    assert "很好" in said


def test_links_are_the_weights_strongest_last(make_atlas: Make) -> None:
    weights = make_atlas(shape=(1, 3)).maps[0]
    found = atlas_figure._links(weights, [0, 2])
    chosen = weights[[0, 2]]
    assert len(found.curves) == (chosen >= 0.01 * chosen.max()).sum()
    assert (np.diff(found.widths) >= 0).all()
    _, q, k = np.unravel_index(chosen.argmax(), chosen.shape)
    assert found.curves[-1][0].tolist() == [0, q]
    assert found.curves[-1][-1].tolist() == [1, k]
    assert found.colours[-1, 3] == 1
    assert f"strongest link {chosen.max():.2f}" in found.told


def test_links_not_drawn_are_told(make_atlas: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atlas_figure, "MAX_LINKS", 5)
    found = atlas_figure._links(make_atlas().maps[0], [0, 1])
    assert len(found.curves) == 5
    assert "only the strongest 5" in found.told


def test_later_tokens_of_a_causal_stack_are_masked(make_atlas: Make) -> None:
    maps = make_atlas(kind="decoder").stacks[0]
    later = np.arange(7)[:, None] < np.arange(7)
    assert (atlas_figure._unseen(maps, 0) == later).all()
    assert not atlas_figure._unseen(make_atlas().stacks[0], 0).any()
    allowed = np.stack([~later] * maps.layers)
    allowed[1, 6, 0] = False
    masked = replace(maps, allowed=allowed)
    assert not atlas_figure._unseen(masked, 0)[6, 0]
    assert atlas_figure._unseen(masked, 1)[6, 0]


def test_every_head_is_a_point_of_the_layout(make_atlas: Make, tmp_path: Path) -> None:
    atlas = make_atlas(shape=(2, 3))
    draw(atlas, tmp_path / "a.svg", view="layout")
    texts = [text.strip() for text in ElementTree.parse(tmp_path / "a.svg").getroot().itertext()]
    assert {f"{layer}.{head}" for layer in range(2) for head in range(3)} <= set(texts)
    kept = round(100 * heads_layout(atlas).kept)
    assert any(f"shows {kept} % of the spread, by chance 40 %" in text for text in texts)


@pytest.mark.parametrize(
    ("path", "choice", "told"),
    [
        ("a.pdf", {}, ".png or .svg"),
        ("a.png", {"view": "tree"}, "grid, matrix, head, layout"),
        ("a.png", {"layer": 2}, "no layer 2"),
        ("a.png", {"head": -1}, "no head -1"),
        ("a.png", {"stack": "cross"}, "no stack 'cross'"),
    ],
)
def test_mistakes_are_told(make_atlas: Make, tmp_path: Path, path: str, choice: dict, told: str) -> None:
    with pytest.raises(HeedfulError) as caught:
        draw(make_atlas(), tmp_path / path, **choice)
    assert told in str(caught.value)
    assert not (tmp_path / path).exists()


def test_without_matplotlib_the_way_to_get_it_is_told(
    make_atlas: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HeedfulError, match=r"pip install 'heedful\[plots\]'"):
        draw(make_atlas(), tmp_path / "a.png")
