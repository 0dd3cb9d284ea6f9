"""What a model wrote, token by token, with the words each method puts first.

                     text's share
    token     p      of tokens     lime                                 random (control)
    ·Paris    77 %   71 %          83 % text  ▲France  ▲capital  △‹is›  64 % text  ▲The ...

A mark is a sign, as in heedful.reports.columns; an open one is unsure. ‹ › marks a word that was
already written. The percentage is the method's input dependence (heedful.comparisons.input_share).
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from heedful.comparisons.result import Comparison, share_by_count
from heedful.core.numbers import percent
from heedful.reports.columns import MARKS, STYLES, ScoreColumn, columns, every_word
from heedful.reports.visible import visible

TOP_WORDS = 3  # words shown a method


def show(found: Sequence[Comparison], console: Console) -> None:
    """Print a table: one row per token, one column a method."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("token", no_wrap=True)
    table.add_column("p", justify="right", no_wrap=True)
    result = any(comparison.input_shares() for comparison in found)
    if result:
        table.add_column("text's share of tokens", justify="right")
    for col in columns(found[0]):
        table.add_column(col.label, overflow="fold")
    for comparison in found:
        token = Text(visible(comparison.target.label).replace(" ", "·"), "bold")
        cells = [_first_words(comparison, col) for col in columns(comparison)]
        counted = [percent(share_by_count(comparison)) if comparison.input_shares() else ""] if result else []
        table.add_row(token, _share(comparison), *counted, *cells)
    console.print(table)
    console.print(
        Text(f"The {TOP_WORDS} strongest words of each method, the strongest first. {LEGEND}", "dim")
    )
    if result:
        console.print(Text(SHARES, "dim"))


LEGEND = "▲ towards the token  ▼ away from it  △ ▽ the sign is unsure  no mark: the method has no sign"


SHARES = (
    "41 % text: that much of the method's scores (signs aside) lies on the text, the rest on what was "
    "already written (‹ › marks its words). The text's share of tokens is what equal scores would give."
)


def _share(comparison: Comparison) -> str:
    """Probability of the token where it is among the likeliest, else that it is below them."""
    shares = [float(share) for label, share in comparison.model["prediction"]]
    for label, share in comparison.model["prediction"]:
        if label == comparison.target.label:
            return f"{100 * share:.0f} %"
    return f"< {100 * min(shares):.0f} %" if shares else ""


def _first_words(comparison: Comparison, col: ScoreColumn) -> Text:
    """The method's input dependence where something was written, then its strongest words."""
    shares = comparison.input_shares()
    share = percent(shares[col.method]) if shares else ""
    cells = Text(f"{share}{' text' if '%' in share else ''}  " if share else "", "dim")
    scored = [pair for pair in every_word(comparison, col) if pair[0].score]
    ranked = sorted(scored, key=lambda pair: -abs(pair[0].score))[:TOP_WORDS]
    for word, written in ranked:
        mark = MARKS.get((col.sign(word), col.unsure(word)), "")
        text = visible(word.text.strip())
        cells.append(f"{mark}{f'‹{text}›' if written else text}  ", STYLES[col.sign(word)])
    return cells
