"""The run folder of an audit: what is done is whole and on disk, what is not leaves no trace.

    run/manifest.json                    how it was made, written first; at the end also the list of shards
    run/shards/000000/*.parquet          scores, orders, methods, attributions, texts, errors
    run/shards/000000/shard.json         rows, SHA-256 of the files and of the rows that came in
    run/result.json, table.csv, report.html   written when all shards are done

A shard is written into a folder beside its place, synced, and renamed: it is there whole or not at all, also
when the process is killed or the power fails. Files are replaced in the same way.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful._version import __version__
from heedful.audits.shard import Shard
from heedful.core.errors import HeedfulError
from heedful.io.files import locked, read_file, sync, write_file, write_synced, writing
from heedful.io.json_codec import json_bytes, json_text, parse, to_jsonable

FORMAT = 2
KIND = "audit"
BESIDE = ".part-"  # a shard that is being written
HINT = "An audit is written by: heedful audit FILE --out FOLDER"
FACTS = ("shard", "first", "rows", "weighed", "copies", "source", "files")  # what shard.json holds
SETTLED = ("settings", "model", "source", "versions")  # what a run must share with the one it goes on with


class RunFolder:
    """One audit on disk."""

    def __init__(self, path: Path) -> None:
        self.path, self.shards = path, path / "shards"

    @contextmanager
    def opened(self, made: Mapping[str, Any]) -> Iterator[None]:
        """Alone in the folder: begin in an empty one, or go on where one made in the same way stopped."""
        with locked(self.path, "audit"):
            with writing(self.path):
                self._begin(to_jsonable({"heedful": __version__, "format": FORMAT, "kind": KIND, **made}))
            yield

    def _begin(self, made: dict[str, Any]) -> None:
        self.shards.mkdir(exist_ok=True)
        for beside in self.shards.glob(f"{BESIDE}*"):
            shutil.rmtree(beside)  # of a run that was killed
        if (self.path / "manifest.json").exists():
            self._check(made)
        elif any(self.shards.iterdir()):
            raise HeedfulError(f"{self.path} contains shards but no manifest", fix="Name another folder")
        else:
            self.write("manifest.json", json_bytes(made))

    def _check(self, made: dict[str, Any]) -> None:
        there = self.manifest()
        differ = [
            f"{part} {name} was {_short(there.get(part, {}).get(name))}, is {_short(made[part].get(name))}"
            for part in SETTLED
            for name in sorted(there.get(part, {}).keys() | made[part].keys())
            if not _same(there.get(part, {}).get(name), made[part].get(name))
        ]
        if len(differ) == 1 and differ[0].startswith("settings swap "):  # drawn from the first texts
            raise HeedfulError(
                f"the first rows are not those that {self.path} was made from",
                fix="Name another folder, or remove this one",
            )
        if differ:
            raise HeedfulError(
                f"{self.path} was made differently: {'; '.join(differ)}",
                fix="Name another folder, or remove this one",
            )

    def manifest(self) -> dict[str, Any]:
        """Checked to be that of an audit that this version reads."""
        results = parse(self.read("manifest.json"), self.path / "manifest.json")
        if results.get("kind") != KIND:
            raise HeedfulError(f"{self.path} is not the folder of an audit", fix="Name another folder")
        if results.get("format") != FORMAT:
            raise HeedfulError(
                f"{self.path} has format {results.get('format')}", f"heedful {__version__} reads {FORMAT}"
            )
        return results

    def place(self, number: int) -> Path:
        return self.shards / f"{number:06d}"

    def has(self, shard: Shard) -> bool:
        """Whether a shard is done; refuses rows that are not those it was made from."""
        if not self.place(shard.number).exists():
            return False
        if self.facts(shard.number)["source"] != shard.sum:
            first, last = shard.rows[0].number, shard.rows[-1].number
            raise HeedfulError(
                f"rows {first} to {last} are not those that {self.path} was made from",
                fix="Name another folder, or remove this one",
            )
        return True

    def facts(self, number: int) -> dict[str, Any]:
        place = self.place(number) / "shard.json"
        results = parse(read_file(place, self.path, HINT), place)
        if lost := [key for key in FACTS if key not in results]:
            raise HeedfulError(
                f"{place} is damaged",
                f"it has no {', '.join(lost)}",
                f"Remove {place.parent} and start the audit again",
            )
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
        return sorted(int(place.name) for place in self.shards.iterdir() if place.name.isdigit())

    def file(self, number: int, name: str) -> bytes:
        """A file of a shard, compared with its checksum."""
        place = self.place(number)
        content = read_file(place / name, self.path, HINT)
        if hashlib.sha256(content).hexdigest() != self.facts(number)["files"].get(name):
            raise HeedfulError(
                f"{place / name} is damaged",
                "its checksum is another",
                f"Remove {place} and start the audit again",
            )
        return content

    def finish(self, contents: Mapping[str, bytes]) -> None:
        """Results beside the shards, then the manifest with what a whole folder must hold."""
        for name, content in contents.items():
            self.write(name, content)
        files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        listed = [self._listed(number) for number in self.numbers()]
        self.write("manifest.json", json_bytes(self.manifest() | {"files": files, "shards": listed}))

    def _listed(self, number: int) -> dict[str, Any]:
        """A shard as the manifest has it; its own shard.json has the sums of its files."""
        content = read_file(self.place(number) / "shard.json", self.path, HINT)
        facts = self.facts(number)
        known = {key: facts[key] for key in ("shard", "first", "rows", "weighed")}
        return known | {"sha256": hashlib.sha256(content).hexdigest()}

    def write(self, name: str, content: bytes) -> None:
        with writing(self.path):
            write_file(self.path / name, content)

    def read(self, name: str) -> bytes:
        return read_file(self.path / name, self.path, HINT)


def _same(there: Any, here: Any) -> bool:
    """Numbers may differ in the last digit, as sums in another order do."""
    if isinstance(there, list) and isinstance(here, list):
        return len(there) == len(here) and all(map(_same, there, here))
    if isinstance(there, float) and isinstance(here, float):
        return math.isclose(there, here, rel_tol=1e-5, abs_tol=1e-12)
    return bool(there == here)


def _short(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
