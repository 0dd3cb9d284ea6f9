"""Scores laid on our units: through characters, words and tokens, or by their number.

    align_scores        Given -> one score per unit

What has no certain place in the text is refused: a score on the wrong word would be weighed all the same.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from heedful.audits.score_formats import Cut, Given, is_whole
from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.modalities.text import TextInput
from heedful.modalities.text_spans import split_words, trim

AlignedPieces = list[
    tuple[Cut, list[int]]
]  # pieces of a text: characters, and our tokens (none: cut by others)

PLACES = "Give (start, end, score) for each piece"
SPECIAL = frozenset(["[CLS]", "[SEP]", "[PAD]", "<s>", "</s>", "<pad>", "<bos>", "<eos>", "<|endoftext|>"])
MAX_UNCOVERED_SHARE = 1 / 4  # most of the visible characters that may have no score
SHOWN_PIECES = 6  # pieces of a cut that an error shows


def align_scores(given: Given, x: TextInput, unit: str, column: int | str | None = None) -> Floats:
    """One score per unit of `x.units(unit)`. Of several columns, `column` or the target names the one."""
    values = [row[_column(given, column)] for row in given.scores]
    if given.spans:
        return _spread(values, given.spans, x, unit)
    if given.pieces:
        return _by_pieces(values, given.pieces, x, unit)
    return _by_count(values, x, unit)


def align_map(given: Given, x: Input, unit: str) -> Floats:
    """One score per unit from a map with one score per atom, or from one score per unit in any shape."""
    table, units = np.array(given.scores), x.units(unit)
    if table.shape == x.map_shape:
        return units.sums(table.ravel())
    if table.size == len(units):
        return np.asarray(table.ravel(), dtype=np.float64)
    rows, columns = x.map_shape or (len(x), 1)
    raise HeedfulError(
        f"a map of {table.shape[0]} × {table.shape[1]} scores does not fit the {x.noun}",
        f"the model sees {rows} × {columns} {x.atom}s (rows × columns), cut into {len(units)} units",
        "Give one score for each of either",
    )


def _column(given: Given, column: int | str | None) -> int:
    width = len(given.scores[0])
    chosen: Any = given.target if column is None else column
    if width == 1:
        _check_only(given, chosen)
        return 0
    if is_whole(chosen) and 0 <= chosen < width:
        return int(chosen)
    bare = chosen.strip() if isinstance(chosen, str) else None
    named = [i for i, name in enumerate(given.outputs) if chosen == name or bare == _plain(name).strip()]
    if len(named) == 1:
        return named[0]
    names = f" ({_joined(given.outputs)})" if given.outputs else ""
    raise HeedfulError(
        f"the scores have {width} columns{names} and "
        + (
            "none is chosen"
            if chosen is None
            else f"{chosen!r:.60} is {'several' if named else 'none'} of them"
        ),
        "each explains another output",
        "Give only the column of what is explained, e.g. explanation[:, 0] of shap",
    )


def _check_only(given: Given, chosen: Any) -> None:
    """One column that says which output it explains must explain the one that is judged."""
    if len(given.outputs) != 1 or not isinstance(chosen, str) or not chosen:
        return
    name = _plain(given.outputs[0]).strip()
    if name.casefold() != chosen.strip().casefold():
        raise HeedfulError(
            f"the scores explain {name!r:.60}",
            f"what is tested here is {chosen.strip()!r:.60}",
            f"Give target={name!r:.60}, or the column of {chosen.strip()!r:.60}",
        )


def _spread(values: Sequence[float], spans: Sequence[Cut], x: TextInput, unit: str) -> Floats:
    """A span's score goes to the units it overlaps, in proportion to its visible characters in each."""
    owners, result = _owners(x, unit), np.zeros(len(x.units(unit)))
    for value, (start, end) in zip(values, spans, strict=True):
        if not 0 <= start <= end <= len(x.text):
            raise HeedfulError(
                f"({start}, {end}) lies outside the text", f"it has {len(x.text)} characters", PLACES
            )
        inside = range(start, end)
        shares = Counter(number for i in inside if not x.text[i].isspace() for number in owners[i])
        shares = shares or Counter(number for i in inside for number in owners[i])
        if not shares and (value or x.text[start:end].strip()):
            raise HeedfulError(
                f"({start}, {end}) {x.text[start:end]!r:.40} contains no {unit} that the model reads",
                fix="Leave special tokens, and what is cut off, out of the scores",
            )
        for number, count in shares.items():
            result[number] += value * count / shares.total()
    return result


def _owners(x: TextInput, unit: str) -> list[list[int]]:
    """The units of each character: several where tokens are bytes of one character."""
    owners: list[list[int]] = [[] for _ in x.text]
    for number, positions in enumerate(x.units(unit)):
        spans = [x.offsets[t] for t in positions]
        spans += [] if unit == "token" else [x.word_spans[x.words[t]] for t in positions]
        for i in {i for span in spans for i in range(*span)}:
            owners[i].append(number)
    return owners


def _align_pieces(values: Sequence[float], cut: AlignedPieces, x: TextInput, unit: str) -> Floats:
    """Tokens of one unit go to it as they are, special tokens nowhere; all others are spread."""
    home = {t: number for number, positions in enumerate(x.units(unit)) for t in positions}
    result, rest = np.zeros(len(x.units(unit))), []
    for value, (span, positions) in zip(values, cut, strict=True):
        homes = {home[t] for t in positions if t in home}
        if len(homes) == 1:
            result[homes.pop()] += value
        elif homes or not positions:
            rest.append((value, span))
    return result + _spread([value for value, _ in rest], [span for _, span in rest], x, unit)


def _cuts(x: TextInput, unit: str) -> dict[str, AlignedPieces]:
    every: dict[str, Sequence[list[int]]] = {f"{name}s": x.units(name) for name in (unit, "word", "token")}
    every["tokens with the special ones"] = [[t] for t in range(len(x))]
    cuts = {name: [(_extent(x, group), group) for group in groups] for name, groups in every.items()}
    return cuts | {"words between spaces": [(match.span(), []) for match in re.finditer(r"\S+", x.text)]}


def _extent(x: TextInput, positions: Sequence[int]) -> Cut:
    start, end = min(x.offsets[t][0] for t in positions), max(x.offsets[t][1] for t in positions)
    return trim(x.text, (start, end))


def _by_count(values: Sequence[float], x: TextInput, unit: str) -> Floats:
    cuts: dict[tuple[Cut, ...], tuple[str, AlignedPieces]] = {}  # the same spans under two names are one cut
    for name, cut in _cuts(x, unit).items():
        cuts.setdefault(tuple(span for span, _ in cut), (name, cut))
    fitting = [cut for spans, (_, cut) in cuts.items() if len(spans) == len(values)]
    if len(fitting) == 1:
        return _align_pieces(values, fitting[0], x, unit)
    shown = [
        f"{len(cut)} {name} ({_joined(_text_of(x, *piece) for piece in cut)})"
        for name, cut in cuts.values()
        if not fitting or len(cut) == len(values)
    ]
    if fitting:
        raise HeedfulError(f"{len(values)} scores fit {' as well as '.join(shown)}", fix=PLACES)
    raise HeedfulError(f"there are {len(values)} scores, but the text has {', '.join(shown)}", fix=PLACES)


def _text_of(x: TextInput, span: Cut, positions: Sequence[int]) -> str:
    return x.text[slice(*span)] or "".join(x.tokens[t] for t in positions)


def _joined(pieces: Iterable[str]) -> str:
    every = list(pieces)
    return "|".join([f"{piece:.30}" for piece in every[:SHOWN_PIECES]] + ["…"] * (len(every) > SHOWN_PIECES))


def _by_pieces(values: Sequence[float], pieces: Sequence[str], x: TextInput, unit: str) -> Floats:
    """Our own tokens need no search; others are looked for as they are, as bytes, then without accents."""
    special = SPECIAL | {token for token, is_special in zip(x.tokens, x.special, strict=True) if is_special}
    content = [t for (t,) in x.units("token")]
    kept = [i for i, piece in enumerate(pieces) if piece not in special]
    if [pieces[i] for i in kept] == [x.tokens[t] for t in content]:
        return _align_pieces([values[i] for i in kept], [(x.offsets[t], [t]) for t in content], x, unit)
    furthest = 0
    for fold, forms in _readings(pieces):
        result = _search(x.text, fold(x.text), pieces, forms, special)
        if not isinstance(result, int):
            break
        furthest = max(furthest, result)
    else:
        why = f"number {furthest} (from 0), it is not there after the pieces before it"
        raise HeedfulError(f"{pieces[furthest]!r:.60} cannot be found in the text", why, PLACES)
    both = zip(values, result, strict=True)
    placed = [(value, span) for value, span in both if span and x.text[slice(*span)].strip()]
    owners, covered = _owners(x, unit), {i for _, span in placed for i in range(*span)}
    read = {i for i in fold(x.text)[1] if owners[i]}
    if len(read - covered) > MAX_UNCOVERED_SHARE * len(read):
        part = f"{len(read & covered)} of {len(read)}"
        raise HeedfulError(f"the pieces contain only {part} visible characters of the text", fix=PLACES)
    return _spread([value for value, _ in placed], [span for _, span in placed], x, unit)


Folded = tuple[str, list[int]]  # what is compared, and the character of the text each part of it came from
Forms = Callable[[str], list[str]]  # a piece as it may stand in what is compared, the likeliest last


def _readings(pieces: Sequence[str]) -> Iterable[tuple[Callable[[str], Folded], Forms]]:
    from heedful.nn.bpe import CHAR_TO_BYTE

    def forms(piece: str, fold: Callable[[str], Folded]) -> list[str]:
        return [fold(form)[0] or form.strip() for form in (piece, _plain(piece))]

    yield _folded, lambda piece: forms(piece, _folded)
    named = any(_BYTE.fullmatch(piece) for piece in pieces)  # <0xE4>: SentencePiece; else GPT-2's alphabet

    def spelt(piece: str) -> list[str]:
        if _BYTE.fullmatch(piece):
            return [chr(int(piece[3:5], 16))]
        if named or not all(c in CHAR_TO_BYTE for c in piece):
            return [_bytes(_plain(piece))[0]]
        return [_bytes("".join(chr(CHAR_TO_BYTE[c]) for c in piece), "latin-1")[0]]

    yield _bytes, spelt
    yield _bare, lambda piece: forms(piece, _bare)


_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def _plain(piece: str) -> str:
    """Without the marks tokenizers put on it."""
    piece = piece[2:] if piece.startswith("##") and len(piece) > 2 else piece
    return piece.removesuffix("</w>").translate(dict.fromkeys(map(ord, "ĠĊ▁"), " "))


def _folded(text: str, without: Sequence[str] = ()) -> Folded:
    """Small letters, taken apart by Unicode (NFKD), without white space."""
    parts = [(c, i) for i, char in enumerate(text) for c in unicodedata.normalize("NFKD", char).casefold()]
    parts = [(c, i) for c, i in parts if not c.isspace() and unicodedata.category(c) not in without]
    return "".join(c for c, _ in parts), [i for _, i in parts]


def _bare(text: str) -> Folded:
    """Without accents and invisible characters, too, as uncased BERT reads it."""
    return _folded(text, ("Mn", "Cf", "Cc"))


def _bytes(text: str, encoding: str = "utf-8") -> Folded:
    """Bytes, each written as one character, without those of ASCII white space."""
    parts = [(chr(b), i) for i, c in enumerate(text) for b in c.encode(encoding, "replace")]
    parts = [(c, i) for c, i in parts if c not in " \t\n\r\f\v"]
    return "".join(c for c, _ in parts), [i for _, i in parts]


def _search(
    text: str, folded: Folded, pieces: Sequence[str], forms: Forms, special: Iterable[str]
) -> list[Cut | None] | int:
    """Where each piece stands, from left to right (None: it has no place), or the first one not found."""
    read, at = folded
    starts = [start for start, _ in split_words(text)]
    words = [bisect(starts, i) for i in at]
    edges = {i for i, word in enumerate(words) if not i or word != words[i - 1]} | {len(words)}
    cursor, result = 0, list[Cut | None]()
    for number, piece in enumerate(pieces):
        tries = forms(piece)
        start, form = cursor, next((t for t in tries if t and read.startswith(t, cursor)), "")
        if not form and (not tries[-1] or piece.strip() in special):
            result.append(None)
            continue
        if not form:
            form = tries[-1]
            start = _ahead(read, form, cursor, edges)
        if start < 0:
            return number
        cursor = start + len(form)
        result.append((at[start], at[cursor - 1] + 1))
    return result


def _ahead(read: str, form: str, cursor: int, edges: set[int]) -> int:
    """The next place where the piece is a whole word, else where it begins one; -1 for none."""
    begins, place = -1, read.find(form, cursor)
    while place >= 0:
        if place in edges and place + len(form) in edges:
            return place
        begins = place if begins < 0 and place in edges else begins
        place = read.find(form, place + 1)
    return begins
