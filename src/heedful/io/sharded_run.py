"""A run folder that is filled shard by shard and can be resumed: audits and harvests.

    run/manifest.json   as heedful.io.run_folder has it, and `made`: how the run is made. Written first
                        without `files`: the run is not finished; at the end with them and `shards`
    run/shards/...      each shard is written beside its place and renamed into it: it is whole or not there

A run is resumed only by one that is made in the same way. Opening an audit compares every file by checksum
(heedful.audits.audit_run). A store of activations may have a hundred gigabytes: opening it compares the sizes
of its shards, and `ActivationStore.check` their checksums.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.core.result import Stored
from heedful.core.result_kinds import find_kind, kind_of
from heedful.io.files import PART, locked, write_inside, writing
from heedful.io.json_codec import json_bytes, json_text, to_jsonable
from heedful.io.run_folder import (
    MANIFEST,
    RESULT,
    OpenRun,
    checked_files,
    compare,
    damaged,
    read_manifest,
    start_of_manifest,
    sums,
)

WRITTEN = (MANIFEST, RESULT, "shards", PART)  # in the folder; PART: what is no shard yet
OTHER = "Name another folder, or remove this one"


class ShardedRun:
    """One run on disk while it is filled."""

    def __init__(self, path: Path, kind: str, work: str, ignored: Sequence[str] = ()) -> None:
        """`work`: what fills it, for messages; `ignored`: what of `made` may differ when it is resumed."""
        self.path, self.kind, self.work, self.ignored = path, kind, work, ignored
        self.shards = path / "shards"

    @contextmanager
    def opened(self, made: Mapping[str, Any], title: str) -> Iterator[dict[str, Any]]:
        """Alone in the folder: start in an empty one, or resume one made alike. Gives the manifest."""
        with locked(self.path, self.work, WRITTEN):
            with writing(self.path):
                manifest = self._begin(to_jsonable(made), title)
            yield manifest

    def _begin(self, made: dict[str, Any], title: str) -> dict[str, Any]:
        if (self.path / MANIFEST).exists():
            there = self.manifest()
            self.check_same(there["made"], made)
            return there
        if any(self.shards.glob("[!.]*")):  # a hidden one is half a shard, which its writer removes
            raise HeedfulError(f"{self.path} holds shards but no manifest", fix="Name another folder")
        kind = find_kind(self.kind)
        assert kind is not None
        manifest = start_of_manifest(kind, title) | {"made": made}
        write_inside(self.path, MANIFEST, json_bytes(manifest))
        return manifest

    def manifest(self) -> dict[str, Any]:
        """Checked to be that of a run of this kind."""
        results = read_manifest(self.path)
        if results["kind"] != self.kind or not isinstance(results.get("made"), dict):
            why = f"it holds a run of kind {results['kind']}"
            raise HeedfulError(
                f"the {self.work} cannot be resumed in {self.path}", why, "Name another folder"
            )
        return results

    def check_same(self, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
        """Refuse to resume a run that was made in another way."""
        if differ := differences(there, here, self.ignored):
            raise HeedfulError(f"{self.path} was made differently: {'; '.join(differ)}", fix=OTHER)

    def finish(self, result: Stored, shards: Sequence[Mapping[str, Any]]) -> None:
        """The result beside the shards, then the manifest with what a whole folder must hold."""
        kind_of(result)  # a result of no kind would be written and never opened
        files, views = {RESULT: json_bytes(result.stored())}, result.views()
        manifest = self.manifest() | {"title": " ".join(result.run_title().split())}
        manifest |= {"files": sums(files), "views": sums(views), "shards": list(shards)}
        with writing(self.path):
            for name, content in (files | views).items():
                write_inside(self.path, name, content)
            write_inside(self.path, MANIFEST, json_bytes(manifest))


def shard_entry(folder: Path, name: str, **facts: Any) -> dict[str, Any]:
    """A shard as the manifest lists it; a checksum that is known is not computed again."""
    path = folder / name
    if "sha256" not in facts:
        with path.open("rb") as file:
            facts["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": name, "bytes": path.stat().st_size, **facts}


def listed_shards(run: OpenRun) -> list[dict[str, Any]]:
    """The shards that the manifest of a finished run lists."""
    listed = run.manifest.get("shards")
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise damaged(run.folder / MANIFEST, "its list of shards is not one")
    checked_files(run.folder, {str(each.get("name")): each for each in listed})
    return listed


def shards_of(run: OpenRun) -> list[dict[str, Any]]:
    """The shards of a finished run, each of which is there in its size."""
    for each in listed_shards(run):
        compare(run.folder, each["name"], each, size_only=True)
    return listed_shards(run)


def check_shards(run: OpenRun) -> None:
    """Compare every shard with its checksum."""
    for each in listed_shards(run):
        compare(run.folder, each["name"], each)


def differences(there: Mapping[str, Any], here: Mapping[str, Any], ignored: Sequence[str] = ()) -> list[str]:
    """How two runs were made differently, one clause each."""
    found = []
    for part in (name for name in {**there, **here} if name not in ignored):
        before, now = there.get(part), here.get(part)
        if isinstance(before, dict) and isinstance(now, dict):
            keys = sorted(
                key for key in before.keys() | now.keys() if not alike(before.get(key), now.get(key))
            )
            found += [
                f"{part} {key} was {_short(before.get(key))}, is {_short(now.get(key))}" for key in keys
            ]
        elif not alike(before, now):
            found.append(f"{part} was {_short(before)}, is {_short(now)}")
    return found


def alike(there: Any, here: Any) -> bool:
    """Whether two JSON values are the same. Numbers may differ in the last digit, as sums in another order
    do."""
    if isinstance(there, dict) and isinstance(here, dict):
        return there.keys() == here.keys() and all(alike(value, here[key]) for key, value in there.items())
    if isinstance(there, list) and isinstance(here, list):
        return len(there) == len(here) and all(map(alike, there, here))
    if isinstance(there, float) and isinstance(here, float):
        return math.isclose(there, here, rel_tol=1e-5, abs_tol=1e-12)
    return bool(there == here)


def _short(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
