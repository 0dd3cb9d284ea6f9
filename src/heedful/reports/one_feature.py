"""One feature as nodes of a document: its explanation and examples first, then what it does, then numbers."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

from heedful.core.charts import Histogram
from heedful.core.document import (
    Cell,
    Column,
    Figure,
    Fold,
    Group,
    Inline,
    Node,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    nodes,
    text_table,
)
from heedful.core.numbers import MISSING, fixed, p_value, short, signed, span
from heedful.features.interpretation.results import Interpretation, Scores
from heedful.features.interpretation.scores import AgreementScore
from heedful.features.reading.results import Effects, FeatureMean, LogitEffect, Page
from heedful.reports import feature_examples as examples

MEASURES = {"detection": "balanced accuracy", "pearson": "Pearson r", "spearman": "Spearman ρ"}
WHO = {
    "": "this explanation",
    "shuffled": "control: the explanation of another feature",
    "permuted": "control: the method on shuffled activations",
}
MAX_NAME = 60  # characters of an explanation in a heading
Names = Mapping[int, str]


def name_of(said: Interpretation | None) -> str:
    """The explanation where there is one."""
    known = said is not None and said.scores is not None and said.explanation.found
    return said.explanation.text if said is not None and known else ""


def cut(name: str) -> str:
    """Short enough for a heading; the whole text is below it."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1].rstrip() + "…"


def section(
    one: Page, linked: Container[int] = (), names: Names | None = None, more: bool = False
) -> Section:
    """`linked` features have a section of their own; `names` are explanations of others; `more`: shown in a
    terminal with --verbose only."""
    said = name_of(one.interpretation)
    title = f"Feature {one.feature}: {cut(said)}" if said else f"Feature {one.feature}"
    inside = _dead(one, linked, names or {}) if not one.reading.fired else _alive(one, linked, names or {})
    return Section(title, inside, _about(one), f"feature-{one.feature}", "feature", more)


def _about(one: Page) -> str:
    r = one.reading
    if not r.fired:
        return f"It never fired on {r.tokens:,} tokens: it is dead, or it fires less often than that."
    return (
        f"Fires on {short(100 * r.rate)} % of tokens ({r.fired:,} of {r.tokens:,}). Largest activation "
        f"{short(r.greatest)}; its decoder vector has length {short(one.length)}."
    )


def _dead(one: Page, linked: Container[int], names: Names) -> tuple[Node, ...]:
    return nodes(examples.own(one), Fold("The numbers", (_near(one, linked, names),)))


def _alive(one: Page, linked: Container[int], names: Names) -> tuple[Node, ...]:
    numbers = nodes(_without(one), _scores(one.interpretation), _near(one, linked, names))
    return nodes(
        _meaning(one.interpretation),
        examples.own(one),
        examples.strongest(one),
        _strengths(one),
        _effects(one.effects),
        Fold("The numbers", numbers),
        examples.every_strength(one),
    )


def _meaning(said: Interpretation | None) -> Paragraph | None:
    if said is None:
        return None
    if said.scores is None:
        return Paragraph(f"No explanation: {'; '.join(said.notes)}.", "answer")
    if not said.explanation.found:
        return Paragraph(f"No explanation: {said.explanation.text}.", "answer")
    by = "Found by rules" if said.explanation.by == "rules" else f"Written by {said.explanation.by}"
    held, control = said.scores.detection, said.controls.get("shuffled")
    beside = (
        f"; the explanation of another feature reaches {fixed(control.detection.value)}" if control else ""
    )
    how = (
        f" {by}, from {said.examples[0]} examples. On {said.examples[1]} other examples its balanced "
        f"accuracy is {fixed(held.value)} (0.5 is chance){beside}."
    )
    line: Inline = ("Said to fire on ", Span(said.explanation.text, "strong"), ".", how)
    return Paragraph(line, "answer")


def _strengths(one: Page) -> Section:
    title = f"Histogram of the activations of feature {one.feature}, counts on a logarithmic scale"
    chart = Histogram(one.reading.counts, one.reading.edges, "activation, where it fires", title)
    lead = "Number of tokens, on a logarithmic scale."
    return Section("How strongly it fires", (Figure(chart),), lead)


def _effects(found: Effects) -> Section | None:
    if not found.promoted and not found.suppressed:
        return None
    most = max(abs(effect.change) for effect in (*found.promoted, *found.suppressed)) or 1.0
    what = "next tokens" if found.outputs == "token" else "labels"
    lead = (
        f"Change of the logit of {what} caused by its activation, to first order, at its strongest tokens; ± "
        "one standard error over them."
    )
    sides = (("raises", found.promoted), ("lowers", found.suppressed))
    tables = tuple(_pushed(name, some, most) for name, some in sides)
    return Section("What it does to the output", (Group(tables, "sides"),), lead)


def _pushed(name: str, some: Sequence[LogitEffect], most: float) -> Table:
    rows = []
    for effect in some:
        error = f"± {effect.error:.2g}" if math.isfinite(effect.error) else ""
        number = Cell(signed(effect.change), error, effect.change / most, value=effect.change)
        rows.append(Row((Cell(_spaced(effect.name)), number)))
    return Table(
        f"What it {name}", (Column(name), Column("change of the logit")), tuple(rows), style="tokens"
    )


def _without(one: Page) -> Section | None:
    result = one.effects
    if result.ablation is None:
        return Section("Without it", (), f"{'; '.join(result.notes)}.") if result.notes else None
    effect: FeatureMean = result.ablation
    rows = [
        ("without it", signed(effect.change), span(*effect.interval, signed)),
        ("control: without another", signed(effect.control), span(*effect.control_interval, signed)),
    ]
    what = "the token that follows" if result.outputs == "token" else "the model's own answer"
    lead = (
        f"Change of the loss of {what} (nats) when the feature is set to zero where it fires, in "
        f"{effect.windows} windows where it is strongest; the error of the SAE is kept. Control: another "
        "feature that fires there."
    )
    table = text_table(f"Without {one.feature}", ("", "change", "95 % interval"), rows)
    return Section("Without it", (table,), lead)


def _near(one: Page, linked: Container[int], names: Names) -> Section:
    near, named = one.neighbours, any(number in names for number in one.neighbours.features)
    columns = (
        Column("feature"),
        *((Column("said to fire on", words=True),) if named else ()),
        Column("cosine"),
    )
    rows = []
    for number, cosine in zip(near.features, near.cosines, strict=True):
        first = Cell(str(number), link=f"feature-{number}" if number in linked else "")
        said = (Cell(names.get(number, "–"), style="wrap"),) if named else ()
        rows.append(Row((first, *said, Cell(short(cosine), value=cosine))))
    lead = (
        "By the cosine of decoder vectors. A random direction has a cosine of "
        f"{short(near.chance)} with its nearest feature, on average."
    )
    return Section("Nearest features", (Table(f"Nearest to {one.feature}", columns, tuple(rows)),), lead)


def _scores(said: Interpretation | None) -> Section | None:
    if said is None or said.scores is None:
        return None
    every: dict[str, Scores] = {"": said.scores, **said.controls}
    rows = [
        Row((Cell(WHO[who]), *(scored(getattr(scores, name)) for name in MEASURES)))
        for who, scores in every.items()
    ]
    by_chance = ", ".join(f"{name} {p_value(getattr(said.scores, key).p)}" for key, name in MEASURES.items())
    lead = (
        "How well the explanation predicts tokens of texts it was not made from, with 95 % intervals. p, the "
        f"probability of such scores where there is nothing to find: {by_chance}."
    )
    columns = (Column("explanation"), *map(Column, MEASURES.values()))
    table = Table(f"Scores of the explanation of {said.feature}", columns, tuple(rows))
    return Section("Is the explanation right?", (table,), lead)


def scored(score: AgreementScore) -> Cell:
    """0.62 (0.57 to 0.67)"""
    ends = span(score.low, score.high, fixed)
    return Cell(fixed(score.value), "" if ends == MISSING else f"({ends})", value=score.value)


def _spaced(name: str) -> str:
    """A token alone: its spaces and line breaks can be seen."""
    return name.replace("\n", "↵").replace(" ", "␣") or "∅"
