"""The page and the notebook fragment: self-contained, valid, safe with hostile text, true to the scores."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest

from heedful.comparisons.explanation_codec import comparison_from_dict
from heedful.comparisons.result import Comparison
from heedful.core.numbers import probability
from heedful.core.target import Target
from heedful.reports.comparison_summary import agreeing, explained, pointed
from heedful.reports.html_frame import scripts
from heedful.reports.tested_methods import ordered

Make = Callable[..., Comparison]


def page(comparison: Comparison) -> str:
    return comparison.page()


def fragment(comparison: Comparison) -> str:
    return comparison._repr_html_()


def sentences(comparison: Comparison) -> list[str]:
    return [pointed(comparison), *agreeing(comparison)]


VOID = {"meta", "br", "img", "link", "input", "hr", "wbr"}


class Reader(HTMLParser):
    """Collects elements and text, and insists that every element is closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice on {tag}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        place = self.open[-1] if self.open else ""
        self.texts[place] = self.texts.get(place, "") + data
        if place == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)

    @property
    def said(self) -> str:
        return " ".join(text for place, text in self.texts.items() if place not in ("script", "style"))


def test_page_is_one_document_with_everything_inside(make: Make) -> None:
    source = page(make())
    reader = Reader(source)
    assert source.startswith("<!DOCTYPE html>")
    tags = [tag for tag, _ in reader.elements]
    for once in ("html", "head", "title", "body", "main", "h1"):
        assert tags.count(once) == 1, once
    assert not {"link", "img", "iframe", "object", "form"} & set(tags)
    for tag, attrs in reader.elements:
        assert not {"src", "href", "style"} & set(attrs), (tag, attrs)
        assert not [name for name in attrs if name.startswith("on")]
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", source)


def test_policy_names_exactly_the_page_s_own_style_and_script(make: Make) -> None:
    reader = Reader(page(make()))
    policy = next(a["content"] for t, a in reader.elements if t == "meta" and "http-equiv" in a) or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy

    def name(text: str) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    code = next(text for attrs, text in reader.scripts if not attrs)
    assert f"script-src '{name(code)}'" in policy
    assert f"style-src '{name(reader.texts['style'])}'" in policy


def test_hostile_text_is_shown_and_never_run(hostile: Comparison) -> None:
    for source in (page(hostile), fragment(hostile)):
        reader = Reader(source)
        assert "img" not in {tag for tag, _ in reader.elements}
        assert "i" not in {tag for tag, attrs in reader.elements if "class" not in attrs}
        assert "<img src=x onerror=alert(1)>" in reader.said
        assert "</title><script>alert(2)</script>" in reader.said
        assert "\0" not in source
        assert "\u202e" not in source
    assert len(Reader(page(hostile)).scripts) == 2
    name = re.match('<div id="([^"]+)"', cell := fragment(hostile))[1]
    assert [text for _, text in Reader(cell).scripts] == [scripts(f'document.getElementById("{name}")')]


def test_embedded_json_is_the_comparison_and_cannot_close_its_script(hostile: Comparison) -> None:
    reader = Reader(page(hostile))
    content = next(text for attrs, text in reader.scripts if attrs.get("type") == "application/json")
    assert not set(content) & set("<>&\u2028\u2029")
    data = json.loads(content)
    back = comparison_from_dict(data)
    assert back.x == hostile.x
    assert back["lime"].scores.tolist() == hostile["lime"].scores.tolist()


def test_every_section_is_there(make: Make) -> None:
    said = Reader(page(make(skipped={"lime-exact": "needs one layer"}))).said
    titles = ("Claimed and measured", "The text by every method", "Do the methods agree?", "What it cost")
    facts = ("positive", "93.0 %", "needs one layer", "attention switched to eager", "zoo:toy", "control")
    more = ("Not run, and why", "Notes", "How this was made", "heedful explain", "heedful.load('zoo:toy')")
    for part in (*titles, *facts, *more):
        assert part in said, part


def test_both_columns_of_the_remarks_have_a_head(make: Make) -> None:
    source = page(make(skipped={"lime-exact": "needs one layer"}))
    for name, heads in (("Notes", ["from", "note"]), ("Methods not run", ["method", "reason"])):
        drawn = re.search(rf'aria-label="{name}">(<table.*?</table>)', source, re.DOTALL)[1]
        assert re.findall('<th scope="col"[^>]*>([^<]*)</th>', drawn) == heads


def test_numbers_on_the_page_are_the_scores(make: Make) -> None:
    comparison = make()
    cells = [float(a["data-v"] or "nan") for t, a in Reader(page(comparison)).elements if "data-v" in a]
    order = [comparison[method].words() for method in ordered(comparison)]
    expected = [words[i].score for i in range(len(order[0])) for words in order]
    assert cells == pytest.approx(expected, rel=1e-5)


def test_shade_and_underline_follow_size_and_sign(make: Make) -> None:
    comparison = make(methods=[("grad-x-input", True, False)])
    words = comparison["grad-x-input"].words()
    strongest = max(abs(word.score) for word in words)
    marks = {
        int(a["data-w"] or -1): (a["class"] or "").split()
        for t, a in Reader(page(comparison)).elements
        if t == "mark"
    }
    for index, word in enumerate(words):
        share = abs(word.score) / strongest
        if share >= 0.05:
            kind, level = marks[index]
            assert kind == ("pos" if word.score > 0 else "neg")
            assert (int(level[1:]) - 1) / 9 <= share <= int(level[1:]) / 9 + 1e-6
        else:
            assert index not in marks
    unsigned = make(methods=[("grad-l2", False, False)])
    kinds = {(a["class"] or "").split()[0] for t, a in Reader(page(unsigned)).elements if t == "mark"}
    assert kinds == {"any"}


def test_text_is_complete_between_the_marks(make: Make) -> None:
    text = "  two  spaces,\nand a line — שלום  "
    source = page(make(text))
    shown = re.findall(r'<p class="text said" dir="auto">(.*?)</p>', source, re.S)
    assert len(shown) == 12, "each method in the picker and side by side"
    assert {re.sub("<[^>]+>", "", part) for part in shown} == {text}


def test_code_runs_from_left_to_right_whatever_it_quotes(make: Make) -> None:
    """A command that quotes Hebrew is still a command: its parts keep their places."""
    found = [a for t, a in Reader(page(make("שלום עולם טוב"))).elements if t == "pre"]
    assert [a.get("dir") for a in found] == ["ltr", "ltr"]
    served = files("heedful.server").joinpath("static", "dom.js").read_text(encoding="utf-8")
    assert re.findall(r'make\("pre", \{ dir: "(\w+)"', served) == ["ltr"]


def test_two_fragments_do_not_disturb_each_other(make: Make) -> None:
    both = fragment(make()) + fragment(make())
    ids = [attrs["id"] for _, attrs in Reader(both).elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    names = [name for name in ids if re.fullmatch("heedful-[0-9a-f]+", name)]
    assert len(names) == 2
    for name, style in zip(names, re.findall("<style>(.*?)</style>", both, re.S), strict=True):
        flat = re.sub(r"/\*.*?\*/", "", style, flags=re.S)
        flat = re.sub(r"@media[^{]*\{", "", flat)
        for rule in re.findall(r"([^{}]+)\{", flat):
            for selector in re.split(r",(?![^(]*\))", rule):
                assert f"#{name}" in selector, selector


def test_never_says_faithful(make: Make) -> None:
    for source in (page(make()), fragment(make()), " ".join(sentences(make()))):
        assert "faithful" not in source.lower()


def scored(make: Make, rows: dict[str, Sequence[float]]) -> Comparison:
    """Methods with these scores of "a b c d e f g h i j"; names with l2 have no sign."""
    base = make("a b c d e f g h i j", methods=[(name, "l2" not in name, False) for name in rows])
    items = [
        replace(item, scores=np.array([0.0, *scores, 0.0]))
        for item, scores in zip(base.attributions, rows.values(), strict=True)
    ]
    return replace(base, attributions=tuple(items))


def test_sentences_say_first_which_words_and_which_way(make: Make) -> None:
    up, flat = [9, -8, 7, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.5, 0.4, 0.3, 1, 5, 4, 3, 2, 0.9, 0.8]
    said = sentences(scored(make, {"m1": up, "m2": up, "m3": flat, "random": flat[::-1]}))
    assert said == [
        "Most methods put “a”, “b” and “c” among the three words that matter most: "
        "“a” and “c” push towards “positive”, “b” pushes away from it.",
        "The methods agree in part: 1 of 3 pairs of them order the words more alike than chance would.",
        "The random control, which knows nothing of the model, agrees that far with none of the 3 methods.",
    ]
    turned = [-9, -8, 7, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert "on “a” they differ which way" in sentences(scored(make, {"m1": up, "m2": turned}))[0]
    assert sentences(scored(make, {"x-l2": up, "y-l2": up}))[:2] == [
        "Both methods put “a”, “b” and “c” among the three words that matter most, "
        "without saying which way they push.",
        "The two methods agree: they order the words more alike than chance would.",
    ]
    far = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 7, 8, 9]
    assert sentences(scored(make, {"m1": up, "m2": far}))[:2] == [
        "The methods point at different words: none is among the strongest for both methods.",
        "The two methods do not agree: they order the words no more alike than chance would.",
    ]
    assert sentences(scored(make, {"m1": up, "m2": up, "m3": up}))[1].startswith("The methods agree: all 3")


def test_sentences_are_plain_and_their_numbers_stand_below(make: Make) -> None:
    lines = sentences(make())
    assert len(lines) == 3
    assert not re.search("Kendall|τ|median|±", " ".join(lines))
    assert "random control" in lines[2]
    assert (
        "No random control" in sentences(make(methods=[("lime", True, True), ("grad-l2", False, False)]))[-1]
    )
    source = page(make())
    assert (
        source.index(lines[0]) < source.index("Median Kendall τ of") > source.index("Do the methods agree?")
    )


def test_a_probability_is_never_rounded_to_certainty() -> None:
    assert [probability(p) for p in (0.99999, 0.999, 0.5, 1e-9, 0.0, 1.0)] == [
        "> 99.9 %",
        "99.9 %",
        "50.0 %",
        "< 0.1 %",
        "0.0 %",
        "100.0 %",
    ]


def test_regression_is_not_shown_as_a_probability(make: Make) -> None:
    model = {"name": "r", "kind": "regression", "prediction": [["score", 0.73]]}
    assert "0.73" in Reader(page(make(model=model))).texts["span"]
    assert "73.0 %" not in page(make(model=model))


def test_a_long_text_makes_a_small_page(make: Make) -> None:
    source = page(make(" ".join(f"word{i}" for i in range(512))))
    assert len(source.encode()) < 2_000_000
    assert "300 strongest of 512 words" in source


def test_all_methods_refused_is_still_a_page() -> None:
    source = page(Comparison((), {"name": "m"}, {}, {"lime": "no rows"}))
    Reader(source)
    assert "no rows" in source


def test_every_measure_of_agreement_is_on_the_page(make: Make) -> None:
    """Three tables, the second and third folded up, which needs no script."""
    comparison = make()
    source = page(comparison)
    tables = dict(re.findall(r'aria-label="Agreement between methods: ([^"]+)">(<table.*?</table>)', source))
    assert list(tables) == ["Kendall τ", "Spearman ρ", "Overlap of the 5 strongest"]
    assert "<summary>Do the methods agree?</summary>" in source
    for measure, drawn in zip(("kendall", "spearman", "top-k"), tables.values(), strict=True):
        names, values = comparison.agreement(measure)
        order = sorted(range(len(names)), key=lambda i: names[i] == "random")
        shown = [cell for cell in re.findall(r"<td[^>]*><bdi>([^<]*)</bdi></td>", drawn) if cell != "·"]
        expected = [values[i, j] for i in order for j in order if i != j]
        assert len(shown) == len(expected) > 0
        for cell, value in zip(shown, expected, strict=True):
            assert (cell == "–") == bool(value != value)
            if cell != "–":
                assert float(cell.replace("−", "-")) == pytest.approx(value, abs=0.005001)
    assert Reader(source).open == []


def test_the_explained_number_leaves_hyphens_alone(make: Make) -> None:
    """A minus sign is for numbers; a hyphen in a label stays what it is."""
    comparison = make()
    target = Target(
        "sequence", label="well-known", sequence=(1, 2), contrast_sequence=(3,), contrast_label="B"
    )
    items = tuple(replace(item, target=target, output=-1.5) for item in comparison.attributions)
    told = explained(replace(comparison, attributions=items))
    assert told == "the log-probability of “well-known” minus that of “B”, which is −1.5"


def test_a_cell_is_shaded_by_score_without_its_stylesheet(make: Make) -> None:
    """Some hosts take <style> away: then the stronger word is the fuller one, and the sign is underlined."""
    comparison = make(methods=[("grad-x-input", True, False)])
    words = comparison["grad-x-input"].words()
    reader = Reader(re.sub("<style>.*?</style>", "", fragment(comparison), flags=re.DOTALL))
    assert "mark" not in {tag for tag, _ in reader.elements}, "browsers paint these yellow, all alike"
    styles = {int(a["data-w"]): a["style"] for t, a in reader.elements if t == "span" and "data-w" in a}
    depth = {}
    for index, style in styles.items():
        colour, ink, line = re.fullmatch(
            r"background:#(\w{6});color:#(\w{6});text-decoration:underline (\w+) #\w{6}", style
        ).groups()
        assert ink == "1c2126"
        assert line == ("solid" if words[index].score > 0 else "dotted")
        depth[index] = (line, sum(255 - part for part in bytes.fromhex(colour)))
    for sign in ("solid", "dotted"):
        same = sorted((i for i in depth if depth[i][0] == sign), key=lambda i: abs(words[i].score))
        depths = [depth[i][1] for i in same]
        assert depths == sorted(depths)
        assert len(set(depths)) > 1
    top = max(abs(word.score) for word in words)
    assert set(styles) == {i for i, word in enumerate(words) if abs(word.score) / top >= 0.05}


def test_the_report_has_no_style_on_any_element_and_the_sheet_has_the_same_colours(make: Make) -> None:
    from heedful.reports.html_frame import component
    from heedful.reports.shading import HUES, SHARES

    assert 'style="' not in page(make())
    sheet = component("report.css")
    for level, share in enumerate(SHARES):
        assert f".l{level} {{ --a: {share}%; }}" in sheet
    for name, rgb in zip(("for", "against", "plain"), (HUES[k] for k in ("pos", "neg", "any")), strict=True):
        assert f"--{name}: light-dark(#{bytes(rgb).hex()}," in sheet


def test_only_a_table_with_many_shown_columns_is_printed_on_a_wide_sheet(make: Make) -> None:
    """Columns that are switched off do not count."""
    from heedful.core.document import Cell, Column, Row, Table
    from heedful.reports.html import WIDE, nodes_html

    def drawn(shown: int, hidden: int) -> str:
        columns = [Column(f"c{n}", shown=n < shown) for n in range(shown + hidden)]
        rows = (Row(tuple(Cell("1") for _ in columns)),)
        return nodes_html([Table("t", tuple(columns), rows, switches=True)], 2, "")

    assert "wide" not in drawn(WIDE, 5)
    assert "scroll wide" in drawn(WIDE + 1, 0)
    assert "scroll wide" not in page(make())
