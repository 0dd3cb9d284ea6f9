"""`heedful metrics`: what is registered, and which direction of each metric is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from heedful.cli import options as o
from heedful.cli.console import put_json, silence_libraries
from heedful.cli.registry_table import NamedEntry, print_entries, print_facts

if TYPE_CHECKING:
    from heedful.core.registry import Metric

NAME = "Show everything about this metric."
Name = Annotated[str | None, o.argument(metavar="NAME", help=NAME)]
NOTES = (
    "Family: the metrics of the families remove-top and keep-top decide the verdict of an audit.",
    "Metrics without a family are shown next to it. expensive: runs only when you name it.",
    "Use them with: heedful audit FILE --metric NAME.",
)


def metrics(name: Name = None, as_json: o.AsJson = False) -> None:
    """List the metrics that test explanations.

    \b
    heedful metrics
    heedful metrics comprehensiveness
    heedful metrics --json
    """
    silence_libraries()
    from heedful.core import registry

    if name is not None:
        entry = registry.get_metric(name)
        return put_json(_document(entry)) if as_json else _show(entry)
    entries = registry.metrics().values()
    if as_json:
        return put_json([_document(entry) for entry in entries])
    listed = (NamedEntry(entry.name, entry.summary, _facts(entry)) for entry in entries)
    return print_entries(listed, NOTES)


def _facts(entry: Metric) -> tuple[str, ...]:
    return (
        _better(entry),
        f"family {entry.family}" if entry.family else "not in the verdict",
        "removes words or other parts" if entry.kind == "removal" else "",
        "needs marked reasons" if entry.rationales else "",
        "needs masks" if entry.masks else "",
        "expensive" if entry.expensive else "",
        entry.cite,
    )


def _better(entry: Metric) -> str:
    return "higher is better" if entry.better == "high" else "lower is better"


def _document(entry: Metric) -> dict[str, Any]:
    return {
        "name": entry.name,
        "summary": entry.summary,
        "kind": entry.kind,
        "family": entry.family,
        "better": entry.better,
        "best": entry.best,
        "needs": sorted(entry.needs),
        "rationales": entry.rationales,
        "masks": entry.masks,
        "expensive": entry.expensive,
        "cite": entry.cite,
        "limitations": entry.limitations,
    }


def _show(entry: Metric) -> None:
    from heedful.core.model import CAPABILITIES

    best = "the best order that was found" if entry.best is None else f"{entry.best:g}"
    family = f"{entry.family}: it takes part in the verdict" if entry.family else "none: not in the verdict"
    needs = [CAPABILITIES.get(need, need) for need in sorted(entry.needs)]
    needs += ["words that people marked as the reason (--rationale-column)"] if entry.rationales else []
    needs += ["masks that show where the thing is that must be found"] if entry.masks else []
    facts = [
        ("what it measures", entry.summary),
        ("direction", _better(entry)),
        ("best possible", best),
        ("family", family),
        (
            "how",
            "it removes words or other parts"
            if entry.kind == "removal"
            else "from the scores, or by explaining again",
        ),
        ("needs", "; ".join(needs)),
        ("cost", "expensive: runs only when you name it" if entry.expensive else ""),
        ("limitations", entry.limitations),
        ("reference", entry.cite),
    ]
    print_facts(entry.name, facts)
