"""One feature as the web page stores it, as a document."""

from __future__ import annotations

from heedful.core.document import Bullets, Document, Headline
from heedful.features.reading.results import SavedFeature
from heedful.reports import one_feature
from heedful.reports.feature import headline, source


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
