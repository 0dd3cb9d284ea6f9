"""A command as one would type it, for a result that is to be made again: one line for bash or zsh.

    command_line   a command, its options and its argument -> the line, quoted
    stored_line    a line from a file -> the same, if `command_line` could have written it
    param_text     a value -> how --param METHOD.NAME=VALUE spells it
    param_value    the other way

A line is one line: control characters, which a terminal would obey, are written as $'\\n'. What cannot be
typed has no line: a text too long for a shell, or what came from standard input and is no text.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

MAX_ARGUMENT_BYTES = 100_000  # bytes of one argument; Linux takes 131,071
_WORD = r"""(?:[\w@%+=:,./-]+|'[^']*'(?:"'"'[^']*')*|\$'(?:[^'\\]|\\.)*')"""  # as `quoted` writes it
_LINE = re.compile(rf"(?:echo - \| )?heedful(?: {_WORD})+", re.ASCII)
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # control, line breaks, turns of text


def command_line(name: str, options: Iterable[tuple[str, Any]], argument: str | None = None) -> str | None:
    """`name` as in "heads prune"; a value is a text, a number, True (the option alone) or a list of values.

    None, where no shell could take it.
    """
    words = []
    for option, value in options:
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [option] if one is True else _option(option, str(one))
    before = ["heedful", *name.split()]
    if argument is None or argument == "-":  # "-" would read standard input: a text that is "-" comes from it
        words = [*before, *words]
    else:
        words = [*before, *words, "--", argument] if argument[:1] == "-" else [*before, argument, *words]
    if any("\0" in word or len(word.encode(errors="surrogatepass")) > MAX_ARGUMENT_BYTES for word in words):
        return None
    return ("echo - | " if argument == "-" else "") + " ".join(map(quoted, words))


def stored_line(line: object) -> str | None:
    """None for any other line: a reader is told to type it, and the file may come from anybody."""
    return line if isinstance(line, str) and _LINE.fullmatch(line) and not _UNSEEN.search(line) else None


def _option(option: str, value: str) -> list[str]:
    """An option and its value are one word where the value looks like an option."""
    return [f"{option}={value}"] if value[:1] == "-" else [option, value]


def quoted(word: str) -> str:
    """As a shell reads it back; nothing in it moves a cursor or breaks the line."""
    if not _UNSEEN.search(word):
        return shlex.quote(word)
    safe = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _UNSEEN.sub(lambda found: _bytes(found[0]), safe) + "'"


def _bytes(character: str) -> str:
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return named.get(character) or "".join(f"\\x{byte:02x}" for byte in character.encode())


def param_text(value: Any) -> str | None:
    """A value as --param takes it, or None where it cannot be spelled."""
    value = _plain(value)
    if isinstance(value, str) and param_value(value) == value:
        return value
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return None
    return text if repr(param_value(text)) == repr(value) else None


def param_value(text: str) -> Any:
    """A number, true, false, null, a list or a "text" as JSON has them; anything else is text as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _plain(value: Any) -> Any:
    """As JSON has it: lists for tuples, numbers for those of numpy."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
