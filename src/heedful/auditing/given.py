"""Scores made elsewhere (shap, captum, inseq, a file of one's own), read and laid on our units.

    read_given          whatever came for one text -> Given
    unit_scores         Given -> one score per unit
    read_scores_file    JSONL, many texts and methods -> ScoresFile

What has no certain place in the text is refused: a score on the wrong word would be weighed all the same.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import zlib
from base64 import b64decode
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from heedful.auditing.source import LINE
from heedful.errors import HeedfulError
from heedful.text import split_words, trim
from heedful.types import Encoded, Floats

Cut = tuple[int, int]
Laid = list[tuple[Cut, list[int]]]  # pieces of a text: characters, and our tokens (none: cut by others)

TAKEN = (
    "Give numbers, (word, score) or (start, end, score) in a list, a numpy array or torch tensor of one"
    " number per token, one text of a shap.Explanation, or what inseq saved (its path, or the mapping in it)"
)
PLACES = "Give (start, end, score) for each piece"
SPECIAL = frozenset(["[CLS]", "[SEP]", "[PAD]", "<s>", "</s>", "<pad>", "<bos>", "<eos>", "<|endoftext|>"])
UNCOVERED = 1 / 4  # most of the visible characters that may have no score
NAME = 100  # most characters of a method's name
SHOWN = 6  # pieces of a cut that an error shows


@dataclass(frozen=True)
class Given:
    """Scores of one method for one text, as they came from elsewhere."""

    scores: tuple[tuple[float, ...], ...]  # one row per piece, one column per output (usually one)
    pieces: tuple[str, ...] = ()  # the words or tokens the scores belong to, where they came along
    spans: tuple[Cut, ...] = ()  # characters of the text, where they came along
    outputs: tuple[str, ...] = ()  # names of the columns, where they came along
    target: Any = None  # what was explained, where it came along (a label, an index, ...)
    fitted_by: tuple[str, ...] | None = (
        None  # removal operators they were made with; () nothing; None unknown
    )


def read_given(value: Any, fitted_by: str | Sequence[str] | None = None, target: Any = None) -> Given:
    """Scores for one text. `fitted_by` names removal operators ("mask", "a,b"), "nothing" or "unknown"."""
    given = value if isinstance(value, Given) else _read(value)
    return replace(
        given,
        fitted_by=given.fitted_by if fitted_by is None else _operators(fitted_by),
        target=given.target if target is None else target,
    )


def _read(value: Any) -> Given:
    if isinstance(value, list | tuple) and len(value) == 1 and _is_tensor(value[0]):
        value = value[0]  # captum answers a tuple of inputs with a tuple
    if _is_tensor(value):
        return _made(_tensor(value))
    if isinstance(value, np.ndarray):
        return _made(_array(value))
    if isinstance(value, list | tuple):
        return _listed(value)
    if isinstance(value, str | Path):
        return _inseq(_json_file(Path(value)))
    if isinstance(value, Mapping):
        return _inseq(value)
    if hasattr(value, "values") and hasattr(value, "data"):
        return _shap(value)
    raise HeedfulError(f"scores cannot be a {type(value).__name__}", fix=TAKEN)


def _made(
    values: Any, pieces: Iterable[str] = (), spans: Iterable[Cut] = (), outputs: Iterable[str] = ()
) -> Given:
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    given = Given(tuple(map(tuple, table.tolist())), tuple(pieces), tuple(spans), tuple(outputs))
    if not table.size:
        raise HeedfulError("there are no scores", fix=TAKEN)
    if not np.isfinite(table).all():
        row = int(np.argwhere(~np.isfinite(table))[0, 0])
        raise HeedfulError(f"score {row} (from 0) is not a finite number", fix="Leave this text out")
    for name, beside in (("tokens", given.pieces), ("spans", given.spans)):
        if beside and len(beside) != len(table):
            raise HeedfulError(
                f"there are {len(table)} scores for {len(beside)} {name}", fix="Give one for each"
            )
    return given


def _operators(given: Any) -> tuple[str, ...] | None:
    names = given.split(",") if isinstance(given, str) else given
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise HeedfulError(f"fitted_by cannot be {given!r:.60}", fix='Give names, "nothing" or "unknown"')
    names = tuple(name.strip() for name in names)
    alone = {("nothing",): (), ("unknown",): None}
    if names in alone:
        return alone[names]
    if not all(names) or {"nothing", "unknown"} & set(names):
        raise HeedfulError(
            f"fitted_by cannot be {given!r:.60}", fix='Give names, or only "nothing" or "unknown"'
        )
    return names


def _is_tensor(value: Any) -> bool:
    return any(kind.__module__.split(".")[0] == "torch" for kind in type(value).__mro__)


def _tensor(value: Any) -> Floats:
    """(T,), (1, T), or with an embedding at the end, over which it is summed."""
    if not hasattr(value, "detach") or value.is_complex() or str(value.dtype) == "torch.bool":
        raise HeedfulError("this torch value holds no real numbers", fix=TAKEN)
    table = value.detach().cpu().double().numpy()
    table = table[0] if table.ndim > 1 and len(table) == 1 else table
    table = table.sum(-1) if table.ndim == 2 else table
    if table.ndim != 1:
        raise HeedfulError(f"a tensor of shape {tuple(value.shape)} does not hold one text", fix=TAKEN)
    return np.asarray(table, dtype=np.float64)


def _array(value: Any) -> Any:
    table = value[0] if value.ndim == 2 and len(value) == 1 else value
    if table.dtype.kind not in "fiu":
        raise HeedfulError(f"an array of {table.dtype} holds no scores", fix=TAKEN)
    if table.ndim != 1:
        raise HeedfulError(
            f"an array of shape {value.shape} is not one number per token",
            "its columns may be outputs or an embedding",
            "Choose an output (scores[:, i]) or sum the embedding (scores.sum(-1))",
        )
    return table


def _kind(item: Any) -> str:
    if isinstance(item, Real):
        return "number"
    if not isinstance(item, list | tuple):
        return ""
    if len(item) == 2 and isinstance(item[0], str):
        return "word"
    return "span" if len(item) == 3 and all(map(_whole, item[:2])) else ""


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _listed(items: Sequence[Any]) -> Given:
    if len(items) == 1 and isinstance(items[0], list | tuple) and not _kind(items[0]):
        items = items[0]
    kinds = {_kind(item) for item in items}
    if len(kinds) > 1 or "" in kinds:
        odd = next(item for item in items if _kind(item) in ("", *(kinds - {_kind(items[0])})))
        raise HeedfulError(f"{odd!r:.60} does not fit in a list of scores", fix=TAKEN)
    if kinds <= {"number"}:
        return _made([_number(item) for item in items])
    scores = [_number(item[-1]) for item in items]
    if kinds == {"word"}:
        return _made(scores, [item[0] for item in items])
    return _made(scores, spans=[(int(start), int(end)) for start, end, _ in items])


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise HeedfulError(f"a score cannot be {value!r:.60}", "it must be a number")
    try:
        return float(value)
    except OverflowError:
        raise HeedfulError("a score is too large", "it must be a finite number") from None


def _shap(value: Any) -> Given:
    """One text, or a list of one: then the tokens come in a list of one, too."""
    named = [_tokens(names) for names in (value.data, getattr(value, "feature_names", None))]
    values, several = value.values, max(texts for texts, _ in named)
    if several or np.ndim(values) == 3:
        if len(values) != 1:
            raise HeedfulError(f"this Explanation holds {len(values)} texts", fix="Give one: explanation[0]")
        values = values[0]
    table = np.asarray(values)
    if table.ndim not in (1, 2) or table.dtype.kind not in "fiu":
        raise HeedfulError(
            f"this Explanation holds no scores of one text: {table.dtype} {table.shape}", fix=TAKEN
        )
    outputs: Any = getattr(value, "output_names", None)
    outputs = [outputs] if isinstance(outputs, str) else list(outputs) if np.ndim(outputs) == 1 else []
    width = table.shape[1] if table.ndim == 2 else 1
    fits = len(outputs) == width and all(isinstance(name, str) for name in outputs)
    return _made(table, named[0][1] or named[1][1], outputs=map(str, outputs) if fits else ())


def _tokens(names: Any) -> tuple[int, list[str]]:
    """(how many lists, 0 if it is not a list of lists; the strings of the first)"""
    items = list(names) if isinstance(names, list | tuple) or np.ndim(names) else []
    lists = bool(items) and all(isinstance(item, list | tuple | np.ndarray) for item in items)
    strings = list(items[0]) if lists else items
    return len(items) if lists else 0, [str(s) for s in strings] if all(
        isinstance(s, str) for s in strings
    ) else []


def _json_file(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise HeedfulError(
            f"cannot read {str(path)!r:.200}", getattr(error, "strerror", "") or "", TAKEN
        ) from None
    if content.startswith(b"\x1f\x8b"):
        raise HeedfulError(f"{path.name} is compressed", fix="Save it with compress=False")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HeedfulError(f"{path.name} is not JSON", str(error), TAKEN) from None
    if not isinstance(data, Mapping):
        raise HeedfulError(f"{path.name} is not what inseq saves", "it holds no object", TAKEN)
    return data


def _inseq(data: Mapping[str, Any]) -> Given:
    """`FeatureAttributionOutput.save`: the tokens of the prompt, a column for each token that was written.

    What lies behind the first two dimensions (embedding, layers, heads) is summed. Rows after the prompt
    belong to what the model wrote itself, which is no part of the text.
    """
    from safetensors import SafetensorError

    try:
        every = _fields(data)["sequence_attributions"]
        if len(every) != 1:
            raise HeedfulError(f"inseq saved {len(every)} texts", fix="Save each alone: split_sequences=True")
        one = _fields(every[0])
        prompt, written = (
            [str(_fields(token)["token"]) for token in one[key]] for key in ("source", "target")
        )
        packed = one.get("source_attributions")
        table = _unpacked(one["target_attributions"] if packed is None else packed)[: len(prompt)]
        table = table.reshape(*table.shape[:2], -1).sum(-1) if table.ndim > 2 else table
        steps = written[one["attr_pos_start"] : one["attr_pos_end"]]
        width = table.shape[1]
    except (LookupError, TypeError, ValueError, AttributeError, SafetensorError, zlib.error) as error:
        raise HeedfulError("this is not what inseq saves", f"{type(error).__name__} {error}", TAKEN) from None
    return _made(table, prompt, outputs=steps if len(steps) == width else ())


def _fields(data: Any) -> Mapping[str, Any]:
    """inseq writes an object as {"__instance_type__", "attributes"}, or (primitives) as its attributes."""
    found = data["attributes"] if "__instance_type__" in data else data
    if not isinstance(found, Mapping):
        raise TypeError("an object without attributes")
    return found


def _unpacked(packed: Any) -> Floats:
    """Base64 of safetensors (inseq 0.6 and later), or an array with dtype and shape (earlier)."""
    from safetensors.numpy import load

    if isinstance(packed, str):
        try:
            return load(b64decode(packed, validate=True))["attribution"].astype(np.float64)
        except KeyError as error:
            fix = "Save it with scores_precision='float32'"
            raise HeedfulError(f"scores saved by inseq as {error} cannot be read", fix=fix) from None
    content, shape, dtype = packed["__ndarray__"], packed["shape"], np.dtype(packed["dtype"])
    if dtype.kind not in "fiu":
        raise TypeError(f"scores of {dtype}")
    if isinstance(content, str):
        head, _, body = content.partition(":")
        content = b64decode(body, validate=True)
        if head == "b64.gz":  # no more than the shape asks for
            most = min(LINE, int(np.prod(shape)) * dtype.itemsize)
            content = zlib.decompressobj(wbits=31).decompress(content, most)
        content = np.frombuffer(content, dtype)
    return np.asarray(content, dtype=np.float64).reshape(shape)


def unit_scores(given: Given, x: Encoded, unit: str, column: int | str | None = None) -> Floats:
    """One score per unit of `x.units(unit)`. Of several columns, `column` or the target names the one."""
    values = [row[_column(given, column)] for row in given.scores]
    if given.spans:
        return _spread(values, given.spans, x, unit)
    if given.pieces:
        return _by_pieces(values, given.pieces, x, unit)
    return _by_count(values, x, unit)


def _column(given: Given, column: int | str | None) -> int:
    width = len(given.scores[0])
    chosen: Any = given.target if column is None else column
    if width == 1:
        return 0
    if _whole(chosen) and 0 <= chosen < width:
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
        f"Choose one by its number, column=0 to column={width - 1}" + (", or by its name" if names else ""),
    )


def _spread(values: Sequence[float], spans: Sequence[Cut], x: Encoded, unit: str) -> Floats:
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
                f"({start}, {end}) {x.text[start:end]!r:.40} holds no {unit} that the model reads",
                fix="Leave special tokens, and what is cut off, out of the scores",
            )
        for number, count in shares.items():
            result[number] += value * count / shares.total()
    return result


def _owners(x: Encoded, unit: str) -> list[list[int]]:
    """The units of each character: several where tokens are bytes of one character."""
    owners: list[list[int]] = [[] for _ in x.text]
    for number, positions in enumerate(x.units(unit)):
        spans = [x.offsets[t] for t in positions]
        spans += [] if unit == "token" else [x.word_spans[x.words[t]] for t in positions]
        for i in {i for span in spans for i in range(*span)}:
            owners[i].append(number)
    return owners


def _lay(values: Sequence[float], cut: Laid, x: Encoded, unit: str) -> Floats:
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


def _cuts(x: Encoded, unit: str) -> dict[str, Laid]:
    every = {f"{name}s": x.units(name) for name in (unit, "word", "token")}
    every["tokens with the special ones"] = [[t] for t in range(len(x))]
    cuts = {name: [(_extent(x, group), group) for group in groups] for name, groups in every.items()}
    return cuts | {"words between spaces": [(match.span(), []) for match in re.finditer(r"\S+", x.text)]}


def _extent(x: Encoded, positions: Sequence[int]) -> Cut:
    start, end = min(x.offsets[t][0] for t in positions), max(x.offsets[t][1] for t in positions)
    return trim(x.text, (start, end))


def _by_count(values: Sequence[float], x: Encoded, unit: str) -> Floats:
    cuts: dict[tuple[Cut, ...], tuple[str, Laid]] = {}  # the same spans under two names are one cut
    for name, cut in _cuts(x, unit).items():
        cuts.setdefault(tuple(span for span, _ in cut), (name, cut))
    fitting = [cut for spans, (_, cut) in cuts.items() if len(spans) == len(values)]
    if len(fitting) == 1:
        return _lay(values, fitting[0], x, unit)
    shown = [
        f"{len(cut)} {name} ({_joined(_text_of(x, *piece) for piece in cut)})"
        for name, cut in cuts.values()
        if not fitting or len(cut) == len(values)
    ]
    if fitting:
        raise HeedfulError(f"{len(values)} scores fit {' as well as '.join(shown)}", fix=PLACES)
    raise HeedfulError(f"there are {len(values)} scores, but the text has {', '.join(shown)}", fix=PLACES)


def _text_of(x: Encoded, span: Cut, positions: Sequence[int]) -> str:
    return x.text[slice(*span)] or "".join(x.tokens[t] for t in positions)


def _joined(pieces: Iterable[str]) -> str:
    every = list(pieces)
    return "|".join([f"{piece:.30}" for piece in every[:SHOWN]] + ["…"] * (len(every) > SHOWN))


def _by_pieces(values: Sequence[float], pieces: Sequence[str], x: Encoded, unit: str) -> Floats:
    """Our own tokens need no search; others are looked for as they are, as bytes, then without accents."""
    special = SPECIAL | {token for token, is_special in zip(x.tokens, x.special, strict=True) if is_special}
    content = [t for (t,) in x.units("token")]
    kept = [i for i, piece in enumerate(pieces) if piece not in special]
    if [pieces[i] for i in kept] == [x.tokens[t] for t in content]:
        return _lay([values[i] for i in kept], [(x.offsets[t], [t]) for t in content], x, unit)
    furthest = 0
    for fold, forms in _readings(pieces):
        found = _search(x.text, fold(x.text), pieces, forms, special)
        if not isinstance(found, int):
            break
        furthest = max(furthest, found)
    else:
        why = f"number {furthest} (from 0), it is not there after the pieces before it"
        raise HeedfulError(f"{pieces[furthest]!r:.60} cannot be found in the text", why, PLACES)
    both = zip(values, found, strict=True)
    placed = [(value, span) for value, span in both if span and x.text[slice(*span)].strip()]
    owners, covered = _owners(x, unit), {i for _, span in placed for i in range(*span)}
    read = {i for i in fold(x.text)[1] if owners[i]}
    if len(read - covered) > UNCOVERED * len(read):
        part = f"{len(read & covered)} of {len(read)}"
        raise HeedfulError(f"the pieces hold only {part} visible characters of the text", fix=PLACES)
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
    cursor, found = 0, list[Cut | None]()
    for number, piece in enumerate(pieces):
        tries = forms(piece)
        start, form = cursor, next((t for t in tries if t and read.startswith(t, cursor)), "")
        if not form and (not tries[-1] or piece.strip() in special):
            found.append(None)
            continue
        if not form:
            form = tries[-1]
            start = _ahead(read, form, cursor, edges)
        if start < 0:
            return number
        cursor = start + len(form)
        found.append((at[start], at[cursor - 1] + 1))
    return found


def _ahead(read: str, form: str, cursor: int, edges: set[int]) -> int:
    """The next place where the piece is a whole word, else where it begins one; -1 for none."""
    begins, place = -1, read.find(form, cursor)
    while place >= 0:
        if place in edges and place + len(form) in edges:
            return place
        begins = place if begins < 0 and place in edges else begins
        place = read.find(form, place + 1)
    return begins


@dataclass(frozen=True)
class ScoresFile:
    """Scores of many texts, known by their row in the data file or by the text itself."""

    methods: tuple[str, ...]
    by_row: Mapping[int, Mapping[str, Given]]
    by_text: Mapping[str, Mapping[str, Given]]
    digest: str  # SHA-256 of the file

    def of(self, row_number: int, text: str) -> dict[str, Given]:
        """Method -> scores of one row."""
        numbered, same = self.by_row.get(row_number, {}), self.by_text.get(text, {})
        if twice := sorted(numbered.keys() & same.keys()):
            raise HeedfulError(
                f"row {row_number} has two scores of {twice[0]!r}",
                "by its number and by its text",
                "Remove one",
            )
        return {**same, **numbered}


def read_scores_file(path: Path) -> ScoresFile:
    """JSONL, one object per text and method: `text` or `row` (from 0), `method`, `scores`; optional `spans`,
    `tokens`, `target`, `fitted_by`."""
    every: dict[int | str, dict[str, Given]] = {}
    methods: dict[str, None] = {}
    number, digest = 0, hashlib.sha256()
    try:
        with path.open("rb") as file:
            while line := file.readline(LINE + 1):
                number += 1
                digest.update(line)
                if line.strip():
                    key, method, given = _entry(line)
                    if method in every.setdefault(key, {}):
                        raise HeedfulError(f"{method!r} has scores for this text already", fix="Remove one")
                    every[key][method] = given
                    methods[method] = None
    except OSError as error:
        raise HeedfulError(f"cannot read {path}", error.strerror or str(error)) from None
    except HeedfulError as error:
        raise HeedfulError(f"line {number} of {path.name}: {error.what}", error.why, error.fix) from None
    if not methods:
        raise HeedfulError(f"{path} is empty", "it has no scores")
    rows = {key: found for key, found in every.items() if isinstance(key, int)}
    texts = {key: found for key, found in every.items() if isinstance(key, str)}
    return ScoresFile(tuple(methods), rows, texts, digest.hexdigest())


def _entry(line: bytes) -> tuple[int | str, str, Given]:
    data = _object(line)
    key = data.get("text", data.get("row"))
    if ("text" in data) == ("row" in data) or not isinstance(key, str if "text" in data else int):
        raise HeedfulError("no text is named", fix='Give either "text" (a string) or "row" (a whole number)')
    if isinstance(key, bool) or (isinstance(key, int) and key < 0):
        raise HeedfulError(f"row cannot be {key!r:.60}", "it is a whole number, 0 or more")
    method = data.get("method")
    if not isinstance(method, str) or not method.strip() or len(method) > NAME or not method.isprintable():
        raise HeedfulError(
            f"method cannot be {method!r:.60}", f"it is a name of 1 to {NAME} visible characters"
        )
    scores, tokens, spans = data.get("scores"), data.get("tokens"), data.get("spans")
    if not isinstance(scores, list):
        raise HeedfulError(f"scores cannot be {scores!r:.60}", "they are a list")
    if tokens is not None and not (isinstance(tokens, list) and all(isinstance(t, str) for t in tokens)):
        raise HeedfulError(f"tokens cannot be {tokens!r:.60}", "they are a list of strings")
    if spans is not None and not (isinstance(spans, list) and all(map(_is_span, spans))):
        raise HeedfulError(f"spans cannot be {spans!r:.60}", "they are a list of [start, end]")
    if tokens is None and spans is None:
        given = _listed(scores)
    else:
        given = _made([_number(score) for score in scores], tokens or (), map(tuple, spans or ()))
    return key, method, replace(given, target=data.get("target"), fitted_by=_operators(data.get("fitted_by")))


def _is_span(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_whole, value))


def _object(line: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is no number")

    if len(line) > LINE:
        raise HeedfulError("the line is too long", f"it has more than {LINE:,} bytes")
    try:
        data = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8"), parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise HeedfulError("not UTF-8", f"at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise HeedfulError("not JSON", str(error)) from None
    if not isinstance(data, dict):
        raise HeedfulError("not a JSON object")
    return data
