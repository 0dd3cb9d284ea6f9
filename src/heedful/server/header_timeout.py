"""Connections that have asked nothing yet: they are given a few seconds, and cannot fill the house.

A client that opens connections and sends half a head would hold each for good, token or not, until the server
refuses everybody. Here a head must be complete `HEADER_SECONDS` after the connection, or its first byte,
came; bytes that drip do not prolong that. Of one peer, `MAX_WAITING` may wait at once: the one that has
waited longest goes, since who means it sends a head with the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 8.0  # seconds for the head of a request
MAX_WAITING = 256  # connections of one peer without one


class Doorstep(H11Protocol):
    """uvicorn's own protocol with a clock."""

    clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wind()
        peers = [one for one in self.connections if isinstance(one, Doorstep) and one.clock is not None]
        same = [one for one in peers if (one.client or ("",))[0] == (self.client or ("",))[0]]
        if len(same) > MAX_WAITING:
            min(same, key=lambda one: one.clock.when() if one.clock else 0.0)._late()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self.clock is None:
            self._wind()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _wind(self) -> None:
        self.clock = self.loop.call_later(HEADER_SECONDS, self._late)

    def _stop(self) -> None:
        if self.clock is not None:
            self.clock.cancel()
            self.clock = None

    def _late(self) -> None:
        self._stop()
        self.transport.abort()
