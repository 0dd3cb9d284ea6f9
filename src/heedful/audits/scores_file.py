"""A file of scores made elsewhere, of many texts and methods: JSONL, one object per text and method.

read_scores_file    JSONL -> ScoresFile
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heedful.audits.score_formats import (
    Given,
    fitting_operators,
    is_whole,
    listed_scores,
    made_given,
    real_number,
)
from heedful.core.defaults import CONTROLS
from heedful.core.errors import HeedfulError
from heedful.io.datasets import MAX_LINE_BYTES
from heedful.modalities.operators import OPERATORS

MAX_NAME_CHARACTERS = 100  # most characters of a method's name
KEYS = ("text", "row", "method", "scores", "tokens", "spans", "target", "fitted_by")


@dataclass(frozen=True)
class ScoresFile:
    """Scores of many texts, known by their row in the data file or by the text itself."""

    methods: tuple[str, ...]
    by_row: Mapping[int, Mapping[str, Given]]
    by_text: Mapping[str, Mapping[str, Given]]
    digest: str  # SHA-256 of the file

    def of(self, row_number: int, text: Any) -> dict[str, Given]:
        """Method -> scores of one row."""
        numbered = self.by_row.get(row_number, {})
        same = self.by_text.get(text, {}) if isinstance(text, str) else {}
        if twice := sorted(numbered.keys() & same.keys()):
            raise HeedfulError(
                f"row {row_number} has two sets of scores of {twice[0]!r}",
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
            while line := file.readline(MAX_LINE_BYTES + 1):
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
    rows = {key: result for key, result in every.items() if isinstance(key, int)}
    texts = {key: result for key, result in every.items() if isinstance(key, str)}
    return ScoresFile(tuple(methods), rows, texts, digest.hexdigest())


def _entry(line: bytes) -> tuple[int | str, str, Given]:
    data = _object(line)
    if strange := [name for name in data if name not in KEYS]:  # a misspelt "fitted_by" would mean "unknown"
        raise HeedfulError(f"{strange[0]!r:.60} is not a known key", f"known are {', '.join(KEYS)}")
    key = data.get("text", data.get("row"))
    if ("text" in data) == ("row" in data) or not isinstance(key, str if "text" in data else int):
        raise HeedfulError("no text is named", fix='Give either "text" (a string) or "row" (a whole number)')
    if isinstance(key, bool) or (isinstance(key, int) and key < 0):
        raise HeedfulError(f"row cannot be {key!r:.60}", "it is a whole number, 0 or more")
    method = checked_name(data.get("method"))
    scores, tokens, spans = data.get("scores"), data.get("tokens"), data.get("spans")
    if not isinstance(scores, list):
        raise HeedfulError(f"scores cannot be {scores!r:.60}", "they are a list")
    if tokens is not None and not (isinstance(tokens, list) and all(isinstance(t, str) for t in tokens)):
        raise HeedfulError(f"tokens cannot be {tokens!r:.60}", "they are a list of strings")
    if spans is not None and not (isinstance(spans, list) and all(map(_is_span, spans))):
        raise HeedfulError(f"spans cannot be {spans!r:.60}", "they are a list of [start, end]")
    if tokens is None and spans is None:
        given = listed_scores(scores)
    else:
        given = made_given([real_number(score) for score in scores], tokens or (), map(tuple, spans or ()))
    fitted_by = fitting_operators(data.get("fitted_by"), OPERATORS)
    return key, method, replace(given, target=data.get("target"), fitted_by=fitted_by)


def checked_name(method: Any) -> str:
    """The name of a method whose scores came from elsewhere."""
    if (
        not isinstance(method, str)
        or not method.strip()
        or len(method) > MAX_NAME_CHARACTERS
        or not method.isprintable()
    ):
        raise HeedfulError(
            f"method cannot be {method!r:.60}",
            f"it is a name of 1 to {MAX_NAME_CHARACTERS} visible characters",
        )
    if method in CONTROLS:
        raise HeedfulError(f"method cannot be {method!r}", "this is the name of a control", "Rename it")
    return method


def _is_span(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_whole, value))


def _object(line: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is no number")

    if len(line) > MAX_LINE_BYTES:
        raise HeedfulError("the line is too long", f"it has more than {MAX_LINE_BYTES:,} bytes")
    try:
        data = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8"), parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise HeedfulError("not UTF-8", f"at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise HeedfulError("not JSON", str(error)) from None
    if not isinstance(data, dict):
        raise HeedfulError("not a JSON object")
    return data
