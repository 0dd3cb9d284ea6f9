"""Planted trees are found; figures are counted by hand; the page holds them and no script."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from heedful.core.charts import Trees
from heedful.core.errors import HeedfulError
from heedful.features.measures.splitting import best_cosines, split
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.reports import html
from heedful.reports.charts.tree import trees as tree_plot
from heedful.reports.splitting import document


def sae(rows: torch.Tensor, site: str | None = None) -> SAE:
    width, d = rows.shape
    source = {} if site is None else {"site": site}
    return SAE(
        Config("relu", d, width, source=source), rows.T.contiguous(), torch.zeros(width), rows, torch.zeros(d)
    )


@pytest.fixture
def planted() -> list[SAE]:
    """4 features; 0 becomes three, 1 one, 2 none, 3 two, and three are new; then every one becomes two."""
    eye = torch.eye(64)
    narrow = eye[:4]
    tilt = 0.3

    def child(parent: torch.Tensor, number: int) -> torch.Tensor:
        return 2 * (parent + tilt * eye[number])  # lengths do not matter

    wide = [child(narrow[p], 8 + n) for n, p in enumerate((0, 0, 3, 1, 0, 3))] + [
        eye[20],
        eye[21],
        -narrow[2],
    ]
    wider = [child(w, 30 + 2 * n + k) for n, w in enumerate(wide) for k in range(2)]
    return [sae(narrow), sae(torch.stack(wide)), sae(torch.stack(wider))]


def test_planted_parents_are_found(planted: list[SAE]):
    found = split(planted)
    assert found.widths == (4, 9, 18)
    assert found.steps[0].parent.tolist() == [0, 0, 3, 1, 0, 3, -1, -1, -1]  # the opposite is not alike
    assert found.steps[1].parent.tolist() == [n // 2 for n in range(18)]
    assert found.steps[0].cosine[:6] == pytest.approx(1 / np.sqrt(1 + 0.09), rel=1e-6)
    figures = {name: figure.value for name, figure in found.figures(0).items()}
    assert figures["kept"] == 0.25
    assert figures["split"] == 0.5
    assert figures["lost"] == 0.25
    assert figures["with parent"] == pytest.approx(6 / 9)
    assert figures["children"] == 2.0  # 3, 1 and 2 of those that have any
    assert figures["with parent, random"] == 0.0
    assert found.figures(1)["split"].value == 1.0


def test_alike_decides(planted: list[SAE]):
    assert (split(planted[:2], alike=0.95).steps[0].parent >= 0).sum() == 6
    assert (split(planted[:2], alike=0.96).steps[0].parent >= 0).sum() == 0


def test_trees(planted: list[SAE]):
    trees = split(planted).trees(3)
    assert [tree["feature"] for tree in trees] == [0, 3, 1]  # by descendants: 9, 6, 3
    assert sorted(child["feature"] for child in trees[0]["children"]) == [0, 1, 4]
    assert [grand["feature"] for grand in trees[2]["children"][0]["children"]] == [6, 7]
    assert trees[0]["cosine"] is None
    told = split(planted).to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["steps"][0]["most children"] == 3


def test_the_picture(planted: list[SAE]):
    found = split(planted)
    drawn = tree_plot(Trees(found.trees(), found.widths, "t"))
    assert drawn.count("<circle") == 4 + 6 + 12  # every feature that hangs on the first four
    assert drawn.count("<path") == 6 + 12
    short = tree_plot(Trees(found.trees(), found.widths, "t", most=2))
    assert "and 1 more" in short
    assert short.count("<circle") == 4 + 5 + 10
    shown = html.page(document(found, ["a", "<b>"]))
    assert "&lt;b&gt;" in shown
    assert shown.count("<script") == 1  # the house's own
    assert "with parent, random" in shown
    assert "of the narrower features split" in str(found)


def test_nearest_by_brute_force():
    draw = torch.Generator().manual_seed(0)
    rows, among = torch.randn(11, 5, generator=draw), torch.randn(7, 5, generator=draw)
    cosine, nearest = best_cosines(rows, among)
    for i, row in enumerate(rows):
        every = [float(torch.dot(row, other) / row.norm() / other.norm()) for other in among]
        assert cosine[i] == pytest.approx(max(every), abs=1e-6)
        assert nearest[i] == int(np.argmax(every))


def test_mistakes_are_told(planted: list[SAE]):
    with pytest.raises(HeedfulError, match="widths must grow"):
        split(planted[::-1])
    with pytest.raises(HeedfulError, match="two autoencoders"):
        split(planted[:1])
    with pytest.raises(HeedfulError, match="dimensions"):
        split([planted[0], sae(torch.randn(9, 3))])
    with pytest.raises(HeedfulError, match=r"blocks\.0"):
        split([sae(torch.eye(3), "blocks.0.mlp"), sae(torch.randn(9, 3), "blocks.1.mlp")])
    with pytest.raises(HeedfulError, match="alike"):
        split(planted, alike=0.0)
