"""The feature page: everything on it, nothing that could run, and a browser that agrees."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.features.planted import TEXTS, on_tokens

from heedful.core.charts import Histogram
from heedful.features.reading.feature_pages import feature_pages
from heedful.features.reading.results import FeaturePages
from heedful.reports.charts.histogram import histogram
from heedful.reports.html_frame import scripts

EVIL = "<script>alert(1)</script> & \u202e the cat sat"


@pytest.fixture(scope="module")
def pages(shared: Callable[[str], Any]) -> FeaturePages:
    llama = shared("llama").model
    return feature_pages(
        llama,
        on_tokens(llama, ["cat", "▁the▁", "mat"], extra=2),
        [*TEXTS, EVIL],
        range(5),
        own=[EVIL],
        context=32,
        examples=4,
        quantiles=4,
    )


@pytest.fixture(scope="module")
def text(pages: FeaturePages) -> str:
    return pages.page()


class Checked(HTMLParser):
    """Every element is closed where it should be."""

    VOID = ("meta", "br", "line", "rect", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_well_formed_and_has_the_house_script_alone(text: str):
    checked = Checked()
    checked.feed(text)
    assert checked.open == []
    assert text.count("<script") == 1
    house = scripts('document.querySelector("main.heedful")')
    assert f"<script>{house}</script>" in text
    text = text.split("<script>")[0]
    assert "&lt;script&gt;" in text or "&lt;" in text
    assert "\u202e" not in text
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "style=" not in text


def test_everything_asked_for_is_there(text: str, pages: FeaturePages):
    for one in pages:
        assert f'id="feature-{one.feature}"' in text
        assert f'href="#feature-{one.feature}"' in text
    for title in (
        "All features",
        "How strongly it fires",
        "What it does to the output",
        "Without it",
        "Nearest features",
        "Is the explanation right?",
        "Strongest examples",
        "Examples of every strength",
        "Your own text",
        "Test your own text",
        "How this was made",
    ):
        assert title in text, title
    assert "control" in text
    assert text.count('class="plot histogram"') == sum(one.reading.fired > 0 for one in pages)
    assert "--text" in text


def test_features_have_their_explanations_as_names(text: str, pages: FeaturePages):
    from html import escape

    from heedful.reports.one_feature import cut

    for one in pages:
        said = one.interpretation
        if said is not None and said.scores is not None and said.explanation.found:
            assert f"Feature {one.feature}: {escape(cut(said.explanation.text))}" in text
            assert f"<b>{escape(said.explanation.text)}</b>" in text, "a long one is whole below its heading"
    assert "features have an explanation that is better than chance" in text


def test_a_terminal_has_the_answer_first_and_everything_with_verbose(pages: FeaturePages):
    from heedful.reports import terminal

    brief, whole = str(pages), terminal.as_text(pages.document(), verbose=True)
    assert "better than chance" in brief.splitlines()[0]
    assert "said to fire on" in brief
    assert "Strongest examples" not in brief
    for title in ("Strongest examples", "Nearest features", "Without it", "How this was made", "raises"):
        assert title in whole, title
    assert max(map(len, brief.splitlines())) <= 80


def test_examples_show_their_text_and_their_strength(text: str, pages: FeaturePages):
    cat = pages.pages[0]
    part = text[text.index('id="feature-0"') : text.index('id="feature-1"')]
    marks = re.findall(r'<mark class="any l(\d)( here)?" title="([^"]+)">(.*?)</mark>', part)
    assert marks
    assert {m[3] for m in marks} == {"cat"}  # it fires on nothing else
    assert {m[0] for m in marks} == {"9"}  # and always as strongly
    assert sum(len(q.examples) for q in cat.reading.quantiles) + len(cat.reading.top) + 1 <= len(marks)


def test_own_texts_are_whole(pages: FeaturePages):
    (own,) = pages.pages[0].own
    assert "".join(own.context.pieces).endswith(EVIL)
    assert own.context.pieces[own.at] == "cat"
    assert own.value > 0
    assert sum(v > 0 for v in own.values) == 1


def test_a_dead_feature_is_said_to_be_dead(pages: FeaturePages):
    one = pages.pages[0]
    dead = replace(one, reading=replace(one.reading, fired=0, top=(), sample=(), quantiles=()), own=())
    text = replace(pages, pages=(dead,)).page()
    assert "never fired" in text
    assert "histogram" not in text[text.index("<body>") :]


def test_a_notebook_has_the_same_body(pages: FeaturePages):
    text = pages._repr_html_()
    assert "<html" not in text
    assert "Strongest examples" in text


def test_numbers_go_out_as_json(pages: FeaturePages):
    import json

    data = json.loads(pages.to_json())
    assert [f["feature"] for f in data["features"]] == list(range(5))
    first = data["features"][0]
    assert first["interpretation"]["controls"].keys() == {"shuffled", "permuted"}
    assert len(first["own"][0]["tokens"]) == len(first["own"][0]["activations"])
    assert sum(first["histogram"]["counts"]) == first["fired"]


def test_histogram_bars_are_logarithmic():
    drawn = histogram(Histogram([1, 10, 100, 0], [0.0, 1.0, 2.0, 3.0, 4.0], "a", "t"))
    heights = [float(h) for h in re.findall(r'height="([\d.]+)"><title>', drawn)]
    assert len(heights) == 3
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)
    assert heights[0] > 0
    assert histogram(Histogram([0, 0], [0.0, 1.0, 2.0], "a", "t")) == ""


def test_written_where_asked(pages: FeaturePages, tmp_path: Path):
    assert pages.to_html(tmp_path / "p.html").read_text(encoding="utf-8") == pages.page()


def test_the_p_that_decides_is_in_the_table() -> None:
    """The headline counts by the p of the balanced accuracy, so no other p stands in its column."""
    from heedful.core.document import Fold, Table, inside
    from heedful.features.interpretation.results import Explanation, Interpretation, Scores
    from heedful.features.interpretation.scores import AgreementScore
    from heedful.reports import feature

    decides, other = AgreementScore(0.75, 0.4, 1.0, 0.3), AgreementScore(0.78, 0.6, 0.9, 1e-4)
    said = Interpretation(3, Explanation("a cat", "rules"), Scores(decides, other, other), {}, (20, 30))
    document = feature.interpretations([said], {3: 0.01})
    assert document.nodes[0].text == "0 of 1 features have an explanation that is better than chance"
    tables = [node for each in document.nodes for node in inside(each) if isinstance(node, Table)]
    shown, folded = tables[:2]
    cells = dict(zip([c.title for c in shown.columns], [c.text for c in shown.rows[0].cells], strict=True))
    assert cells["p"] == "0.300"
    assert cells["balanced accuracy"] == "0.75"
    assert "Pearson r" not in cells
    assert len(shown.columns) <= 6  # fits a page
    hidden = [column.title for column in folded.columns]
    assert hidden[:3] == ["feature", "Pearson r", "p"]
    assert folded.rows[0].cells[2].text == "< 0.001"
    folds = [node for each in document.nodes for node in inside(each) if isinstance(node, Fold)]
    assert any(folded in fold.nodes for fold in folds)
    assert "the p of its balanced accuracy" in str(document)
