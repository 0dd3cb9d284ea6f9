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
methods may run thousands of rows and run only when named.

| method | says | signed | needs | parameters | cite |
|---|---|---|---|---|---|
"""


def methods() -> str:
    rows, files = [], {}
    for entry in registry.explainers().values():
        needs = ", ".join(f"`{need}`" for need in sorted(entry.needs)) or "nothing"
        params = ", ".join(f"`{p.name}={p.default!r}`" for p in entry.params.values()) or "none"
        summary = entry.summary + (" *Dear.*" if entry.dear else "")
        signed = "yes" if entry.signed else "no"
        rows.append(f"| `{entry.name}` | {summary} | {signed} | {needs} | {params} | {entry.cite} |")
        files.setdefault(entry.run.__module__, []).append(entry.name)
    return HEAD + "\n".join(rows) + "\n" + "".join(map(section, files.items()))


def section(item: tuple[str, list[str]]) -> str:
    """A method file opens with formula, cost, needs and citation: that is its page."""
    module, names = item
    title = ", ".join(f"`{name}`" for name in names)
    return f"\n## {title}\n\n```text\n{inspect.getdoc(sys.modules[module])}\n```\n"


PAGES = {"methods.md": methods}


def main() -> None:
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
