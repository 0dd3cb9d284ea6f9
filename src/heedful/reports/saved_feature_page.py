"""One HTML file for one feature that the web page stored."""

from __future__ import annotations

from heedful.features.reading.results import SavedFeature
from heedful.reports import feature_page
from heedful.reports.comparison_page import cell, component, document
from heedful.reports.html_parts import esc


def page(saved: SavedFeature) -> str:
    """A self-contained HTML5 document."""
    return document(f"Feature {saved.feature.feature}", body(saved, 1), style=component("features.css"))


def fragment(saved: SavedFeature) -> str:
    """The same body for a notebook cell."""
    return cell(body(saved, 3), component("features.css"))


def body(saved: SavedFeature, size: int) -> str:
    """What it was read on, then the feature; `size` is the heading level of the title."""
    where = f"at <b>{esc(saved.site)}</b> of <b>{esc(saved.model)}</b>"
    kicker = f'<p class="kicker">SAE of {saved.width:,} features {where}</p>'
    title = f'<h{size} class="verdict">Feature {saved.feature.feature}</h{size}>'
    about = f'<ul class="sentences"><li>{esc(saved.about)}</li></ul>'
    drawn = feature_page.feature(saved.feature, size + 1)
    return f"<header>{kicker}{title}{about}</header>\n{drawn}"
