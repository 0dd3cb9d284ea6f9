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

WEIGHED = """# Metrics

Generated from the registry. Every value stands between a *control*, the same metric on random scores, and
the *best*: skill = (value − control) / (best − control) is 0 at chance and 1 at the best. Metrics whose best
is "the best order found" remove words, under every operator asked for; their rows are shared with those of
the methods. The others explain again, other texts or other models, and cost as many explanations.
*Circular*: methods that were chosen or fitted by what the metric measures; they take no part in its verdict.
A metric says nothing (has no value) where it is not defined: `plausibility` without marks, `completeness` of
a method without a baseline.

`gold_recall`, `roar`, `randomisation_curve` and `label_randomisation` (in `heedful.evidence`) need a data set
or training of their own and are functions, not metrics of a text: see [Retraining](roar.md).

| metric | says | good is | best | circular |
|---|---|---|---|---|
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


def metrics() -> str:
    files: dict[str, list[registry.Metric]] = {}
    rows = []
    for entry in registry.metrics().values():
        bound = "the best order found" if entry.best is None else f"{entry.best:g}"
        circular = ", ".join(f"`{name}`" for name in sorted(entry.circular))
        rows.append(f"| `{entry.name}` | {entry.summary} | {entry.better} | {bound} | {circular} |")
        files.setdefault(entry.run.__module__, []).append(entry)
    found = WEIGHED + "\n".join(rows) + "\n"
    for module, entries in files.items():
        cites = "\n".join(f"- `{entry.name}`: {entry.cite}." for entry in entries)
        found += _page(module, [entry.name for entry in entries]) + cites + "\n"
    return found


def _page(module: str, names: list[str]) -> str:
    """A file opens with formula, cost, needs and citation: that is its page."""
    title = ", ".join(f"`{name}`" for name in names)
    return f"\n## {title}\n\n```text\n{inspect.getdoc(sys.modules[module])}\n```\n\n"


def section(module: str, entries: list[registry.Explainer]) -> str:
    lines = []
    for entry in entries:
        params = ", ".join(f"`{p.name}={p.default!r}`" for p in entry.params.values()) or "none"
        lines.append(f"- `{entry.name}`: parameters {params}. Cite: {entry.cite}.")
    return _page(module, [entry.name for entry in entries]) + "\n".join(lines) + "\n"


PAGES = {"methods.md": methods, "metrics.md": metrics}


def main() -> None:
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
