"""What a model wrote, token by token, with the words each method puts first.

                     text's share
    token     p      of tokens     lime                                 random (control)
    ·Paris    77 %   71 %          83 % text: ▲France, ▲capital, △‹is›  64 % text: ▲The, ...

A mark is a sign; an open one is unsure. ‹ › marks a word that was
already written. The percentage is the method's input dependence (heedful.comparisons.input_share).
"""

from __future__ import annotations

from collections.abc import Sequence

from heedful.comparisons.result import Comparison, share_by_count
from heedful.core.document import Cell, Column, Document, Paragraph, Row, Table, nodes
from heedful.core.numbers import percent
from heedful.reports import columns as methods

TOP_WORDS = 3  # words shown per method


def document(found: Sequence[Comparison]) -> Document:
    """A table: one row per token, one column per method."""
    shares = any(comparison.input_shares() for comparison in found)
    names = [Column(col.label, words=True) for col in methods.columns(found[0])]
    counted = [Column("text's share of tokens")] if shares else []
    rows = []
    for comparison in found:
        token = Cell(comparison.target.label.replace(" ", "·"), style="strong")
        words = [Cell(_first_words(comparison, col), style="wrap") for col in methods.columns(comparison)]
        share = [Cell(percent(share_by_count(comparison)) if comparison.input_shares() else "")]
        rows.append(Row((token, Cell(_probability(comparison)), *(share if shares else ()), *words)))
    table = Table("Every token", (Column("token"), Column("p"), *counted, *names), tuple(rows))
    legend = f"The {TOP_WORDS} strongest words of each method, the strongest first. {LEGEND}"
    return Document(
        "Why each token was written",
        nodes(table, Paragraph(legend, "soft"), Paragraph(SHARES, "soft") if shares else None),
    )


LEGEND = "▲ towards the token  ▼ away from it  △ ▽ the sign is unsure  no mark: the method has no sign"


SHARES = (
    "41 % text: that much of the method's scores (signs aside) lies on the text, the rest on what was "
    "already written (‹ › marks its words). The text's share of tokens is what equal scores would give."
)


def _probability(comparison: Comparison) -> str:
    """Probability of the token where it is among the likeliest, else that it is below them."""
    shares = [float(share) for label, share in comparison.model["prediction"]]
    for label, share in comparison.model["prediction"]:
        if label == comparison.target.label:
            return f"{100 * share:.0f} %"
    return f"< {100 * min(shares):.0f} %" if shares else ""


def _first_words(comparison: Comparison, col: methods.ScoreColumn) -> str:
    """The method's input dependence where something was written, then its strongest words."""
    shares = comparison.input_shares()
    share = percent(shares[col.method]) if shares else ""
    words = []
    scored = [pair for pair in methods.every_word(comparison, col) if pair[0].score]
    for word, written in sorted(scored, key=lambda pair: -abs(pair[0].score))[:TOP_WORDS]:
        mark = methods.MARKS.get((col.sign(word), col.unsure(word)), "")
        text = word.text.strip()
        words.append(f"{mark}{f'‹{text}›' if written else text}")
    first = f"{share}{' text' if '%' in share else ''}: " if share else ""
    return first + ", ".join(words)
