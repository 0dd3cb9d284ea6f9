"""A stored result as the web page shows it, whatever its kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.comparisons.result import Comparison
from heedful.core.document import Document, Island, inside
from heedful.core.errors import HeedfulError
from heedful.io import run_folder
from heedful.io.json_codec import json_object
from heedful.modalities.text import TextInput
from heedful.reports.html import body
from heedful.reports.html import page as page_of

DRAWN = ("atlas", "patches")  # components that the page draws with their scripts
MAX_LISTED_MANIFEST = 1 << 20  # bytes
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
ASKED = ("model", "picture", "text", "pair", "turns")  # what the web page explains when it is opened there


@dataclass(frozen=True)
class RunView:
    """A run: its HTML inside the page, the same as a file of its own, and what the page needs to open it
    again."""

    html: str
    page: Callable[[], str]
    ask: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    component: str = ""  # that draws the data


def view_run(folder: Path) -> RunView:
    """Open a run folder of any kind and draw it."""
    result = run_folder.read(folder)
    with run_folder.refusing_damage(folder):
        document = result.document()
        html = body(document, 2)
        islands = [node for top in document.nodes for node in inside(top) if isinstance(node, Island)]
        drawn = next((each for each in islands if each.component in DRAWN), None)
        ask = _question(result) if isinstance(result, Comparison) else _asked(folder)
    page = lambda: _page(document, folder)  # noqa: E731
    if drawn is None:
        return RunView(html, page, ask)
    return RunView(html, page, ask, dict(drawn.data), drawn.component)


def _page(document: Document, folder: Path) -> str:
    with run_folder.refusing_damage(folder):
        return page_of(document)


def asked(question: Mapping[str, Any]) -> dict[str, Any]:
    """What of a question is stored with its answer."""
    return {name: question[name] for name in ASKED if question.get(name) is not None}


def _asked(folder: Path) -> dict[str, Any] | None:
    stored = run_folder.read_manifest(folder).get("ask")
    return asked(stored) or None if isinstance(stored, dict) else None


def _question(result: Comparison) -> dict[str, Any] | None:
    """An explanation as the web page would ask for it."""
    settings = result.settings
    if "picture" in settings:  # its number here; the page asks for it again if it is still kept
        text: dict[str, Any] | None = {"picture": settings["picture"], "text": settings.get("text") or ""}
    else:
        text = _text_fields(settings.get("text") or _own_text(result))
    if text is None or not isinstance(settings.get("source"), str):
        return None
    target = settings.get("target") or {}
    return {
        "model": settings["source"],
        **text,
        "methods": [m for m in result if m != "random"],
        "target": target.get("label"),
        "contrast": target.get("contrast"),
        "unit": settings.get("unit", "word"),
        "seed": settings.get("seed", 0),
    }


def _own_text(result: Comparison) -> Any:
    """The text that was explained; a picture made elsewhere was never sent to this page."""
    if not result.attributions:
        return ""
    return result.x.raw if isinstance(result.x, TextInput) else None


def _text_fields(text: Any) -> dict[str, Any] | None:
    """A text, a pair or a chat as the web page asks for it."""
    if isinstance(text, str):
        return {"text": text}
    if isinstance(text, list | tuple) and len(text) == 2 and all(isinstance(part, str) for part in text):
        return {"text": text[0], "pair": text[1]}
    if isinstance(text, list | tuple) and text and all(isinstance(turn, dict) for turn in text):
        return {"text": "", "turns": [{name: turn[name] for name in ("role", "content")} for turn in text]}
    return None


def listed(folder: Path) -> tuple[str, str] | None:
    """(kind, title) of a run, by its manifest alone; None where the manifest is not one of a run. A run that
    cannot be read is listed, and what is wrong with it is told when it is opened."""
    try:
        content = run_folder.read_inside(folder, run_folder.MANIFEST, MAX_LISTED_MANIFEST)
        if "format" not in json_object(content):
            return None
        manifest = run_folder.checked_manifest(folder, content)
    except (HeedfulError, ValueError):
        return "damaged", ""
    kind, title = (sound_text(str(manifest.get(name, ""))) for name in ("kind", "title"))
    return kind[: run_folder.MAX_TITLE], title[: run_folder.MAX_TITLE]


def sound_text(value: Any) -> Any:
    """The same with half characters replaced, in texts, lists and objects: JSON can hold them, and no answer
    of a server can."""
    if isinstance(value, str):
        return HALF_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {sound_text(key): sound_text(item) for key, item in value.items()}
    return [sound_text(item) for item in value] if isinstance(value, list | tuple) else value
