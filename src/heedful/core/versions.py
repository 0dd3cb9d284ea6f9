"""Which versions of which packages made a result."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def _version(package: str) -> str:
    """A look into the file system, which takes milliseconds."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def versions() -> dict[str, str]:
    """What a reader needs to make it again."""
    texts = {"python": platform.python_version()}
    for package in ("heedful", "torch", "transformers", "tokenizers", "numpy"):
        texts[package] = _version(package)
    return texts
