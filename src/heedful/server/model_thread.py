"""One thread for a model: its calls come one after the other, and other requests are answered meanwhile.

A queue of limited length stands before it: when it is full, one is told so at once instead of waiting, and so
is one who has many questions in it already. A
question whose asker has left is not begun. While questions wait or run, jobs stand still for a moment
(`OpenQuestions`): Python runs one thread at a time, so a job would double the time of each answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, Full, Queue
from typing import Any, TypeVar

from starlette.requests import Request

from heedful.server.security import PeerCount, peer_of

Answer = TypeVar("Answer")
POLL_SECONDS = 0.5  # seconds between looks whether the asker is still there
GIVE_WAY_SECONDS = 0.5  # the longest that a job stands still at a time: under any load it gets on


class Busy(Exception):
    """The queue is full."""


class ClientDisconnected(Exception):
    """Whoever asked has left."""


class OpenQuestions:
    """How many questions wait or run, of all models together."""

    def __init__(self) -> None:
        self.count = 0
        self._change = threading.Condition()

    def add(self, future: Future[Any]) -> None:
        """Open until the future has ended, in whatever way."""
        with self._change:
            self.count += 1
        future.add_done_callback(self._remove)

    def _remove(self, _: Future[Any]) -> None:
        with self._change:
            self.count -= 1
            if not self.count:
                self._change.notify_all()

    def give_way(self, seconds: float = GIVE_WAY_SECONDS) -> None:
        """Return when no question is open, or after so many seconds."""
        with self._change:
            self._change.wait_for(lambda: not self.count, seconds)


class ModelThread:
    """Runs questions in the order in which they came. `waiting` may wait, of one other machine `per_peer`."""

    def __init__(
        self, name: str, waiting: int, questions: OpenQuestions, per_peer: int | None = None
    ) -> None:
        self.name, self.questions = name, questions
        self.queue: Queue[tuple[Future[Any], Callable[[], Any]] | None] = Queue(waiting)
        self._peers = PeerCount(waiting if per_peer is None else per_peer)
        self.thread = threading.Thread(target=self._work, name=f"heedful {name}", daemon=True)
        self.thread.start()

    def put(self, job: Callable[[], Answer]) -> Future[Answer]:
        future: Future[Answer] = Future()
        self._drop_cancelled()
        try:
            self.queue.put_nowait((future, job))
        except Full:
            raise Busy(
                f"{self.name} has {self.queue.maxsize} questions waiting already. Try again in a moment."
            ) from None
        self.questions.add(future)
        return future

    def _drop_cancelled(self) -> None:
        """Whoever asks and leaves must not fill the queue meanwhile."""
        with self.queue.mutex:
            waiting = [item for item in self.queue.queue if item is None or not item[0].cancelled()]
            self.queue.queue.clear()
            self.queue.queue.extend(waiting)

    async def run(self, request: Request, job: Callable[[], Answer]) -> Answer:
        """The job's result; taken out of the queue if the asker leaves before it has begun."""
        own = peer_of(request.scope)
        if self._peers.full(own):
            raise Busy(f"{self._peers.most} questions from your address are waiting already.")
        with self._peers.held(own):
            future = asyncio.wrap_future(self.put(job))
            while not (await asyncio.wait({future}, timeout=POLL_SECONDS))[0]:
                if await request.is_disconnected():
                    future.cancel()
                    raise ClientDisconnected
            return future.result()

    def close(self) -> None:
        """What waits is dropped; what runs comes to its end."""
        while True:
            try:
                item = self.queue.get_nowait()
            except Empty:
                break
            if item is not None:
                item[0].cancel()
        self.queue.put(None)

    def _work(self) -> None:
        while (item := self.queue.get()) is not None:
            future, job = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as error:  # told to whoever asked; the thread lives on
                future.set_exception(error)
            else:
                future.set_result(result)
