"""Run folders of every kind: exact round trips, no torch, and one sentence for whatever is wrong."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.io.every_kind import KINDS, RESULTS, make
from tests.io.reforged import agree
from tests.reports import every
from tests.reports.opened import without_note

from heedful.core.errors import HeedfulError
from heedful.core.result_kinds import result_kinds
from heedful.io import run_folder
from heedful.io.run_folder import read, refusing_damage, write

WRONG = (None, True, -1, 1e308, 10**400, "x", "../x", [], [[]], {}, {"x": 1})  # put in place of a leaf
FORGED = 40  # leaves replaced per kind
FLIPPED = 12  # bits flipped per file


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of every kind, by its name; copy before you change one."""
    place = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        make(kind, place / kind)
    return place


@pytest.fixture
def run(home: Path, kind: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(home / kind, tmp_path / "run"))


def refused(folder: Path, reader: Any = read, **how: Any) -> str:
    """The one sentence with which a folder is refused."""
    with pytest.raises(HeedfulError) as caught:
        reader(folder, **how)
    said = str(caught.value)
    assert caught.value.what
    assert "\n" not in said
    assert len(said) < 900, said
    return said


def manifest_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "manifest.json").read_text()))


def listed(folder: Path) -> list[str]:
    """Every file of the folder but the manifest, its views, which nobody reads back, and the lock."""
    apart = {"manifest.json", ".lock", *manifest_of(folder)["views"]}
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted(name for name in names if name not in apart)


def read_all(folder: Path) -> Any:
    """Open it as users do. A store of activations may be too large to be read at once: opening it compares
    sizes, and `check` compares checksums."""
    result = read(folder)
    if manifest_of(folder)["kind"] == "activations":
        from heedful import ActivationStore

        ActivationStore.load(folder).check()
    return result


def test_every_kind_is_tested() -> None:
    assert result_kinds() == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_is_what_was_written(home: Path, kind: str) -> None:
    found = read(home / kind)
    if kind in RESULTS:
        made = RESULTS[kind]()
        assert type(found) is type(made)
        assert found.stored() == made.stored()
        assert found.blobs() == made.blobs()
        assert without_note(found.page()) == made.page()
        assert type(made).load(home / kind).to_dict() == made.to_dict()
    else:
        assert found.stored() == json.loads((home / kind / "result.json").read_text())
    assert manifest_of(home / kind)["title"].startswith(" ".join(found.run_title().split())[:100])


def test_an_sae_and_a_store_come_back(home: Path) -> None:
    import torch

    import heedful

    sae, store = heedful.SAE.load(home / "sae"), heedful.ActivationStore.load(home / "activations")
    assert torch.equal(sae.W_enc, torch.arange(12.0).reshape(3, 4))
    assert sae.config == read(home / "sae")
    assert store.facts == read(home / "activations")
    assert sorted(store.slice(0, 6).flatten().tolist()) == list(range(18))


def test_an_atlas_of_words_stays_one(tmp_path: Path) -> None:
    from tests.reports.conftest import chart

    from heedful import Atlas

    words = chart().words()
    again = Atlas.load(words.save(tmp_path))
    assert (again.unit, again.maps.tolist()) == ("word", words.maps.tolist())
    assert again.tokens is not None
    assert again.tokens.maps.tolist() == chart().maps.tolist()
    assert again.aggregate("rollout").tolist() == words.aggregate("rollout").tolist()


def test_the_manifest_says_what_made_it(home: Path) -> None:
    for kind in KINDS:
        manifest = manifest_of(home / kind)
        assert (manifest["kind"], manifest["version"], manifest["format"]) == (kind, 1, run_folder.FORMAT)
        assert {"heedful", "python", "numpy", "torch"} <= set(manifest["versions"])
        shards = {shard["name"] for shard in manifest.get("shards", ())}
        assert (
            shards == {each for each in listed(home / kind) if each.startswith("shards/")} or kind == "audit"
        )
        assert {*manifest["files"], *shards} <= set(listed(home / kind))
    assert {"report.html", "f0.svg"} <= set(manifest_of(home / "lab")["views"])
    assert set(manifest_of(home / "audit")["views"]) == {"report.html", "table.csv"}
    assert "scores.parquet" in manifest_of(home / "explanation")["files"]


def test_no_kind_needs_torch_or_the_web_server(home: Path, tmp_path: Path) -> None:
    """Opened, drawn and printed by `heedful report` where these packages cannot be imported."""
    code = (
        "import sys\n"
        "class Blocked:\n"  # None in sys.modules would do, but scipy takes that for torch
        "    def find_spec(self, name, *rest):\n"
        "        if name in ('torch', 'transformers', 'tokenizers', 'fastapi', 'uvicorn', 'ray'):\n"
        "            raise ImportError(name + ' is blocked')\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "import contextlib, io, pathlib\n"
        "from heedful.cli.main import main\n"
        "for run in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
        "    out = io.StringIO()\n"
        "    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):\n"
        "        code = main(['report', str(run), '--html', f'{sys.argv[2]}/{run.name}.html', '--json'])\n"
        "    print(run.name, code, out.getvalue() if code else '')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(home), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [word for kind in KINDS for word in (kind, "0")], done.stdout + done.stderr
    for kind in KINDS:
        page = (tmp_path / f"{kind}.html").read_text(encoding="utf-8")
        assert page.startswith("<!DOCTYPE html>")
        assert "<img src=x" not in page


# --- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_or_missing_file_is_refused(run: Path, kind: str) -> None:
    for name in ["manifest.json", *listed(run)]:
        whole = (run / name).read_bytes()
        for size in {0, 1, len(whole) // 2, len(whole) - 2}:
            (run / name).write_bytes(whole[:size])
            refused(run)
        (run / name).write_bytes(whole + b" ")
        if name != "manifest.json":
            refused(run)
        (run / name).unlink()
        refused(run)
        (run / name).write_bytes(whole)
    read(run)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_refused(run: Path, kind: str) -> None:
    """Of the manifest, a bit of its title or of a view is no damage; everything else is noticed."""
    rng = random.Random(kind)
    before = read(run).stored()
    for name in ["manifest.json", *listed(run)]:
        whole = bytearray((run / name).read_bytes())
        for at in rng.sample(range(8 * len(whole)), FLIPPED):
            content = bytearray(whole)
            content[at // 8] ^= 1 << at % 8
            (run / name).write_bytes(content)
            if name == "manifest.json":
                with suppress(HeedfulError):
                    assert read(run).stored() == before
            else:
                assert "is damaged" in refused(run, read_all)
        (run / name).write_bytes(whole)
    read_all(run)


@pytest.mark.parametrize("kind", ["audit"])
def test_damage_of_any_file_of_an_audit_is_one_line_of_every_reader(
    run: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cut, a bit flipped, or deleted: `heedful report`, `Audit.load` and `explain --audit` refuse it."""
    from heedful import Audit
    from heedful.cli.main import main

    names = listed(run)
    assert {"result.json", "shards/000000/shard.json", "shards/000001/orders.parquet"} <= set(names)
    assert len(names) == 1 + 2 * 7
    (run / "report.html").unlink()
    for name in names:
        whole = (run / name).read_bytes()
        flipped = bytes([*whole[:-9], whole[-9] ^ 1, *whole[-8:]])
        for content in (whole[:-1], flipped, None):
            (run / name).unlink() if content is None else (run / name).write_bytes(content)
            with pytest.raises(HeedfulError):
                Audit.load(run)
            for command in (["report", str(run)], ["explain", "not bad", "--audit", str(run)]):
                assert main(command) == 2
                said = capsys.readouterr().err
                assert said.count("\n") == 1
                assert name in said
                if name.startswith("shards/"):
                    assert f"Remove {(run / name).parent}, then run the same audit again" in said
        (run / name).write_bytes(whole)
    assert not (run / "report.html").exists()
    assert main(["report", str(run)]) == 0


def test_an_audit_is_repaired_as_the_error_says(tmp_path: Path) -> None:
    from heedful import Audit, audit

    def made() -> Any:
        texts = [f"{a} good {b} bad" for a in ("the", "a") for b in ("old", "new")]
        return audit(_goodness, texts, methods=["occlusion"], metrics=["aopc"], shard=2, out=tmp_path / "run")

    first = made()
    (tmp_path / "run/shards/000001/scores.parquet").unlink()
    said = refused(tmp_path / "run")
    place = said.partition("Remove ")[2].partition(", then")[0]
    shutil.rmtree(place)
    assert made().table == first.table
    assert Audit.load(tmp_path / "run").table == first.table


def _goodness(texts: list[str]) -> list[float]:
    return [float(text.count("good") - text.count("bad")) for text in texts]


def test_errors_name_no_exceptions(home: Path, tmp_path: Path) -> None:
    """A run whose manifest names another kind than it holds."""
    run = Path(shutil.copytree(home / "steer", tmp_path / "run"))
    for kind in [kind for kind in KINDS if kind != "steer"]:
        (run / "manifest.json").write_text(json.dumps(manifest_of(run) | {"kind": kind}))
        said = refused(run)
        assert "Error" not in said, said
        assert "Exception" not in said, said
        whys = (f"is not the result of a run of kind {kind}", "its list of shards", "its manifest lists no ")
        assert any(why in said for why in whys), said
        assert whys[0] in said or kind in ("activations", "attention", "explanation"), said


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a JSON document, those that hold others too."""
    if path:
        yield path
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        yield from leaves(value, (*path, key))


def spoilt(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value in one place; `...` removes it."""
    copy = json.loads(json.dumps(data))
    place = copy
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


def opened_or_refused(folder: Path, draw: bool) -> None:
    """What a forger wrote is opened, and drawn as `heedful report` does it, or refused in one sentence."""
    said = ""
    try:
        result = read(folder)
        with refusing_damage(folder):
            result.page() if draw else result.run_title()
    except HeedfulError as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.parametrize("kind", KINDS)
def test_forged_results_open_or_are_refused(run: Path, kind: str) -> None:
    """Checksums agree, so that the types of the values are all that protects the reader."""
    rng = random.Random(kind)
    data = json.loads((run / "result.json").read_text())
    places = list(leaves(data))
    paths = [*((key,) for key in data), *rng.sample(places, min(FORGED, len(places)))]
    for turn, path in enumerate(paths):
        (run / "result.json").write_text(json.dumps(spoilt(data, path, rng.choice((*WRONG, ...)))))
        agree(run)
        opened_or_refused(run, draw=turn % 6 == 0)
    for content in (b"", b"{}", b"[]", b"null", b"[" * 50_000, b"\xff", b'{"x": NaN}'):
        (run / "result.json").write_bytes(content)
        agree(run)
        refused(run)


@pytest.mark.parametrize("kind", KINDS)
def test_forged_blobs_open_or_are_refused(run: Path, kind: str) -> None:
    rng = random.Random(kind)
    for name in set(manifest_of(run)["files"]) - {"result.json"}:
        whole = bytearray((run / name).read_bytes())
        for at in [*range(8), *rng.sample(range(len(whole)), 12)]:
            content = bytearray(whole)
            content[at] ^= 0x55
            (run / name).write_bytes(content)
            agree(run)
            opened_or_refused(run, draw=False)
            if kind == "sae":
                from heedful import SAE

                with suppress(HeedfulError):
                    SAE.load(run)
        (run / name).write_bytes(whole)


@pytest.mark.parametrize("kind", ["lab", "audit", "activations", "sae"])
def test_forged_manifests_open_or_are_refused(run: Path, kind: str) -> None:
    manifest = manifest_of(run)
    for number, path in enumerate(leaves(manifest)):
        every = (*WRONG, ...)
        if kind == "audit":  # one value per place, by turns: each time it is computed again
            every = (every[number % len(every)],)
        for value in every:
            (run / "manifest.json").write_text(json.dumps(spoilt(manifest, path, value)))
            with suppress(HeedfulError):
                read(run)


# --- strangers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["steer"])
def test_other_versions_are_refused(run: Path, kind: str) -> None:
    manifest = manifest_of(run)

    def said(**changed: Any) -> str:
        (run / "manifest.json").write_text(json.dumps(manifest | changed))
        return refused(run)

    assert "a newer heedful: it has format 4" in said(format=4)
    assert "Update heedful (in your clone: git pull, then pip install .)." in said(format=4)
    assert "an older heedful: it has format 2" in said(format=2)
    assert "Make the run again" in said(format=2)
    assert "the steer in" in said(version=2)
    assert "Update heedful (in your clone" in said(version=2)
    assert "an older heedful" in said(version=0)
    assert "holds a run of kind 'dream'" in said(kind="dream")
    assert "names no format" in said(format=None)


def test_folders_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    assert "is not a run folder: cannot read manifest.json" in refused(tmp_path)
    assert "is not a run folder" in refused(tmp_path / "nowhere")
    (tmp_path / "manifest.json").write_text('{"name": "an app", "icons": []}')
    assert "names no format" in refused(tmp_path)
    (tmp_path / "file").write_text("x")
    assert "is not a run folder" in refused(tmp_path / "file")
    for old in ("comparison.json", "trial.json", "lab.json", "steer.json"):  # as they were before
        (tmp_path / "old").mkdir(exist_ok=True)
        (tmp_path / "old" / old).write_text("{}")
    assert "is not a run folder" in refused(tmp_path / "old")


def test_a_run_of_another_kind_says_which(home: Path) -> None:
    from heedful import Comparison

    with pytest.raises(HeedfulError, match=r"of kind trial, and Comparison\.load opens another kind"):
        Comparison.load(home / "trial")


@pytest.mark.parametrize("kind", ["attention", "audit", "activations"])
def test_links_pipes_and_folders_are_not_read(run: Path, kind: str, tmp_path: Path) -> None:
    for name in ["manifest.json", *listed(run)]:
        moved = tmp_path / "elsewhere"
        (run / name).rename(moved)
        (run / name).symlink_to(moved)
        assert "is a link" in refused(run)
        (run / name).unlink()
        os.mkfifo(run / name)
        assert "not a regular file" in refused(run)
        (run / name).unlink()
        (run / name).mkdir()
        refused(run)
        (run / name).rmdir()
        moved.rename(run / name)
    read(run)


@pytest.mark.parametrize("kind", ["audit"])
def test_a_linked_folder_inside_is_not_followed(run: Path, kind: str, tmp_path: Path) -> None:
    (run / "shards").rename(tmp_path / "elsewhere")
    (run / "shards").symlink_to(tmp_path / "elsewhere")
    assert "leads out of it by a link" in refused(run)


@pytest.mark.parametrize("kind", ["steer"])
@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../x", "", ".", "a\\b", "a\0b", "manifest.json"]
)
def test_names_stay_in_the_folder(run: Path, kind: str, name: str) -> None:
    manifest = manifest_of(run)
    entry = {"bytes": 1, "sha256": "0" * 64}
    (run / "manifest.json").write_text(json.dumps(manifest | {"files": manifest["files"] | {name: entry}}))
    assert "is not a file of the folder" in refused(run)


@pytest.mark.parametrize("kind", ["attention"])
def test_large_folders_are_refused(run: Path, kind: str) -> None:
    size = sum(entry["bytes"] for entry in manifest_of(run)["files"].values())
    assert "has over" in refused(run, most=size - 1)
    assert "has over" in refused(run, most=10)
    read(run, most=size)
    with pytest.raises(HeedfulError, match="too large to be stored"):
        write(run, read(run), most=size - 1)


# --- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(RESULTS))
def test_stopped_between_files_nothing_opens_as_whole(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a new folder nothing opens; over an older run of the kind, that run opens or nothing does."""
    made, really = RESULTS[kind](), run_folder.write_inside
    for after in range(3 + len(made.views())):
        fresh, over = tmp_path / f"fresh-{after}", make(kind, tmp_path / f"over-{after}")
        old, left = read(over).stored(), [after]

        def stops(folder: Path, name: str, content: Any, left: list[int] = left) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            really(folder, name, content)

        changed = replace(made, notes=("another",)) if hasattr(made, "notes") else made
        monkeypatch.setattr(run_folder, "write_inside", stops)
        for folder in (fresh, over):
            left[0] = after
            with suppress(KeyboardInterrupt):
                write(folder, changed)
        monkeypatch.setattr(run_folder, "write_inside", really)
        if not (fresh / "manifest.json").exists():
            refused(fresh)
            with suppress(HeedfulError):
                assert read(over).stored() == old


def test_another_result_is_not_written_over(home: Path, tmp_path: Path) -> None:
    every.trial().save(tmp_path / "run")
    every.trial().save(tmp_path / "run")
    with pytest.raises(HeedfulError, match="already holds a run of kind trial"):
        every.sides().save(tmp_path / "run")
    audit = shutil.copytree(home / "audit", tmp_path / "audit")
    with pytest.raises(HeedfulError, match="already holds a run of kind audit"):
        every.audit().save(audit)  # its shards would be lost from the manifest
    every.audit().save(tmp_path / "alone")
    assert read(tmp_path / "alone").to_dict() == every.audit().to_dict()


def test_what_stores_its_own_numbers_says_so(home: Path, tmp_path: Path) -> None:
    for kind in ("sae", "activations"):
        with pytest.raises(HeedfulError, match=r"no weights|no activations"):
            read(home / kind).save(tmp_path)


def test_a_report_may_be_written_into_the_run(home: Path, tmp_path: Path) -> None:
    """Views are for people, who may change them."""
    lab = shutil.copytree(home / "lab", tmp_path / "lab")
    (lab / "report.html").write_text("mine")
    assert read(lab).stored() == every.lab().stored()
