"""How it was made: what it cost, what was left out, and what to type for the same result."""

from __future__ import annotations

from heedful.comparisons.result import Comparison, matrix
from heedful.core.defaults import CONTROL
from heedful.core.document import Code, Facts, Node, Paragraph, Section, text_table
from heedful.core.numbers import fixed
from heedful.core.phrases import EXPENSIVE, left_out, plural
from heedful.reports import reproduce
from heedful.reports.columns import columns
from heedful.reports.comparison_summary import notes


def cost(comparison: Comparison) -> tuple[Node, ...]:
    if not comparison.attributions:
        return ()
    methods, values = matrix(comparison, "kendall")
    control = methods.index(CONTROL) if CONTROL in methods else None
    rows, special = [], _has_special(comparison)
    for col in columns(comparison):
        spent = col.item.cost
        errors = [word.stderr / col.top for word in col.words if word.stderr is not None and col.top]
        row = [col.label, f"{spent.seconds:.2f}"]
        row += [f"{n:,}" for n in (spent.forwards, spent.backwards, spent.unique, spent.tokens)]
        row += [f"{100 * sum(errors) / len(errors):.1f} %" if errors else "–"]
        row += [f"{100 * col.item.special_mass:.0f} %"] if special else []
        if control is not None:
            tau = float(values[methods.index(col.method), control])
            row.append("" if col.method == CONTROL else fixed(tau))
        rows.append(row)
    heads = ["method", "seconds", "forward passes", "backward passes", "model inputs run"]
    heads += [
        " and ".join(map(plural, comparison.x.atom.split("+"))),
        "mean standard error",
        *(["on special tokens"] if special else []),
        *(["τ with control"] if control is not None else []),
    ]
    lead = (
        "Passes that the method asked for, and model inputs really run after duplicates were taken out. The "
        "mean standard error is relative to the method's strongest score; – means the method does not sample."
    )
    return (Section("What it cost", (text_table("Cost by method", heads, rows),), lead, "cost"),)


def _has_special(comparison: Comparison) -> bool:
    """Whether the model reads tokens that belong to no word."""
    return "token" in comparison.x.atom


def remarks(comparison: Comparison) -> tuple[Node, ...]:
    """Skipped methods and notes, where there are any."""
    skipped = [(method, why) for method, why in comparison.skipped.items() if why != EXPENSIVE]
    expensive = left_out(comparison.skipped)
    out: list[Node] = []
    if skipped or expensive:
        inside = [text_table("Methods not run", ("method", "reason"), skipped, words=True)] if skipped else []
        out.append(Section("Not run, and why", tuple(inside), expensive, "skipped"))
    if comparison.attributions and notes(comparison):
        table = text_table("Notes", ("from", "note"), notes(comparison), words=True)
        out.append(Section("Notes", (table,), name="notes"))
    return tuple(out)


def made(comparison: Comparison) -> tuple[Node, ...]:
    if not comparison.attributions:
        return ()
    model, settings = comparison.model, comparison.settings
    facts = [(key if key != "name" else "model", model.get(key)) for key in ("name", "kind", "class")]
    facts += [(key, model.get(key)) for key in ("parameters", "window", "fingerprint")]
    facts += [(key, settings.get(key)) for key in ("seed", "unit", "budget")]
    versions = settings.get("versions") or {}
    facts.append(("versions", ", ".join(f"{name} {value}" for name, value in versions.items())))
    seconds = settings.get("seconds")
    facts.append(("time", None if seconds is None else f"{seconds:.2f} seconds"))
    shown = [
        (name, f"{value:,}" if isinstance(value, int) and name != "seed" else str(value))
        for name, value in facts
        if value not in (None, "")
    ]
    code = again(reproduce.command(comparison), reproduce.python(comparison), "interrupted" in settings)
    return (Section("How this was made", (Facts(tuple(shown)), *code), name="made"),)


def again(command: str | None, python: str | None = None, interrupted: bool = False) -> tuple[Node, ...]:
    """What to type for the same result."""
    blocks = [Code(text, name) for name, text in (("Command line", command), ("Python", python)) if text]
    if not blocks:
        return ()
    stopped = " This run was interrupted; the code below runs to the end." if interrupted else ""
    return (Paragraph(f"Reproduce this.{stopped}", "soft"), *blocks)
