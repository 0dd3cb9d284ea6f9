"""A run folder from a stranger: nothing in it becomes markup. It opens, or it is refused in one sentence."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import html5lib
import pytest
from tests.attack.folder_leaves import HTML, MARK, forge, leaves, mutations, replaced, value_at
from tests.io.every_kind import KINDS, make
from tests.io.reforged import agree_shards

import heedful
from heedful.audits.result import Audit
from heedful.cli.main import main
from heedful.comparisons.audit_advice import advice_of
from heedful.core.advice import Advice
from heedful.core.command_line import command_line, stored_line
from heedful.core.errors import HeedfulError
from heedful.core.result import STATED as STATED_NOTE
from heedful.io import run_folder
from heedful.server import run_list
from heedful.server.opened_runs import opened as opened_run
from heedful.server.run_list import Runs
from heedful.server.run_view import listed, view_run

QUICK = 12  # mutations per file of each kind
STATED = "audit without shards"  # with them, every other number is refused before anything is drawn
SHARD_FILES = {"audit": ("shards/000000/shard.json",)}
FORBIDDEN = {"iframe", "object", "embed", "base", "link", "form", "frame", "applet", "audio", "video"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        make(kind, place / kind)
    Audit.load(place / "audit").save(place / STATED)
    return place


def check_markup(source: str, scripts: int) -> None:
    """Nothing of a stranger's became an element or an attribute."""
    tree = html5lib.parse(source, namespaceHTMLElements=False)
    elements = [e for e in tree.iter() if isinstance(e.tag, str)]
    names = {e.tag.rpartition("}")[2] for e in elements}
    assert not names & FORBIDDEN
    metas = [e.get("http-equiv") for e in elements if e.tag == "meta" and e.get("http-equiv")]
    assert set(metas) <= {"Content-Security-Policy"}
    assert sum(e.tag.rpartition("}")[2] == "script" for e in elements) == scripts
    for element in elements:
        for name, value in element.attrib.items():
            assert not str(name).lower().startswith("on"), f"{element.tag} {name}"
            if str(name).rpartition("}")[2] in ("href", "src", "action"):
                assert re.match("#|data:image/png;base64,", value), f"{element.tag} {name}={value[:60]}"
            if name == "style":
                assert "url(" not in value


@dataclass(frozen=True)
class Scripts:
    """How many scripts a sound result has: a stranger adds none."""

    page: int
    cell: int


def scripts_of(folder: Path) -> Scripts:
    result = run_folder.read(folder)
    return Scripts(count_scripts(result.page()), count_scripts(result._repr_html_()))


def count_scripts(source: str) -> int:
    tree = html5lib.parse(source, namespaceHTMLElements=False)
    return sum(str(e.tag).rpartition("}")[2] == "script" for e in tree.iter())


def opened(folder: Path, scripts: Scripts, cells: bool) -> str | None:
    """Why it was refused; None: it was opened and drawn on every surface, and nothing of it is markup."""
    try:
        result = run_folder.read(folder)
        page, cell, text = result.page(), result._repr_html_(), str(result)
        result.to_json()
        repr(result)
    except HeedfulError as error:
        return str(error)
    check_markup(page, scripts.page)
    if cells:  # drawn by the same code, and slow to parse
        check_markup(cell, scripts.cell)
        served(folder)
    assert "<script>window.ran" not in page + cell
    assert "\x1b" not in text
    return None


def served(folder: Path) -> str:
    """As `heedful serve` answers: the list of runs and the run, as JSON; why it was refused, or ""."""
    runs = Runs(folder.parent)
    runs.listed().model_dump_json()
    place = runs.get(run_list.number(folder.name))
    assert place is not None
    try:
        opened_run(place)
    except HeedfulError as error:
        return str(error)
    return ""


def attacked(runs: Path, kind: str, most: int | None, place: Path) -> dict[str, str | None]:
    results: dict[str, str | None] = {}
    scripts = scripts_of(runs / kind)
    for number, name in enumerate(("result.json", "manifest.json", *SHARD_FILES.get(kind, ()))):
        folder = place / str(number)
        shutil.copytree(runs / kind, folder)
        for what, data in mutations(folder, name, most, seed=len(kind)):
            forge(folder, name, data)
            try:
                results[f"{name} {what}"] = opened(folder, scripts, cells=most is None)
            except Exception as error:
                raise AssertionError(f"{kind} {name}: {what}") from error
    return results


@pytest.mark.parametrize("kind", [*KINDS, STATED])
def test_a_changed_leaf_is_text_or_refused(runs: Path, kind: str, tmp_path: Path) -> None:
    results = attacked(runs, kind, QUICK, tmp_path)
    assert len(results) > 8
    assert all(why is None or (why and "\n" not in why) for why in results.values())


def test_hostile_texts_of_an_audit_are_drawn(runs: Path, tmp_path: Path) -> None:
    """Else the test above is blind for them: all are refused before they reach a page."""
    results = attacked(runs, STATED, 60, tmp_path)
    drawn = [what for what, why in results.items() if why is None and MARK in what]
    assert len([what for what in drawn if what.startswith("result.json")]) > 5


def test_a_script_that_a_folder_brings_is_noticed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts are those of the sound page, not those of the page that is looked at."""
    folder = runs / "trial"
    scripts, page = scripts_of(folder), run_folder.read(folder).page()
    kind = type(run_folder.read(folder))
    monkeypatch.setattr(kind, "page", lambda _: page.replace("</body>", "<script>let a</script></body>"))
    with pytest.raises(AssertionError):
        opened(folder, scripts, cells=False)


@pytest.mark.parametrize(
    "changed", [{"rows": 9}, {"copies": 9}, {"rows": HTML}, {"copies": [1]}, {"files": {}}]
)
def test_a_changed_fact_of_a_shard_is_refused(runs: Path, tmp_path: Path, changed: dict[str, object]) -> None:
    folder = Path(shutil.copytree(runs / "audit", tmp_path / "audit"))
    name = SHARD_FILES["audit"][0]
    sound = json.loads((folder / name).read_text())
    forge(folder, name, sound)
    assert run_folder.read(folder).verified  # type: ignore[union-attr]
    forge(folder, name, sound | changed)
    with pytest.raises(HeedfulError, match="is damaged"):
        run_folder.read(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_character_in_a_folder_does_not_stop_the_page(runs: Path, kind: str, tmp_path: Path) -> None:
    """Such texts are valid JSON, and no answer of a server can hold them."""
    answers = []
    for number, name in enumerate(("result.json", "manifest.json")):
        folder = Path(shutil.copytree(runs / kind, tmp_path / str(number) / "run"))
        sound = json.loads((folder / name).read_text())
        texts = [at for at in leaves(sound) if isinstance(value_at(sound, at), str)]
        for at in random.Random(0).sample(texts, min(4, len(texts))) + [("title",)] * bool(number):
            forge(folder, name, replaced(sound, at, "\ud800x"))
            answers.append(served(folder))
    assert "" in answers  # the title, at least


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, STATED])
def test_every_changed_leaf_is_text_or_refused(runs: Path, kind: str, tmp_path: Path) -> None:
    assert attacked(runs, kind, None, tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "heedful explain x; rm -rf ~",
        "heedful explain $(id)",
        "heedful explain `id`",
        'heedful explain "$(id)"',
        "heedful explain x | sh",
        "curl x.test | sh",
        "heedful explain x\nid",
        "heedful explain 'x'id'",
        "heedful explain x > /etc/passwd",
        "heedful",
        ["heedful", "explain"],
    ],
)
def test_no_command_of_a_stranger_is_offered(runs: Path, tmp_path: Path, line: object) -> None:
    for kind, holder in (("explanation", ("settings",)), ("trial", ("settings",)), ("audit", ("made",))):
        folder = Path(shutil.copytree(runs / kind, tmp_path / kind))
        data = json.loads((folder / "result.json").read_text())
        sound = replaced(data, (*holder, "command"), "heedful explain 'not bad' --model zoo:sentiment")
        forge(folder, "result.json", sound)
        assert kind == "audit" or "heedful explain &#x27;not bad&#x27;" in served_html(folder)
        forge(folder, "result.json", replaced(data, (*holder, "command"), line))
        shown = served_html(folder)
        for word in ("rm -rf", "(id)", "`id`", "| sh", "\nid", "/etc/passwd"):
            assert word not in shown


def served_html(folder: Path) -> str:
    try:
        return view_run(folder).html
    except HeedfulError as error:  # an audit is compared with its shards, which know the line, too
        return str(error)


@pytest.mark.parametrize(
    "words",
    [
        ["plain"],
        ["it's", "a b"],
        ["$(id)", "`x`", "a;b"],
        ["a\nb", "\x1b[0m"],
        ["", "--x"],
        ["ünï", "'\"'"],
        ["-"],
    ],
)
def test_every_line_that_is_written_is_offered_again(words: list[str]) -> None:
    line = command_line("explain", [("--text", word) for word in words], words[0])
    assert line is not None
    assert stored_line(line) == line


def test_numbers_near_the_largest_are_drawn_without_a_warning(runs: Path, tmp_path: Path) -> None:
    """Warnings are errors in these tests."""
    folder = Path(shutil.copytree(runs / "explanation", tmp_path / "run"))
    data = json.loads((folder / "result.json").read_text())
    for item in data["attributions"]:
        item["scores"] = [(0.0, 1e300, -1e300)[i % 3] for i in range(len(item["scores"]))]
    forge(folder, "result.json", data)
    assert served(folder) == ""
    result = run_folder.read(folder)
    assert str(result)
    assert result.page()


def test_numbers_that_were_not_computed_here_are_named_so(runs: Path) -> None:
    for kind in ("explanation", "trial"):
        view = view_run(runs / kind)
        assert STATED_NOTE in view.html
        assert STATED_NOTE in view.page()
    assert STATED_NOTE not in view_run(runs / "audit").html
    assert "stated by the file" in view_run(runs / STATED).html


def test_the_list_of_runs_has_short_titles_and_reads_a_manifest_once(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(runs / "trial", tmp_path / "trial"))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"title": "x" * 500_000}))
    places, read = Runs(tmp_path), []
    monkeypatch.setattr(run_list, "listed", lambda place: read.append(place) or listed(place))
    assert len(places.all()[0].title) == run_folder.MAX_TITLE
    assert len(places.all()) == len(places.all()) == len(read) == 1
    (folder / "manifest.json").write_text(json.dumps(manifest | {"title": "another"}))
    assert places.all()[0].title == "another"


def test_the_check_of_markup_can_fail() -> None:
    for hostile in ("<meta http-equiv=refresh content=0>", "<p onclick=x>", "<a href=//x.test>", "<base>"):
        with pytest.raises(AssertionError):
            check_markup(f"<!DOCTYPE html><title>x</title><p>{hostile}", 0)
    with pytest.raises(AssertionError):
        check_markup(HTML, 0)
    assert MARK in HTML


@pytest.mark.parametrize("number", [1e301, -1e308])
@pytest.mark.parametrize(("kind", "name"), [("steer", "repetition"), ("attribution", "scores")])
def test_numbers_that_become_infinite_when_they_are_shown_are_refused(
    runs: Path, kind: str, name: str, number: float, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(runs / kind, tmp_path / "run"))
    data = json.loads((folder / "result.json").read_text())
    at = next(at for at in leaves(data) if name in at)
    forge(folder, "result.json", replaced(data, at, number))
    with pytest.raises(HeedfulError, match="instead of a number of usual size"):
        run_folder.read(folder)


def test_a_table_without_columns_is_one_line(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(runs / "lab", tmp_path / "run"))
    data = json.loads((folder / "result.json").read_text())
    tables = {at[:2] for at in leaves(data) if at[2:3] == ("columns",)}
    assert tables
    for table in tables:
        forge(folder, "result.json", replaced(data, (*table, "columns"), []))
        assert main(["report", str(folder)]) == 2
        assert "damaged" in capsys.readouterr().err


# --- an audit is what its shards say ---------------------------------------------------------------


def test_numbers_of_an_audit_that_its_shards_contradict_are_refused(runs: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs / "audit", tmp_path / "audit"))
    data = json.loads((folder / "result.json").read_text())
    for change in ({"texts": 4}, {"rows": 9}, {"verdict": {**data["verdict"], "n": 50}}):
        forge(folder, "result.json", data | change)
        with pytest.raises(HeedfulError, match="is damaged"):
            run_folder.read(folder)
    table = [{**row, "value": row["value"] + 0.01} for row in data["table"]]
    forge(folder, "result.json", data | {"table": table})
    with pytest.raises(HeedfulError, match="not those of its shards"):
        run_folder.read(folder)
    forge(folder, "result.json", data)
    assert run_folder.read(folder).verified  # type: ignore[union-attr]


def test_an_audit_without_shards_says_that_its_numbers_are_stated(runs: Path, tmp_path: Path) -> None:
    Audit.load(runs / "audit").save(tmp_path / "copy")
    copy = Audit.load(tmp_path / "copy")
    assert not copy.verified
    assert "stated by the file" in str(copy)
    assert "stated by the file" not in str(Audit.load(runs / "audit"))
    with pytest.raises(HeedfulError, match="no shards"):
        copy.check()


def test_a_large_audit_is_computed_again_when_asked(
    runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from heedful.audits import result

    folder = Path(shutil.copytree(runs / "audit", tmp_path / "audit"))
    data = json.loads((folder / "result.json").read_text())
    forge(folder, "result.json", data | {"rows": 9})
    monkeypatch.setattr(result, "ROWS_ON_OPENING", 1)
    audit = result.Audit.load(folder)
    assert (audit.verified, audit.rows) == (False, 9)
    for ask in (audit.check, audit.checked, lambda: advice_of(folder)):
        with pytest.raises(HeedfulError, match="not those of its shards"):
            ask()
    monkeypatch.setattr(result, "ROWS_WHEN_ASKED", 1)  # too large for any command
    assert not audit.checked().verified
    assert not advice_of(folder).verified


def test_shards_that_claim_to_be_large_are_not_read(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with a hole takes no place on a disk, and eight terabytes take hours to compare."""
    folder = Path(shutil.copytree(runs / "audit", tmp_path / "audit"))
    with (folder / "shards" / "000000" / "scores.parquet").open("ab") as file:
        file.truncate(8 << 40)
    assert not Audit.load(folder).verified
    assert "stated by the file" in view_run(folder).html
    assert main(["report", str(folder)]) == 2
    assert "not Parquet as an audit writes it" in capsys.readouterr().err


def test_rows_of_a_small_shard_without_end_are_not_read(runs: Path, tmp_path: Path) -> None:
    """Rows that are all alike take no place in a file. Each takes 10 microseconds and 600 bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(shutil.copytree(runs / "audit", tmp_path / "audit"))
    place = folder / "shards" / "000000" / "texts.parquet"
    alike = pq.read_table(place).slice(0, 1).take(pa.array([0] * (4 << 20)))
    pq.write_table(alike, place, compression="zstd")
    assert place.stat().st_size < 300_000
    agree_shards(folder)
    for open_it in (run_folder.read, Audit.load):
        began = time.process_time()
        assert not open_it(folder).verified  # type: ignore[union-attr]
        assert time.process_time() - began < 5


def test_shards_with_other_pairs_than_the_result_are_not_read_for_each(runs: Path, tmp_path: Path) -> None:
    """Scores are read once for each pair of metric and operator, and an operator may have any name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(shutil.copytree(runs / "audit", tmp_path / "audit"))
    place = folder / "shards" / "000000" / "scores.parquet"
    one = pq.read_table(place).slice(0, 1).take(pa.array([0] * 5000))
    names = pa.array([str(number) for number in range(5000)])
    pq.write_table(one.set_column(one.column_names.index("operator"), "operator", names), place)
    agree_shards(folder)
    with pytest.raises(HeedfulError, match="more than 1 pairs of metric and operator"):
        Audit.load(folder)


def test_what_a_stranger_states_is_no_advice_without_saying_so(runs: Path, tmp_path: Path) -> None:
    stated = Audit.load(runs / "audit").save(tmp_path / "copy")
    data = json.loads((stated / "result.json").read_text())
    forge(stated, "result.json", data | {"verdict": data["verdict"] | {"use": "lime"}})
    model = heedful.load(lambda texts: [[0.0, float(len(text))] for text in texts])
    for audit, note in ((stated, True), (runs / "audit", False)):
        advice = replace(advice_of(audit), fingerprint="")  # of any model
        shown = heedful.explain(model, "a b c", ["occlusion", "lime"], audit=Given(advice))
        assert ("stated by the file" in str(shown)) == note
        assert shown.settings["audit"].get("verified", True) != note


@dataclass(frozen=True)
class Given:
    """An audit, as far as an explanation reads it."""

    given: Advice

    def advice(self) -> Advice:
        return self.given


@pytest.mark.parametrize("kind", KINDS)
def test_json_and_parts_of_what_was_read_say_that_it_is_stated(
    kind: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(runs / kind), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] == (kind == "audit")
    found = run_folder.read(runs / kind)
    if kind == "explanation":
        assert isinstance(found, heedful.Comparison)
        assert STATED_NOTE in str(found["lime"])
        assert json.loads(found["lime"].to_json())["verified"] is False


def parquet_bomb() -> bytes:
    """A few kilobytes that are gigabytes in memory: one long text, named by every row."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * (8 << 20)]))
    sink = io.BytesIO()
    table = pa.table({"row": pa.array(range(2000), pa.int64()), "method": text, "reason": text})
    pq.write_table(table, sink, compression="zstd", store_schema=False)  # texts, as an audit writes them
    return sink.getvalue()


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ({"row": ["a text"]}, "a column 'row' of the type string"),
        ({"other": [1]}, "a column 'other' of the type int64"),
        ({"row": [[1]]}, "a column 'row' of the type list"),
    ],
)
def test_tables_with_columns_of_other_types_are_refused(column: dict[str, Any], why: str) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    from heedful.audits.schemas import from_parquet

    sink = io.BytesIO()
    pq.write_table(pa.table(column), sink)
    with pytest.raises(ValueError, match=why):
        from_parquet(sink.getvalue())


def test_a_table_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "errors.parquet"
    bomb.write_bytes(parquet_bomb())
    assert bomb.stat().st_size < 1 << 20
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from heedful.audits.schemas import from_parquet\n"
        "try: from_parquet(open(sys.argv[1], 'rb').read()).to_pylist()\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(bomb)], capture_output=True, text=True, check=True)
    assert "has a text of over" in done.stdout


# --- links, pipes and devices ----------------------------------------------------------------------


def reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """(code, what is said) of `heedful report`, within a minute."""

    def over(*_: object) -> None:
        raise TimeoutError("the report takes longer than a minute")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(60)
    try:
        capsys.readouterr()
        return main(["report", str(folder)]), capsys.readouterr().err
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_report_is_not_written_through_a_link(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(runs / "trial", tmp_path / "run"))
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    (folder / "report.html").unlink(missing_ok=True)
    (folder / "report.html").symlink_to(victim)
    code, said = reported(folder, capsys)
    assert (code, victim.read_text()) == (2, "precious")
    assert "is a link" in said
    assert len(said.splitlines()) <= 3


def test_a_run_is_not_written_through_a_link(tmp_path: Path) -> None:
    from tests.io.every_kind import RESULTS

    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    for name in ("result.json", "manifest.json"):
        folder = tmp_path / f"run-{name}"
        folder.mkdir()
        (folder / name).symlink_to(victim)
        with pytest.raises(HeedfulError, match="is a link"):
            RESULTS["trial"]().save(folder)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["manifest.json", "result.json", "report.html"])
def test_a_pipe_in_a_folder_does_not_hang(
    runs: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(runs / "trial", tmp_path / "run"))
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    code, said = reported(folder, capsys)
    assert code == 2
    assert "regular file" in said


# --- sizes -----------------------------------------------------------------------------------------


def resized(folder: Path, name: str, size: int) -> None:
    """A file with a hole: it takes no place on the disk."""
    os.truncate(folder / name, size)
    manifest = json.loads((folder / "manifest.json").read_bytes()) if name != "manifest.json" else {}
    if name in manifest.get("files", {}):
        manifest["files"][name]["bytes"] = size
        (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("name", ["manifest.json", "result.json", "maps.safetensors"])
def test_the_size_of_a_file_is_looked_at_before_it_is_read(
    runs: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(runs / "attention", tmp_path / "run"))
    resized(folder, name, 60 << 30)
    code, said = reported(folder, capsys)
    assert code == 2
    assert f"{name} has over" in said
    assert len(said.splitlines()) <= 2


def test_a_file_is_not_read_if_its_size_is_not_that_of_the_manifest(runs: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs / "attention", tmp_path / "run"))
    os.truncate(folder / "maps.safetensors", 60 << 30)
    with pytest.raises(
        HeedfulError, match=r"maps\.safetensors is damaged: it has 64,424,509,440 bytes instead"
    ):
        run_folder.read(folder, most=None)


def test_what_could_not_be_opened_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.io.every_kind import RESULTS

    monkeypatch.setitem(run_folder.MAX_FILE_BYTES, "result.json", 10)
    with pytest.raises(HeedfulError, match=r"too large to be stored: result\.json has over"):
        RESULTS["trial"]().save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- time ------------------------------------------------------------------------------------------


def test_an_explanation_has_each_method_once_and_not_any_number(runs: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(runs / "explanation", tmp_path / "run"))
    data = json.loads((folder / "result.json").read_text())
    first = data["attributions"][0]
    forge(folder, "result.json", data | {"attributions": [first, first]})
    with pytest.raises(HeedfulError, match="a method is there twice"):
        run_folder.read(folder)
    many = [first | {"method": f"m{number}"} for number in range(65)]
    forge(folder, "result.json", data | {"attributions": many})
    with pytest.raises(HeedfulError, match="it has 65 methods, more than 64"):
        run_folder.read(folder)


def test_a_page_compares_each_pair_of_methods_once(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.comparisons import result

    asked: list[tuple[str, int]] = []
    computed = result._agreements
    monkeypatch.setattr(
        result, "_agreements", lambda c, measure, k: (asked.append((measure, k)), computed(c, measure, k))[1]
    )
    run_folder.read(runs / "explanation").page()
    assert asked
    assert len(asked) == len(set(asked))


# --- values that have their types and do not fit ------------------------------------------------------


def forged(runs: Path, tmp_path: Path, **changes: object) -> Path:
    folder = Path(shutil.copytree(runs / "explanation", tmp_path / "run"))
    forge(folder, "result.json", json.loads((folder / "result.json").read_text()) | changes)
    return folder


def test_a_loaded_result_that_cannot_be_drawn_says_that_it_is_damaged(runs: Path, tmp_path: Path) -> None:
    from heedful import Comparison

    folder = forged(runs, tmp_path, model={"prediction": [0.5]})
    result = Comparison.load(folder)
    for draw in (result._repr_html_, result.__str__, result.page, result.document):
        with pytest.raises(HeedfulError, match=f"{folder} is damaged: its values do not fit together"):
            draw()


def test_an_error_of_the_code_is_not_called_damage() -> None:
    from dataclasses import replace

    from tests.io.every_kind import RESULTS

    made = replace(RESULTS["explanation"](), model={"prediction": [0.5]})
    with pytest.raises(TypeError):
        str(made)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1e999", "9" * 400 + ".0"])
def test_a_number_that_is_not_finite_is_refused(runs: Path, tmp_path: Path, number: str) -> None:
    folder = forged(runs, tmp_path, settings={"draws": "HERE"})
    content = (folder / "result.json").read_text().replace('"HERE"', number)
    assert number in content
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "result.json").write_text(content)
    manifest["files"] |= run_folder.sums({"result.json": content.encode()})
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(HeedfulError, match="is not a finite number"):
        run_folder.read(folder)


def test_what_is_nested_too_deeply_is_refused(runs: Path, tmp_path: Path) -> None:
    deep: object = "x"
    for _ in range(900):
        deep = [deep]
    with pytest.raises(HeedfulError, match="nested too deeply"):
        run_folder.read(forged(runs, tmp_path, model={"dtype": deep}))


def test_attention_without_weights_is_refused_without_a_warning(runs: Path, tmp_path: Path) -> None:
    summary = {"weights": [], "special": []}
    with pytest.raises(HeedfulError, match="is damaged"):
        run_folder.read(forged(runs, tmp_path, internals={"attention": summary}))


def test_a_name_that_no_disk_takes_is_refused(runs: Path, tmp_path: Path) -> None:
    from heedful import ActivationStore

    folder = Path(shutil.copytree(runs / "activations", tmp_path / "run"))
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("x" * 5000, "x" * 256, "shards/" * 200 + "x"):
        manifest["shards"][0]["name"] = name
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(HeedfulError, match="is not a file of the folder"):
            ActivationStore.load(folder)
