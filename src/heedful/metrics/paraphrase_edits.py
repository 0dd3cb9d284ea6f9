"""Do the scores stay the same if the text is written differently but means the same?

    edit-sensitivity = max over edits of |phi(x') - phi(x)| / |phi(x)|, over units that were not edited; low

    case           first letter of the text changed from lower to upper or back; all in lower case
    spacing        two spaces between words instead of one, or one instead of many
    typography     straight and curly quotes, "..." and the ellipsis, hyphens and dashes between blanks
    punctuation    the full stop at the end added or removed
    contraction    "do not" and "don't", "it is" and "it's" ..., both ways, all places at once
    spelling       British and American, all places at once
    synonym        a word from a small list replaced by its synonym, one place at a time

An edit is a list of replaced pieces of the text, so every other unit has a place in the new text: scores are
compared unit by unit, never by position. An edit counts if the tokenizer sees it, if at least half of the
units are not edited, and if the output hardly changes: |f(x') - f(x)| <= TOLERANCE |f(x) - f(nothing)|.
`trail` says for every edit whether it counted, and why. English only. A synonym from the list may have
another meaning in some contexts.

The value is nan for pairs, chats and cut texts, for targets at a position of the text, and for texts to which
no edit applies.

Cost: one explanation per edit that counts, one model input per edit, and one for the empty text. After
Ribeiro et al. 2018 (edits that keep the meaning) and Yeh et al. 2019 (max-sensitivity).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.core.arrays import Span
from heedful.core.model import Model
from heedful.core.registry import MetricRows, metric
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.robustness import own_seed
from heedful.modalities.text import TextInput, text_of

TOLERANCE = 0.1
MIN_PAIRED_SHARE = 0.5
Piece = tuple[int, int, str]  # characters [start, end) of the text become this

CONTRACTIONS = (
    ("do not", "don't"),
    ("does not", "doesn't"),
    ("did not", "didn't"),
    ("is not", "isn't"),
    ("are not", "aren't"),
    ("was not", "wasn't"),
    ("were not", "weren't"),
    ("could not", "couldn't"),
    ("would not", "wouldn't"),
    ("should not", "shouldn't"),
    ("have not", "haven't"),
    ("has not", "hasn't"),
    ("had not", "hadn't"),
    ("cannot", "can't"),
    ("will not", "won't"),
    ("it is", "it's"),
    ("that is", "that's"),
    ("there is", "there's"),
    ("I am", "I'm"),
    ("I have", "I've"),
    ("you are", "you're"),
    ("we are", "we're"),
    ("they are", "they're"),
)
SPELLINGS = (
    ("colour", "color"),
    ("favourite", "favorite"),
    ("humour", "humor"),
    ("flavour", "flavor"),
    ("behaviour", "behavior"),
    ("honour", "honor"),
    ("neighbour", "neighbor"),
    ("theatre", "theater"),
    ("centre", "center"),
    ("grey", "gray"),
    ("realise", "realize"),
    ("recognise", "recognize"),
    ("organise", "organize"),
    ("apologise", "apologize"),
    ("analyse", "analyze"),
    ("defence", "defense"),
    ("travelling", "traveling"),
    ("cancelled", "canceled"),
    ("programme", "program"),
    ("jewellery", "jewelry"),
)
SYNONYMS = (
    ("movie", "film"),
    ("big", "large"),
    ("begin", "start"),
    ("buy", "purchase"),
    ("quick", "fast"),
    ("smart", "clever"),
    ("maybe", "perhaps"),
    ("almost", "nearly"),
    ("whole", "entire"),
    ("often", "frequently"),
    ("children", "kids"),
    ("ending", "conclusion"),
    ("actor", "performer"),
    ("story", "tale"),
    ("whilst", "while"),
    ("although", "though"),
    ("help", "assist"),
    ("seat", "chair"),
    ("phone", "telephone"),
    ("photo", "photograph"),
    ("TV", "television"),
    ("sofa", "couch"),
)
TYPOGRAPHY = (("'", "\u2019"), ("...", "\u2026"), (" - ", " \u2013 "), (" \u2014 ", " - "))


@dataclass(frozen=True)
class TextEdit:
    """A text written otherwise."""

    name: str
    pieces: tuple[Piece, ...]  # in reading order, apart from each other

    def apply(self, text: str) -> str:
        out, cursor = [], 0
        for start, end, new in self.pieces:
            out += [text[cursor:start], new]
            cursor = end
        return "".join([*out, text[cursor:]])

    def place(self, span: Span) -> Span | None:
        """Where a stretch of the old text stands in the new one; None if the edit touched it."""
        start, end = span
        if any(a < end and start < b for a, b, _ in self.pieces):
            return None
        moved = sum(len(new) - (b - a) for a, b, new in self.pieces if b <= start)
        return start + moved, end + moved


@dataclass(frozen=True)
class EditOutcome:
    """What became of an edit."""

    edit: str
    text: str
    why: str  # "" if it counts, else why it does not
    change: float = float("nan")  # of the output, as a share of f(x) - f(nothing)
    distance: float = float("nan")  # of the explanation, relative


# --- what can be edited ------------------------------------------------------------------------------------


def edits_of(text: str) -> list[TextEdit]:
    """Every edit that changes the text, no text twice."""
    text_edits = [TextEdit(name, tuple(pieces)) for name, make in KINDS for pieces in make(text)]
    results = {text: None}
    kept = []
    for edit in text_edits:
        if edit.pieces and (new := edit.apply(text)) not in results:
            results[new] = None
            kept.append(edit)
    return kept


def _case(text: str) -> Iterator[list[Piece]]:
    if first := re.search(r"[^\W\d_]", text):
        yield [(first.start(), first.end(), first.group().swapcase())]
    yield [
        (m.start(), m.end(), m.group().lower())
        for m in re.finditer(r"[^\W\d_]+", text)
        if m.group() != m.group().lower()
    ]


def _spacing(text: str) -> Iterator[list[Piece]]:
    yield [(m.start(), m.end(), "  ") for m in re.finditer(r"(?<=\S) (?=\S)", text)]
    yield [(m.start(), m.end(), " ") for m in re.finditer(r"(?<=\S) {2,}(?=\S)", text)]


def _typography(text: str) -> Iterator[list[Piece]]:
    for pair in TYPOGRAPHY:
        for old, new in (pair, pair[::-1]):
            yield [(m.start(), m.end(), new) for m in re.finditer(re.escape(old), text)]


def _punctuation(text: str) -> Iterator[list[Piece]]:
    end = len(text.rstrip())
    if end and text[end - 1] == "." and not text[:end].endswith(".."):
        yield [(end - 1, end, "")]
    elif end and text[end - 1].isalnum():
        yield [(end, end, ".")]


def _listed(pairs: Sequence[tuple[str, str]]) -> Callable[[str], Iterator[list[Piece]]]:
    """All places at once, from the first of each pair to the second, and back."""

    def make(text: str) -> Iterator[list[Piece]]:
        for way in (1, -1):
            yield _swapped(text, [pair[::way] for pair in pairs])

    return make


def _synonyms(text: str) -> Iterator[list[Piece]]:
    for piece in _swapped(text, [*SYNONYMS, *(pair[::-1] for pair in SYNONYMS)]):
        yield [piece]


def _swapped(text: str, pairs: Sequence[tuple[str, ...]]) -> list[Piece]:
    """Whole words alone; a capital letter at the beginning is kept."""
    results = [
        (m.start(), m.end(), new[0].upper() + new[1:] if m.group()[0].isupper() else new)
        for old, new in pairs
        for m in re.finditer(rf"(?<!\w){re.escape(old)}(?![\w'\u2019])", text, re.IGNORECASE)
    ]
    apart: list[Piece] = []
    for piece in sorted(results):
        if not apart or piece[0] >= apart[-1][1]:
            apart.append(piece)
    return apart


KINDS: tuple[tuple[str, Callable[[str], Iterator[list[Piece]]]], ...] = (
    ("case", _case),
    ("spacing", _spacing),
    ("typography", _typography),
    ("punctuation", _punctuation),
    ("contraction", _listed(CONTRACTIONS)),
    ("spelling", _listed(SPELLINGS)),
    ("synonym", _synonyms),
)


# --- what explanations make of it --------------------------------------------------------------------------


@metric(
    "edit-sensitivity",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Ribeiro et al. 2018; Yeh et al. 2019",
    needs={"text"},
    expensive=True,
    rows=lambda model, x, target, unit: _rows(model, text_of(x)),
)
def edit_sensitivity(subject: MetricInput, rng: np.random.Generator) -> float:
    """The largest relative change of the scores under edits of the text that keep its meaning.

    Limitations: Edits that keep the meaning for people may change it for the model. Then the scores should
    change, too.
    """
    counted = [trial.distance for trial in trail(subject) if not trial.why]
    return max(counted, default=float("nan"))


def _rows(model: Model, x: TextInput) -> MetricRows:
    """The text and nothing, each edit, and an explanation of each."""
    edited = tuple(model.encode(edit.apply(x.text), long="truncate") for edit in edits_of(x.text))
    return MetricRows(2 + len(edited), again=edited)


def trail(subject: MetricInput) -> list[EditOutcome]:
    """Every edit of the text, whether it counts, how far it moved the explanation; []: none can be tried."""
    item, d = subject.item, len(subject.scores)
    x = text_of(item.x)
    if item.target.position is not None or not d or not _plain(subject):
        return []
    full, nothing = subject.session.values(
        x, item.target, np.repeat([[True], [False]], d, axis=1), None, subject.unit
    ).tolist()
    if full == nothing:
        return []
    return [_tried(subject, edit, full, abs(full - nothing)) for edit in edits_of(x.text)]


def _plain(subject: MetricInput) -> bool:
    """Whether the text alone gives the input back."""
    x = text_of(subject.item.x)
    return set(x.segments) <= {0, -1} and text_of(subject.model.encode(x.text, long="truncate")).ids == x.ids


def _tried(subject: MetricInput, edit: TextEdit, full: float, rise: float) -> EditOutcome:
    item, x = subject.item, text_of(subject.item.x)
    text = edit.apply(x.text)
    new = text_of(subject.model.encode(text, long="truncate"))
    if (new.ids, new.tokens) == (x.ids, x.tokens):
        return EditOutcome(edit.name, text, "the tokenizer does not see it")
    pairs = aligned(x, new, edit, subject.unit)
    if len(pairs) < MIN_PAIRED_SHARE * len(subject.scores):
        return EditOutcome(edit.name, text, f"it leaves {len(pairs)} of {len(subject.scores)} units alone")
    whole = np.ones((1, len(new.units(subject.unit))), dtype=bool)
    change = abs(float(subject.session.values(new, item.target, whole, None, subject.unit)[0]) - full) / rise
    if change > TOLERANCE:
        return EditOutcome(
            edit.name, text, f"it changes the output by {change:.0%} of the text's effect", change
        )
    old = subject.scores[[i for i, _ in pairs]]
    if not old.any():
        return EditOutcome(edit.name, text, "the units it leaves alone have no scores", change)
    again = subject.again(subject.session, new, item.target, own_seed(subject))
    result = new.units(subject.unit).sums(again.scores)[[j for _, j in pairs]]
    return EditOutcome(edit.name, text, "", change, float(np.linalg.norm(result - old) / np.linalg.norm(old)))


def aligned(old: TextInput, new: TextInput, edit: TextEdit, unit: str) -> list[tuple[int, int]]:
    """(unit of the old text, the same unit of the new one) for every unit the edit left alone."""
    places = {span: j for j, span in enumerate(_spans(new, unit))}
    moved = [(i, edit.place(span)) for i, span in enumerate(_spans(old, unit))]
    return [(i, places[span]) for i, span in moved if span is not None and span in places]


def _spans(x: TextInput, unit: str) -> list[Span]:
    """Characters of each unit, without the blanks at its ends, which some tokenizers count in."""
    spans = []
    for positions in x.units(unit):
        start, end = x.offsets[positions[0]][0], x.offsets[positions[-1]][1]
        piece = x.text[start:end]
        spans.append((start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())))
    return spans
