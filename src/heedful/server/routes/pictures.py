"""Pictures of the page: sent as a file, answered with a number; seen as a PNG of nothing but colours."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from heedful.server.picture_store import StoredPicture
from heedful.server.schemas import responses
from heedful.server.security import PICTURE_TYPES
from heedful.server.state import REFUSALS, Number, RequestState

router = APIRouter(prefix="/api/pictures", responses=REFUSALS)
BINARY = {"schema": {"type": "string", "format": "binary"}}


@router.post(
    "",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(PICTURE_TYPES, BINARY)}},
)
async def send_picture(request: Request, state: RequestState) -> responses.StoredPictureInfo:
    """A picture file. What is not a picture of a known format is refused; only colours are kept."""
    file = await request.body()
    return _info(await run_in_threadpool(state.memory.pictures.add, file))


@router.get(
    "/{number}",
    response_class=Response,
    responses={200: {"content": {"image/png": BINARY}, "description": "a PNG"}},
)
def show_picture(number: Number, state: RequestState) -> Response:
    """At most 512 pixels per side."""
    return Response(state.memory.pictures.get(number).preview, media_type="image/png")


def _info(stored: StoredPicture) -> responses.StoredPictureInfo:
    width, height = stored.size
    return responses.StoredPictureInfo(
        id=stored.number, width=width, height=height, notes=list(stored.picture.notes)
    )
