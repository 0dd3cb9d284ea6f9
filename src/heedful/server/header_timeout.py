"""Slow, silent and idle connections: none can block the server, and one peer cannot shut the others out.

A client that opens connections and sends half a request would hold each for good, token or not, until the
server refuses everybody. Here a head must be complete `HEADER_SECONDS` after the connection, or its first
byte, came; bytes that drip do not prolong that. (A body has security.BODY_SECONDS, a connection without a
request uvicorn's timeout_keep_alive.) Of one peer, `MAX_WAITING` connections may wait at once for a
request or for the rest of one: the one that has waited longest is closed, since a real client sends a request
with the connection. Of one peer, at most `MAX_OF_PEER` connections are open in all: a further one is
closed at once.

An answer that nobody reads would stay in memory, and its connection open, for good. Here a client must read
at least `MIN_READ_BYTES` of it, or all that is left, every `WRITE_SECONDS`. A stream of events that has
nothing to say is not closed: nothing of it waits to be sent.
"""

from __future__ import annotations

import asyncio
import socket
from functools import cached_property
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from heedful.server.security import peer_key

HEADER_SECONDS = 8.0  # seconds for the head of a request
WRITE_SECONDS = 60.0  # seconds in which a client must read something of its answer,
MIN_READ_BYTES = 64 << 10  # and how much, unless less is left
SENT_BYTES = 128 << 10  # that the system takes of an answer before it is read
MAX_WAITING = 128  # connections of one peer without a whole request
MAX_OF_PEER = 256  # connections of one peer: half of what the server takes


class HeaderTimeoutProtocol(H11Protocol):
    """uvicorn's own protocol with time limits for requests and answers, and limits for each peer."""

    timer: asyncio.TimerHandle | None = None
    write_timer: asyncio.TimerHandle | None = None
    unread: int = 0  # bytes of an answer that waited to be sent when they were last looked at
    since: float = 0.0  # when it came, or its last head

    @cached_property
    def peer(self) -> str:
        return peer_key(self.client)

    @property
    def waits(self) -> bool:
        """Nothing is being answered: there is no head, no whole body, or the last answer is sent."""
        unfinished = self.cycle is None or self.cycle.response_complete
        return unfinished or self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # writing is paused until everything is sent
        self._limit_sending(transport)
        self.since = self.loop.time()
        self._start_timer()
        every = [other for other in self.connections if isinstance(other, HeaderTimeoutProtocol)]
        same = [other for other in every if other.peer == self.peer]
        waiting = [other for other in same if other.waits]
        if len(waiting) > MAX_WAITING:
            min(waiting, key=lambda other: other.since)._time_out()
        elif len(same) > MAX_OF_PEER:
            self._time_out()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self.since = self.loop.time()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self.timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def _limit_sending(self, transport: Any) -> None:
        """The system takes little of an answer before it is read, so slow readers are seen to read."""
        if (connection := transport.get_extra_info("socket")) is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_write_timer()

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def _start_write_timer(self) -> None:
        self.unread = self.transport.get_write_buffer_size()
        self.write_timer = self.loop.call_later(WRITE_SECONDS, self._check_read)

    def _stop_write_timer(self) -> None:
        if self.write_timer is not None:
            self.write_timer.cancel()
            self.write_timer = None

    def _check_read(self) -> None:
        if self.transport.get_write_buffer_size() > self.unread - MIN_READ_BYTES:
            self._time_out()
        else:
            self._start_write_timer()

    def _start_timer(self) -> None:
        self.timer = self.loop.call_later(HEADER_SECONDS, self._time_out)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _time_out(self) -> None:
        self._stop_timer()
        self._stop_write_timer()
        self.connections.discard(self)  # now: it must not be counted, nor chosen again, until it is lost
        self.transport.abort()
