"""Feature splitting as a document: how many features split, trees from narrow to wide, then the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from heedful.core.charts import Trees
from heedful.core.document import Document, Facts, Figure, Fold, Headline, Paragraph, Section, text_table
from heedful.core.numbers import percent
from heedful.features.measures.splitting import Splitting
from heedful.reports.measured import ranged

MOST = 12  # trees drawn
WORDS = {
    "kept": "narrower features with exactly one child",
    "split": "narrower features with two children or more",
    "lost": "narrower features without a child",
    "with parent": "wider features that have a parent",
    "with parent, random": "the same where the narrower SAE is random directions (control)",
    "children": "children of a feature that has any, mean",
}


def document(found: Splitting, names: Sequence[str] = (), most: int = MOST) -> Document:
    """`names` of the SAEs, from narrow to wide; `most` trees are drawn."""
    widths = " → ".join(f"{width:,}" for width in found.widths)
    return Document(
        f"Feature splitting: {widths}",
        (
            Headline(f"{widths} features", source=", ".join(names)),
            Paragraph(_answer(found), "answer"),
            _trees(found, most),
            _numbers(found),
            _made(found, names),
        ),
    )


def _answer(found: Splitting) -> str:
    lines = []
    for number, (narrow, wide) in enumerate(pairwise(found.widths)):
        one = {name: figure.value for name, figure in found.figures(number).items()}
        lines.append(
            f"From {narrow:,} to {wide:,} features, {percent(one['split'])} of the narrower features split, "
            f"{percent(one['kept'])} stay one and {percent(one['lost'])} are lost. "
            f"{percent(one['with parent'])} of the wider features have a parent; with random directions "
            f"{percent(one['with parent, random'])} would."
        )
    return " ".join(lines)


def _trees(found: Splitting, most: int) -> Section:
    lead = (
        "Each feature of a wider SAE is joined to the nearest feature of the narrower one, by the cosine of "
        f"their decoder vectors, if that is {found.alike:g} or more. The {most} largest trees: numbers are "
        "features, a darker line is a larger cosine."
    )
    title = "What features of the narrow SAE become in wider ones"
    return Section("What features become", (Figure(Trees(found.trees(most), found.widths, title)),), lead)


def _numbers(found: Splitting) -> Fold:
    steps = [found.figures(number) for number in range(len(found.steps))]
    heads = ["", *(f"{a:,} to {b:,}" for a, b in pairwise(found.widths))]
    rows = [[name, *(ranged(step[name], name != "children") for step in steps)] for name in steps[0]]
    table = text_table("Splitting", heads, rows)
    legend = Facts(tuple(WORDS.items()))
    return Fold("The numbers", (Paragraph("With 95 % intervals.", "soft"), table, legend), opened=True)


def _made(found: Splitting, names: Sequence[str]) -> Fold:
    facts = [
        ("SAEs", ", ".join(names)),
        ("least cosine of a child and its parent", f"{found.alike:g}"),
        ("seed", str(found.seed)),
    ]
    return Fold("How this was made", (Facts(tuple((name, value) for name, value in facts if value)),))
