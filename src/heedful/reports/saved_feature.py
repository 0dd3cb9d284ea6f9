"""One feature as the web page stores it, as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from heedful.core.document import Bullets, Document, Headline
from heedful.core.result import Result
from heedful.features.reading.feature_pages import Page
from heedful.io.json_codec import to_jsonable
from heedful.reports import one_feature
from heedful.reports.feature import headline, source


@dataclass(frozen=True)
class SavedFeature(Result):
    """One feature, and what it was read on."""

    kind: ClassVar[str] = "saved-feature"

    model: str
    site: str
    width: int  # features of the SAE
    about: str
    feature: Page

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


def document(saved: SavedFeature) -> Document:
    number, said = saved.feature.feature, one_feature.name_of(saved.feature.interpretation)
    where = source(saved.width, saved.site, saved.model)
    return Document(
        f"Feature {number}",
        (
            Headline(headline(number, said), source=where),
            Bullets((saved.about,)),
            one_feature.section(saved.feature),
        ),
    )
