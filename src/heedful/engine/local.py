"""Shards one after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterable

from heedful.audits.run_folder import RunFolder
from heedful.audits.settings import Settings
from heedful.audits.shard import Shard, Tell, weigh_shard
from heedful.core.model import Model


def run(model: Model, shards: Iterable[Shard], settings: Settings, folder: RunFolder, tell: Tell) -> None:
    """`shards` are those that are not done yet; it is read as work goes on."""
    for shard in shards:
        folder.put(shard.number, weigh_shard(model, shard, settings, tell))
