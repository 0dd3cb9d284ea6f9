"""CoNLL-U read by hand-written cases: what is read, what comes out again, and which line is to blame."""

from __future__ import annotations

from pathlib import Path

import pytest

from heedful.core.errors import HeedfulError
from heedful.heads.roles.conllu import parse, read, write

THEY = """# sent_id = 1
# text = They don't, do they?
1\tThey\tthey\tPRON\t_\t_\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\t_\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\t_\t_\t2\tadvmod\t_\t_
3.1\tleave\tleave\tVERB\t_\t_\t_\t_\t0:root\t_
4\t,\t,\tPUNCT\t_\t_\t5\tpunct\t_\t_
5\tdo\tdo\tAUX\t_\t_\t2\tparataxis\t_\tX=1
6\tthey\tthey\tPRON\t_\t_\t5\tnsubj\t_\tX=1|SpaceAfter=No
7\t?\t?\tPUNCT\t_\t_\t2\tpunct\t_\tSpaceAfter=No

"""
PLAIN = """1\tà la\tà la\tADV\t_\t_\t2\tadvmod\t_\t_
2\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_

"""


def rows(*words: tuple[str, str, str, str]) -> str:
    """ID, FORM, HEAD, DEPREL -> lines."""
    lines = [f"{i}\t{form}\t_\t_\t_\t_\t{head}\t{rel}\t_\t_" for i, form, head, rel in words]
    return "\n".join(lines) + "\n\n"


def test_words_spans_and_heads() -> None:
    (one,) = parse(THEY)
    assert one.text == "They don't, do they?"
    assert [word.form for word in one.words] == ["They", "do", "n't", ",", "do", "they", "?"]
    assert [word.head for word in one.words] == [2, -1, 1, 4, 1, 4, 1]
    assert [word.relation for word in one.words][:3] == ["nsubj", "root", "advmod"]
    assert [one.text[slice(*one.span(i))] for i in range(7)] == [
        "They",
        "don't",
        "don't",
        ",",
        "do",
        "they",
        "?",
    ]
    assert one.words[1].surface == one.words[2].surface == 1
    assert len(one.spans) == 6
    assert one.comments[0] == "# sent_id = 1"


def test_forms_may_hold_spaces_and_text_is_built_without_a_comment() -> None:
    first, second = parse(THEY + PLAIN)
    assert (first.line, second.line) == (1, 13)
    assert second.text == "à la go"
    assert [second.span(i) for i in range(2)] == [(0, 4), (5, 7)]


def test_round_trip() -> None:
    assert write(parse(THEY + PLAIN)) == THEY + PLAIN
    assert parse(write(parse(THEY))) == parse(THEY)


def test_line_ends_blank_lines_and_a_missing_last_one_are_forgiven(tmp_path: Path) -> None:
    file = tmp_path / "two.conllu"
    file.write_bytes(b"\xef\xbb\xbf" + f"\n\n{THEY}\n\n{PLAIN.strip()}".replace("\n", "\r\n").encode())
    assert [s.words for s in read(file)] == [s.words for s in parse(THEY + PLAIN)]


def test_a_rare_line_break_of_unicode_is_part_of_the_form() -> None:
    (one,) = parse(rows(("1", "a\u2028b", "0", "root")))
    assert one.text == "a\u2028b"


def test_empty_node_before_the_first_word() -> None:
    empty = "0.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n0.2\ty\t_\t_\t_\t_\t_\t_\t_\t_\n"
    (one,) = parse(empty + PLAIN)
    assert one.text == "à la go"
    assert len(one.rows) == 4


GO = ("1", "go", "0", "root")
WRONG = {
    "columns": ("1\tgo\t_\n\n", 1, "3 columns"),
    "spaces for tabs": ("# a\n1 go _ _ _ _ 0 root _ _\n\n", 2, "1 columns"),
    "empty field": (rows(("1", "go", "0", "")), 1, "DEPREL"),
    "space in relation": (rows(("1", "go", "0", "ro ot")), 1, "DEPREL"),
    "order": (rows(GO, ("3", "on", "1", "advmod")), 2, "should be 2"),
    "letters": (rows(GO, ("two", "on", "1", "advmod")), 2, "ID 'two'"),
    "other digits": (rows(GO, ("²", "on", "1", "advmod")), 2, "ID '²'"),
    "leading zero": (rows(("01", "go", "0", "root")), 1, "ID '01'"),
    "head range": (rows(GO, ("2", "on", "3", "advmod")), 2, "HEAD '3'"),
    "head missing": (rows(GO, ("2", "on", "_", "advmod")), 2, "HEAD '_'"),
    "own head": (rows(GO, ("2", "on", "2", "advmod")), 2, "HEAD '2'"),
    "no relation": (rows(GO, ("2", "on", "1", "_")), 2, "DEPREL is missing"),
    "circle": (rows(GO, ("2", "a", "3", "x"), ("3", "b", "2", "x")), 2, "circle"),
    "late range": (rows(GO, ("1-2", "goon", "_", "_"), ("2", "on", "1", "x")), 2, "range 1-2"),
    "range of one": (rows(("1-1", "go", "_", "_"), GO), 1, "range 1-1"),
    "range cut off": (rows(("1-2", "go", "_", "_"), GO), 2, "missing"),
    "range in range": (
        rows(
            ("1-3", "abc", "_", "_"), ("1", "a", "0", "root"), ("2-3", "bc", "_", "_"), ("2", "b", "1", "x")
        ),
        3,
        "range 2-3",
    ),
    "empty node": (rows(GO, ("1.2", "x", "_", "_")), 2, "should be 1.1"),
    "no words": ("# only\n\n", 1, "no words"),
    "only an empty node": (rows(("0.1", "x", "_", "_")), 1, "no word"),
    "late comment": (rows(GO).rstrip("\n") + "\n# late\n\n", 2, "after the first word"),
    "text": ("# a = 1\n# text = went\n" + rows(GO), 2, "differ, from character 0: 'go'"),
    "longer text": ("# text = go on\n" + rows(GO), 1, "one is longer"),
    "second sentence": (rows(GO) + rows(("2", "go", "0", "root")), 3, "should be 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_line_that_is_wrong_is_named(case: str) -> None:
    content, line, why = WRONG[case]
    with pytest.raises(HeedfulError) as raised:
        parse(content, "x.conllu")
    assert f"x.conllu, line {line} is not CoNLL-U" in str(raised.value)
    assert why in str(raised.value)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="no sentence"):
        parse("\n\n")
    with pytest.raises(HeedfulError, match="cannot read"):
        read(tmp_path / "missing.conllu")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HeedfulError, match="not UTF-8"):
        read(tmp_path / "binary")
