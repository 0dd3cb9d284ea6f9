"""Write the pages that are tables of the registry; `make docs` runs it, a test checks they are current."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from heedful import registry

HERE = Path(__file__).parent
HEAD = """# Methods

Generated from the registry. *Signed* scores push towards (+) or away from (−) the target; unsigned ones only
say how much. *Needs* is what the model must offer; `heedful doctor MODEL` says whether it does. *Dear*
methods take a pass a token, or many more, and run only when named.

| method | says | signed | needs |
|---|---|---|---|
"""


def methods() -> str:
    files: dict[str, list[registry.Explainer]] = {}
    rows = []
    for entry in registry.explainers().values():
        needs = ", ".join(sorted(entry.needs)) or "nothing"
        summary = entry.summary + (" *Dear.*" if entry.dear else "")
        rows.append(f"| `{entry.name}` | {summary} | {'yes' if entry.signed else 'no'} | {needs} |")
        files.setdefault(entry.run.__module__, []).append(entry)
    return HEAD + "\n".join(rows) + "\n" + "".join(section(*item) for item in files.items())


def section(module: str, entries: list[registry.Explainer]) -> str:
    """A method file opens with formula, cost, needs and citation: that is its page."""
    title = ", ".join(f"`{entry.name}`" for entry in entries)
    lines = []
    for entry in entries:
        params = ", ".join(f"`{p.name}={p.default!r}`" for p in entry.params.values()) or "none"
        lines.append(f"- `{entry.name}`: parameters {params}. Cite: {entry.cite}.")
    text = inspect.getdoc(sys.modules[module])
    return f"\n## {title}\n\n```text\n{text}\n```\n\n" + "\n".join(lines) + "\n"


PAGES = {"methods.md": methods}


def main() -> None:
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
