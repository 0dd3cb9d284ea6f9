"""What a model folder may contain: regular files, and texts of a size that can be read.

To open a pipe waits for ever and a device has no end, so every entry is looked at before transformers opens
any. Links are followed, because the cache of the hub is made of them. An index of weights names files of its
own folder and no others.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

from heedful.core.errors import HeedfulError
from heedful.io.files import read_regular

MAX_MODEL_TEXT = 256 << 20  # of a config, a tokenizer, a template; the largest tokenizers have about 40 MB
TEXTS = (".json", ".jinja", ".txt", ".model", ".spm", ".bpe", ".tiktoken")  # what is read as a whole
TEMPLATES = "additional_chat_templates"  # the only folder in it from which transformers reads


def check_files(folder: Path) -> None:
    """Refuse pipes, devices, texts that are too large, and weights in other places."""
    for path in _entries(folder):
        try:
            facts = path.stat()
        except OSError:  # a link that leads nowhere: it is not there for transformers either
            continue
        if stat.S_ISDIR(facts.st_mode):
            continue
        if not stat.S_ISREG(facts.st_mode):
            raise HeedfulError(
                f"{path} is not a regular file", "it is a pipe or a device", "Remove it from the model folder"
            )
        if path.suffix.lower() in TEXTS and facts.st_size > MAX_MODEL_TEXT:
            raise HeedfulError(
                f"{path} is too large", f"the limit is {MAX_MODEL_TEXT >> 20} MB", "Save the model again"
            )
    for index in sorted(folder.glob("*.index.json")):
        _check_index(index)


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.iterdir())
        if (folder / TEMPLATES).is_dir():
            yield from sorted((folder / TEMPLATES).iterdir())
    except OSError as error:
        raise HeedfulError(f"cannot read {folder}", error.strerror or str(error)) from None


def _check_index(index: Path) -> None:
    """transformers opens whatever path stands in it."""
    try:
        facts = json.loads(read_regular(index, MAX_MODEL_TEXT))
    except (ValueError, RecursionError):
        return  # it may be of no use; if it is used, transformers says what is wrong
    named = facts.get("weight_map") if isinstance(facts, dict) else None
    for name in named.values() if isinstance(named, dict) else ():
        if not isinstance(name, str) or name == ".." or Path(name).name != name:
            raise HeedfulError(
                f"{index} cannot be used",
                f"it names weights outside the folder: {name!r:.60}",
                "Save the model again",
            )
