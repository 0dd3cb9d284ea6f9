"""heedful audit on the command line: one document, one line for a mistake, a page that fetches nothing."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heedful
from heedful.audits import audit_run
from heedful.cli.main import main
from heedful.core import registry
from heedful.reports import audit_tables

FEW = ["--model", "zoo:one-layer", "--method", "grad-l2,occlusion", "--metric", "aopc", "--draws", "3"]
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    rows = [
        "a good film,1",
        "a bad film,0",
        ",1",
        f"{EVIL} good,1",
        "not good,0",
        "not bad at all,1",
        "dull,0",
    ]
    path.write_text("review,label\n" + "\n".join(rows) + "\n")
    return path


def audit(data: Path, *more: str) -> int:
    out = ["--text-column", "review", "--out", str(data.parent / "run")]
    return main(["audit", str(data), *out, *FEW, *more])


def test_json_is_one_document_and_nothing_else(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(data, "--json", "--label-column", "label") == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["rows"], found["texts"], found["labelled"]) == (7, 6, 6)
    assert len(found["table"]) == 2 * 2
    assert found["headline"] == "6 texts are too few for a verdict: at least 10 are needed."
    assert found["verdict"]["said"][0] == found["headline"]
    assert found["errors"] == [{"row": 2, "method": "", "reason": "the text is empty"}]
    run = data.parent / "run"
    assert f"saved {run} (open it with: heedful report {run})\n" in said.err
    assert (run / "report.html").is_file()


def test_a_wrong_label_and_too_few_texts_are_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data.write_text("review,label\na good film,1\na bad film,neg\nnot good,0\nnot bad,\x1b[3\n")
    assert audit(data, "--label-column", "label", "--limit", "4") == 0
    said = capsys.readouterr()
    first, second = heedful.load("zoo:one-layer").labels
    shown = " ".join(said.out.split())
    for row, label in ((1, "neg"), (3, "␛[3")):
        none = f'Row {row}: the label "{label}" is none of {first} (0), {second} (1)'
        assert f"{none}; its text counts as unlabelled." in shown
    assert "2 labels name no label of the model." in shown
    assert said.err.index("4 texts are too few for a verdict") < said.err.index("saved ")
    again = heedful.Audit.load(data.parent / "run")
    assert again.unknown_labels == [{"row": 1, "label": "neg"}, {"row": 3, "label": "\x1b[3"}]


def test_full_and_all_run_every_method_and_name_the_expensive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("text\na good film\n")
    given = ["audit", str(texts), "--model", "zoo:one-layer", "--metric", "aopc", "--operators", "unk"]
    given += ["--draws", "2", "--out", str(tmp_path / "run")]
    able = [s.method for s in registry.support(heedful.load("zoo:one-layer")) if s.ok]
    expensive = [name for name in able if registry.get(name).expensive]
    for more in (["--method", "all", "--out", str(tmp_path / "all")], ["--full"]):
        assert main([*given, *more]) == 0
        assert (
            f"skipped (expensive): {', '.join(expensive)}; run with --method NAME\n"
            in capsys.readouterr().err
        )
    ran = set(heedful.Audit.load(tmp_path / "run").made["settings"]["methods"])
    assert ran == {*able} - {*expensive, "random"}
    assert set(heedful.Audit.load(tmp_path / "all").made["settings"]["methods"]) == ran
    assert main([*given, "--full", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_the_cost_is_printed_before_the_first_text(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from heedful.audits import shard

    before: list[str] = []

    def weigh_row(*given: Any) -> Any:
        before.append(capsys.readouterr().err)
        return {"errors": [(given[1].number, "", "not today")]}

    monkeypatch.setattr(shard, "weigh_row", weigh_row)
    given = ["audit", str(data), "--text-column", "review", "--model", "zoo:one-layer"]
    assert main(given) == 2  # no text could be audited
    cost, quick, few = before[0].splitlines()
    assert re.fullmatch(r"4 methods × 2 metrics × 7 texts: about [\d,]+ model inputs, [\d.]+ m?s", cost)
    names = "occlusion, integrated-gradients, attention-avg, lime"
    assert quick == f"quick audit: {names}; --full runs all methods and metrics"
    assert few.startswith("7 texts are too few for a verdict")
    for more in (["--full"], ["--method", "occlusion"]):
        before.clear()
        assert main([*given, *more]) == 2
        assert "quick audit" not in before[0]
        assert "7 texts: about" in before[0]
    before.clear()
    capsys.readouterr()
    assert main([*given, "--quiet"]) == 2
    assert before[0] == ""


def test_quick_by_default_and_all_with_full(data: Path) -> None:
    given = ["audit", str(data), "--text-column", "review", "--model", "zoo:one-layer", "--quiet"]
    found = {}
    for name, more in {"quick": [], "full": ["--full"], "named": ["--method", "lime"]}.items():
        out = data.parent / name
        assert main([*given, "--draws", "2", "--limit", "2", "--out", str(out), *more]) == 0
        found[name] = heedful.Audit.load(out).made["settings"]
    assert found["quick"]["methods"] == ["occlusion", "integrated-gradients", "attention-avg", "lime"]
    assert found["quick"]["metrics"] == ["comprehensiveness", "sufficiency"]
    assert len(found["full"]["methods"]) > 10
    assert len(found["full"]["metrics"]) == 6
    assert (found["named"]["methods"], found["named"]["metrics"]) == (["lime"], found["quick"]["metrics"])


def test_a_long_text_is_skipped_or_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "long.csv"
    data.write_text("text\na good film\n" + "good " * 3000 + "\n")
    given = ["audit", str(data), "--model", "zoo:sentiment", "--method", "grad-l2", "--metric", "aopc"]
    given += ["--draws", "2", "--json", "--quiet"]
    assert main([*given, "--long", "skip"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["texts"], found["errors"][0]["row"]) == (1, 1)
    assert main([*given, "--long", "error"]) == 2
    assert "'skip', 'truncate'" in capsys.readouterr().err


def test_the_table_is_shown_and_nothing_is_done_twice(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(data, "--verbose") == 0
    first = capsys.readouterr().out
    parts = ("Words removed by: swap", "grad-l2", "occlusion", "model inputs were needed", "Skipped, and why")
    for part in (*parts, "More with -v"):
        assert (part in first) == (part in parts)
    stamp = (data.parent / "run" / "shards" / "000000").stat().st_mtime_ns
    assert audit(data, "--verbose", "--quiet") == 0
    said = capsys.readouterr()
    assert said.out == first
    assert said.err == ""
    assert (data.parent / "run" / "shards" / "000000").stat().st_mtime_ns == stamp
    assert audit(data, "--quiet") == 0
    short = capsys.readouterr().out
    assert "Words removed by: swap" not in short
    assert short.splitlines()[-1] == "More with -v; all of it in a report with --html FILE."


def test_csv_on_standard_output(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(data, "--csv", "--limit", "2") == 0
    assert capsys.readouterr().out == (data.parent / "run" / "table.csv").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--text-column", "text"], "has no column 'text': it has: review, label."),
        (["--label-column", "stars"], "has no column 'stars'"),
        (["--method", "limes"], "unknown method 'limes'. Did you mean 'lime'?"),
        (["--metric", "aopcs"], "unknown metric 'aopcs'"),
        (["--operators", "erase"], "words cannot be removed by 'erase'"),
        (["--json", "--csv"], "both want standard output"),
        (["--shard", "0"], "Invalid value for '--shard'"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], told: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(data, *words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"heedful: [^\n]+\n", said.err)
    assert told in said.err


def test_a_folder_made_differently_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(data, "--limit", "2") == 0
    capsys.readouterr()
    assert audit(data, "--limit", "2", "--seed", "1") == 2
    assert "settings seed was 0, is 1" in capsys.readouterr().err
    data.write_text(data.read_text() + "more,1\n")
    assert audit(data, "--limit", "2") == 2
    assert "source sha256 was" in capsys.readouterr().err


def test_ctrl_c_says_how_to_go_on(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second shard is interrupted; the first is kept, and the next run makes only the others."""
    from heedful.audits import shard

    done: list[int] = []
    real = shard.weigh_row

    def interrupted(model: Any, row: Any, *more: Any) -> Any:
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(row.number)
        return real(model, row, *more)

    with monkeypatch.context() as patched:
        patched.setattr(shard, "weigh_row", interrupted)
        assert audit(data, "--shard", "3", "--workers", "1") == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert "run the same command again to resume" in said.err
    assert audit(data, "--shard", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 7


def test_a_full_disk_is_one_line_and_what_is_done_is_kept(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = audit_run.write_synced

    def full(path: Path, content: bytes) -> None:
        if "000001" in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(audit_run, "write_synced", full)
        assert audit(data, "--shard", "3", "--quiet") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(
        r"heedful: cannot write to [^\n]+: No space left [^\n]+What is done is kept[^\n]+\n", said.err
    )
    assert (data.parent / "run" / "shards" / "000000").exists()
    assert audit(data, "--shard", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 7


def test_a_source_damaged_in_mid_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.parquet"
    texts = [f"{i * 7919} text" for i in range(2000)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=500, use_dictionary=False)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4000] = b"\xff" * 4000
    path.write_bytes(content)
    assert main(["audit", str(path), "--out", str(tmp_path / "run"), "--quiet", *FEW]) == 2
    assert re.fullmatch(r"heedful: a\.parquet is damaged after row [^\n]+\n", capsys.readouterr().err)


def test_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path / "none.csv")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_the_page_is_whole_escaped_and_fetches_nothing(data: Path, tmp_path: Path) -> None:
    assert audit(data, "--quiet", "--html", str(tmp_path / "page.html")) == 0
    html = (tmp_path / "page.html").read_text()
    assert html == (tmp_path / "run" / "report.html").read_text()
    assert html.count("<script") == 1  # the house's own, whose hash is in the policy
    assert "default-src 'none'" in html
    html = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"(src|href)=", html)
    opened, closed = (re.findall(pattern, html) for pattern in (r"<(\w+)[ >]", r"</(\w+)>"))
    paired = {"table", "section", "tr", "td", "th", "ul", "li", "dl", "dt", "dd", "p", "header", "main"}
    for tag in paired:
        assert opened.count(tag) == closed.count(tag), tag


def test_strings_of_the_user_are_escaped(data: Path) -> None:
    """In an error, which may quote the text, and in the model's name."""
    assert audit(data, "--quiet") == 0
    found = heedful.Audit.load(data.parent / "run")
    from dataclasses import replace

    evil: Any = replace(
        found, errors=[{"row": 1, "method": EVIL, "reason": EVIL}], made={**found.made, "name": EVIL}
    )
    for html in (evil.page(), evil._repr_html_()):
        assert EVIL not in html
        assert html.count("&lt;script&gt;") >= 3


def test_a_method_is_marked_under_the_operator_that_fitted_it(data: Path) -> None:
    assert audit(data, "--quiet", "--operators", "all") == 0
    found = heedful.Audit.load(data.parent / "run")
    assert not any(e.circular for e in found.table), "in turns, no operator judges what it fitted"
    given = {"params": {"occlusion": {"operator": "delete"}}, "operators": ["delete", "swap"]}
    own = heedful.audit(
        "zoo:sentiment",
        ["a good film", "a bad film"],
        methods=["occlusion", "grad-l2"],
        metrics=["aopc"],
        draws=3,
        out=data.parent / "own",
        **given,
    )
    assert {(e.operator, e.method) for e in own.table if e.circular} == {("delete", "occlusion")}
    for block in audit_tables.blocks(own):
        for (metric, method), evidence in block.cells.items():
            text = block.cell(metric, method).text
            assert text.startswith(audit_tables.CIRCULAR) == evidence.circular
    assert own.verdict.operators == ("swap",)


def test_report_draws_an_audit_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def score(texts: list[str]) -> list[float]:
        return [float(text.count("good")) for text in texts]

    found = heedful.audit(score, ["a good day", "good good bad"], methods=["occlusion"], out=tmp_path / "run")
    assert main(["report", str(tmp_path / "run"), "--html", str(tmp_path / "again.html"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in document["table"]] == [row.method for row in found.table]
    assert "occlusion" in (tmp_path / "again.html").read_text(encoding="utf-8")


def test_nothing_is_written_that_was_not_named(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data.parent)
    assert main(["audit", data.name, "--text-column", "review", *FEW, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["run"] is None
    assert "nothing was saved: --html FILE writes the report, --out FOLDER saves everything" in said.err
    audited = heedful.audit("zoo:one-layer", ["good", "bad"], methods=["occlusion"], metrics=["aopc"])
    assert audited.folder is None
    assert audited.texts == 2
    assert [path.name for path in data.parent.iterdir()] == [data.name]
