"""Run folders under one root, found by looking and opened by number: a client never sends a path.

A number is the hash of the folder's place in the root. Folders that lead out of the root (links) are not
listed, nothing is unpickled, and what is found is read by heedful.io.run_folder and drawn by the reports.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from heedful.core.errors import HeedfulError
from heedful.io.files import check_folder
from heedful.io.run_folder import MANIFEST
from heedful.server.run_view import listed
from heedful.server.schemas import responses

MAX_DEPTH = 3  # folders below the root that are looked into
MAX_LISTED_RUNS = 500
MAX_FOLDERS = 20_000  # folders looked at
MAX_STORED_RUNS = 2_000  # runs that the page itself may store
Stamp = tuple[int, int, int]  # of a file: another one, or another content, has another
Facts = tuple[str, str]  # kind and title


@dataclass(frozen=True)
class RunPlace:
    """A run folder."""

    id: str
    path: Path
    name: str
    kind: str
    title: str
    when: float
    stamp: Stamp = (0, 0, 0)  # of its manifest


class Runs:
    """What is in the root now: looked up at every call, so a run that has just ended is there. A manifest
    that has not changed since is not read again.

    Without a root, runs are in a temporary folder, which `close` removes.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._temporary = None
        if root is None:
            self._temporary = TemporaryDirectory(prefix="heedful-runs-", ignore_cleanup_errors=True)
            root = Path(self._temporary.name)
        check_folder(root)
        self.root = root
        self._read: dict[Path, tuple[Stamp, Facts | None]] = {}  # manifest -> what it said

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def all(self) -> list[RunPlace]:
        """Newest first."""
        if not self.root.is_dir():
            return []
        root = self.root.resolve()
        read: dict[Path, tuple[Stamp, Facts | None]] = {}
        places = [place for folder in _folders(root) if (place := self._place(root, folder, read))]
        self._read = read
        return sorted(places, key=lambda place: -place.when)

    def _place(
        self, root: Path, folder: Path, read: dict[Path, tuple[Stamp, Facts | None]]
    ) -> RunPlace | None:
        manifest = folder / MANIFEST
        try:
            found = manifest.lstat()
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        stamp = found.st_ino, found.st_size, found.st_mtime_ns
        known = self._read.get(manifest)
        read[manifest] = known if known is not None and known[0] == stamp else (stamp, listed(folder))
        facts = read[manifest][1]
        name = str(folder.relative_to(root))
        shown = name.encode("utf-8", "replace").decode()
        return facts and RunPlace(number(name), folder, shown, *facts, found.st_mtime, stamp)

    def listed(self) -> responses.RunList:
        places = self.all()
        entries = [
            responses.RunEntry(id=p.id, name=p.name, kind=p.kind, title=p.title, when=p.when)
            for p in places[:MAX_LISTED_RUNS]
        ]
        return responses.RunList(
            root=self.root.name or str(self.root),
            temporary=self._temporary is not None,
            runs=entries,
            more=max(0, len(places) - MAX_LISTED_RUNS),
        )

    def get(self, number: str) -> RunPlace | None:
        return next((place for place in self.all() if place.id == number), None)

    def named(self, name: str) -> RunPlace | None:
        """A run that the page stored, by the name of its job."""
        return next((place for place in self.all() if place.name == name), None)

    def room(self) -> None:
        """Refuse to store more than a disk should hold."""
        if self.root.is_dir() and sum(1 for _ in os.scandir(self.root)) >= MAX_STORED_RUNS:
            raise HeedfulError(
                f"{self.root.name} holds {MAX_STORED_RUNS:,} folders",
                "more are not written",
                "Move some of them away",
            )


def number(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _folders(root: Path) -> Iterator[Path]:
    """The root's folders, level by level; links are not followed."""
    level, observed = [root], 0
    for _ in range(MAX_DEPTH):
        below: list[Path] = []
        for folder in level:
            try:
                with os.scandir(folder) as entries:
                    inside = sorted(
                        e.name for e in entries if e.is_dir(follow_symlinks=False) and e.name[0] != "."
                    )
            except OSError:
                continue
            below += [folder / name for name in inside]
        for folder in below:
            observed += 1
            if observed > MAX_FOLDERS:
                return
            yield folder
        level = [folder for folder in below if not (folder / "shards").is_dir()]
