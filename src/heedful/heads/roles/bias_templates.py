"""Templates of the bias probe: a sentence with two people and a pronoun, in four variants.

    template                                               a      b         pronoun_1  pronoun_2
    The {a} asked the {b} a question because {pronoun}     nurse  engineer  she        he

Both people stand before the pronoun, or a causal model could not look at them. A variant is the pronoun (1 or
2) and the order (a in its own place, or a and b changed about); spans say where everything stands.
The built-in file pairs 27 occupations stereotyped as a woman's (a) with as many stereotyped as a man's (b),
each occupation once, over six frames.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

from heedful.core.arrays import Span
from heedful.core.errors import HeedfulError
from heedful.io.files import read_text

COLUMNS = ("template", "a", "b", "pronoun_1", "pronoun_2")
SLOT = re.compile(r"\{(a|b|pronoun)\}")
BUILT_IN = Path(__file__).with_name("pronouns.csv")


@dataclass(frozen=True)
class Template:
    """A sentence with the slots {a}, {b} and {pronoun}, two people (a and b) and two pronouns."""

    template: str
    a: str
    b: str
    pronoun_1: str
    pronoun_2: str


@dataclass(frozen=True)
class Variant:
    """A text with the characters of a, b and the pronoun in it."""

    text: str
    a: Span
    b: Span
    pronoun: Span


def variant(template: Template, *, swapped: bool, second: bool) -> Variant:
    """`swapped`: b stands where a did; `second`: the other pronoun. Spans follow people, not places."""
    fill = {"pronoun": template.pronoun_2 if second else template.pronoun_1}
    fill |= {"a": template.b, "b": template.a} if swapped else {"a": template.a, "b": template.b}
    text, spans, last = "", {}, 0
    for slot in SLOT.finditer(template.template):
        text += template.template[last : slot.start()]
        spans[slot[1]] = (len(text), len(text) + len(fill[slot[1]]))
        text, last = text + fill[slot[1]], slot.end()
    text += template.template[last:]
    a, b = ("b", "a") if swapped else ("a", "b")
    return Variant(text, spans[a], spans[b], spans["pronoun"])


def read(path: str | Path | None = None) -> list[Template]:
    """Read templates from a CSV file. Default: the built-in file."""
    name = path or BUILT_IN
    lines = csv.DictReader(io.StringIO(read_text(name)), strict=True)
    try:
        rows = [(lines.line_num, row) for row in lines]
    except csv.Error as error:
        raise HeedfulError(f"{name}, line {lines.line_num} is not CSV", str(error)) from None
    if absent := [column for column in COLUMNS if column not in (lines.fieldnames or ())]:
        raise HeedfulError(
            f"{name} has no column {', '.join(absent)}", "", f"Its first line must be {','.join(COLUMNS)}"
        )
    if len(rows) < 2:
        raise HeedfulError(f"{name} contains fewer than two templates", "", "Intervals need several")
    return [_checked(row, f"{name}, line {number}") for number, row in rows]


def _checked(row: dict[str, str | None], where: str) -> Template:
    values = [(row[column] or "").strip() for column in COLUMNS]
    template = Template(*values)
    slots = SLOT.findall(template.template)
    fix = 'Write it as "The {a} asked the {b} a question because {pronoun}"'
    if "" in values:
        raise HeedfulError(f"{where} has an empty {COLUMNS[values.index('')]}")
    if sorted(slots) != ["a", "b", "pronoun"]:
        raise HeedfulError(f"{where} is not a template", "{a}, {b} and {pronoun} must each appear once", fix)
    if slots[-1] != "pronoun":
        raise HeedfulError(f"{where} has its pronoun first", "a causal model sees only what is before", fix)
    if template.a == template.b or template.pronoun_1 == template.pronoun_2:
        raise HeedfulError(f"{where} has nothing to flip", "two of its words are the same")
    return template
