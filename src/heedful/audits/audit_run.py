"""The shards of an audit on disk: what is done is whole, what is not leaves no trace.

    run/shards/000000/*.parquet     scores, orders, methods, attributions, texts, errors
    run/shards/000000/shard.json    rows, SHA-256 of the files and of the rows that came in
    run/result.json, table.csv, report.html   written when all shards are done

A shard is written into a folder beside its place, synced, and renamed: it is there whole or not at all, also
when the process is killed or the power fails. heedful.io.sharded_run has the manifest. Opening a finished
audit compares every file: shard.json with the checksum in the manifest, the others with those in shard.json.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from heedful.audits.schemas import KINDS, count_rows
from heedful.audits.shard import Shard
from heedful.core.errors import HeedfulError
from heedful.core.whole_numbers import whole_number
from heedful.io.files import sync, write_synced, writing
from heedful.io.json_codec import json_object
from heedful.io.run_folder import (
    CHANGED,
    MANIFEST,
    MOST_BYTES,
    OpenRun,
    checked_files,
    compare,
    damaged,
    opened_inside,
    read_inside,
)
from heedful.io.sharded_run import OTHER, ShardedRun, differences, listed_shards, shard_entry

BESIDE = ".part-"  # a shard that is being written
MAX_TABLE_FILE = 256 << 20  # bytes
# of all shards, up to which they are compared with their checksums: half a gigabyte per second
BYTES_ON_OPENING, BYTES_IN_A_PAGE = 32 << 30, 1 << 30
ROWS_PER_SHARD = 100  # that take as long to read as opening its files
FACTS = ("shard", "first", "rows", "weighed", "copies", "source", "files")  # what shard.json holds
SHARD_FACTS = re.compile(r"shards/(\d{6,})/shard\.json")  # as the manifest names it


class AuditRun(ShardedRun):
    """One audit on disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "audit", "audit", ignored=("name", "command"))

    @contextmanager
    def opened(self, made: Mapping[str, Any], title: str) -> Iterator[dict[str, Any]]:
        with super().opened(made, title) as manifest:
            with writing(self.path):
                self.shards.mkdir(exist_ok=True)
                for beside in self.shards.glob(f"{BESIDE}*"):
                    shutil.rmtree(beside)  # of a run that was killed
            yield manifest

    def check_same(self, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
        differ = differences(there, here, self.ignored)
        if len(differ) == 1 and differ[0].startswith("settings swap "):  # drawn from the first texts
            raise HeedfulError(f"the first rows are not those that {self.path} was made from", fix=OTHER)
        super().check_same(there, here)

    def place(self, number: int) -> Path:
        return self.shards / f"{number:06d}"

    def has(self, shard: Shard) -> bool:
        """Whether a shard is done; refuses rows that are not those it was made from."""
        if not self.place(shard.number).exists():
            return False
        if self.facts(shard.number)["source"] != shard.sum:
            first, last = shard.rows[0].number, shard.rows[-1].number
            what = f"rows {first} to {last} are not those that {self.path} was made from"
            raise HeedfulError(what, fix=OTHER)
        return True

    def facts(self, number: int) -> dict[str, Any]:
        content = self._content(number, "shard.json", MOST_BYTES)
        try:
            results = json_object(content)
        except ValueError as error:
            raise self._damaged(number, "shard.json", str(error)) from error
        lost = [key for key in FACTS if key not in results]
        if lost or not isinstance(results["files"], dict):
            raise self._damaged(number, "shard.json", f"it has no {', '.join(lost or ['list of files'])}")
        return results

    def put(self, number: int, files: Mapping[str, bytes]) -> None:
        """All files of a shard at once."""
        beside = self.shards / f"{BESIDE}{number:06d}"
        with writing(self.path):
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir()
            for name, content in files.items():
                write_synced(beside / name, content)
            sync(beside)
            beside.rename(self.place(number))
            sync(self.shards)

    def numbers(self) -> list[int]:
        """Shards that are there."""
        names = [place.name for place in self.shards.iterdir()]
        numbers = [(name, whole_number(name)) for name in names]
        return sorted(n for name, n in numbers if n is not None and name == self.place(n).name)

    def file(self, number: int, name: str) -> bytes:
        """A file of a shard, compared with its checksum."""
        content = self._content(number, name, MAX_TABLE_FILE)
        if hashlib.sha256(content).hexdigest() != self.facts(number)["files"].get(name):
            raise self._damaged(number, name, CHANGED)
        return content

    def size(self, number: int) -> int:
        """Bytes of the files of a shard; of what is not there, none."""
        size = 0
        with suppress(OSError):
            for path in self.place(number).iterdir():
                size += path.lstat().st_size
        return size

    def rows_to_read(self, pairs: int, most: int) -> int:
        """Rows of tables that are read to compute a result again, of which those of scores are read for each
        pair of metric and operator. A shard counts as some rows. Counting ends above `most`."""
        rows = 0
        for number in self.numbers():
            rows += ROWS_PER_SHARD * (1 + pairs)
            for name in KINDS:
                if rows > most:
                    return rows
                place = f"shards/{number:06d}/{name}.parquet"
                with opened_inside(self.path, place) as handle, os.fdopen(os.dup(handle), "rb") as file:
                    rows += count_rows(file) * (1 + pairs * (name == "scores"))
        return rows

    def check_shard(self, number: int, entry: Mapping[str, Any]) -> None:
        """Compare shard.json with its entry in the manifest, and the other files with shard.json."""
        place, fix = f"shards/{number:06d}", self._fix(number)
        compare(self.path, f"{place}/shard.json", entry, fix=fix)
        sums = self.facts(number)["files"]
        checked_files(self.path, {f"{place}/{name}": {"bytes": 0, "sha256": sums[name]} for name in sums})
        for name, checksum in sums.items():
            compare(self.path, f"{place}/{name}", {"sha256": checksum}, fix=fix)

    def listed(self) -> list[dict[str, Any]]:
        """The shards as the manifest has them; each shard.json has the sums of its files."""
        entries = []
        for number in self.numbers():
            facts = self.facts(number)
            known = {key: facts[key] for key in ("shard", "first", "rows", "weighed")}
            name = f"shards/{number:06d}/shard.json"
            entries.append(shard_entry(self.path, name, **known))
        return entries

    def _content(self, number: int, name: str, most: int) -> bytes:
        return read_inside(self.path, f"shards/{number:06d}/{name}", most)

    def _damaged(self, number: int, name: str, why: str) -> HeedfulError:
        return damaged(self.place(number) / name, why, self._fix(number))

    def _fix(self, number: int) -> str:
        return f"Remove {self.place(number)}, then run the same audit again: it makes only what is missing"


def check_every_shard(run: OpenRun) -> bool:
    """Compare every file of every shard of an audit with its checksum, without holding it in memory. False
    where they are too large together: then nothing was compared."""
    audit, shards = AuditRun(run.folder), dict[int, dict[str, Any]]()
    for entry in listed_shards(run):
        named = SHARD_FACTS.fullmatch(entry["name"])
        if named is None:
            raise damaged(run.folder / MANIFEST, f"{entry['name'][:60]!r} is not a shard of an audit")
        shards[int(named[1])] = entry
    most = BYTES_ON_OPENING if run.most is None else BYTES_IN_A_PAGE
    if sum(audit.size(number) for number in shards) > most:
        return False
    for number, entry in shards.items():
        audit.check_shard(number, entry)
    return True
