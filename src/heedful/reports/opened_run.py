"""A result from a run folder, with a note that its numbers were not computed here.

A checksum shows damage, not forgery: whoever changes a number can change the checksum, too. Only an audit is
computed again from its shards (heedful.audits.result), and says itself whether it was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from heedful.core.document import Document, Paragraph

STATED = "These numbers are stated by the file. heedful did not compute them again."


def opened_run(result: Any) -> Document:
    """What it shows, and the note at its end."""
    document: Document = result.document()
    if hasattr(result, "verified"):
        return document
    return replace(document, nodes=(*document.nodes, Paragraph(STATED, "soft")))
