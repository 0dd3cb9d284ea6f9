"""Killed at any moment and started again, an audit ends with the bytes of one that was not."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from heedful import HeedfulError
from heedful.audits import audit_run

SCRIPT = Path(__file__).with_name("killed_audit.py")
WORDS = ["the", "food", "was", "good", "but", "not", "bad", "and", "the", "bar", "is", "far", "from"]
KILLS = 20


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("killed_audit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts_file(path: Path, rows: int) -> Path:
    """Some of the rows bad, the last shard not full."""
    texts = [" ".join(WORDS[i % 7 :: 1 + i % 3]) if i % 9 else "" for i in range(rows)]
    path.write_text("text,label\n" + "".join(f'"{text}",{i % 2}\n' for i, text in enumerate(texts)))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return texts_file(tmp_path / "texts.csv", 11)


def files(run: Path) -> dict[str, bytes]:
    """Everything but the lock."""
    found = {str(p.relative_to(run)): p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file()}
    found.pop(".lock", None)
    return found


@pytest.mark.slow  # random kills; test_fault_points.py stops at named places
def test_twenty_kills_change_no_byte(script: ModuleType, tmp_path: Path) -> None:
    """Also not against a run in another process."""
    source, out = texts_file(tmp_path / "texts.csv", 81), tmp_path / "killed"
    command = [sys.executable, str(SCRIPT), str(source), str(out), str(KILLS), "7"]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == KILLS, "every attempt must really have been killed"
    script.run(source, tmp_path / "here")
    assert files(out) == files(tmp_path / "unbroken") == files(tmp_path / "here")


def test_what_is_done_is_not_done_again(script: ModuleType, source: Path, tmp_path: Path) -> None:
    """The first shards come from the folder; only the shard that was lost is made."""
    whole = script.run(source, tmp_path / "run")
    before = files(tmp_path / "run")
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "run" / "shards").iterdir()}
    lost = tmp_path / "run" / "shards" / "000002"
    for path in lost.iterdir():
        path.unlink()
    lost.rmdir()
    again = script.run(source, tmp_path / "run")
    assert files(tmp_path / "run") == before
    assert again == whole
    now = {p: p.stat().st_mtime_ns for p in (tmp_path / "run" / "shards").iterdir()}
    assert {p for p in now if now[p] != times[p]} == {lost}


def test_half_a_shard_is_no_shard(script: ModuleType, source: Path, tmp_path: Path) -> None:
    """What a killed run left beside its place is swept away and never read."""
    half = tmp_path / "run" / "shards" / f"{audit_run.BESIDE}000000"
    half.mkdir(parents=True)
    (half / "scores.parquet").write_bytes(b"PAR1")
    script.run(source, tmp_path / "run")
    assert not half.exists()
    assert not list((tmp_path / "run").glob(f"{audit_run.BESIDE}*"))


def test_a_damaged_shard_is_told(script: ModuleType, source: Path, tmp_path: Path) -> None:
    script.run(source, tmp_path / "run")
    scores = tmp_path / "run" / "shards" / "000001" / "scores.parquet"
    scores.write_bytes(scores.read_bytes()[:-1])
    with pytest.raises(HeedfulError, match=r"000001/scores\.parquet is damaged"):
        script.run(source, tmp_path / "run")


def test_a_shard_without_its_facts_is_told(script: ModuleType, source: Path, tmp_path: Path) -> None:
    script.run(source, tmp_path / "run")
    (tmp_path / "run" / "shards" / "000001" / "shard.json").write_text("{}")
    with pytest.raises(HeedfulError, match=r"shard\.json is damaged: it has no shard, first.* Remove"):
        script.run(source, tmp_path / "run")


def test_rows_that_changed_are_refused(tmp_path: Path, script: ModuleType) -> None:
    """A generator has no checksum, but its shards know their rows."""
    import heedful

    def run(texts: list[str], by: str = "mask") -> Any:
        return heedful.audit(
            script.score,
            iter(texts),
            methods="occlusion",
            metrics="aopc",
            out=tmp_path / by,
            shard=2,
            draws=3,
            operators=by,
        )

    texts = [f"{word} food is good" for word in WORDS[:6]]
    run(texts)
    changed = [*texts[:3], "bad food", *texts[4:]]
    with pytest.raises(HeedfulError, match="rows 2 to 3 are not those"):
        run(changed)
    run(texts, "swap")
    with pytest.raises(HeedfulError, match="the first rows are not those"):
        run(changed, "swap")  # its words come from the first rows
    with pytest.raises(HeedfulError, match="results of other texts"):
        run(texts[:4])


def test_two_audits_do_not_share_a_folder(script: ModuleType, source: Path, tmp_path: Path) -> None:
    from filelock import FileLock

    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "run" / ".lock"), pytest.raises(HeedfulError, match="another audit is writing"):
        script.run(source, tmp_path / "run")


def test_the_killer_kills(script: ModuleType, tmp_path: Path) -> None:
    """The planted death is a real one, half way through the file."""
    child = os.spawnv(
        os.P_WAIT,
        sys.executable,
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
            "import killed_audit as k\n"
            f"k.dying_write(0, True)(k.Path({str(tmp_path / 'x')!r}), b'abcd')",
        ],
    )
    assert child == -signal.SIGKILL
    assert (tmp_path / "x").read_bytes() == b"ab"
