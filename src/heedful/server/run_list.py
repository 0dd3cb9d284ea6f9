"""Run folders under one root, found by looking and opened by number: a client never sends a path.

A number is the hash of the folder's place in the root. Folders that lead out of the root (links) are not
there, nothing is unpickled, and what is found is drawn by the code of `heedful report`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from heedful.core.errors import HeedfulError
from heedful.server import saved_results
from heedful.server.run_kinds import KINDS, friendly_errors, view_run
from heedful.server.saved_results import MAX_FILE_BYTES
from heedful.server.schemas import responses

MAX_DEPTH = 3  # folders below the root that are looked into
MAX_LISTED_RUNS = 500
MAX_FOLDERS = 20_000  # folders looked at
MAX_STORED_RUNS = 2_000  # runs that the page itself may store


@dataclass(frozen=True)
class RunPlace:
    """A run folder."""

    id: str
    path: Path
    name: str
    kind: str
    when: float


class Runs:
    """What is in the root now: looked up at every call, so a run that has just ended is there.

    Without a root, runs are in a temporary folder, which `close` removes.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._temporary = None
        if root is None:
            self._temporary = TemporaryDirectory(prefix="heedful-runs-", ignore_cleanup_errors=True)
            root = Path(self._temporary.name)
        self.root = root

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def all(self) -> list[RunPlace]:
        """Newest first."""
        if not self.root.is_dir():
            return []
        root = self.root.resolve()
        places = [place for folder in _folders(root) if (place := _place(root, folder)) is not None]
        return sorted(places, key=lambda place: -place.when)

    def listed(self) -> responses.RunList:
        places = self.all()
        entries = [
            responses.RunEntry(id=p.id, name=p.name, kind=p.kind, title=_title(p), when=p.when)
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


def _place(root: Path, folder: Path) -> RunPlace | None:
    for kind, mark, when in KINDS:
        kept = folder / mark
        if not kept.exists():
            continue
        for file in (kept, folder / when):
            if file.is_symlink():
                return None
        name = str(folder.relative_to(root))
        shown = name.encode("utf-8", "replace").decode()
        dated = folder / when if when and (folder / when).is_file() else kept
        return RunPlace(number(name), folder, shown, kind, dated.stat().st_mtime)
    return None


def _title(place: RunPlace) -> str:
    """A line about it, without opening what is large."""
    try:
        if place.kind == "explanation":
            data = saved_results.read(place.path / "comparison.json")
            label = (data["model"].get("prediction") or [[""]])[0][0]
            return f"{str(label).strip()}: {str(data['x']['text'])[:80]}"
        if place.kind == "steer":
            data = saved_results.read(place.path / "steer.json")
            return f"feature {data['feature']} at {data['strength']:g}×: {str(data['prompt'])[:60]}"
        if place.kind == "attention":
            data = saved_results.read(place.path / "atlas.json")
            return f"{data['model'].get('name', '')}: {str(data['x']['text'])[:80]}"
        if place.kind == "feature":
            data = saved_results.read(place.path / "feature.json")
            return f"feature {data['feature']['reading']['feature']} of {data['model']}"[:100]
        if place.kind == "lab":
            return str(saved_results.read(place.path / "lab.json").get("title", ""))[:100]
        manifest = place.path / "manifest.json"
        if place.kind == "audit" and manifest.is_file():
            made = saved_results.read(manifest)
            return str((made.get("made") or made.get("settings") or {}).get("model") or "")[:100]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, HeedfulError):
        pass  # told when it is opened
    return ""


def opened(place: RunPlace) -> tuple[responses.RunPage, Callable[[], str]]:
    """What stands in the page, and the whole report as a file."""
    for file in place.path.iterdir():
        if file.is_file() and file.stat().st_size > MAX_FILE_BYTES:
            raise HeedfulError(
                f"{file.name} is larger than {MAX_FILE_BYTES // 2**20} MB", fix="Use heedful report"
            )
    try:
        with friendly_errors(place.name):
            view = view_run(place.kind, place.path)
            html = view.html()
    except HeedfulError as error:  # names of folders above the root are nobody's business
        raise HeedfulError(str(error).replace(str(place.path), place.name)) from None
    page = responses.RunPage(
        id=place.id, name=place.name, kind=place.kind, html=html, notes=[], ask=view.ask, data=view.data
    )
    return page, view.page
