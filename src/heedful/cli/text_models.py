"""Commands that read a table of texts: a model of pictures is refused before the columns of the table are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from heedful.core.errors import HeedfulError


@contextmanager
def reading_texts(model: str, task: str, allow_pickle: bool) -> Iterator[None]:
    """A table is read in here. If it cannot be read, the reason may be that the model reads pictures: then no
    other column helps. The model is loaded only to find this out."""
    try:
        yield
    except HeedfulError:
        if _reads_pictures(model, allow_pickle):
            raise HeedfulError(
                f"{task} needs a model that reads text",
                f"{model} reads pictures",
                "For tables of pictures: heedful audit",
            ) from None
        raise


def _reads_pictures(model: str, allow_pickle: bool) -> bool:
    import heedful

    try:
        return heedful.load(model, allow_pickle=allow_pickle).modality != "text"
    except HeedfulError:
        return False  # what is wrong with the table is said first
