"""From harvest to page without a network: every connection is refused, and nothing tries to make one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import socket, sys

tried = []

def refuse(*args, **more):
    tried.append(args)
    raise OSError("there is no network here")

socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = refuse
try:  # the refusal itself works
    socket.socket().connect(("127.0.0.1", 9))
except OSError:
    pass
assert tried.pop(), "connections are not refused"
from heedful.cli.main import main
from heedful.labs.data.speeches import speeches

with open("speeches.txt", "w", encoding="utf-8") as file:
    file.write(next(iter(speeches("held").values()))[:6000])
train = ["--kind", "topk", "--k", "4", "--steps", "20", "--batch", "64", "--quiet"]
for command in (
    ["harvest", "speeches.txt", "--model", "zoo:lm", "--site", "blocks.1.resid", "--out", "acts", "--quiet"],
    ["train", "acts", "--out", "narrow", "--width", "16", *train],
    ["train", "acts", "--out", "wide", "--width", "32", *train],
    ["measure", "wide", "speeches.txt", "--rows", "300", "--quiet"],
    ["page", "wide", "speeches.txt", "--rows", "300", "--feature", "1,2", "--html", "page.html", "--quiet"],
    ["interpret", "wide", "speeches.txt", "--rows", "600", "--features", "2", "--quiet"],
    ["split", "narrow", "wide", "--html", "split.html"],
    ["compare", "narrow", "wide", "speeches.txt", "--rows", "300", "--quiet"],
):
    code = main(["features", *command])
    if code or tried:
        sys.exit(f"features {command[0]}: exit code {code}, connections tried: {tried}")
"""


def test_the_features_commands_need_no_network(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "page.html").stat().st_size > 10_000
