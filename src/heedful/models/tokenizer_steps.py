"""How much a tokenizer may enlarge a text: what is read from tokenizer.json is a program of a stranger.

Each step of a normalizer, a pre-tokenizer or a decoder can make a text longer, and the next step reads what
the one before it wrote. Twenty-four steps that double a text make 16 million of each character. So the growth
of every step is estimated from above, and the product of all must stay below MAX_GROWTH.

    Replace    characters of the content / characters of the pattern; a pattern that may match between two
               characters adds the content to each of them
    Prepend    the content, added to a text of one character
    others     what they do to the worst character: ByteLevel writes one per byte, BERT puts spaces around it

Forms of Unicode make few characters longer, and those rare: the first of a kind is not counted.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.io.files import read_regular
from heedful.modalities.limited_copy import LIMITS, limited
from heedful.models.folder_files import MAX_MODEL_TEXT

MAX_GROWTH = (
    64  # the largest of a real tokenizer is about 40: NFKC by a table (18), and signs before words (2)
)
MAX_STEPS = 100  # in all sequences of one tokenizer; real ones have up to about ten
MAX_SPECIAL = 100  # ids that stand for one special token; real ones have one
PROGRAMS = ("normalizer", "pre_tokenizer", "decoder", "post_processor")
FORMS = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "Lowercase": 3, "BertNormalizer": 3}  # worst character
WRITERS = {"ByteLevel": 5, "Metaspace": 2}  # with a space or a sign before each part
# a pattern of which every part takes at least one character: sets, letters, and repeats from one upwards
SET = r"\[(?:[^\[\]\\]|\\.)+\]"
ONE = rf"(?:{SET}|\\[sSdDwWnrt]|\\[pP]\{{\w+\}}|\\[^A-Za-z0-9]|[^\\\[\](){{}}|*?^$+])"
TAKES_ONE = re.compile(rf"(?:{ONE}(?:\+|\{{[1-9]\d*(?:,\d*)?\}})?)+")
# a short pattern that goes over a text once: in each of its alternatives nothing but the last part repeats
PART = rf"(?:{ONE}|\((?:\?:)?{ONE}+\))"
LAST = rf"(?:\$|{ONE}(?:[+*?]|\{{\d{{1,2}}(?:,\d{{0,2}})?\}}))?"
WAY = rf"(?:\(\?<[!=]{ONE}\))?\^?{PART}*{LAST}"
QUICK = re.compile(rf"{WAY}(?:\|{WAY})*")
MAX_PATTERN = 200  # characters


def check_files(source: str | Path, options: Mapping[str, Any]) -> None:
    """Before a tokenizer is built: building it already runs the normalizer on added tokens."""
    from transformers.utils import cached_file

    if Path(source).is_dir():
        paths = sorted(Path(source).glob("*tokenizer*.json"))
    else:
        local = bool(options.get("local_files_only"))
        found = cached_file(
            source,
            "tokenizer.json",
            local_files_only=local,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        paths = [Path(found)] if found else []
    for path in paths:
        try:
            facts = json.loads(read_regular(path, MAX_MODEL_TEXT))
        except (ValueError, RecursionError):
            continue  # it may be of no use; if it is used, it does not load
        if isinstance(facts, dict):
            check_steps(source, facts)
            if has_slow_pattern(facts.get("normalizer")):
                _check_building(source, options)


def _check_building(source: str | Path, options: Mapping[str, Any]) -> None:
    """Added tokens of any file are normalised, and nothing stops the call that builds a tokenizer."""
    from transformers import AutoTokenizer

    def built() -> bytes:
        with suppress(BaseException):  # what does not load is told when it is loaded
            AutoTokenizer.from_pretrained(source, **options)
        return b"ended"

    if not limited(built):
        raise _refused(source, f"building it took over {LIMITS}")


def has_slow_pattern(program: Any) -> bool:
    """Whether it has a pattern that may take much longer for a text that is a little longer."""
    patterns = [step.get("pattern") for step in _steps(program)]
    every = [pattern["Regex"] for pattern in patterns if isinstance(pattern, dict) and "Regex" in pattern]
    return not all(
        0 < len(pattern) <= MAX_PATTERN and QUICK.fullmatch(pattern) for pattern in map(str, every)
    )


def check_built(source: str | Path, tokenizer: Any) -> None:
    """The same of a tokenizer that was made from other files."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    facts: dict[str, Any] = {}
    for name in PROGRAMS:
        with suppress(Exception):  # absent, or a class of transformers itself, which has no JSON
            facts[name] = json.loads(getattr(backend, name).__getstate__())
    check_steps(source, facts)


def check_steps(source: str | Path, facts: Mapping[str, Any]) -> None:
    """Refuse a program that has too many steps or enlarges texts too much."""
    if has_slow_pattern(facts.get("decoder")):
        raise _refused(source, "its decoder has a pattern that may take hours for some texts")
    groups = (("normalizer", "pre_tokenizer"), ("decoder",), ("post_processor",))
    for names in groups:  # each group is run on what the one before it left, but on no more than ids
        growth, kinds = 1.0, set[str]()
        for count, step in enumerate(step for name in names for step in _steps(facts.get(name))):
            kind = str(step.get("type"))
            if kind not in FORMS:
                growth *= _growth(kind, step)
            elif kind in kinds:
                growth *= FORMS[kind]
            kinds.add(kind)
            if count >= MAX_STEPS:
                raise _refused(source, f"its {names[0]} has more than {MAX_STEPS} steps")
            if growth > MAX_GROWTH:
                raise _refused(source, f"its {names[0]} can make a text over {MAX_GROWTH} times longer")


def _refused(source: str | Path, why: str) -> HeedfulError:
    fix = "Save it again from the tokenizer that the model was trained with"
    return HeedfulError(f"the tokenizer of {source} is not used", why, fix)


def _steps(program: Any) -> Iterator[dict[str, Any]]:
    """All steps in their order, those of sequences inside sequences too."""
    waiting = [program]
    while waiting:
        step = waiting.pop()
        if isinstance(step, list):
            waiting += reversed(step)
        elif isinstance(step, dict):
            yield step
            keys = ("normalizers", "pretokenizers", "decoders", "processors")  # one of them in a Sequence
            waiting += [step[key] for key in keys if key in step]


def _growth(kind: str, step: Mapping[str, Any]) -> float:
    """How many characters (of a template: texts) one becomes, at most."""
    content = len(str(step.get("content", step.get("prepend", ""))))
    if kind == "Prepend":
        return 1 + content
    if kind == "Replace":
        given = step.get("pattern")
        pattern = given if isinstance(given, dict) else {"String": str(given)}
        if pattern.get("String"):
            return max(1, content / len(str(pattern["String"])))
        one = TAKES_ONE.fullmatch(str(pattern.get("Regex", "")))
        return max(1, content) if one else 1 + content
    if kind == "Precompiled":
        return _longest(step.get("precompiled_charsmap"))
    return _copies(step) if kind == "TemplateProcessing" else WRITERS.get(kind, 1)


def _longest(table: Any) -> int:
    """Characters of the longest text in a table of sentencepiece: 4 bytes with the size of an index, the
    index, and texts that end with a zero."""
    try:
        content = base64.b64decode(table if isinstance(table, str) else bytes(table or b""))
    except (TypeError, ValueError):
        return 1  # it does not load
    texts = content[4 + int.from_bytes(content[:4], "little") :].split(b"\0")
    return max(1, *(len(text.decode("utf-8", "ignore")) for text in texts))


def _copies(step: Mapping[str, Any]) -> float:
    """How many times a template writes a text; too many special tokens count as too many copies."""
    special = step.get("special_tokens")
    known = list(special.values()) if isinstance(special, dict) else []
    ids = [one.get("ids") for one in known if isinstance(one, dict)]
    templates = [step[key] for key in ("single", "pair") if isinstance(step.get(key), list)]
    pieces = [[piece for piece in one if isinstance(piece, dict)] for one in templates]
    if any(len(one) > MAX_SPECIAL for one in (*templates, *ids) if isinstance(one, list)):
        return MAX_GROWTH + 1
    return max((sum("Sequence" in piece for piece in one) for one in pieces), default=1)
