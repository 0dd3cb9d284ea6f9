"""Change files of a run folder and make its manifest agree, as a forger would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def agree(folder: Path) -> None:
    """Write sizes and checksums of the files as they are now into the manifest."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    shards = {entry["name"]: entry for entry in manifest.get("shards", ())}
    for name, entry in (manifest["files"] | shards).items():
        content = (folder / name).read_bytes()
        entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(manifest))


def agree_shards(folder: Path) -> None:
    """The same, and in the lists of files of an audit's shards."""
    for shard in folder.glob("shards/*/shard.json"):
        facts = json.loads(shard.read_text())
        contents = {name: (shard.parent / name).read_bytes() for name in facts["files"]}
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        shard.write_text(json.dumps(facts | {"files": sums}))
    agree(folder)


def reforge(folder: Path, change: Callable[[Any], Any]) -> None:
    """Replace what result.json holds by what `change` makes of it."""
    path = folder / "result.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    agree(folder)
