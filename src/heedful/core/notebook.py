"""Results as notebooks show them: a class that inherits `Shown` has a `_repr_html_` made of its own fields.

Results with a page of their own (a comparison, an audit, an atlas, a trial ...) show that page instead.
"""

from __future__ import annotations


class Shown:
    """No fields, nothing to call: frozen dataclasses inherit it."""

    def _repr_html_(self) -> str:
        from heedful.reports.notebook_fields import fragment

        return fragment(self)
