"""Shards one after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterable

from heedful.auditing.folder import RunFolder
from heedful.auditing.settings import Settings
from heedful.auditing.weighing import Shard, Tell, weigh_shard
from heedful.models.base import Model


def run(model: Model, shards: Iterable[Shard], settings: Settings, folder: RunFolder, tell: Tell) -> None:
    """`shards` are those that are not done yet; it is read as work goes on."""
    for shard in shards:
        folder.put(shard.number, weigh_shard(model, shard, settings, tell))
