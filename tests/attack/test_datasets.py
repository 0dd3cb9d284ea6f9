"""Files of texts that stand for more than they hold, and files that are damaged in every place."""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heedful.core.errors import HeedfulError
from heedful.io.datasets import (
    Columns,
    DataRow,
    csv_file,
    in_random_order,
    labelled_texts,
    open_source,
    parquet_file,
    sources,
)
from heedful.io.datasets.parquet_pages import BrokenPage, column_size, row_groups
from heedful.io.datasets.rows import MAX_FIELD
from heedful.modalities import image_files
from heedful.modalities.kinds import KINDS

BOTH = Columns("text", "label")
MB = 1 << 20


def rows(path: Path, columns: Columns | None = None) -> list[DataRow]:
    return list(open_source(path, columns=columns or Columns(), plain=True).rows())


def bomb(path: Path, size: int, **how: Any) -> None:
    """A text of `size` bytes between two short ones."""
    table = pa.table({"text": ["first", "x" * size, "last"], "label": [0, 1, 0]})
    pq.write_table(table, path, **how)


@pytest.mark.parametrize("how", [{"compression": "zstd"}, {"compression": "snappy", "use_dictionary": False}])
def test_a_text_over_the_limit_is_skipped_and_recorded(tmp_path: Path, how: dict[str, Any]) -> None:
    bomb(tmp_path / "a.parquet", 2 * MB, **how)
    found = rows(tmp_path / "a.parquet", BOTH)
    assert [row.text for row in found] == ["first", None, "last"]
    assert "2,097,152 characters, more than 1,000,000" in found[1].broken
    assert MAX_FIELD in found[1].broken


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_limit_can_be_changed(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, text = tmp_path / f"a.{kind}", "word " * 400_000
    if kind == "parquet":
        pq.write_table(pa.table({"text": [text, "b"]}), path)
    elif kind == "csv":
        path.write_text(f"text\n{text}\nb\n")
    else:
        path.write_text(f'{{"text": "{text}"}}\n{{"text": "b"}}\n')
    assert [bool(row.broken) for row in rows(path)] == [True, False]
    monkeypatch.setenv(MAX_FIELD, "3000000")
    assert [row.text for row in rows(path)] == [text, "b"]


def test_a_long_line_of_a_text_file_is_cut_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MAX_FIELD, "7")
    path, text = tmp_path / "a.txt", "naïve café 你好世界 👨‍👩‍👧\n" * 3
    path.write_text(text)
    found = [row.text for row in rows(path)]
    assert "".join(found) == text
    assert max(len(part) for part in found) <= 7


MEASURED = """
import sys, resource
from pathlib import Path
from heedful.io.datasets import open_source
import pyarrow.parquet, pyarrow.compute
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = [row.broken for row in open_source(Path(sys.argv[1])).rows()]
taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(taken // 1024, sum(map(bool, found)), len(found))
"""


def measured(path: Path) -> tuple[int, int, int]:
    """(MB that reading took, rows skipped, rows) in a process of its own."""
    done = subprocess.run([sys.executable, "-c", MEASURED, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    taken, skipped, count = map(int, done.stdout.split())
    return taken, skipped, count


def test_a_small_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    """120 MB of one text in a few KB: its page is not even unpacked."""
    path = tmp_path / "a.parquet"
    bomb(path, 120 * MB, compression="zstd", write_statistics=False)
    assert path.stat().st_size < 100_000
    taken, skipped, count = measured(path)
    assert (skipped, count) == (3, 3)
    assert taken < 100


@pytest.mark.parametrize("encoding", ["RLE_DICTIONARY", "DELTA_BYTE_ARRAY"])
def test_many_copies_of_one_text_do_not_fill_the_memory(tmp_path: Path, encoding: str) -> None:
    """Thirty texts of 20 MB that are stored once: with their copies 1.2 GB, if all were unpacked together."""
    path, schema = tmp_path / "a.parquet", pa.schema({"text": pa.string()})
    plain = {} if encoding == "RLE_DICTIONARY" else {"column_encoding": {"text": encoding}}
    how: dict[str, Any] = {"use_dictionary": not plain, "dictionary_pagesize_limit": 64 * MB, **plain}
    batch = pa.record_batch([pa.array(["y" * (20 * MB)])], schema=schema)
    with pq.ParquetWriter(path, schema, compression="zstd", write_statistics=False, **how) as writer:
        for _ in range(30):
            writer.write_batch(batch)
    assert path.stat().st_size < MB
    taken, skipped, count = measured(path)
    assert (skipped, count) == (30, 30)
    assert taken < 700


def test_the_size_of_a_page_is_what_the_head_says(tmp_path: Path) -> None:
    """Against the sizes that the writer was told to keep to, over pages, encodings and versions."""
    for version in ("1.0", "2.0"):
        for dictionary in (True, False):
            path = tmp_path / "a.parquet"
            table = pa.table({"text": [f"{n:06d}" * 50 for n in range(3000)], "n": list(range(3000))})
            pq.write_table(
                table,
                path,
                data_page_size=10_000,
                write_batch_size=32,
                data_page_version=version,
                use_dictionary=dictionary,
            )
            with path.open("rb") as raw:
                chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
                size = column_size(raw, row_groups(raw)[0].columns[0])
            assert size.values == 3000 * (1 + dictionary)  # the dictionary's own, too
            assert 10_000 < size.largest < size.total < chunk.total_uncompressed_size  # which has heads, too
            if not dictionary:
                assert size.largest < 30_000  # of many pages, not their sum


def test_the_footer_is_read_as_pyarrow_reads_it(tmp_path: Path) -> None:
    """Groups, columns, nested ones and those with dots in their names, with and without dictionaries."""
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "text": [f"text {n}" for n in range(1000)],
            "a.b": list(range(1000)),
            "words": [["a", f"b{n}"] for n in range(1000)],
            "pair": [{"left": "a", "right": n} for n in range(1000)],
        }
    )
    pq.write_table(table, path, row_group_size=300, use_dictionary=["text"])
    theirs = pq.ParquetFile(path).metadata
    with path.open("rb") as raw:
        ours = row_groups(raw)
    assert [group.rows for group in ours] == [300, 300, 300, 100]
    for number, group in enumerate(ours):
        every = [theirs.row_group(number).column(at) for at in range(theirs.num_columns)]
        for column, their in zip(group.columns, every, strict=True):
            first = their.dictionary_page_offset or their.data_page_offset
            assert ".".join(column.path) == their.path_in_schema
            assert (column.start, column.end) == (first, first + their.total_compressed_size)
            assert column.texts == (their.physical_type == "BYTE_ARRAY")
            assert column.nested == (column.path[0] in ("words", "pair"))
    assert [row.text for row in rows(path, Columns("text", "a.b"))] == table["text"].to_pylist()


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_table_without_rows_has_no_pages(tmp_path: Path, dictionary: bool) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), path, use_dictionary=dictionary)
    with path.open("rb") as raw:
        columns = [column for group in row_groups(raw) for column in group.columns]
        assert [column_size(raw, column).values for column in columns] == [0]
    with pytest.raises(HeedfulError, match="it has no row"):
        rows(path)


def test_too_many_rows_are_told_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows without texts take no place in a file, so a small one may claim any number of them."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.nulls(200_000, pa.string())}), path)
    assert path.stat().st_size < 5000
    source = open_source(path, limit=5)
    assert len(list(in_random_order(source, 0))) == 5
    monkeypatch.setattr(sources, "MAX_SHUFFLED", 100_000)
    monkeypatch.setattr(parquet_file, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(HeedfulError, match="200,000 rows are too many to draw from"):
        next(in_random_order(source, 0))


def test_columns_that_end_behind_the_file_are_refused(tmp_path: Path) -> None:
    """A footer without its pages: the whole file is the footer, which points at places that are not there."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a" * 5000 + str(n) for n in range(50)]}), path, compression="none")
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(b"PAR1" + content[start:])
    with path.open("rb") as raw, pytest.raises(BrokenPage, match="larger than the file"):
        row_groups(raw)


def test_a_list_that_names_a_long_text_often_does_not_fill_the_memory(tmp_path: Path) -> None:
    """One row with 2,000 copies of a text of a megabyte, which is stored once: 2 GB."""
    path = tmp_path / "a.parquet"
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * MB]))
    lists = pa.ListArray.from_arrays(pa.array([0, 2000], pa.int32()), words)
    pq.write_table(pa.table({"text": lists}), path, compression="zstd", write_statistics=False)
    assert path.stat().st_size < 20_000
    taken, skipped, count = measured(path)
    assert (skipped, count) == (1, 1)
    assert taken < 200


def test_one_list_cannot_use_the_room_of_many_empty_ones(tmp_path: Path) -> None:
    """Zeros take no place in the file, nor do empty lists, and on average a list is short."""
    path, empty = tmp_path / "a.parquet", 40_000
    count = 1000 * (empty + 900)
    values = pa.nulls(count, pa.int64()).fill_null(0)
    lists = pa.ListArray.from_arrays(pa.array([0] * empty + [count], pa.int32()), values)
    pq.write_table(pa.table({"text": lists}), path, compression="zstd", row_group_size=empty)
    assert path.stat().st_size < 20_000
    taken, skipped, counted = measured(path)
    assert (skipped, counted) == (empty, empty)
    assert taken < 200


def test_values_of_a_stated_size_are_counted_with_it(tmp_path: Path) -> None:
    """A list of a thousand copies of a large value, which the file holds once."""
    path = tmp_path / "a.parquet"
    large = pa.array([bytes(1000)] * 1000, pa.binary(1000))
    pq.write_table(pa.table({"text": pa.ListArray.from_arrays(pa.array([0, 1000], pa.int32()), large)}), path)
    with path.open("rb") as file:
        (column,) = row_groups(file)[0].columns
        size = column_size(file, column)
    assert 1_000_000 <= size.values * column.bytes_per_value() < 1_100_000


def test_lists_of_texts_are_read(tmp_path: Path) -> None:
    """Long ones are skipped, and the others of the same batch are not."""
    path = tmp_path / "a.parquet"
    labels = [["a", "b"], ["x" * MB] * 5, [], None, ["c"]]
    pq.write_table(pa.table({"text": list("vwxyz"), "label": labels}), path)
    found = rows(path, BOTH)
    assert [row.label for row in found if not row.broken] == [["a", "b"], [], None, ["c"]]
    assert "characters, more than" in found[1].broken


def test_marks_of_many_texts_are_read(tmp_path: Path) -> None:
    path, marks = tmp_path / "a.parquet", [[0, 1] * 25] * 100_000
    pq.write_table(pa.table({"text": ["a"] * len(marks), "rationale": marks}), path)
    found = open_source(path, columns=Columns("text", rationale="rationale"), plain=True).rows()
    assert all(row.rationale == marks[0] for row in found)


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal128(25, 2), pa.decimal256(60, 2), pa.binary(3)])
def test_lists_of_any_kind_of_number_are_read(kind: Any, tmp_path: Path) -> None:
    value = b"abc" if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind) else 1
    lists = pa.array([[value] * 60] * 1000, pa.list_(pa.int64() if value == 1 else kind))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"] * 1000, "label": lists.cast(pa.list_(kind))}), path)
    assert all(len(row.label) == 60 and not row.broken for row in rows(path, BOTH))


def test_quotes_without_end_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "MAX_LINE_BYTES", MB)
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\n" + b'"' * (2 * MB) + b"\nlast\n")
    began = time.process_time()
    found = rows(path)
    assert time.process_time() - began < 30  # minutes, if each quote were added on its own
    assert [row.text for row in found] == [None, "last"]
    assert "longer than" in found[0].broken


def test_a_line_may_be_cut_in_any_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are read in pieces, and a doubled quote may be cut in two by that. As the csv module reads it."""
    draw = random.Random(9)
    texts = ["".join(draw.choices('",a\n ', k=draw.randrange(1, 30))) for _ in range(300)]
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["text", "label"], *([text, "x"] for text in texts)])
    for piece in (1, 2, 3, 7, 50):
        monkeypatch.setattr(csv_file, "PIECE_BYTES", piece)
        assert [row.text for row in rows(path, BOTH)] == texts


@pytest.mark.parametrize("depth", [400, 900, 2000, 100_000])
def test_lists_in_lists_are_skipped_or_read(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": ' + "[" * depth + "]" * depth + '}\n{"text": "b"}\n')
    for row in rows(path):
        assert row.text == "b" or KINDS["text"].unfit(row.text) or row.broken


def test_rows_without_end_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty rows take no place in a file, and each takes some in memory."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array(["a", *[None] * 299], pa.string())}), path)
    read = labelled_texts.read_texts(path, Columns())
    assert read.texts == ["a"]
    assert len(read.left) == labelled_texts.MAX_REASONS + 1
    assert read.left[-1] == "199 more rows were skipped"
    monkeypatch.setattr(labelled_texts, "MAX_ROWS", 200)
    with pytest.raises(HeedfulError, match=r"more than 200 rows.*Use --limit"):
        labelled_texts.read_texts(path, Columns())
    assert labelled_texts.read_texts(path, Columns(), 200).texts == ["a"]


# --- oddities ------------------------------------------------------------------------------------------


def test_messages_about_names_are_short(tmp_path: Path) -> None:
    many = tmp_path / "a.csv"
    many.write_text(",".join(f"a column called {n}" for n in range(10_000)) + "\n" + "," * 9_999 + "\n")
    for path in (many, tmp_path / ("x" * 300 + ".csv"), tmp_path / ("y/" * 3000) / "a.csv"):
        with pytest.raises(HeedfulError) as told:
            rows(path)
        assert len(str(told.value)) < 1500


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    csv = tmp_path / "a.csv"
    csv.write_text("text,text,label\na,b,1\n")
    parquet = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), parquet)
    for path in (csv, parquet):
        with pytest.raises(HeedfulError, match="two columns 'text'"):
            rows(path)
    csv.write_text("other,other,text\na,b,c\n")  # nobody asks for those
    assert rows(csv)[0].text == "c"


def test_dates_that_python_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    late = pa.array([2**55, 0, None], pa.timestamp("ms"))
    pq.write_table(pa.table({"text": ["a", "b", "c"], "label": late}), path)
    assert [row.text for row in rows(path, BOTH)] == ["a", "b", "c"]


def test_names_of_columns_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "qqqq": ["b"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"qqqq", b"\xff\xfe\xfd\xfc"))
    with pytest.raises(HeedfulError, match="not UTF-8"):
        rows(path)


def mutations(content: bytes, count: int, seed: int) -> list[bytes]:
    """Bytes changed, cut, doubled and removed, at places drawn by the seed."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        one, at = bytearray(content), draw.randrange(len(content))
        match draw.randrange(4):
            case 0:
                one[at] = draw.randrange(256)
            case 1:
                del one[at : at + draw.randrange(1, 40)]
            case 2:
                one[at:at] = one[at : at + draw.randrange(1, 40)]
            case 3:
                one[at : at + 8] = draw.randbytes(8)
        found.append(bytes(one))
    return found


def attacked(folder: Path, count: int) -> int:
    """Every reader reads it, or says in one line why not."""
    table = pa.table({"text": ["a b c", "d e", None], "label": [1, 0, 1], "why": [[[0, 1]], [], None]})
    pq.write_table(table, folder / "a.parquet")
    (folder / "a.csv").write_text('text,label,why\n"a, b",1,"[[0, 1]]"\nd e,0,[]\n')
    (folder / "a.jsonl").write_text('{"text": "a", "label": 1, "why": [[0, 1]]}\n{"text": "b", "label": 0}\n')
    (folder / "a.txt").write_text("one line\nanother\n")
    told = []
    for path in sorted(folder.glob("a.*")):
        for number, content in enumerate(mutations(path.read_bytes(), count, 7)):
            other = folder / f"{number}{path.suffix}"
            other.write_bytes(content)
            try:
                rows(other, Columns("text", "label", "why"))
            except HeedfulError as error:
                told.append(str(error))
            other.unlink()
    assert not any("\n" in line for line in told)
    return len(told)


READ_ALL = """
import sys
from pathlib import Path
from heedful.core.errors import HeedfulError
from heedful.io.datasets import Columns, open_source
for path in sorted(Path(sys.argv[1]).glob("*.parquet")):
    print(path.name, end=" ", flush=True)
    try:
        list(open_source(path, columns=Columns("text", "label", "why")).rows())
    except HeedfulError as error:
        assert "\\n" not in str(error)
        print("told", end=" ")
"""


def damaged_footers(folder: Path, count: int, seed: int) -> str:
    """Files whose footers are damaged, read in a process of their own: pyarrow can end it."""
    table = pa.table(
        {"text": ["a b c", "d e", None], "label": [["1"], ["0", "1"], []], "why": [[0], [], None]}
    )
    sound = folder / "sound"
    pq.write_table(table, sound, row_group_size=2)
    content = sound.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footers = mutations(content[start:-8], count, seed)
    for number, footer in enumerate(footers):
        length = len(footer).to_bytes(4, "little")
        (folder / f"{number:05d}.parquet").write_bytes(content[:start] + footer + length + b"PAR1")
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, folder], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-60:]} {done.stderr[-500:]}"
    return done.stdout


def test_damaged_footers_do_not_end_the_process(tmp_path: Path) -> None:
    assert damaged_footers(tmp_path, 400, 11).count("told") > 100


@pytest.mark.slow
def test_many_damaged_footers_do_not_end_the_process(tmp_path: Path) -> None:
    assert damaged_footers(tmp_path, 20_000, 12).count("told") > 5000


@pytest.mark.parametrize("seed", range(3))
def test_any_bytes_are_a_footer_or_refused(tmp_path: Path, seed: int) -> None:
    """Random bytes in the place of a footer end in one kind of error."""
    draw, path = random.Random(seed), tmp_path / "a.parquet"
    for _ in range(300):
        footer = draw.randbytes(draw.randrange(1, 200))
        path.write_bytes(b"PAR1" + bytes(50) + footer + len(footer).to_bytes(4, "little") + b"PAR1")
        with path.open("rb") as raw, suppress(BrokenPage):
            assert isinstance(row_groups(raw), tuple)


def test_damaged_files_are_read_or_told(tmp_path: Path) -> None:
    assert attacked(tmp_path, 150) > 50


@pytest.mark.slow
def test_many_damaged_files_are_read_or_told(tmp_path: Path) -> None:
    assert attacked(tmp_path, 5000) > 1000


# --- masks of a table of pictures ----------------------------------------------------------------------


def digests(folder: Path, *masks: str) -> list[str]:
    """What rows are known by, in the order of the masks; each row has a picture of its own."""
    from PIL import Image

    for number in range(len(masks)):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(folder / f"{number}.png")
    table = [{"picture": str(folder / f"{number}.png"), "mask": mask} for number, mask in enumerate(masks)]
    rows = in_random_order(open_source(table, modality="image"), 0)
    return [row.digest.split()[-1] for row in sorted(rows, key=lambda row: row.number)]


def test_a_mask_that_cannot_be_read_is_known_by_its_name(tmp_path: Path) -> None:
    """A pipe is not waited for, a device is not read, and no name is an error."""
    os.mkfifo(tmp_path / "pipe.png")
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for the pipe"))
    signal.alarm(20)
    try:
        names = [str(tmp_path / "pipe.png"), "/dev/null", "a\0b.png", "\udcff.png", "x" * 5000, "nosuch.png"]
        assert len(set(digests(tmp_path, *names))) == len(names)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_mask_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mask.png"
    path.write_bytes(b"a" * 5000)
    read = digests(tmp_path, str(path))
    monkeypatch.setattr(image_files, "MAX_FILE_BYTES", 4999)
    assert digests(tmp_path, str(path)) != read
