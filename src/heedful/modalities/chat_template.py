"""Chats as a model's own template writes them. A template is a stranger's program: Jinja, in a sandbox that
keeps it from files and functions, but not from memory and time. So it runs in a copy of this process with
limits (heedful.modalities.limited_copy).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heedful.core.errors import HeedfulError, first_line
from heedful.modalities.limited_copy import LIMITS, limited

MAX_CHARS = 1_000_000  # that a template may write: more than any model reads
FIX = "Give plain text, or a model with another template"


def render(tokenizer: Any, messages: Sequence[Mapping[str, str]], waiting: bool) -> str:
    """The text of a chat. `waiting`: it ends where the model's answer begins."""
    import jinja2.ext
    import jinja2.sandbox  # noqa: F401  once here, and not again in every copy

    def written() -> bytes:
        return _tried(tokenizer, messages, waiting)[: MAX_CHARS + 2].encode("utf-8", "surrogatepass")

    text = limited(written).decode("utf-8", "surrogatepass") or f"!it took over {LIMITS}"
    if not text.startswith("="):
        raise HeedfulError("the chat template of this model failed", text[1:] or "it gave no reason", FIX)
    if len(text) > MAX_CHARS:
        raise HeedfulError(
            "the chat template of this model failed", f"it wrote over {MAX_CHARS:,} characters", FIX
        )
    return text[1:]


def _tried(tokenizer: Any, messages: Sequence[Mapping[str, str]], waiting: bool) -> str:
    """= and the text, or ! and what went wrong."""
    try:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=waiting)
    except Exception as error:  # whatever a stranger's program raises
        name, line = type(error).__name__, first_line(error)
        return f"!{name}" if line == name else f"!{name}: {line}"
    return f"={text}" if isinstance(text, str) else "!it wrote no text"
