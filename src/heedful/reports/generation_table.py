"""What a model wrote: the words of the prompt that mattered most, then each token with its strongest words.

                     text's share
    token     p      of tokens     lime                                 random (control)
    ·Paris    77 %   71 %          83 % text: ▲France, ▲capital, △‹is›  64 % text: ▲The, ...

A mark is a sign; an open one is unsure. ‹ › marks a word that was
already written. The percentage is the method's input dependence (heedful.comparisons.input_share).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from heedful.comparisons.result import Comparison, share_by_count
from heedful.core.defaults import CONTROL
from heedful.core.document import Bullets, Cell, Column, Document, Paragraph, Row, Table, nodes
from heedful.core.numbers import percent
from heedful.core.phrases import listed
from heedful.reports import columns as methods
from heedful.reports.word_labels import numbered

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
        nodes(
            Bullets(tuple(filter(None, (_mattered(found, at) for at in range(len(names)))))),
            table,
            Paragraph(legend, "soft"),
            Paragraph(SHARES, "soft") if shares else None,
        ),
    )


def _mattered(found: Sequence[Comparison], at: int) -> str:
    """The words of the prompt with the largest share of one method's scores, mean over the tokens."""
    each = [_prompt_shares(comparison, methods.columns(comparison)[at]) for comparison in found]
    known = [shares for shares in each if shares]
    if not known:
        return ""
    texts = known[0][0]
    # a written token may join the last word of the prompt: such a token has other words
    means = np.mean([shares for words, shares in known if words == texts], axis=0)
    order = [place for place in np.argsort(-means, kind="stable") if means[place] > 0][:TOP_WORDS]
    if not order:
        return ""
    shares = [percent(float(means[place])) + ("" if n else " of its scores") for n, place in enumerate(order)]
    words = listed([f"“{texts[place]}” ({share})" for place, share in zip(order, shares, strict=True)])
    col = methods.columns(found[0])[at]
    if col.method == CONTROL:
        return f"Control: random scores would name {words}."
    return f"By {col.label}, the words of the prompt that mattered most are {words}."


def _prompt_shares(comparison: Comparison, col: methods.ScoreColumn) -> tuple[list[str], list[float]] | None:
    """Words of the prompt, and the share of each in all scores of this token, signs aside."""
    pairs = methods.every_word(comparison, col)
    total = sum(abs(word.score) for word, _ in pairs if math.isfinite(word.score))
    own = [word for word, written in pairs if not written]
    if not total or not own:
        return None
    shares = [abs(word.score) / total if math.isfinite(word.score) else 0.0 for word in own]
    return numbered([word.text for word in own]), shares


LEGEND = "▲ towards the token  ▼ away from it  △ ▽ the sign is unsure  no mark: the method has no sign"


SHARES = (
    "41 % text: 41 % of the method's scores (signs aside) are on the prompt. The rest is on words already "
    "written (marked ‹ ›). The text's share of tokens is what equal scores would give."
)


def _probability(comparison: Comparison) -> str:
    """Probability of the token where it is among the likeliest, else that it is below them."""
    shares = [float(share) for label, share in comparison.model["prediction"]]
    for label, share in comparison.model["prediction"]:
        if label == comparison.target.label:
            return percent(share)
    return f"< {percent(min(shares))}" if shares else ""


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
