"""Runs as the page opens them, read and drawn in a thread of their own.

Numbers of a run are computed again when it is opened: an audit of 2,000 texts takes 20 seconds. So all runs
are opened by one thread, a few may wait for it, fewer of one other machine, and the last few are remembered:
the page and its report are computed once. The threads that answer other requests are never used for it. A run
that was sound when it was opened is shown as it was until its manifest changes, or until it is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from heedful.core.errors import HeedfulError
from heedful.server.model_thread import ModelThread, OpenQuestions
from heedful.server.run_list import RunPlace
from heedful.server.run_memory import RunMemory
from heedful.server.run_view import sound_text, view_run
from heedful.server.schemas import responses

MAX_WAITING, MAX_WAITING_PER_PEER = 16, 4  # runs that may wait to be opened: of everybody, of another machine
MAX_VIEWS, MAX_VIEW_BYTES = 4, 64 << 20  # opened runs that are remembered


@dataclass(frozen=True)
class OpenedRun:
    """As it is sent: what stands in the page, and the whole report as a file."""

    page: bytes  # JSON of responses.RunPage
    report: bytes  # HTML

    @property
    def size(self) -> int:
        return len(self.page) + len(self.report)


class OpenedRuns:
    """The thread that opens runs, and the runs it opened last."""

    def __init__(self) -> None:
        # its own count of open questions: a job need not stand still while a run is opened
        self.reader = ModelThread("The list of runs", MAX_WAITING, OpenQuestions(), MAX_WAITING_PER_PEER)
        self._memory = RunMemory(opened, MAX_VIEWS, lambda run: run.size, MAX_VIEW_BYTES)

    async def get(self, request: Request, place: RunPlace) -> OpenedRun:
        for known in self._memory.known(place):
            return known
        return await self.reader.run(request, lambda: self._memory.of(place))


def opened(place: RunPlace) -> OpenedRun:
    """Read and drawn."""
    try:
        view = view_run(place.path)
        report = view.page().encode()
    except HeedfulError as error:  # names of folders above the root are nobody's business
        raise HeedfulError(str(error).replace(str(place.path), place.name)) from None
    page = responses.RunPage(
        id=place.id,
        name=place.name,
        kind=place.kind,
        html=view.html,
        notes=[],
        ask=sound_text(view.ask),
        data=sound_text(view.data),
        component=view.component,
    )
    return OpenedRun(page.model_dump_json().encode(), report)
