"""What a report prints on a terminal, as text."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console


def terminal_text(show: Callable[[Console], None], width: int) -> str:
    out = io.StringIO()
    show(Console(file=out, width=width, highlight=False, markup=False, color_system=None))
    return out.getvalue()
