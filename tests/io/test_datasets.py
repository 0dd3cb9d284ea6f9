"""Rows from files and iterables: what is bad is told with its number, and nothing else is lost."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedful import HeedfulError
from heedful.audits.api import shards
from heedful.io.datasets import (
    Columns,
    DataRow,
    csv_file,
    jsonl_file,
    open_source,
    parquet_file,
    sources,
)
from heedful.io.datasets import rows as row_module
from heedful.modalities.kinds import KINDS as INPUT_KINDS

unfit = INPUT_KINDS["text"].unfit

EVERY = Columns("text", "label", "why")


def rows(path: Any, columns: Columns | None = None, **options: Any) -> list[DataRow]:
    return list(open_source(path, columns=columns, **options).rows())


def test_csv_with_quotes_line_breaks_and_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes('\ufefftext,label,why\n"a, b\nc ""d""",1,"[1,0]"\r\nplain,,\n'.encode())
    assert rows(path, EVERY) == [DataRow(0, 'a, b\nc "d"', "1", [1, 0]), DataRow(1, "plain")]


def test_tabs(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\na, b\tx\n")
    assert rows(path, Columns("text", "label")) == [DataRow(0, "a, b", "x")]


def test_bad_rows_of_csv_have_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\ngood,1\nunquoted, comma,1\nshort\n\nno \xff utf,0\nlast,1\n")
    found = rows(path)
    assert [row.number for row in found] == list(range(6))
    assert [row.text for row in found if not row.broken and not unfit(row.text)] == [
        "good",
        "last",
    ]
    assert "3 fields, but the header has 2" in found[1].broken
    assert "line 4: 1 fields" in found[2].broken
    assert "line is empty" in found[3].broken
    assert unfit(found[4].text) == "the text is not valid UTF-8"


def test_a_quote_that_is_never_closed_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\ngood,1\n"open,1\nnext,0\nlast,1\n')
    found = rows(path)
    assert [row.text for row in found] == ["good", None]
    assert found[1].broken.startswith("lines 3 to 5: the quote opened in line 3 is never closed")
    path.write_text('text,label\n"a\nb","open\n')
    assert "opened in line 3" in rows(path)[0].broken
    path.write_text('"text')
    with pytest.raises(HeedfulError, match=r"header of a\.csv cannot be read: the quote opened in line 1"):
        open_source(path)


def test_a_quote_closed_by_the_next_row_is_one_error(tmp_path: Path) -> None:
    """Two rows would become one text."""
    path = tmp_path / "a.csv"
    path.write_text('"text","label"\n"open,"1"\n"b","0"\n"open\n"c","1"\n"last","1"\n')
    found = rows(path)
    assert [row.text for row in found if not row.broken] == ["b", "last"]
    assert "lines 4 to 5" in found[2].broken


def test_a_field_over_the_limit_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_MAX_FIELD", "131072")
    path = tmp_path / "a.csv"
    long = 'a line, with a comma and a ""word""\n' * 5000
    path.write_text(f'text,label\ngood,1\n"{long}",1\nlast,1\n')
    found = rows(path, Columns("text", "label"))
    assert [row.text for row in found] == ["good", None, "last"]
    assert "more than 131,072" in found[1].broken


@pytest.mark.parametrize("line", range(8, 40))
def test_records_are_told_apart_in_pieces(line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines longer than what is kept: their quotes count all the same."""
    monkeypatch.setattr(csv_file, "MAX_LINE_BYTES", line)
    path = tmp_path / "a.csv"
    path.write_text('text,n\ngood,1\n"so ""long"" a text,\nwith ""lines"" in it, and more",""\nlast,1\n')
    found = rows(path)
    assert [row.text for row in found] == ["good", None, "last"]
    assert "longer than" in found[1].broken


def test_records_are_those_of_the_csv_module(tmp_path: Path) -> None:
    """Random files, written by it with every way of quoting."""
    rng, path = random.Random(0), tmp_path / "a.csv"
    for case in range(300):
        table = [["".join(rng.choices('ab",\n\t ', k=rng.randrange(1, 6))) for _ in "ab"] for _ in range(4)]
        with path.open("w", newline="") as file:
            style = (csv.QUOTE_ALL, csv.QUOTE_MINIMAL)[case % 2]
            csv.writer(file, quoting=style, lineterminator="\r\n").writerows([["text", "label"], *table])
        assert [[row.text, row.label] for row in rows(path, Columns("text", "label"))] == table


def test_a_mark_before_a_quoted_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"text","label"\n"good","1"\n', encoding="utf-8-sig")
    assert rows(path, Columns("text", "label")) == [DataRow(0, "good", "1")]


@pytest.mark.parametrize("ending", ["\n\n\n", "\r\n\r\n", "\n  \n"])
def test_empty_lines_at_the_end_are_no_rows(ending: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(f"text\na\n\nb{ending}".encode())
    (tmp_path / "a.jsonl").write_bytes(f'{{"text": "a"}}\n\n{{"text": "b"}}{ending}'.encode())
    for name, line in (("a.csv", 3), ("a.jsonl", 2)):
        found = rows(tmp_path / name)
        assert [(row.number, row.text) for row in found] == [(0, "a"), (1, None), (2, "b")]
        assert found[1].broken == f"line {line}: the line is empty"


def test_objects_without_the_column_are_bad_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1}\n{"text": "good"}\n{"text": "last", "label": 1}\n')
    found = rows(path, Columns("text", "label"))
    assert [row.text for row in found] == [None, "good", "last"]
    assert found[0].broken == "line 1: there is no 'text'"
    assert found[2].label == 1
    monkeypatch.setattr(jsonl_file, "SAMPLED_OBJECTS", 2)
    with pytest.raises(HeedfulError, match=r"no column 'label': it has: id, text"):
        open_source(path, columns=Columns("text", "label"))


def test_a_parquet_file_damaged_in_the_middle_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": [f"{i * 7919} text" for i in range(2000)]}),
        path,
        row_group_size=500,
        compression="snappy",
        use_dictionary=False,
    )
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4000] = b"\xff" * 4000
    path.write_bytes(content)
    source = open_source(path)
    with pytest.raises(HeedfulError, match=r"a\.parquet is damaged after row .* What is done is kept"):
        list(source.rows())


def test_bad_rows_of_jsonl_have_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        b'{"text": "good"}',
        b'{"text": "bro',
        b'["text"]',
        b'{"text": "\xff"}',
        b"",
        b'{"text": null}',
        b'{"text": 3}',
    ]
    path.write_bytes(b"\n".join([*lines, b'{"text": "last"}']))
    found = rows(path)
    assert [row.number for row in found] == list(range(8))
    why = [row.broken or unfit(row.text) for row in found]
    assert why[0] == why[7] == ""
    parts = ["not JSON", "not a JSON object", "not UTF-8", "empty", "no text (null)", "not text, but int"]
    assert all(part in told for part, told in zip(parts, why[1:7], strict=True)), why


def test_a_line_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_module, "MAX_LINE_BYTES", 40)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n{"text": "' + "x" * 200 + '"}\n{"text": "last"}\n')
    found = rows(path)
    assert [row.text for row in found] == ["good", None, "last"]
    assert "not JSON" in found[1].broken


def test_parquet_with_nulls_numbers_and_bad_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    bad = pa.array([b"good", b"\xff", None, b"last"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": bad, "label": [1, 0, None, 1], "why": [[[0, 2]], None, None, []]}), path)
    found = rows(path, EVERY)
    assert [row.text for row in found if not unfit(row.text)] == ["good", "last"]
    assert found[0] == DataRow(0, "good", 1, [[0, 2]])
    assert unfit(found[1].text) == "the text is not valid UTF-8"
    pq.write_table(pa.table({"text": [1.5, 2.5]}), path)
    assert "not text, but float" in unfit(rows(path)[0].text)


def test_parquet_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "BATCH_ROWS", 3)
    path = tmp_path / "a.parquet"
    texts = [f"text {i}" for i in range(10)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=4)
    assert [(row.number, row.text) for row in rows(path)] == list(enumerate(texts))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_missing_column_is_told_with_those_that_are_there(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(pa.table({"review": ["a"], "stars": [1]}), path)
    else:
        path.write_text('{"review": "a", "stars": 1}\n' if name.endswith("jsonl") else "review,stars\na,1\n")
    with pytest.raises(HeedfulError, match=r"no column 'text': it has: review, stars"):
        open_source(path)
    with pytest.raises(HeedfulError, match="no column 'label'"):
        open_source(path, columns=Columns("review", "label"))


def test_what_cannot_be_read_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="there is no file"):
        open_source(tmp_path / "none.csv")
    with pytest.raises(HeedfulError, match="is not a file"):
        open_source(tmp_path)
    for name, content in [("a.csv", ""), ("b.csv", "text\n"), ("a.jsonl", "")]:
        (tmp_path / name).write_text(content)
        with pytest.raises(HeedfulError, match="is empty"):
            open_source(tmp_path / name)
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(HeedfulError, match="an unknown file type"):
        open_source(tmp_path / "a.txt")
    (tmp_path / "a.parquet").write_text("PAR1")
    with pytest.raises(HeedfulError, match="not a whole Parquet file"):
        open_source(tmp_path / "a.parquet")
    with pytest.raises(HeedfulError, match="limit cannot be 0"):
        open_source(["a"], limit=0)


def test_a_rationale_that_is_no_json_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,why\ngood,not json\n")
    assert "rationale is not JSON" in rows(path, Columns("text", None, "why"))[0].broken


def test_iterables_with_labels_and_rationales() -> None:
    source = open_source(["a", "b"], iter([1, 0]), ([1], [0]))
    assert list(source.rows()) == [DataRow(0, "a", 1, [1]), DataRow(1, "b", 0, [0])]
    assert list(open_source(iter("ab"), rationales=[[1], [0]]).rows())[1] == DataRow(1, "b", None, [0])
    with pytest.raises(HeedfulError, match="differ in length at row 1"):
        list(open_source(["a", "b"], [1]).rows())
    with pytest.raises(HeedfulError, match="cannot be a int"):
        open_source(3)


def test_shards_are_read_only_as_they_are_asked_for() -> None:
    taken: list[int] = []

    def texts() -> Any:
        for i in range(10):
            taken.append(i)
            yield str(i)

    found = shards(open_source(texts()).rows(), 3)
    assert [row.text for row in next(found).rows] == ["0", "1", "2"]
    assert taken == [0, 1, 2]
    assert [len(shard.rows) for shard in found] == [3, 3, 1]


def test_the_same_file_is_known_again_and_another_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "a"}) + "\n")
    first = open_source(path).facts()
    assert open_source(path).facts() == first
    path.write_text(json.dumps({"text": "b"}) + "\n")
    assert open_source(path).facts()["sha256"] != first["sha256"]
    monkeypatch.setattr(sources, "MAX_HASHED_BYTES", 4)
    assert open_source(path).facts()["modified"] == path.stat().st_mtime_ns
    assert open_source(path, limit=1).count() == 1


def test_a_csv_with_semicolons_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("comment;label\nfine;1\n")
    with pytest.raises(HeedfulError, match="separated by semicolons"):
        list(open_source(path, columns=Columns("comment")).rows())
