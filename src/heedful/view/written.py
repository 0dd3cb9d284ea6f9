"""What a model wrote, token by token, with the words each method puts first.

    token     p      lime                          random (control)
    ·Paris    77 %   ▲France  ▲capital  △is        ▲The ...

A mark is a sign, as in heedful.view.terminal; an open one is unsure.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from heedful.types import Comparison
from heedful.view.columns import Column, columns, visible
from heedful.view.terminal import MARKS, STYLES

TOP = 3  # words shown a method


def show(found: Sequence[Comparison], console: Console) -> None:
    """Print a table: one row a token, one column a method."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("token", no_wrap=True)
    table.add_column("p", justify="right", no_wrap=True)
    for col in columns(found[0]):
        table.add_column(col.label, overflow="fold")
    for comparison in found:
        token = Text(visible(comparison.target.label).replace(" ", "·"), "bold")
        table.add_row(token, _share(comparison), *map(_first_words, columns(comparison)))
    console.print(table)
    console.print(Text(f"The {TOP} strongest words of each method, the strongest first. {LEGEND}", "dim"))


LEGEND = "▲ towards the token  ▼ away from it  △ ▽ the sign is unsure  no mark: the method has no sign"


def _share(comparison: Comparison) -> str:
    """Probability of the token where it is among the likeliest, else that it is below them."""
    shares = [float(share) for label, share in comparison.model["prediction"]]
    for label, share in comparison.model["prediction"]:
        if label == comparison.target.label:
            return f"{100 * share:.0f} %"
    return f"< {100 * min(shares):.0f} %" if shares else ""


def _first_words(col: Column) -> Text:
    ranked = sorted((word for word in col.words if word.score), key=lambda word: -abs(word.score))[:TOP]
    cells = Text()
    for word in ranked:
        mark = MARKS.get((col.sign(word), col.unsure(word)), "")
        cells.append(f"{mark}{visible(word.text.strip())}  ", STYLES[col.sign(word)])
    return cells
