"""Slow or silent connections: each has a few seconds to send its request, so they cannot block the server.

A client that opens connections and sends half a head would hold each for good, token or not, until the server
refuses everybody. Here a head must be complete `HEADER_SECONDS` after the connection, or its first byte,
came; bytes that drip do not prolong that. Of one peer, `MAX_WAITING` connections may wait at once: the one
that has waited longest is closed, since a real client sends a head with the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 8.0  # seconds for the head of a request
MAX_WAITING = 256  # connections of one peer without a head


class HeaderTimeoutProtocol(H11Protocol):
    """uvicorn's own protocol with a time limit for the head of a request."""

    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()
        waiting = [
            peer
            for peer in self.connections
            if isinstance(peer, HeaderTimeoutProtocol) and peer.timer is not None
        ]
        same = [peer for peer in waiting if (peer.client or ("",))[0] == (self.client or ("",))[0]]
        if len(same) > MAX_WAITING:
            min(same, key=lambda peer: peer.timer.when() if peer.timer else 0.0)._time_out()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self.timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self.timer = self.loop.call_later(HEADER_SECONDS, self._time_out)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _time_out(self) -> None:
        self._stop_timer()
        self.transport.abort()
