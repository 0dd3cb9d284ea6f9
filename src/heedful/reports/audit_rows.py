"""Single rows of an audit: those that the model got wrong, or of pictures a few examples.

A text is shaded word by word. A picture is drawn in small, with the map of the recommended method; if no
method is recommended, without a map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.audits.result import Audit
from heedful.audits.shown_rows import MAX_WORDS, ShownRow
from heedful.core.document import (
    Fold,
    Group,
    Legend,
    Node,
    Only,
    Paragraph,
    PictureMap,
    Piece,
    Section,
    Span,
    UnitMap,
    nodes,
)
from heedful.core.numbers import signed
from heedful.io.labels import SHOWN_LABELS
from heedful.io.previews import preview_unit, read_preview
from heedful.modalities.image import ImageInput
from heedful.modalities.image_codec import NOT_SHOWN
from heedful.reports.picture_map import drawn_map, plain_picture

OPEN_TEXTS = 2  # the others are folded
NOT_SHADED = "No method is recommended, so the {many} are not shaded."


def labels(audit: Audit) -> str:
    """How often the prediction is the label."""
    results = []
    if audit.labelled:
        results.append(
            f"The prediction is the label on {audit.right:,} of {audit.labelled:,} labelled "
            f"{audit.verdict.words.many}."
        )
    if audit.unknown:
        what = "1 label names" if audit.unknown == 1 else f"{audit.unknown:,} labels name"
        results += [f"{what} no label of the model.", *_unknown_labels(audit)]
    return " ".join(results)


def _unknown_labels(audit: Audit) -> list[str]:
    """Which labels these are, of the first rows, and what they might have been."""
    names = list(dict(audit.made.get("model", {})).get("labels") or ())
    if len(names) < 2:  # a value, not a choice
        return []
    known = ", ".join(f"{name} ({place})" for place, name in enumerate(names[:SHOWN_LABELS]))
    known += ", …" if len(names) > SHOWN_LABELS else ""
    return [
        f'Row {each["row"]}: the label "{each["label"][:60]}" is none of {known}; '
        f"its {audit.verdict.words.noun} counts as unlabelled."
        for each in audit.unknown_labels
    ]


def shown_rows(audit: Audit) -> Node | None:
    """Examples are pictures, so a terminal has none."""
    words, rows = audit.verdict.words, audit.mistakes or audit.examples
    if not rows:
        return None
    shaded = [one for one in rows if one.method]
    drawn = any(one.preview for one in rows)
    legend: Node | None = None
    if shaded:
        signs = any(one.signed for one in shaded), any(not one.signed for one in shaded)
        legend = Legend(*signs, hatched=drawn, parts=words.parts)
        if drawn:  # a terminal names parts of pictures and marks none
            legend = Only("html", (legend,))
    by = f"The {words.parts} are shaded by {audit.verdict.use}." if shaded else ""
    if drawn and not shaded:
        by = NOT_SHADED.format(many=words.many)
    if audit.examples and not audit.mistakes:
        lead = f"The first {words.counted(len(rows))} of the audit. {by}"
        return Only("html", (Section("Examples", nodes(_tiles(audit), legend), lead, "examples"),))
    count = audit.labelled - audit.right
    some = f"The first {len(rows)} of {count:,} mistakes:" if count > len(rows) else ""
    lead = " ".join(filter(None, (labels(audit), by, some)))
    title = f"{words.many.capitalize()} that the model got wrong"
    return Section(title, nodes(*_wrong(audit, rows), legend), lead, "mistakes")


def _tiles(audit: Audit) -> Group:
    """Pictures side by side."""
    unit = str(dict(audit.made.get("settings") or {}).get("unit", ""))
    rows, wrong = audit.mistakes or audit.examples, bool(audit.mistakes)
    return Group(tuple(_tile(one, unit, wrong) for one in rows), "maps rows")


def _wrong(audit: Audit, rows: Sequence[ShownRow]) -> list[Node]:
    """Of texts the first ones, the others folded. Of pictures a terminal names the strongest parts."""
    texts = [_text(one) for one in rows]
    more = Fold(f"{len(rows) - OPEN_TEXTS} more", nodes(*texts[OPEN_TEXTS:]))
    below = nodes(*texts[:OPEN_TEXTS], more if len(rows) > OPEN_TEXTS else None)
    if not any(one.preview for one in rows):
        return list(below)
    return [Only("html", (_tiles(audit),)), Only("console", below)]


# --- one row ---------------------------------------------------------------------------------------


def _said(one: ShownRow, wrong: bool = True) -> tuple[str | Span, ...]:
    if wrong:
        but = (", but the label is ", Span(one.label, "strong"))
        return ("predicted ", Span(one.prediction, "strong"), *but)
    return ("predicted ", Span(one.prediction, "strong"), ", as labelled" if one.label else "")


def _text(one: ShownRow) -> list[Node]:
    said = ("Row ", f"{one.row}{f' ({one.file})' if one.file else ''}: ", *_said(one))
    most = _largest(one.scores)
    pieces: list[Piece] = []
    for place, (word, score) in enumerate(zip(one.words, one.scores, strict=True)):
        text = word.rstrip()
        unit = MAX_WORDS * one.row + place  # words of other texts have other numbers
        pieces.append(Piece(text, score / most if math.isfinite(score) else 0.0, signed(score), unit))
        pieces += [Piece(word[len(text) :])] if text != word else []
    before, after = (Piece("… "),) * one.cut[0], (Piece("…"),) * one.cut[1]
    shown = [UnitMap((*before, *pieces, *after), one.signed, quoted=not one.file)] if pieces else []
    return [Paragraph(said), *shown]


def _largest(scores: Sequence[float]) -> float:
    return max((abs(s) for s in scores if math.isfinite(s)), default=0.0) or 1.0


def _tile(one: ShownRow, unit: str, wrong: bool) -> Section:
    """The picture in small with its map; a picture that is gone is named by its path."""
    title = one.file or f"Row {one.row}"
    inside: list[Node] = []
    if one.preview:
        x = read_preview(one.preview)
        gone = next((note for note in x.notes if note.startswith(NOT_SHOWN)), "")
        inside.append(Paragraph(f"{gone[:1].upper()}{gone[1:]}.", "soft") if gone else _map(one, x, unit))
    said = (f"Row {one.row}: " if one.file else "", *_said(one, wrong))
    return Section(title, tuple(inside), said, "map", minor=True)


def _map(one: ShownRow, x: ImageInput, unit: str) -> PictureMap:
    if not one.unit_scores:
        return plain_picture(x, small=True)
    name, numbers = preview_unit(x, unit)
    most = _largest(one.unit_scores)
    known = [one.unit_scores[n] if 0 <= n < len(one.unit_scores) else 0.0 for n in numbers]
    shares = [score / most if math.isfinite(score) else 0.0 for score in known]
    return drawn_map(x, name, shares, [signed(score) for score in known], one.signed, one.method)
