"""`heedful serve` from outside: it says where it is, answers, and ends with Ctrl-C."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from tests.server.serving import finished

from heedful.cli.main import main
from heedful.core.errors import HeedfulError
from heedful.server.malloc import MALLOC_ARENAS
from heedful.server.model_pool import paired


@pytest.mark.parametrize("host", [pytest.param("127.0.0.1", marks=pytest.mark.slow), "0.0.0.0"])
def test_it_serves_until_it_is_interrupted(tmp_path: Path, host: str) -> None:
    command = [sys.executable, "-m", "heedful", "serve", "zoo:sentiment", "--port", "0", "--host", host]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, "--runs", str(tmp_path / "runs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            with httpx.Client(timeout=120, follow_redirects=True) as client:
                page = client.get(address)
                assert page.status_code == 200
                assert "<title>heedful</title>" in page.text
                root = address.partition("/?")[0].rstrip("/")
                assert client.get(f"{root}/api/here").json()["models"][0]["name"] == "zoo:sentiment"
            assert ("token=" in address) is (host != "127.0.0.1")
        finally:
            server.send_signal(signal.SIGINT)
        _, told = server.communicate(timeout=60)
        assert server.returncode == 0, told
        assert "Traceback" not in told


@pytest.mark.parametrize("end", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_without_a_folder_runs_go_when_it_stops(tmp_path: Path, end: signal.Signals) -> None:
    """Nothing is written where the user stands, and nothing is left where it was written instead."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "heedful", "serve", "zoo:sentiment", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=here,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)},
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            assert "token=" not in address
            with httpx.Client(base_url=address, timeout=120) as client:
                assert "<title>heedful</title>" in client.get("/").text
                assert client.get("/api/runs").json()["temporary"] is True
                ask = {"model": "zoo:sentiment", "text": "not bad", "methods": ["grad-l2"], "test": False}
                job = finished(client, client.post("/api/jobs/explain", json=ask).json())
                assert [run["name"] for run in client.get("/api/runs").json()["runs"]] == [job["id"]]
            (folder,) = temporary.glob("heedful-runs-*")
            assert (folder / job["id"] / "result.json").is_file()
        finally:
            server.send_signal(end)
        _, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors
    assert not folder.exists()
    assert not list(here.iterdir())
    assert [
        line for line in errors.splitlines() if "when the server stops" in line and "--runs FOLDER" in line
    ]


HELD = """
import sys, time, torch
from heedful.cli.main import main
from heedful.server import app
from heedful.server.schemas import requests

def hold(model, job):  # inside torch, and deaf
    end, big = time.monotonic() + 6, torch.ones(1000, 1000)
    while time.monotonic() < end:
        big @ big

def load_state(models, config, plain=app.load_state):
    found = plain(models, config)
    found.start("test", requests.AttentionRequest(model="zoo:sentiment", text="x"), hold)
    return found

app.load_state, app.SHUTDOWN_SECONDS = load_state, float(sys.argv[1])
sys.exit(main(["serve", "zoo:sentiment", "--port", "0", "--runs", sys.argv[2]]))
"""


@pytest.mark.parametrize(
    ("patience", "left"), [pytest.param("30", False, marks=pytest.mark.slow), ("0.2", True)]
)
def test_it_ends_while_a_job_runs(tmp_path: Path, patience: str, left: bool) -> None:
    """A thread that is inside torch when the interpreter goes would abort the process (-6)."""
    with subprocess.Popen(
        [sys.executable, "-c", HELD, patience, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("http")
            time.sleep(1)
        finally:
            server.send_signal(signal.SIGINT)
        _, told = server.communicate(timeout=60)
    assert server.returncode == 0, told
    assert "terminate" not in told
    assert "Traceback" not in told
    assert ("did not finish in time" in told) is left


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["serve", "zoo:nothing"], "the zoo has no model"),
        (["serve", "zoo:sentiment", "--sae", "zoo:lm=x"], "--sae"),
        (["serve", "zoo:sentiment", "--port", "70000"], "--port"),
    ],
)
def test_mistakes_are_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = [] if "--port" in words else ["--port", "0"]
    assert main([*words, *port]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_weak_token_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HEEDFUL_TOKEN", "short")
    assert main(["serve", "zoo:sentiment", "--token", "--port", "0"]) == 2
    assert "HEEDFUL_TOKEN" in capsys.readouterr().err


def test_pairs_of_a_model_and_a_place() -> None:
    assert paired(["x"], ["zoo:lm"], "--sae") == {"zoo:lm": Path("x")}
    assert paired(["a=x", "b=y=z"], ["a", "b", "b=y"], "--sae") == {"a": Path("x"), "b=y": Path("z")}
    with pytest.raises(HeedfulError, match="--sae"):
        paired(["x"], ["a", "b"], "--sae")


def test_beside_a_notebook_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import heedful

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with heedful.serve("zoo:sentiment", port=0, block=False):
        assert list(tmp_path.glob("heedful-runs-*"))
    assert not list(tmp_path.glob("heedful-runs-*"))


def test_beside_a_notebook(tmp_path: Path) -> None:
    import heedful

    with heedful.serve("zoo:sentiment", port=0, runs=tmp_path / "runs", block=False) as page:
        assert httpx.get(f"{page.address}api/here", timeout=60).status_code == 200
        assert page.address in repr(page)
    with pytest.raises(httpx.ConnectError):
        httpx.get(page.address)


ARENAS = """
import ctypes, sys, threading
from heedful.server.malloc import limit_malloc_arenas
if sys.argv[1] == "limited":
    limit_malloc_arenas()
libc, together = ctypes.CDLL(None), threading.Barrier(6)
libc.malloc.restype, libc.fopen.restype = ctypes.c_void_p, ctypes.c_void_p
def work():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=work) for _ in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_threads_share_two_pools_of_memory(tmp_path: Path) -> None:
    """As glibc counts them; without the limit each thread has its own."""
    counts = {}
    for limit in ("limited", "free"):
        env = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
        subprocess.run([sys.executable, "-c", ARENAS, limit, str(tmp_path / limit)], check=True, env=env)
        counts[limit] = (tmp_path / limit).read_text().count("<heap nr=")
    assert counts["limited"] <= MALLOC_ARENAS
    assert counts["free"] > MALLOC_ARENAS


TRIM = """
import ctypes, sys
from heedful.server import malloc
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
blocks = [ctypes.c_void_p(libc.malloc(60_000)) for _ in range(2000)]
for block in blocks:
    ctypes.memset(block, 1, 60_000)
for block in blocks[:-1]:  # the last one keeps the top of the heap
    libc.free(block)
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS:")).split()[1])
before = resident()
malloc.trim_heap()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_free_pages_go_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", TRIM], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 60_000  # kB of about 117,000
